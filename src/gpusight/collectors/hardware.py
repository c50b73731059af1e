"""The node's GPUs in base units, and what each container and process has of them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

from gpusight.catalog import hardware as catalog
from gpusight.catalog.spec import FamilySpec
from gpusight.collectors.columns import Keys, column, kept
from gpusight.collectors.shares import (
    Holding,
    find_holdings,
    find_shares,
    gpu_instances,
    is_mig,
    memory_limit,
    memory_used,
    process_memory,
)
from gpusight.collectors.totals import THROTTLE_REASONS
from gpusight.collectors.view import ContainerName, Look, NodeView, name_of
from gpusight.exposition.blocks import FamilyBlock, LabelValues, Number, Sample
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

    def collect(self) -> Iterable[Sample | FamilyBlock]:
        return collect(self.look(), self.options)


def collect(view: NodeView, options: HardwareOptions = DEFAULT) -> Iterator[Sample | FamilyBlock]:
    """Samples of all readable devices; a reading that is not there gives none."""
    if options.gpu:
        yield from _xids(view)
        devices = _Devices(view, view.gpus, kept(tuple([(gpu.uuid, str(gpu.index)) for gpu in view.gpus])))
        for part in _PARTS:
            yield from part(devices)
    if options.containers:
        yield from _containers(view)
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


class _Devices(NamedTuple):
    """All readable devices, each with the labels `uuid` and `gpu`."""

    view: NodeView
    gpus: tuple[GpuReading, ...]
    keys: Keys

    def each(self) -> Iterator[tuple[GpuReading, LabelValues]]:
        return zip(self.gpus, self.keys, strict=True)


def _info(devices: _Devices) -> Iterator[FamilyBlock]:
    hardware, node = devices.view.hardware, devices.view.node
    versions = (hardware.driver_version, hardware.cuda_version) if hardware else (None, None)
    keys = [(*key, node, gpu.name, gpu.brand, gpu.pci_bus_id, gpu.serial, *versions) for gpu, key in devices.each()]
    yield from column(catalog.GPU_INFO, kept(tuple(keys)), [1] * len(keys))


def _readings(devices: _Devices) -> Iterator[FamilyBlock]:
    for spec, read in READINGS:
        yield from column(spec, devices.keys, [read(gpu) for gpu in devices.gpus])


def _shares(devices: _Devices) -> Iterator[FamilyBlock]:
    found = find_shares(devices.view)
    shares = [found[gpu.uuid] for gpu in devices.gpus]
    yield from column(catalog.IDLE, devices.keys, [each and round(each.idle, _DIGITS) for each in shares])
    unattributed = [each and round(each.unattributed, _DIGITS) for each in shares]
    yield from column(catalog.UNATTRIBUTED, devices.keys, unattributed)


def _energy(devices: _Devices) -> Iterator[FamilyBlock]:
    totals = devices.view.totals
    for spec, energy in (
        (catalog.IDLE_ENERGY, totals.idle_energy),
        (catalog.UNATTRIBUTED_ENERGY, totals.unattributed_energy),
    ):
        yield from column(spec, devices.keys, [energy.get(gpu.uuid) for gpu in devices.gpus])


def _fans(devices: _Devices) -> Iterator[Sample]:
    for gpu, key in devices.each():
        for fan, ratio in enumerate(gpu.fan_ratios):
            yield Sample(catalog.FAN_SPEED, (*key, str(fan)), ratio)


def _throttle(devices: _Devices) -> Iterator[FamilyBlock]:
    totals = devices.view.totals.throttle_seconds
    told = [(gpu.uuid, key, gpu.throttle_reasons) for gpu, key in devices.each() if gpu.throttle_reasons is not None]
    rows = [
        (uuid, (*key, reason), reason, int(reason in now))
        for uuid, key, now in told
        for reason in dict.fromkeys((*THROTTLE_REASONS, *now))
    ]
    keys = kept(tuple([key for _, key, _, _ in rows]))
    yield from column(catalog.THROTTLE_REASON, keys, [holds for *_, holds in rows])
    yield from column(catalog.THROTTLE_SECONDS, keys, [totals.get((uuid, reason)) for uuid, _, reason, _ in rows])


def _ecc(devices: _Devices) -> Iterator[FamilyBlock]:
    rows = [((*key, ecc.kind, ecc.span), ecc.count) for gpu, key in devices.each() for ecc in gpu.ecc]
    yield from column(catalog.ECC_ERRORS, kept(tuple([key for key, _ in rows])), [count for _, count in rows])


def _rows(devices: _Devices) -> Iterator[Sample]:
    for gpu, key in devices.each():
        if rows := gpu.remapped_rows:
            yield Sample(catalog.REMAPPED_ROWS, (*key, "correctable"), rows.correctable)
            yield Sample(catalog.REMAPPED_ROWS, (*key, "uncorrectable"), rows.uncorrectable)
            yield Sample(catalog.ROW_REMAP_PENDING, key, int(rows.is_pending))
            yield Sample(catalog.ROW_REMAP_FAILED, key, int(rows.has_failed))


LINK_ERRORS: Sequence[tuple[str, Callable[[NvLink], int | None]]] = (
    ("replay", lambda link: link.replay_errors),
    ("recovery", lambda link: link.recovery_errors),
    ("crc", lambda link: link.crc_errors),
)


def _nvlinks(devices: _Devices) -> Iterator[FamilyBlock]:
    keys, keys_of_errors = _link_keys(
        tuple([(key, tuple([link.link for link in gpu.nvlinks])) for gpu, key in devices.each() if gpu.nvlinks])
    )
    links = [link for gpu in devices.gpus for link in gpu.nvlinks]
    yield from column(catalog.NVLINK_UP, keys, [int(link.is_active) for link in links])
    yield from column(catalog.NVLINK_ERRORS, keys_of_errors, [read(link) for link in links for _, read in LINK_ERRORS])


@lru_cache(maxsize=8)
def _link_keys(devices: tuple[tuple[LabelValues, tuple[int, ...]], ...]) -> tuple[Keys, Keys]:
    """Of the links, and of their errors: there are hundreds of them."""
    keys = tuple((*key, str(link)) for key, links in devices for link in links)
    return keys, tuple((*key, kind) for key in keys for kind, _ in LINK_ERRORS)


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


def _migs(devices: _Devices) -> Iterator[Sample]:
    for gpu, key in devices.each():
        for mig in gpu.mig:
            ids = (str(mig.gpu_instance_id), str(mig.compute_instance_id))
            yield Sample(catalog.MIG_INFO, (*key, mig.uuid, *ids, mig.profile), 1)
        for mig in gpu_instances(gpu):
            for spec, read in MIG_READINGS:
                yield from _known(spec, (*key, str(mig.gpu_instance_id)), read(mig))


def _known(spec: FamilySpec, key: LabelValues, value: Number | None) -> Iterator[Sample]:
    if value is not None:
        yield Sample(spec, key, value)


_Part = Callable[[_Devices], Iterator[Sample | FamilyBlock]]
_PARTS: Sequence[_Part] = (_info, _readings, _shares, _energy, _fans, _throttle, _ecc, _rows, _nvlinks, _migs)


def _xids(view: NodeView) -> Iterator[Sample]:
    """Ours to keep, so that they stay when the device falls off the bus."""
    for (uuid, xid), total in view.totals.xids.items():
        yield Sample(catalog.XID_ERRORS, (uuid, str(xid)), total.errors)
        yield Sample(catalog.XID_LAST, (uuid, str(xid)), total.last_at)


# Containers.


def _containers(view: NodeView) -> Iterator[FamilyBlock]:
    shares, energy = find_shares(view), view.totals.container_energy
    gpus = {gpu.uuid: gpu for gpu in view.gpus}
    rows, holder_keys = [], list[LabelValues]()
    for uuid, holders in find_holdings(view).items():
        used = memory_used(gpus.get(uuid), holders)
        of_device = shares.get(uuid)
        times = of_device.containers if of_device else {}
        for name, holding in holders.items():
            share, spent = times.get(name), energy.get((uuid, name))
            time = share and round(share, _DIGITS)
            rows.append(((*name, uuid), used[name], memory_limit(holding), time, spent and spent.joules))
            holder_keys += _holder_keys(name, uuid, holding)
    keys, *columns = zip(*rows, strict=True) if rows else ((),)
    held = (catalog.HOLDER_INFO, kept(tuple(holder_keys)), (1,) * len(holder_keys))
    found = [*((spec, kept(keys), values) for spec, values in zip(_CONTAINER_SPECS, columns, strict=False)), held]
    for each in sorted(found, key=lambda each: _first_known(each[2])):
        yield from column(*each)


def _first_known(values: Sequence[Number | None]) -> int:
    """Families stand on the page in the order in which containers have them."""
    return next((place for place, value in enumerate(values) if value is not None), 0)


_CONTAINER_SPECS = (
    catalog.CONTAINER_MEMORY_USED,
    catalog.CONTAINER_MEMORY_LIMIT,
    catalog.CONTAINER_UTILIZATION,
    catalog.CONTAINER_ENERGY,
)


def _holder_keys(name: ContainerName, uuid: GpuUuid, holding: Holding) -> list[LabelValues]:
    device = None if is_mig(uuid) else uuid
    return [(*name, device, mig, holding.how) for mig in holding.migs or (None,)]


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
