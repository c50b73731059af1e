"""The fleet at a moment: a pure function of spec, node and time; and `SimulatedNode`, which asks it for now."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpusight.model.identity import HostPid
from gpusight.model.time import Clock
from gpusight.simulate.faults import FaultControl, FaultPlan
from gpusight.simulate.fleet import (
    DRIVER_LOADED,
    UNOWNED,
    UNOWNED_IN_INSTANCE,
    Load,
    MigInstance,
    Rates,
    SimGpu,
    place,
)
from gpusight.simulate.models import MIB, GpuModel
from gpusight.simulate.spec import FleetSpec, load_spec
from gpusight.simulate.workloads import KINDS, noise

SNAPSHOT_SECONDS: Final = 0.05
"""Calls within this much simulated time see the same snapshot."""
THROTTLE_IDLE: Final = 0x1
THROTTLE_POWER_CAP: Final = 0x4
THROTTLE_SW_THERMAL: Final = 0x20
THROTTLE_HW_THERMAL: Final = 0x40

SAMPLE_SECONDS: Final = 1.0
_MEMORY_RAMP_SECONDS: Final = 45.0
_PAGE: Final = 2 * MIB
_NO_RATES: Final = tuple(Rates())


@dataclass(frozen=True, slots=True)
class ProcessState:
    """A process as the driver lists it. Ratios are of the whole device."""

    load: Load
    memory: int
    sm: float
    dram: float
    encoder: float
    decoder: float

    @property
    def pid(self) -> HostPid:
        return self.load.pid


@dataclass(frozen=True, slots=True)
class GpuState:
    """One device at one moment. Bytes, ratios, watts, joules, MHz, degrees Celsius."""

    gpu: SimGpu
    t: float
    processes: tuple[ProcessState, ...]
    memory_used: int
    """Without what the driver reserves."""
    rates: Rates
    """Over the last second."""
    power: float
    energy: float
    celsius: float
    memory_celsius: float
    sm_clock: int
    memory_clock: int
    video_clock: int
    pstate: int
    throttle: int
    fan: float
    pcie_rx_total: int
    pcie_tx_total: int
    nvlink_total: int
    pcie_replays: int
    ecc_corrected: int
    ecc_uncorrected: int
    ecc_uncorrected_before: int
    """Of earlier driver loads: aggregate counts only."""
    remapped_rows: int
    is_remap_pending: bool
    xids: tuple[tuple[float, int], ...]
    """Time and code of all so far."""

    def instance_memory(self, instance: MigInstance) -> int:
        return UNOWNED_IN_INSTANCE + sum(p.memory for p in self.processes if p.load.instance is instance)


@dataclass(frozen=True, slots=True)
class NodeState:
    t: float
    gpus: tuple[GpuState, ...]


def state_at(spec: FleetSpec, node: str, t: float, plan: FaultPlan | None = None) -> NodeState:
    """All devices of a node, `t` seconds after the start; negative is before it."""
    placed = place(spec, node)
    return NodeState(t, tuple(gpu_at(gpu, t, placed.plan if plan is None else plan) for gpu in placed.gpus))


def average(gpu: SimGpu, start: float, end: float, instance: MigInstance | None = None) -> Rates:
    """Rates over an interval, of the device or of one of its instances."""
    loads = gpu.loads if instance is None else [load for load in gpu.loads if load.instance is instance]
    rates = sum_up(((load.busy(end) - load.busy(start)) / (end - start), load.per_second) for load in loads)
    return rates if instance is None else of_instance(rates, instance, gpu.model)


def sum_up(parts: Iterable[tuple[float, Rates]]) -> Rates:
    """Busy time, or a share of it, times what it costs, over all loads."""
    total = _NO_RATES
    for amount, per_second in parts:
        if amount:
            total = tuple([sum_ + amount * per for sum_, per in zip(total, per_second, strict=True)])
    return Rates._make(total)


def of_instance(rates: Rates, instance: MigInstance, model: GpuModel) -> Rates:
    """Ratios of the device become ratios of the instance; watts and bytes stay what they are."""
    scale = model.sm_count / instance.profile.sm_count
    ratios = ("busy", "sm", "occupancy", "tensor", "dram", "encoder", "decoder")
    return rates._replace(**{name: min(1.0, getattr(rates, name) * scale) for name in ratios})


def gpu_at(gpu: SimGpu, t: float, plan: FaultPlan) -> GpuState:
    """One device, `t` seconds after the start."""
    model = gpu.model
    done = [(load, load.busy(t), load.busy(t - SAMPLE_SECONDS)) for load in gpu.loads]
    rates = sum_up(((now - before) / SAMPLE_SECONDS, load.per_second) for load, now, before in done)
    totals = sum_up((now - load.busy_at_first, load.per_second) for load, now, _ in done)
    processes = tuple(_process(load, t, now - before) for load, now, before in done if load.is_alive(t))
    is_used = bool(processes)
    is_hot = plan.is_active("overheat", gpu.index, t)
    celsius = model.slowdown_celsius + 1.5 if is_hot else _celsius(gpu, t, [now for _, now, _ in done])
    throttle = throttle_of(model, rates.busy, rates.power, is_hot)
    days = (t - DRIVER_LOADED) / 86_400
    errors = plan.ecc_errors(gpu.index, t) if model.has_ecc else 0
    unowned = UNOWNED if gpu.mig is None else UNOWNED_IN_INSTANCE * len(gpu.mig)
    return GpuState(
        gpu=gpu,
        t=t,
        processes=processes,
        memory_used=unowned + sum(process.memory for process in processes),
        rates=rates,
        power=model.idle_watts + rates.power,
        energy=model.idle_watts * (t - DRIVER_LOADED) + totals.power,
        celsius=celsius,
        memory_celsius=celsius + 4 + 10 * rates.dram,
        sm_clock=sm_clock_of(model, rates.sm, throttle, is_busy=rates.busy > 0, is_used=is_used),
        memory_clock=_memory_clock(model, is_used=is_used),
        video_clock=model.video_clock if rates.busy else model.idle_sm_clock,
        pstate=0 if rates.busy else model.idle_pstate,
        throttle=throttle,
        fan=min(1.0, max(0.3, (celsius - 30) / 55)),
        pcie_rx_total=int(totals.pcie_rx),
        pcie_tx_total=int(totals.pcie_tx),
        nvlink_total=int(totals.nvlink),
        pcie_replays=int(3 * noise(gpu.key, 1)) + int(days * noise(gpu.key, 2)),
        ecc_corrected=int(2 * days * noise(gpu.key, 3)) if model.has_ecc else 0,
        ecc_uncorrected=errors,
        ecc_uncorrected_before=int(1.2 * noise(gpu.key, 4)) if model.has_ecc else 0,
        remapped_rows=min(errors, 8) if model.has_remapped_rows else 0,
        is_remap_pending=errors > 0,
        xids=plan.xids(gpu.index, t),
    )


def _process(load: Load, t: float, busy: float) -> ProcessState:
    per = load.per_second
    return ProcessState(
        load, memory_at(load, t), busy * per.busy, busy * per.dram, busy * per.encoder, busy * per.decoder
    )


def memory_at(load: Load, t: float) -> int:
    """Taken step by step after the start, then held; some kinds let go of a part between their bursts."""
    ramp = min(1.0, (t - load.workload.starts + 5) / _MEMORY_RAMP_SECONDS)
    sway = KINDS[load.workload.kind].memory_sway
    held = load.memory * ramp * (1 - sway * load.activity.sway(t) if sway else 1)
    return max(_PAGE, int(held) // _PAGE * _PAGE)


def _celsius(gpu: SimGpu, t: float, busy_now: Sequence[float]) -> float:
    """A heat sink follows the mean power of the last minutes, not that of the moment."""
    warm = 0.0
    for load, now in zip(gpu.loads, busy_now, strict=True):
        lately = 0.5 * (now - load.busy(t - 60)) / 60 + 0.5 * (now - load.busy(t - 240)) / 240
        warm += lately * load.per_second.power
    return base_celsius(gpu) + celsius_per_watt(gpu.model) * warm


def base_celsius(gpu: SimGpu) -> float:
    """Of a device that has long done nothing."""
    return gpu.model.idle_celsius + 4 * noise(gpu.key, 5) - 2


def celsius_per_watt(model: GpuModel) -> float:
    return (model.full_celsius - model.idle_celsius) / (model.full_watts - model.idle_watts)


def throttle_of(model: GpuModel, busy: float, power: float, is_hot: bool) -> int:
    """Why the clocks are what they are; `power` is what comes on top of the idle device's."""
    if is_hot:
        return THROTTLE_HW_THERMAL | THROTTLE_SW_THERMAL
    if not busy:
        return THROTTLE_IDLE
    return THROTTLE_POWER_CAP if power > 0.8 * (model.full_watts - model.idle_watts) else 0


def sm_clock_of(model: GpuModel, sm: float, throttle: int, *, is_busy: bool, is_used: bool) -> int:
    if throttle & THROTTLE_HW_THERMAL:
        return model.sm_clock // 2
    if throttle & THROTTLE_POWER_CAP:
        return int(model.sm_clock * (0.97 - 0.06 * sm))
    return model.sm_clock if is_busy or (is_used and model.idle_pstate == 0) else model.idle_sm_clock


def _memory_clock(model: GpuModel, *, is_used: bool) -> int:
    full = model.memory_clock or 0
    return full if is_used or model.idle_pstate == 0 else min(405, full)


class SimulatedNode:
    """A node of the fleet as it is now by the given clock, with its scheduled and injected faults."""

    def __init__(
        self,
        spec: FleetSpec | str | Path | Mapping[str, Any],
        node_name: str | None,  # None: the first one
        clock: Clock,
        control_file: Path | None = None,
        *,
        started_at: float | None = None,
    ) -> None:
        """`started_at` is the Unix time of second zero (now, unless told): processes that must agree share it."""
        self.spec = load_spec(spec)
        self.name = self.spec.nodes[0].name if node_name is None else node_name
        self.placed = place(self.spec, self.name)
        self.started_at = clock.now() if started_at is None else started_at
        self.faults = FaultControl(self.placed.plan, self.name, control_file)
        self._clock = clock
        self._snapshots: list[tuple[FaultPlan, GpuState] | None] = [None] * len(self.placed.gpus)

    def seconds(self) -> float:
        """Simulated seconds since the start, exactly."""
        return self._clock.now() - self.started_at

    def plan(self) -> FaultPlan:
        """The faults as of now."""
        return self.faults.plan(self.seconds())

    def gpu(self, index: int) -> GpuState:
        """A device now. Threads may race here: they compute the same thing."""
        seconds = self.seconds()
        t = seconds // SNAPSHOT_SECONDS * SNAPSHOT_SECONDS
        plan = self.faults.plan(seconds)
        kept = self._snapshots[index]
        if kept is None or kept[0] is not plan or kept[1].t != t:
            kept = self._snapshots[index] = (plan, gpu_at(self.placed.gpus[index], t, plan))
        return kept[1]
