"""What workloads do over time: each is a cumulative function of time in closed form, so rates never depend on who asks.

A workload's one signal is the share of time in which a kernel of its runs. Everything else (power, SM and tensor
activity, traffic) is that signal times a constant of its kind, so that averages over any interval and ever-growing
counters come out of the same function and agree with each other.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

from gpusight.simulate.spec import WorkloadKind

_MASK: Final = (1 << 64) - 1
_SLOTS: Final = 96
"""The pattern of a workload repeats after this many slots: a day of quarter hours."""
_VARIANTS: Final = 16


def noise(key: int, index: int) -> float:
    """A number from 0 to 1 that depends on nothing but its arguments (splitmix64)."""
    z = (key + (index + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return (z ^ (z >> 31)) / 2**64


@dataclass(frozen=True, slots=True)
class Intensity:
    """What one second of a kernel of this kind costs on a whole device. Ratios 0-1, rates in bytes per second."""

    sm: float
    occupancy: float
    tensor: float
    dram: float
    power: float
    """Share of the span between idle and full power."""
    memory: float
    """Share of its allowance of device memory that it takes."""
    pcie_rx: float = 0.0
    pcie_tx: float = 0.0
    nvlink: float = 0.0
    encoder: float = 0.0
    decoder: float = 0.0


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a slot: a level with a saw-tooth of `amplitude` on it, `cycles` whole teeth long."""

    length: float
    level: float
    amplitude: float = 0.0
    cycles: int = 1


Slot = Iterator[Segment]
Pattern = Callable[[int, int], Slot]
"""Key and slot number to the segments of one slot."""


@dataclass(frozen=True, slots=True)
class Kind:
    intensity: Intensity
    pattern: Pattern
    demand: float = 1.0
    """The share of a device's time that it takes when it is busy and nobody limits it."""
    memory_sway: float = 0.0
    """How much of its memory comes and goes with its segments."""


def _training(key: int, slot: int) -> Slot:
    """Steps without end, and a checkpoint in each slot during which the device waits for the disk."""
    before = 200 + 200 * noise(key, slot)
    checkpoint = 12 + 10 * noise(key, slot + 1000)
    yield Segment(before, 0.97, 0.03, int(before / 4))
    yield Segment(checkpoint, 0.06)
    yield Segment(600 - before - checkpoint, 0.97, 0.03, int((600 - before) / 4))


def _notebook(key: int, slot: int) -> Slot:
    """A cell now and then in working hours (a third of the day), nothing otherwise."""
    is_busy = slot % _SLOTS < _SLOTS * 0.4 and noise(key, slot) < 0.45
    if not is_busy:
        yield Segment(900, 0.0)
        return
    pause = 60 + 300 * noise(key, slot + 1000)
    cell = 15 + 150 * noise(key, slot + 2000)
    yield Segment(pause, 0.0)
    yield Segment(cell, 0.55 + 0.3 * noise(key, slot + 3000), 0.1, int(cell / 5))
    yield Segment(900 - pause - cell, 0.0)


def _inference(key: int, slot: int) -> Slot:
    """Requests in bursts of seconds, with quiet between them."""
    left = 120.0
    for burst in range(5):
        quiet = 2 + 14 * noise(key, slot * 16 + burst)
        busy = 2 + 7 * noise(key, slot * 16 + burst + 8)
        yield Segment(quiet, 0.0)
        yield Segment(busy, 0.5 + 0.45 * noise(key, slot * 16 + burst + 9000))
        left -= quiet + busy
    yield Segment(left, 0.0)


def _nothing(_key: int, _slot: int) -> Slot:
    yield Segment(3600, 0.0)


def _spinning(_key: int, _slot: int) -> Slot:
    yield Segment(3600, 1.0)


def _starving(key: int, slot: int) -> Slot:
    """The loader cannot keep up: the device climbs to full load and falls back to none, over and over."""
    yield Segment(300, 0.46, 0.46, 15 + int(15 * noise(key, slot)))


_TRAIN: Final = Intensity(
    sm=0.78, occupancy=0.42, tensor=0.36, dram=0.48, power=0.86, memory=0.82,
    pcie_rx=1.6e9, pcie_tx=0.4e9, nvlink=9e9,
)  # fmt: skip
_IDLE: Final = Intensity(sm=0, occupancy=0, tensor=0, dram=0, power=0, memory=0.9)

_NOTEBOOK: Final = Intensity(
    sm=0.45, occupancy=0.25, tensor=0.1, dram=0.3, power=0.45, memory=0.35, pcie_rx=0.5e9, pcie_tx=0.2e9
)
_SERVE: Final = Intensity(
    sm=0.38, occupancy=0.2, tensor=0.14, dram=0.62, power=0.55, memory=0.88, pcie_rx=0.2e9, pcie_tx=0.3e9, decoder=0.05
)
_STARVED: Final = Intensity(
    sm=0.5, occupancy=0.3, tensor=0.2, dram=0.35, power=0.6, memory=0.45, pcie_rx=6e9, pcie_tx=0.1e9
)
# One block on one multiprocessor keeps the utilization counter at 100 and the silicon cold.
_SPIN: Final = Intensity(sm=0.008, occupancy=0.0002, tensor=0, dram=0.001, power=0.06, memory=0.006)

KINDS: Final[Mapping[WorkloadKind, Kind]] = MappingProxyType(
    {
        "training": Kind(_TRAIN, _training),
        "notebook": Kind(_NOTEBOOK, _notebook, demand=0.4, memory_sway=0.5),
        "inference": Kind(_SERVE, _inference, demand=0.7),
        "forgotten": Kind(_IDLE, _nothing, demand=0),
        "spinner": Kind(_SPIN, _spinning),
        "starved": Kind(_STARVED, _starving),
        "crashed": Kind(_TRAIN, _training),
        "untouched": Kind(_IDLE, _nothing, demand=0),
    }
)


class _Cycle:
    """One whole cycle of a kind: where its segments begin and how busy it was until there."""

    def __init__(self, pattern: Pattern, key: int) -> None:
        self.starts: list[float] = []
        self.before: list[float] = []
        self.segments: list[tuple[float, float, float]] = []
        """Level, amplitude, seconds per tooth."""
        self.length = self.busy = 0.0
        for slot in range(_SLOTS):
            for segment in pattern(key, slot):
                self._append(segment)

    def _append(self, segment: Segment) -> None:
        self.starts.append(self.length)
        self.before.append(self.busy)
        self.segments.append((segment.level, segment.amplitude, segment.length / max(segment.cycles, 1)))
        self.length += segment.length
        self.busy += segment.level * segment.length


@cache
def _cycle(kind: WorkloadKind, variant: int) -> _Cycle:
    return _Cycle(KINDS[kind].pattern, variant)


class Activity:
    """The busy signal of one workload, as its integral. Time zero is the start of the simulation."""

    __slots__ = ("_cycle", "_key", "_phase")

    def __init__(self, kind: WorkloadKind, key: int) -> None:
        """Workloads of a kind share a few cycles, each beginning elsewhere: thousands of them must fit in memory."""
        self._cycle = _cycle(kind, key % _VARIANTS)
        self._key = key
        self._phase = noise(key, -7) * self._cycle.length

    def busy_seconds(self, t: float) -> float:
        """Seconds of kernel time up to `t`, from an arbitrary origin: only differences mean something."""
        cycle = self._cycle
        cycles, u = divmod(t + self._phase, cycle.length)
        i = bisect_right(cycle.starts, u) - 1
        level, amplitude, period = cycle.segments[i]
        into = u - cycle.starts[i]
        tooth = into / period % 1.0
        return cycles * cycle.busy + cycle.before[i] + level * into + amplitude * period * (tooth * tooth - tooth)

    @property
    def is_ever_busy(self) -> bool:
        return self._cycle.busy > 0

    def last_busy(self, t: float) -> float | None:
        """When a kernel last ran, at or before `t`; None: never."""
        cycle = self._cycle
        if not cycle.busy:
            return None
        begin = t - (t + self._phase) % cycle.length
        i = bisect_right(cycle.starts, t - begin) - 1
        if cycle.segments[i][0]:
            return t
        while not cycle.segments[i - 1][0]:  # below zero it goes on in the cycle before
            i -= 1
        return begin + cycle.starts[i] - (cycle.length if i < 0 else 0)

    def sway(self, t: float) -> float:
        """0 to 1, constant within a segment: what the workload happens to hold at the moment."""
        u = (t + self._phase) % self._cycle.length
        return noise(self._key, 50_000 + bisect_right(self._cycle.starts, u))
