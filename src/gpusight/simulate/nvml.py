"""Simulated nodes behind nvidia-ml-py: its own marshalling code runs, only the library under it is ours.

Nothing of the binding is replaced but its library handle, so that what runs in a test or in the demo is the code that
runs on a real machine. A function that is not in the tables is a function that an old driver does not have.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pynvml

from gpusight.model.time import Clock
from gpusight.simulate.driver import events, fields, gpm, numbers, processes, structs
from gpusight.simulate.driver import node as node_calls
from gpusight.simulate.driver.library import CallTable, Library
from gpusight.simulate.spec import load_spec
from gpusight.simulate.state import SimulatedNode

__all__ = ["SimulatedNode", "install", "install_nodes"]

ALL_NODES: Final = "*"

_TABLE: Final = CallTable(
    node_calls.CALLS | numbers.CALLS | structs.CALLS | processes.CALLS | fields.CALLS | gpm.CALLS | events.CALLS
)


def install(*nodes: SimulatedNode) -> Callable[[], None]:
    """Put the nodes where `libnvidia-ml` would be, for this whole process; the answer takes them away again."""
    library = Library(nodes, _TABLE)
    before = pynvml.nvmlLib
    _use(library)

    def uninstall() -> None:
        library.is_closed = True
        if pynvml.nvmlLib is library:
            _use(before)

    return uninstall


def install_nodes(
    spec: str, node: str | None, clock: Clock, control_file: Path | None = None, started_at: float | None = None
) -> None:
    """One node of a fleet (its first, if none is named), or all of them one after the other, for good."""
    fleet = load_spec(spec)
    start = clock.now() if started_at is None else started_at
    names = [each.name for each in fleet.nodes] if node == ALL_NODES else [node]
    install(*(SimulatedNode(fleet, name, clock, control_file, started_at=start) for name in names))


def _use(library: object) -> None:
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001 - else calls keep going to the library before
