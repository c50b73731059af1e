"""The node's GPUs in base units, and what each container and process has of them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, NamedTuple

from gpusight.catalog import hardware as catalog
from gpusight.catalog.spec import FamilySpec
from gpusight.collectors.shares import (
    Holding,
    Holdings,
    Shares,
    find_holdings,
    gpu_instances,
    is_mig,
    memory_limit,
    memory_used,
    process_memory,
    time_shares,
)
from gpusight.collectors.totals import THROTTLE_REASONS
from gpusight.collectors.view import ContainerName, Look, NodeView, name_of
from gpusight.exposition.blocks import LabelValues, Number, Sample
from gpusight.model.hardware import GpuReading, MigReading, NvLink
from gpusight.model.identity import GpuUuid, HostPid


@dataclass(frozen=True, slots=True)
class HardwareOptions:
    """Which of the collector's three sets are exposed."""

    gpu: bool = True
    containers: bool = True
    processes: bool = False


DEFAULT = HardwareOptions()


@dataclass(frozen=True, slots=True)
class HardwareCollector:
    """Collects what `look` sees."""

    name: ClassVar[str] = "hardware"
    look: Look
    options: HardwareOptions = DEFAULT

    def collect(self) -> Iterable[Sample]:
        return collect(self.look(), self.options)


def collect(view: NodeView, options: HardwareOptions = DEFAULT) -> Iterator[Sample]:
    """Samples of all readable devices; a reading that is not there gives none."""
    holdings = find_holdings(view)
    shares = {gpu.uuid: time_shares(gpu, holdings.get(gpu.uuid, {})) for gpu in view.gpus}
    if options.gpu:
        yield from _xids(view)
        for gpu in view.gpus:
            device = _Device(view, gpu, shares[gpu.uuid])
            yield from chain.from_iterable(part(device) for part in _PARTS)
    if options.containers:
        yield from _containers(view, holdings, {uuid: each for uuid, each in shares.items() if each is not None})
    if options.processes:
        for gpu in view.gpus:
            yield from _processes(view, gpu)


# Devices: a family and how its number is had.

_Read = Callable[[GpuReading], Number | None]


def _flag(value: bool | None) -> int | None:
    return None if value is None else int(value)


def _gpm(word: str) -> _Read:
    return lambda gpu: gpu.gpm.get(word)


READINGS: Sequence[tuple[FamilySpec, _Read]] = (
    (catalog.LAST_READING, lambda gpu: gpu.taken_at),
    (catalog.UNIFIED_MEMORY, lambda gpu: int(gpu.is_unified_memory)),
    (catalog.MEMORY_TOTAL, lambda gpu: gpu.memory_total),
    (catalog.MEMORY_USED, lambda gpu: gpu.memory_used),
    (catalog.MEMORY_FREE, lambda gpu: gpu.memory_free),
    (catalog.MEMORY_RESERVED, lambda gpu: gpu.memory_reserved),
    (catalog.BAR1_TOTAL, lambda gpu: gpu.bar1_total),
    (catalog.BAR1_USED, lambda gpu: gpu.bar1_used),
    (catalog.UTILIZATION, lambda gpu: gpu.utilization),
    (catalog.MEMORY_UTILIZATION, lambda gpu: gpu.memory_utilization),
    (catalog.ENCODER_UTILIZATION, lambda gpu: gpu.encoder_utilization),
    (catalog.DECODER_UTILIZATION, lambda gpu: gpu.decoder_utilization),
    (catalog.POWER, lambda gpu: gpu.power_watts),
    (catalog.POWER_LIMIT, lambda gpu: gpu.power_limit_watts),
    (catalog.ENERGY, lambda gpu: gpu.energy_joules),
    (catalog.SM_CLOCK, lambda gpu: gpu.sm_clock_hertz),
    (catalog.MAX_SM_CLOCK, lambda gpu: gpu.max_sm_clock_hertz),
    (catalog.MEMORY_CLOCK, lambda gpu: gpu.memory_clock_hertz),
    (catalog.GRAPHICS_CLOCK, lambda gpu: gpu.graphics_clock_hertz),
    (catalog.VIDEO_CLOCK, lambda gpu: gpu.video_clock_hertz),
    (catalog.TEMPERATURE, lambda gpu: gpu.temperature_celsius),
    (catalog.MEMORY_TEMPERATURE, lambda gpu: gpu.memory_temperature_celsius),
    (catalog.SLOWDOWN_TEMPERATURE, lambda gpu: gpu.slowdown_temperature_celsius),
    (catalog.PERFORMANCE_STATE, lambda gpu: gpu.performance_state),
    (catalog.PERSISTENCE_MODE, lambda gpu: _flag(gpu.persistence_mode)),
    (catalog.RETIRED_PAGES_PENDING, lambda gpu: _flag(gpu.retired_pages_pending)),
    (catalog.PCIE_GENERATION, lambda gpu: gpu.pcie_generation),
    (catalog.PCIE_MAX_GENERATION, lambda gpu: gpu.pcie_max_generation),
    (catalog.PCIE_WIDTH, lambda gpu: gpu.pcie_width),
    (catalog.PCIE_MAX_WIDTH, lambda gpu: gpu.pcie_max_width),
    (catalog.PCIE_REPLAYS, lambda gpu: gpu.pcie_replays),
    (catalog.PCIE_TRANSMIT, lambda gpu: gpu.pcie_tx_bytes_per_second),
    (catalog.PCIE_RECEIVE, lambda gpu: gpu.pcie_rx_bytes_per_second),
    (catalog.GRAPHICS_ACTIVE, _gpm("gr_engine_active")),
    (catalog.SM_ACTIVE, _gpm("sm_active")),
    (catalog.SM_OCCUPANCY, _gpm("sm_occupancy")),
    (catalog.TENSOR_ACTIVE, _gpm("tensor_active")),
    (catalog.DRAM_ACTIVE, _gpm("dram_active")),
    (catalog.FP64_ACTIVE, _gpm("fp64_active")),
    (catalog.FP32_ACTIVE, _gpm("fp32_active")),
    (catalog.FP16_ACTIVE, _gpm("fp16_active")),
    (catalog.NVLINK_TRANSMIT, _gpm("nvlink_tx_bytes_per_second")),
    (catalog.NVLINK_RECEIVE, _gpm("nvlink_rx_bytes_per_second")),
    (catalog.MIG_MODE, lambda gpu: _flag(gpu.mig_mode)),
    (catalog.PROCESSES, lambda gpu: None if gpu.processes is None else len({one.pid for one in gpu.processes})),
)


_DIGITS = 9
"""Of shares of time: beyond them there is nothing but the noise of binary fractions."""


class _Device(NamedTuple):
    view: NodeView
    gpu: GpuReading
    shares: Shares | None

    @property
    def key(self) -> tuple[str, str]:
        return self.gpu.uuid, str(self.gpu.index)


def _known(spec: FamilySpec, key: LabelValues, value: Number | None) -> Iterator[Sample]:
    if value is not None:
        yield Sample(spec, key, value)


def _info(device: _Device) -> Iterator[Sample]:
    view, gpu, _ = device
    versions = (view.hardware.driver_version, view.hardware.cuda_version) if view.hardware else (None, None)
    key = (*device.key, view.node, gpu.name, gpu.brand, gpu.pci_bus_id, gpu.serial, *versions)
    yield Sample(catalog.GPU_INFO, key, 1)


def _readings(device: _Device) -> Iterator[Sample]:
    gpu, key = device.gpu, device.key
    for spec, read in READINGS:
        value = read(gpu)
        if value is not None:
            yield Sample(spec, key, value)


def _shares(device: _Device) -> Iterator[Sample]:
    if device.shares is not None:
        yield Sample(catalog.IDLE, device.key, round(device.shares.idle, _DIGITS))
        yield Sample(catalog.UNATTRIBUTED, device.key, round(device.shares.unattributed, _DIGITS))


def _energy(device: _Device) -> Iterator[Sample]:
    totals, uuid = device.view.totals, device.gpu.uuid
    yield from _known(catalog.IDLE_ENERGY, device.key, totals.idle_energy.get(uuid))
    yield from _known(catalog.UNATTRIBUTED_ENERGY, device.key, totals.unattributed_energy.get(uuid))


def _fans(device: _Device) -> Iterator[Sample]:
    for fan, ratio in enumerate(device.gpu.fan_ratios):
        yield Sample(catalog.FAN_SPEED, (*device.key, str(fan)), ratio)


def _throttle(device: _Device) -> Iterator[Sample]:
    now = device.gpu.throttle_reasons
    if now is None:
        return
    for reason in dict.fromkeys((*THROTTLE_REASONS, *now)):
        key = (*device.key, reason)
        yield Sample(catalog.THROTTLE_REASON, key, int(reason in now))
        yield from _known(
            catalog.THROTTLE_SECONDS, key, device.view.totals.throttle_seconds.get((device.gpu.uuid, reason))
        )


def _ecc(device: _Device) -> Iterator[Sample]:
    for ecc in device.gpu.ecc:
        yield Sample(catalog.ECC_ERRORS, (*device.key, ecc.kind, ecc.span), ecc.count)


def _rows(device: _Device) -> Iterator[Sample]:
    if rows := device.gpu.remapped_rows:
        yield Sample(catalog.REMAPPED_ROWS, (*device.key, "correctable"), rows.correctable)
        yield Sample(catalog.REMAPPED_ROWS, (*device.key, "uncorrectable"), rows.uncorrectable)
        yield Sample(catalog.ROW_REMAP_PENDING, device.key, int(rows.is_pending))
        yield Sample(catalog.ROW_REMAP_FAILED, device.key, int(rows.has_failed))


LINK_ERRORS: Sequence[tuple[str, Callable[[NvLink], int | None]]] = (
    ("replay", lambda link: link.replay_errors),
    ("recovery", lambda link: link.recovery_errors),
    ("crc", lambda link: link.crc_errors),
)


def _nvlinks(device: _Device) -> Iterator[Sample]:
    of_device = device.key
    for link in device.gpu.nvlinks:
        key = (*of_device, str(link.link))
        yield Sample(catalog.NVLINK_UP, key, int(link.is_active))
        for kind, read in LINK_ERRORS:
            errors = read(link)
            if errors is not None:
                yield Sample(catalog.NVLINK_ERRORS, (*key, kind), errors)


# MIG: one row per MIG device, readings per GPU instance.


def _mig_gpm(word: str) -> Callable[[MigReading], Number | None]:
    return lambda mig: mig.gpm.get(word)


MIG_READINGS: Sequence[tuple[FamilySpec, Callable[[MigReading], Number | None]]] = (
    (catalog.MIG_MEMORY_TOTAL, lambda mig: mig.memory_total),
    (catalog.MIG_MEMORY_USED, lambda mig: mig.memory_used),
    (catalog.MIG_MEMORY_FREE, lambda mig: mig.memory_free),
    (catalog.MIG_GRAPHICS_ACTIVE, _mig_gpm("gr_engine_active")),
    (catalog.MIG_SM_ACTIVE, _mig_gpm("sm_active")),
    (catalog.MIG_SM_OCCUPANCY, _mig_gpm("sm_occupancy")),
    (catalog.MIG_TENSOR_ACTIVE, _mig_gpm("tensor_active")),
    (catalog.MIG_DRAM_ACTIVE, _mig_gpm("dram_active")),
)


def _migs(device: _Device) -> Iterator[Sample]:
    for mig in device.gpu.mig:
        ids = (str(mig.gpu_instance_id), str(mig.compute_instance_id))
        yield Sample(catalog.MIG_INFO, (*device.key, mig.uuid, *ids, mig.profile), 1)
    for mig in gpu_instances(device.gpu):
        for spec, read in MIG_READINGS:
            yield from _known(spec, (*device.key, str(mig.gpu_instance_id)), read(mig))


_PARTS = (_info, _readings, _shares, _energy, _fans, _throttle, _ecc, _rows, _nvlinks, _migs)


def _xids(view: NodeView) -> Iterator[Sample]:
    """Ours to keep, so that they stay when the device falls off the bus."""
    for (uuid, xid), total in view.totals.xids.items():
        yield Sample(catalog.XID_ERRORS, (uuid, str(xid)), total.errors)
        yield Sample(catalog.XID_LAST, (uuid, str(xid)), total.last_at)


# Containers.


def _containers(view: NodeView, holdings: Holdings, shares: Mapping[GpuUuid, Shares]) -> Iterator[Sample]:
    gpus = {gpu.uuid: gpu for gpu in view.gpus}
    for uuid, holders in holdings.items():
        for name, holding in holders.items():
            key = (*name, uuid)
            share = shares[uuid].containers.get(name) if uuid in shares else None
            share = share and round(share, _DIGITS)
            spent = view.totals.container_energy.get((uuid, name))
            yield from _known(catalog.CONTAINER_MEMORY_USED, key, memory_used(gpus.get(uuid), holders, name))
            yield from _known(catalog.CONTAINER_MEMORY_LIMIT, key, memory_limit(holding))
            yield from _known(catalog.CONTAINER_UTILIZATION, key, share)
            yield from _known(catalog.CONTAINER_ENERGY, key, spent and spent.joules)
            yield from _holder(name, uuid, holding)


def _holder(name: ContainerName, uuid: GpuUuid, holding: Holding) -> Iterator[Sample]:
    device = None if is_mig(uuid) else uuid
    for mig in holding.migs or (None,):
        yield Sample(catalog.HOLDER_INFO, (*name, device, mig, holding.how), 1)


# Processes.


def _processes(view: NodeView, gpu: GpuReading) -> Iterator[Sample]:
    for pid, memory in process_memory(gpu.processes or ()).items():
        yield from _known(catalog.PROCESS_MEMORY_USED, _process_key(view, gpu, pid), memory)
    shares: defaultdict[HostPid, float] = defaultdict(float)
    for one in gpu.process_utilization or ():
        shares[one.pid] += one.sm
    for pid, share in shares.items():
        yield Sample(catalog.PROCESS_UTILIZATION, _process_key(view, gpu, pid), share)


def _process_key(view: NodeView, gpu: GpuReading, pid: HostPid) -> LabelValues:
    holder = view.ownership.of_process.get(pid)
    name = (name_of(holder) if holder else None) or (None, None, None)
    return (gpu.uuid, str(pid), *name, view.ownership.slurm_of_process.get(pid))
