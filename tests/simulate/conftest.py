"""Simulated nodes behind the real binding."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pynvml
import pytest

from gpusight.model.time import ManualClock
from gpusight.simulate.nvml import SimulatedNode, install

Start = Callable[..., SimulatedNode]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def start(clock: ManualClock) -> Iterator[Start]:
    """Install a node, initialised unless told otherwise."""
    with ExitStack() as stack:

        def run(
            spec: str | Mapping[str, Any] = "default", control_file: Path | None = None, init: bool = True
        ) -> SimulatedNode:
            node = SimulatedNode(spec, None, clock, control_file)
            stack.callback(install(node))
            if init:
                pynvml.nvmlInit()
                stack.callback(pynvml.nvmlShutdown)
            return node

        yield run


def fleet(*gpus: Mapping[str, Any], workloads: Any = (), faults: Any = (), seed: int = 3) -> dict[str, Any]:
    """A spec of one node."""
    full = [{"namespace": "ns", "pod": f"pod-{i}", **workload} for i, workload in enumerate(workloads)]
    return {"seed": seed, "nodes": [{"name": "n1", "gpus": list(gpus)}], "workloads": full, "faults": list(faults)}
