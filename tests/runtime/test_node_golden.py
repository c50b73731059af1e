"""Golden scrapes: the whole pipeline over simulated machines at a fixed moment, byte for byte.

GPUSIGHT_UPDATE_GOLDEN=1 writes them anew; the diff is the review.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from gpusight.collectors.sets import collectors
from gpusight.collectors.vgpu import VgpuOptions
from gpusight.exposition.blocks import group
from gpusight.exposition.text import encode
from gpusight.model.hardware import DeviceDown, GpuReading, HardwareSnapshot
from gpusight.model.identity import HostPid
from gpusight.model.ownership import DeviceGrant
from gpusight.model.time import ManualClock
from gpusight.model.vgpu import Layout
from gpusight.runtime.node_view import NodeWatch, Sources
from gpusight.simulate.nvml import SimulatedNode, install
from gpusight.simulate.pods import grants, lay_out, pods
from gpusight.simulate.spec import load_spec
from gpusight.sources.nvml.reader import DeviceReader
from gpusight.sources.podresources.source import KubeletReading
from gpusight.sources.processes import Processes, ProcessesReading
from gpusight.sources.vgpu.scan import VgpuSource

GOLDEN = Path(__file__).parent.parent / "golden" / "node"
LAYOUTS: tuple[Layout, ...] = ("A", "B", "C", "D", "E", "F")
SECONDS = 600.0


class Machine:
    """A node of a fleet, ten minutes after its start, read in this process."""

    def __init__(self, fleet: str, root: Path, layout: Layout | None = None) -> None:
        self.clock = ManualClock(now=1_700_000_000.0)
        spec = load_spec(fleet)
        node = spec.nodes[0].name
        started_at = self.clock.now()
        self._node = SimulatedNode(spec, node, self.clock, started_at=started_at)
        self.clock.advance(SECONDS - 60)
        files = lay_out(root, spec, node, SECONDS, started_at=started_at, layouts=[layout] if layout else None)
        self._readers = [DeviceReader(index, self.clock) for index in range(len(self._node.placed.gpus))]
        granted: tuple[DeviceGrant, ...] = grants(spec, node, SECONDS)
        processes = Processes(files.root / "proc")

        def owners(pids: "tuple[HostPid, ...]", listed_at: float) -> ProcessesReading:
            return processes.read(pids, listed_at)

        sources = Sources(
            self._hardware,
            VgpuSource(files.root / "vgpu" / "containers", self.clock).read,
            lambda: KubeletReading(self.clock.now(), is_up=True, devices=granted),
            lambda: pods(spec, node, SECONDS),
            owners,  # type: ignore[arg-type]  # any sequence would do
        )
        self.watch = NodeWatch(sources, node, "", self.clock, fresh=-1.0, is_simulated=True)

    def page(self, sets: tuple[str, ...], options: VgpuOptions) -> str:
        uninstall = install(self._node)
        try:
            pynvml.nvmlInit()
            self.watch.look()
            self.clock.advance(60.0)  # a second reading: rates and totals need two
            view = self.watch.look()
        finally:
            pynvml.nvmlShutdown()
            uninstall()
        samples = [sample for collector in collectors(lambda: view, sets, options) for sample in collector.collect()]
        lines = encode(group(samples)).decode().splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith(("# HELP", "hami_build_info")))

    def _hardware(self) -> HardwareSnapshot:
        results = [reader.read() for reader in self._readers]
        return HardwareSnapshot(
            self.clock.now(),
            is_up=True,
            driver_version="580.65.06",
            gpus=tuple(each for each in results if isinstance(each, GpuReading)),
            down=tuple(each for each in results if isinstance(each, DeviceDown)),
            is_simulated=True,
        )


def cases() -> Iterator[tuple[str, str, Layout | None, tuple[str, ...], tuple[str, ...]]]:
    """Name, fleet, layout, sets, dialects."""
    for layout in LAYOUTS:
        yield f"layout-{layout}", "default", layout, ("hami",), ("seed",)
    for dialect in ("v2.8", "v2.9", "v2.10"):
        yield f"dialect-{dialect}", "default", None, ("hami",), (dialect,)
    yield "gb10", "gb10", None, ("hami", "dcgm", "gpu", "containers", "health"), ("seed", "v2.10")
    yield "mig", "mig", None, ("dcgm", "containers", "health"), ("seed",)
    yield "default-containers", "default", None, ("containers", "health"), ("seed",)


@pytest.mark.parametrize(("name", "fleet", "layout", "sets", "dialects"), list(cases()), ids=str)
def test_golden(
    name: str, fleet: str, layout: Layout | None, sets: tuple[str, ...], dialects: tuple[str, ...], tmp_path: Path
) -> None:
    page = Machine(fleet, tmp_path, layout).page(sets, VgpuOptions(dialects, value_labels=True))
    golden = GOLDEN / f"{name}.prom"
    if os.environ.get("GPUSIGHT_UPDATE_GOLDEN"):
        golden.write_text(page, "utf-8")
    assert page == golden.read_text("utf-8"), f"{golden.name} is out of step; GPUSIGHT_UPDATE_GOLDEN=1 rewrites it"


def test_every_layout_tells_the_same_story() -> None:
    """What the oldest layouts cannot hold is absent; all that they hold is the same."""
    stories = {
        layout: {
            line
            for line in (GOLDEN / f"layout-{layout}.prom").read_text("utf-8").splitlines()
            if line.startswith("vGPU_device_memory")
        }
        for layout in LAYOUTS
    }
    assert len(stories["F"]) > 10
    assert all(story == stories["F"] for story in stories.values())
