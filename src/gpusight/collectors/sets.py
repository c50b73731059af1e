"""What a node can be asked to expose, by name: the table behind `--collect.sets`."""

from collections.abc import Iterable
from typing import NamedTuple

from gpusight.catalog import dcgm, hardware, own
from gpusight.catalog.hami import present
from gpusight.catalog.spec import FamilySpec
from gpusight.collectors.dcgm import DcgmCollector
from gpusight.collectors.hardware import HardwareCollector, HardwareOptions
from gpusight.collectors.node_health import NodeHealthCollector
from gpusight.collectors.run import Collector
from gpusight.collectors.vgpu import DEFAULT as DEFAULT_VGPU
from gpusight.collectors.vgpu import VgpuCollector, VgpuOptions
from gpusight.collectors.view import Look


class FamilySet(NamedTuple):
    """Families that are switched on and off together, and what they cost.

    The numbers of series are of one GPU that can be read in full, without fans, NVLinks and MIG, and of one container
    on one GPU; of a process in the set `processes`.
    """

    name: str
    help: str
    families: tuple[FamilySpec, ...]
    per_gpu: int
    per_container: int
    is_default: bool = True


_HAMI = tuple(dict.fromkeys(spec for families in DEFAULT_VGPU.families for spec in present(families)))

SETS: tuple[FamilySet, ...] = (
    FamilySet("hami", "HAMi's vGPU monitor, in the chosen dialects", _HAMI, 5, 16),
    FamilySet("dcgm", "dcgm-exporter's names for the GPUs", dcgm.FAMILIES, 31, 0),
    FamilySet("gpu", "the GPUs in base units", hardware.GPU_FAMILIES, 76, 0),
    FamilySet("containers", "what each container has of each GPU", hardware.CONTAINER_FAMILIES, 0, 5),
    FamilySet("processes", "what each process has of each GPU", hardware.PROCESS_FAMILIES, 0, 2, is_default=False),
    FamilySet("health", "whether GPUs and sources can be read", (own.SIMULATED, *own.NODE_HEALTH), 1, 0),
)
DEFAULT_SETS: tuple[str, ...] = tuple(each.name for each in SETS if each.is_default)


def collectors(look: Look, names: Iterable[str] = DEFAULT_SETS, vgpu: VgpuOptions = DEFAULT_VGPU) -> list[Collector]:
    """The collectors that expose these sets and nothing else."""
    chosen = frozenset(names)
    if unknown := sorted(chosen - {each.name for each in SETS}):
        known = ", ".join(each.name for each in SETS)
        raise ValueError(f"no set of metrics is called {unknown[0]!r}; there are: {known}")
    of_hardware = HardwareOptions("gpu" in chosen, "containers" in chosen, "processes" in chosen)
    table: tuple[tuple[set[str], Collector], ...] = (
        ({"hami"}, VgpuCollector(look, vgpu)),
        ({"dcgm"}, DcgmCollector(look)),
        ({"gpu", "containers", "processes"}, HardwareCollector(look, of_hardware)),
        ({"health"}, NodeHealthCollector(look)),
    )
    return [collector for of, collector in table if of & chosen]
