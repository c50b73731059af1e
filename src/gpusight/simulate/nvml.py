"""A simulated node behind nvidia-ml-py: its own marshalling code runs, only the library under it is ours.

Nothing of the binding is replaced but its library handle, so that what runs in a test or in the demo is the code that
runs on a real machine. A function that is not in the tables is a function that an old driver does not have.
"""

from collections.abc import Callable
from typing import Final

import pynvml

from gpusight.simulate.driver import events, fields, gpm, numbers, processes, structs
from gpusight.simulate.driver import node as node_calls
from gpusight.simulate.driver.library import CallTable, Library
from gpusight.simulate.state import SimulatedNode

__all__ = ["SimulatedNode", "install"]

_TABLE: Final = CallTable(
    node_calls.CALLS | numbers.CALLS | structs.CALLS | processes.CALLS | fields.CALLS | gpm.CALLS | events.CALLS
)


def install(node: SimulatedNode) -> Callable[[], None]:
    """Put the node where `libnvidia-ml` would be, for this whole process; the answer takes it away again."""
    library = Library(node, _TABLE)
    before = pynvml.nvmlLib
    _use(library)

    def uninstall() -> None:
        library.is_closed = True
        if pynvml.nvmlLib is library:
            _use(before)

    return uninstall


def _use(library: object) -> None:
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001 - else calls keep going to the library before
