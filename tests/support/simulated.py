"""A node of a simulated fleet, read in this process at any moment of its past or future."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pynvml
import pytest

from gpusight.collectors.sets import collectors
from gpusight.collectors.vgpu import VgpuOptions
from gpusight.exposition.blocks import group
from gpusight.exposition.text import encode
from gpusight.model.hardware import DeviceDown, GpuReading, HardwareSnapshot
from gpusight.model.time import ManualClock
from gpusight.runtime.node_view import NodeWatch, Sources
from gpusight.simulate import state
from gpusight.simulate.nvml import SimulatedNode, install
from gpusight.simulate.pods import NodeFiles, grants, pods
from gpusight.simulate.spec import FleetSpec
from gpusight.sources.nvml.reader import DeviceReader
from gpusight.sources.podresources.source import KubeletReading
from gpusight.sources.processes import Processes
from gpusight.sources.vgpu.scan import VgpuSource

STARTED_AT = 1_700_000_000.0
OPTIONS = VgpuOptions(("seed", "v2.10"), value_labels=False)


class NodeInPast:
    """Goes through the moments at which it is asked, which must come in order."""

    def __init__(self, spec: FleetSpec, node: str, root: Path) -> None:
        self._spec = spec
        self._name = node
        self._clock = ManualClock(STARTED_AT - 1_000_000)
        self.node = SimulatedNode(spec, node, self._clock, started_at=STARTED_AT)
        self._files = NodeFiles(root, spec, node, STARTED_AT)
        self._readers = [DeviceReader(index, self._clock) for index in range(len(self.node.placed.gpus))]
        processes = Processes(root / "proc")
        sources = Sources(
            self._hardware,
            VgpuSource(root / "vgpu" / "containers", self._clock).read,
            lambda: KubeletReading(self._clock.now(), is_up=True, devices=grants(spec, node, self._seconds)),
            lambda: pods(spec, node, self._seconds),
            processes.read,
        )
        self._watch = NodeWatch(sources, node, "", self._clock, fresh=-1.0, is_simulated=True)

    @property
    def _seconds(self) -> float:
        return self._clock.now() - STARTED_AT

    def page(self, t: float) -> str:
        """What the agent shows, `t` seconds after the start."""
        self._clock.advance(t - self._seconds)
        self._files.refresh(t)
        view = self._watch.look()
        return encode(group(s for c in collectors(lambda: view, vgpu=OPTIONS) for s in c.collect())).decode()

    def _hardware(self) -> HardwareSnapshot:
        results = [reader.read() for reader in self._readers]
        return HardwareSnapshot(
            self._clock.now(),
            is_up=True,
            gpus=tuple(each for each in results if isinstance(each, GpuReading)),
            down=tuple(each for each in results if isinstance(each, DeviceDown)),
            is_simulated=True,
        )


@contextmanager
def node_in_past(spec: FleetSpec, node: str, root: Path) -> Iterator[NodeInPast]:
    """Snapshots of the simulated driver are taken at whole fractions of a second, so that moments are exact."""
    made = NodeInPast(spec, node, root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "SNAPSHOT_SECONDS", 2.0**-5)
        uninstall = install(made.node)
        pynvml.nvmlInit()
        try:
            yield made
        finally:
            uninstall()
