"""One device at many moments, by column: the numbers that `state.gpu_at` gives for each of them, at a fraction of it.

Numbers are as the driver's functions round them, in the units of GpuReading, so that a past that is written down in one
go cannot be told from one that was read moment by moment. Columns are made when they are first asked for.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final

from gpusight.simulate.faults import FaultPlan
from gpusight.simulate.fleet import (
    DRIVER_LOADED,
    UNOWNED,
    UNOWNED_IN_INSTANCE,
    Load,
    MigInstance,
    Rates,
    SimGpu,
)
from gpusight.simulate.pods import cuda_memory, last_kernel
from gpusight.simulate.state import (
    SAMPLE_SECONDS,
    base_celsius,
    celsius_per_watt,
    memory_at,
    of_instance,
    sm_clock_of,
    sum_up,
    throttle_of,
)

Column = Sequence[float]
_A_CALL: Final = "nvmlDeviceGetUUID"
"""What a device that can be read answers."""
_DIGITS: Final = 9
_RATE_NAMES: Final = Rates._fields


class GpuHistory:
    """`moments` are in seconds after the start, in order; averages at each are over the time since the one before."""

    def __init__(self, gpu: SimGpu, plan: FaultPlan, moments: Sequence[float]) -> None:
        self.gpu = gpu
        self.moments = moments
        self._plan = plan
        self._busy: dict[tuple[int, float], list[float]] = {}
        self._rates: dict[str, list[float]] = {}
        self._means: dict[MigInstance | None, list[Rates]] = {}

    @cached_property
    def is_down(self) -> list[bool] | None:
        """Whether a fault kept the device from being read; None: never."""
        plan, index = self._plan, self.gpu.index
        if not plan.faults:
            return None
        found = [
            plan.of_call(t, index, _A_CALL) is not None
            or plan.of_init(t) is not None
            or plan.is_active("unplugged", index, t)
            for t in self.moments
        ]
        return found if any(found) else None

    # Of the whole device.

    @cached_property
    def utilization(self) -> Column:
        return [round(busy * 100) / 100 for busy in self._rate("busy")]

    @cached_property
    def memory_utilization(self) -> Column:
        return [round(dram * 100) / 100 for dram in self._rate("dram")]

    @cached_property
    def memory_used(self) -> Column:
        unowned = UNOWNED if self.gpu.mig is None else UNOWNED_IN_INSTANCE * len(self.gpu.mig)
        return self._summed(unowned, self.gpu.loads)

    @cached_property
    def memory_free(self) -> Column:
        rest = self.gpu.model.memory - self.gpu.model.reserved
        return [rest - used for used in self.memory_used]

    @cached_property
    def power(self) -> Column:
        idle = self.gpu.model.idle_watts
        return [round((idle + power) * 1000) / 1000 for power in self._rate("power")]

    @cached_property
    def energy(self) -> Column:
        totals = [0.0] * len(self.moments)
        for load in self.gpu.loads:
            first, watts = load.busy_at_first, load.per_second.power
            totals = [
                total + (now - first) * watts for total, now in zip(totals, self._busy_at(load, 0.0), strict=True)
            ]
        idle = self.gpu.model.idle_watts
        return [
            int((idle * (t - DRIVER_LOADED) + total) * 1000) / 1000
            for t, total in zip(self.moments, totals, strict=True)
        ]

    @cached_property
    def sm_clock(self) -> Column:
        """Megahertz."""
        model, used = self.gpu.model, self._is_used()
        return [
            sm_clock_of(model, sm, throttle_of(model, busy, power, hot), is_busy=busy > 0, is_used=is_used)
            for sm, busy, power, hot, is_used in zip(
                self._rate("sm"), self._rate("busy"), self._rate("power"), self._is_hot, used, strict=True
            )
        ]

    @cached_property
    def temperature(self) -> Column:
        model = self.gpu.model
        warm = [0.0] * len(self.moments)
        for load in self.gpu.loads:
            watts = load.per_second.power
            columns = (warm, *(self._busy_at(load, ago) for ago in (0.0, 60.0, 240.0)))
            warm = [
                so_far + (0.5 * (now - minute) / 60 + 0.5 * (now - minutes) / 240) * watts
                for so_far, now, minute, minutes in zip(*columns, strict=True)
            ]
        base, per_watt, hot = base_celsius(self.gpu), celsius_per_watt(model), int(model.slowdown_celsius + 1.5)
        return [
            hot if is_hot else int(base + per_watt * watts) for watts, is_hot in zip(warm, self._is_hot, strict=True)
        ]

    def throughput(self, name: str) -> Column:
        """Bytes per second over PCIe at the moment, in the driver's thousands."""
        return [int(rate / 1000) * 1000.0 for rate in self._rate(name)]

    # Of the device or one of its instances.

    def average(self, name: str, instance: MigInstance | None = None) -> Column:
        """One of the Rates over the time since the moment before, as the device's own counters tell it."""
        place = _RATE_NAMES.index(name)
        return [rates[place] for rates in self._averages(instance)]

    def instance_memory_used(self, instance: MigInstance) -> Column:
        return self._summed(UNOWNED_IN_INSTANCE, [load for load in self.gpu.loads if load.instance is instance])

    def instance_memory_free(self, instance: MigInstance) -> Column:
        return [instance.profile.memory - used for used in self.instance_memory_used(instance)]

    # Of one process, or none while it does not live.

    def load_memory(self, load: Load) -> list[int]:
        ends = self._ends(load)
        return [memory_at(load, t) if load.workload.starts <= t < ends else 0 for t in self.moments]

    def load_cuda_memory(self, load: Load) -> Column:
        """What libvgpu counts of it."""
        return [sum(cuda_memory(memory)) if memory else 0 for memory in self.load_memory(load)]

    def load_percent(self, load: Load) -> Column:
        """Of the device's time, as libvgpu counts it."""
        return [round(sm * 100) for sm in self._load_sm(load)]

    def load_share(self, load: Load) -> Column:
        """Of the device's time, such that the shares of all make up what the device says."""
        parts = [
            [max(1, round(sm * 100)) * 0.01 if sm > 0 else 0.0 for sm in self._load_sm(each)] for each in self.gpu.loads
        ]
        own = parts[self.gpu.loads.index(load)]
        totals = map(sum, zip(*parts, strict=True))
        return [
            round(part * min(1.0, busy / total), _DIGITS) if busy and total else 0.0
            for part, total, busy in zip(own, totals, self.utilization, strict=True)
        ]

    def load_energy(self, load: Load, spent: float) -> Column:
        """Joules charged to it reading by reading, out of the device's; `spent` is what it had at the first moment."""
        column = [spent]
        steps = zip(pairwise(self.energy), self.load_share(load)[1:], strict=True)
        for (before, now), share in steps:
            spent += share * (now - before)
            column.append(spent)
        return column

    def seconds_since_kernel(self, loads: Sequence[Load], started_at: float) -> Column:
        """Of a container with these processes, as its shared region dates it: in whole seconds."""
        return [
            max(started_at + t - int(started_at + max(last_kernel(load, t) for load in loads)), 0.0)
            for t in self.moments
        ]

    # Columns that others are made of.

    @cached_property
    def _is_hot(self) -> Sequence[bool]:
        if not any(fault.kind == "overheat" for fault in self._plan.faults):
            return [False] * len(self.moments)
        return [self._plan.is_active("overheat", self.gpu.index, t) for t in self.moments]

    def _is_used(self) -> list[bool]:
        spans = [(load.workload.starts, self._ends(load)) for load in self.gpu.loads]
        return [any(start <= t < end for start, end in spans) for t in self.moments]

    def _ends(self, load: Load) -> float:
        """When it stops to hold anything; it never begins where the program never opens the device."""
        return load.workload.starts if load.workload.kind == "untouched" else load.ends

    def _summed(self, base: int, loads: Sequence[Load]) -> list[int]:
        columns = [self.load_memory(load) for load in loads]
        return [base + sum(parts) for parts in zip(*columns, strict=True)] if columns else [base] * len(self.moments)

    def _load_sm(self, load: Load) -> list[float]:
        per, ends = load.per_second.busy, self._ends(load)
        columns = (self.moments, self._busy_at(load, 0.0), self._busy_at(load, SAMPLE_SECONDS))
        return [
            (now - before) * per if load.workload.starts <= t < ends else 0.0
            for t, now, before in zip(*columns, strict=True)
        ]

    def _rate(self, name: str) -> list[float]:
        """Over the last second."""
        found = self._rates.get(name)
        if found is None:
            found = [0.0] * len(self.moments)
            for load in self.gpu.loads:
                per = getattr(load.per_second, name)
                if per:
                    columns = (found, self._busy_at(load, 0.0), self._busy_at(load, SAMPLE_SECONDS))
                    found = [
                        rate + (now - before) / SAMPLE_SECONDS * per for rate, now, before in zip(*columns, strict=True)
                    ]
            self._rates[name] = found
        return found

    def _averages(self, instance: MigInstance | None) -> list[Rates]:
        """At the first moment there is none before: over a second, then."""
        found = self._means.get(instance)
        if found is None:
            loads = [load for load in self.gpu.loads if instance is None or load.instance is instance]
            costs = [load.per_second for load in loads]
            columns = [self._mean_busy(load) for load in loads]
            rows = zip(*columns, strict=True) if columns else ([()] * len(self.moments))
            found = [sum_up(zip(row, costs, strict=True)) for row in rows]
            if instance is not None:
                found = [of_instance(each, instance, self.gpu.model) for each in found]
            self._means[instance] = found
        return found

    def _mean_busy(self, load: Load) -> list[float]:
        first = self.moments[0] - 1.0
        now = self._busy_at(load, 0.0)
        columns = (now, (load.busy(first), *now[:-1]), self.moments, (first, *self.moments[:-1]))
        return [(busy - before) / (end - start) for busy, before, end, start in zip(*columns, strict=True)]

    def _busy_at(self, load: Load, ago: float) -> list[float]:
        """Busy seconds of a load until so long before each moment."""
        key = load.pid, ago
        found = self._busy.get(key)
        if found is None:
            if load.activity.is_ever_busy:
                found = list(map(load.busy, [t - ago for t in self.moments] if ago else self.moments))
            else:
                found = [0.0] * len(self.moments)
            self._busy[key] = found
        return found
