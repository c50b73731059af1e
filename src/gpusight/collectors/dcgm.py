"""The node's GPUs in dcgm-exporter's names, labels and units."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from gpusight.catalog import dcgm as catalog
from gpusight.catalog.spec import FamilySpec
from gpusight.collectors.columns import column, kept
from gpusight.collectors.shares import Holders, find_holdings, gpu_instances, sole_holder, sole_holder_of_instance
from gpusight.collectors.view import ContainerName, Look, NodeView, percent
from gpusight.exposition.blocks import FamilyBlock, LabelValues, Number
from gpusight.model.hardware import GpuReading, MigReading
from gpusight.model.identity import GpuUuid
from gpusight.model.units import Bytes, bytes_to_mib


@dataclass(frozen=True, slots=True)
class DcgmOptions:
    """`pods` puts the names of sole holders on rows, as dcgm-exporter does with its Kubernetes option."""

    pods: bool = True


DEFAULT = DcgmOptions()


@dataclass(frozen=True, slots=True)
class DcgmCollector:
    """Collects what `look` sees."""

    name: ClassVar[str] = "dcgm"
    look: Look
    options: DcgmOptions = DEFAULT

    def collect(self) -> Iterable[FamilyBlock]:
        return collect(self.look(), self.options)


def collect(view: NodeView, options: DcgmOptions = DEFAULT) -> Iterator[FamilyBlock]:
    """Per family and device one row, or one row per GPU instance; never both."""
    holdings = find_holdings(view) if options.pods else {}
    rows = [_rows(view, gpu, holdings.get(gpu.uuid, {})) for gpu in view.gpus]
    keys = kept(tuple([each.key for each in rows]))
    has_instances = any(each.instances for each in rows)
    for family in FAMILIES:
        if has_instances and family.of_mig:
            yield from _family_in_parts(family, rows)
        else:
            yield from column(family.spec, keys, [family.of_gpu(each.gpu) for each in rows])
    last = _last_xids(view)
    yield from column(catalog.XID_ERRORS, keys, [last.get(each.gpu.uuid, 0) for each in rows])


# Conversions.


def _mib(value: Bytes | None) -> int | None:
    """Whole MiB, cut off as DCGM does."""
    return None if value is None else int(bytes_to_mib(value))


def _scaled(value: float | None, factor: float) -> int | None:
    return None if value is None else round(value * factor)


def _mib_per_second(value: float | None) -> float | None:
    return None if value is None else round(value / (1024 * 1024), 6)


# A family, how its number is had of a device, and how of a MIG instance if instances have their own.


class _Family(NamedTuple):
    spec: FamilySpec
    of_gpu: Callable[[GpuReading], Number | None]
    of_mig: Callable[[MigReading], Number | None] | None = None


def _profiled(spec: FamilySpec, word: str) -> _Family:
    return _Family(spec, lambda gpu: gpu.gpm.get(word), lambda mig: mig.gpm.get(word))


FAMILIES: tuple[_Family, ...] = (
    _Family(catalog.SM_CLOCK, lambda gpu: _scaled(gpu.sm_clock_hertz, 1e-6)),
    _Family(catalog.MEM_CLOCK, lambda gpu: _scaled(gpu.memory_clock_hertz, 1e-6)),
    _Family(catalog.MEMORY_TEMP, lambda gpu: gpu.memory_temperature_celsius),
    _Family(catalog.GPU_TEMP, lambda gpu: gpu.temperature_celsius),
    _Family(catalog.POWER_USAGE, lambda gpu: gpu.power_watts),
    _Family(catalog.ENFORCED_POWER_LIMIT, lambda gpu: gpu.power_limit_watts),
    _Family(catalog.TOTAL_ENERGY_CONSUMPTION, lambda gpu: _scaled(gpu.energy_joules, 1000)),
    _Family(catalog.PCIE_REPLAY_COUNTER, lambda gpu: gpu.pcie_replays),
    _Family(catalog.NVLINK_BANDWIDTH_TOTAL, lambda gpu: _mib_per_second(gpu.nvlink_bytes_per_second)),
    _Family(catalog.GPU_UTIL, lambda gpu: percent(gpu.utilization)),
    _Family(catalog.MEM_COPY_UTIL, lambda gpu: percent(gpu.memory_utilization)),
    _Family(catalog.ENC_UTIL, lambda gpu: percent(gpu.encoder_utilization)),
    _Family(catalog.DEC_UTIL, lambda gpu: percent(gpu.decoder_utilization)),
    _Family(catalog.FB_TOTAL, lambda gpu: _mib(gpu.memory_total), lambda mig: _mib(mig.memory_total)),
    _Family(catalog.FB_FREE, lambda gpu: _mib(gpu.memory_free), lambda mig: _mib(mig.memory_free)),
    _Family(catalog.FB_USED, lambda gpu: _mib(gpu.memory_used), lambda mig: _mib(mig.memory_used)),
    _Family(catalog.FB_RESERVED, lambda gpu: _mib(gpu.memory_reserved)),
    _Family(
        catalog.UNCORRECTABLE_REMAPPED_ROWS, lambda gpu: gpu.remapped_rows.uncorrectable if gpu.remapped_rows else None
    ),
    _Family(
        catalog.CORRECTABLE_REMAPPED_ROWS, lambda gpu: gpu.remapped_rows.correctable if gpu.remapped_rows else None
    ),
    _Family(catalog.ROW_REMAP_FAILURE, lambda gpu: int(gpu.remapped_rows.has_failed) if gpu.remapped_rows else None),
    _profiled(catalog.GR_ENGINE_ACTIVE, "gr_engine_active"),
    _profiled(catalog.SM_ACTIVE, "sm_active"),
    _profiled(catalog.SM_OCCUPANCY, "sm_occupancy"),
    _profiled(catalog.PIPE_TENSOR_ACTIVE, "tensor_active"),
    _profiled(catalog.DRAM_ACTIVE, "dram_active"),
    _profiled(catalog.PIPE_FP64_ACTIVE, "fp64_active"),
    _profiled(catalog.PIPE_FP32_ACTIVE, "fp32_active"),
    _profiled(catalog.PIPE_FP16_ACTIVE, "fp16_active"),
    _profiled(catalog.PCIE_TX_BYTES, "pcie_tx_bytes_per_second"),
    _profiled(catalog.PCIE_RX_BYTES, "pcie_rx_bytes_per_second"),
)


# Rows.


class _Rows(NamedTuple):
    gpu: GpuReading
    key: LabelValues
    """Of the whole device."""
    instances: tuple[tuple[LabelValues, MigReading], ...]


def _rows(view: NodeView, gpu: GpuReading, holders: Holders) -> _Rows:
    instances = tuple(
        (_key(view, gpu, mig, sole_holder_of_instance(holders, mig.gpu_instance_id)), mig) for mig in gpu_instances(gpu)
    )
    return _Rows(gpu, _key(view, gpu, None, None if gpu.mig_mode else sole_holder(holders)), instances)


def _family_in_parts(family: _Family, rows: Iterable[_Rows]) -> Iterator[FamilyBlock]:
    keys: list[LabelValues] = []
    values: list[Number | None] = []
    for row in rows:
        parts = [(key, family.of_mig(mig)) for key, mig in row.instances] if family.of_mig else []
        known = [part for part in parts if part[1] is not None] or [(row.key, family.of_gpu(row.gpu))]
        keys += [key for key, _ in known]
        values += [value for _, value in known]
    yield from column(family.spec, tuple(keys), values)


def _key(view: NodeView, gpu: GpuReading, mig: MigReading | None, holder: ContainerName | None) -> LabelValues:
    instance = (mig.profile, str(mig.gpu_instance_id)) if mig else (None, None)
    pod = (holder.container, holder.namespace, holder.pod) if holder else (None, None, None)
    index = str(gpu.index)
    return (index, gpu.uuid, gpu.pci_bus_id, f"nvidia{index}", gpu.name, *instance, view.node, *pod)


def _last_xids(view: NodeView) -> dict[GpuUuid, int]:
    """By device the code of its latest error."""
    in_time = sorted(view.totals.xids.items(), key=lambda item: item[1].last_at)
    return {uuid: xid for (uuid, xid), _ in in_time}
