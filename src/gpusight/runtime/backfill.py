"""A day of history for a store that a simulated fleet fills, so that there is something to see at once.

The first live scrapes say which series there are. Each gets the values that the same scrapes would have found earlier:
what workloads do is a function of time. Where a pod did not exist yet, nothing claims that it did; a GPU that it holds
alone today had other holders, or none, and its rows then name those.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from gpusight.collectors.vgpu import MEASURED_LABELS
from gpusight.exposition.parser import Limits
from gpusight.model.time import Clock, SystemClock
from gpusight.runtime.backfill_families import (
    CONSTANT,
    ENERGY_OF_HOLDER,
    NAMES_SOLE_HOLDER,
    OF_DEVICE,
    OF_HOLDER,
    Holder,
)
from gpusight.simulate.faults import FaultPlan
from gpusight.simulate.fleet import Load, MigInstance, SimGpu, place
from gpusight.simulate.history import Column, GpuHistory
from gpusight.simulate.spec import FleetSpec, WorkloadSpec
from gpusight.store.embedded import Batch, EmbeddedStore
from gpusight.store.embedded_past import Past, append_past, make_past
from gpusight.store.embedded_series import SeriesRef, labels_of
from gpusight.store.labels import MIG_LABELS, gpu_of, holder_of
from gpusight.store.scrape_target import Scraped, ScrapeTarget, keeper

RECENT = 3600.0
"""Seconds before the end in which scrapes lie as close as live ones."""
MOST_SAMPLES = 6_000_000
"""What a back-fill should not exceed: a million takes about a second."""
_SLICE = 1_500_000
"""Samples that are worked out and written together: enough to be fast, few enough to need little memory."""
_HOLDER_LABELS = ("container", "namespace", "pod")


def look(targets: Sequence[ScrapeTarget], store: EmbeddedStore, clock: Clock, workers: int = 8) -> list[Batch]:
    """One scrape of every target, kept out of the store; one that fails has no series."""
    scraped = [Scraped(target, store, keeper(()), Limits(), SystemClock()) for target in targets]
    try:
        with ThreadPoolExecutor(workers, "first-look") as pool:
            return list(pool.map(lambda each: each.scrape(clock.now()), scraped))
    finally:
        for each in scraped:
            each.close()


class Grid(NamedTuple):
    """When scrapes would have been, in Unix seconds: every `step`, and more often in the last hour."""

    start: float
    end: float
    step: float = 60.0
    recent_step: float = 15.0

    @property
    def moments(self) -> list[float]:
        """`end` itself is left to the first live scrape."""
        border = max(self.start, self.end - RECENT)
        early = [self.start + number * self.step for number in range(int((border - self.start) / self.step))]
        count = int((self.end - border) / self.recent_step)
        return [*early, *(self.end - number * self.recent_step for number in range(count, 0, -1))]


def affordable(looks: Sequence[Batch], start: float, end: float, most: int = MOST_SAMPLES) -> Grid:
    """The closest grid since then, or, for a large fleet, one with fewer scrapes: none farther apart than a gap is."""
    series = max(1, sum(len(batch.series) for batch in looks))
    grids = [Grid(start, end), Grid(start, end, 60.0, 60.0), Grid(start, end, 240.0, 60.0)]
    grids += [Grid(max(start, end - hours * 3600), end, 240.0, 60.0) for hours in (12, 6, 3, 1)]
    return next((grid for grid in grids if series * len(grid.moments) <= most), grids[-1])


def backfill(
    store: EmbeddedStore,
    looks: Sequence[Batch],
    spec: FleetSpec,
    grid: Grid,
    *,
    started_at: float,
) -> int:
    """Write the past of all series of the first look; the number of samples.

    All times are by the clock of the simulated world; `started_at` is its second zero.
    """
    times = grid.moments
    size = max(2, _SLICE // max(1, sum(len(batch.series) for batch in looks)))
    fleet = _Fleet(spec, store, started_at)
    stories = [_TargetStory(batch, fleet) for batch in looks]
    written = 0
    for first in range(0, len(times), size):
        part = times[max(0, first - 1) : first + size]
        lead = 1 if first else 0
        seconds = [moment - started_at for moment in part]
        pasts = [story.past(fleet, seconds, lead) for story in stories]
        written += append_past(store, part[lead:], pasts)
    return written


class _Variant(NamedTuple):
    """Under which labels a subject went from a moment on; None while there was no such subject."""

    since: float
    ref: SeriesRef | None


@dataclass(slots=True)
class _Story:
    """One live series and what it was before."""

    family: str
    value: float
    variants: Sequence[_Variant]
    """In order of time, the first since ever."""
    gpu: SimGpu | None = None
    instance: MigInstance | None = None
    holder: Holder | None = None

    def column(self, fleet: "_Fleet") -> Column:
        if self.gpu is None or self.family in CONSTANT:
            return [self.value] * len(fleet.moments)
        history = fleet.history(self.gpu)
        if self.holder is None:
            return OF_DEVICE[self.family](history, self.instance)
        column = OF_HOLDER[self.family](history, self.holder)
        if self.family == ENERGY_OF_HOLDER:
            self.holder = self.holder._replace(spent=column[-1])
        return column

    def rows(self, fleet: "_Fleet") -> Iterator[tuple[SeriesRef, Sequence[float | None]]]:
        """Of each of its series, None at moments that are not its own."""
        seconds = fleet.moments
        sinces = [variant.since for variant in self.variants]
        first, last = (bisect_right(sinces, t) - 1 for t in (seconds[0], seconds[-1]))
        if not any(variant.ref for variant in self.variants[first : last + 1]):
            return
        column: Sequence[float | None] = self.column(fleet)
        down = fleet.history(self.gpu).is_down if self.gpu else None
        if down:
            column = [None if is_down else value for value, is_down in zip(column, down, strict=True)]
        if first == last:
            ref = self.variants[first].ref
            yield from [(ref, column)] if ref else []
            return
        owners = [self.variants[bisect_right(sinces, t) - 1].ref for t in seconds]
        for ref in dict.fromkeys(filter(None, owners)):
            yield ref, [value if owner is ref else None for value, owner in zip(column, owners, strict=True)]


class _Fleet:
    """The devices of a fleet and their histories over the moments in hand."""

    def __init__(self, spec: FleetSpec, refs: EmbeddedStore, started_at: float) -> None:
        self.refs = refs
        self.started_at = started_at
        self.moments: Sequence[float] = ()
        self._gpus: dict[str, tuple[SimGpu, FaultPlan]] = {}
        self._pods: dict[tuple[str, str], float] = {}
        self._loads: dict[str, tuple[Load, ...]] = {}
        self._histories: dict[str, GpuHistory] = {}
        for node in spec.nodes:
            placed = place(spec, node.name)
            self._gpus |= {gpu.uuid: (gpu, placed.plan) for gpu in placed.gpus}
            for load in placed.loads:
                self._loads[load.workload.identity] = (*self._loads.get(load.workload.identity, ()), load)
        for workload in spec.workloads:
            name = workload.namespace, workload.pod
            self._pods[name] = min(workload.starts, self._pods.get(name, workload.starts))

    def turn_to(self, seconds: Sequence[float]) -> None:
        self.moments = seconds
        self._histories = {}

    def history(self, gpu: SimGpu) -> GpuHistory:
        found = self._histories.get(gpu.uuid)
        if found is None:
            found = self._histories[gpu.uuid] = GpuHistory(gpu, self._gpus[gpu.uuid][1], self.moments)
        return found

    def gpu(self, uuid: str) -> SimGpu | None:
        found = self._gpus.get(uuid)
        return found[0] if found else None

    def pod_starts(self, namespace: str, pod: str) -> float | None:
        return self._pods.get((namespace, pod))

    def holder(self, gpu: SimGpu, name: tuple[str, str, str]) -> Holder | None:
        """The container of that namespace, pod and name on the device."""
        load = next((load for load in gpu.loads if _name(load.workload) == name), None)
        return None if load is None else Holder(load, self._loads[load.workload.identity], self.started_at, 0.0)


def _name(workload: WorkloadSpec) -> tuple[str, str, str]:
    return workload.namespace, workload.pod, workload.container


@dataclass(slots=True)
class _TargetStory:
    """All that one page tells."""

    batch: Batch
    fleet: _Fleet
    stories: list[_Story] = field(init=False)

    def __post_init__(self) -> None:
        pairs = zip(self.batch.series, self.batch.values, strict=True)
        self.stories = [story for ref, value in pairs if (story := _story(ref, value, self.fleet))]

    def past(self, fleet: _Fleet, seconds: Sequence[float], lead: int) -> Past:
        """At these seconds but for the first `lead`, which only others are compared with."""
        fleet.turn_to(seconds)
        rows = (row for story in self.stories for row in story.rows(fleet))
        return make_past(self.batch.target, ((ref, column[lead:]) for ref, column in rows))


def _story(ref: SeriesRef, value: float, fleet: _Fleet) -> _Story | None:
    """None for a series whose past nobody can tell: one of a real device, one with measurements for labels."""
    labels, family = labels_of(ref.labels), ref.family
    gpu = fleet.gpu(gpu_of(labels))
    if MEASURED_LABELS & labels.keys() or (gpu is None and family not in CONSTANT):
        return None
    name = holder_of(labels)
    if gpu and family in NAMES_SOLE_HOLDER and (family in OF_DEVICE or family in CONSTANT):
        instance = _instance(gpu, labels)
        return _Story(family, value, list(_holders(ref, labels, gpu, instance, fleet)), gpu, instance)
    if gpu and family in OF_DEVICE:
        return _Story(family, value, [_Variant(-float("inf"), ref)], gpu, _instance(gpu, labels))
    if gpu and family in OF_HOLDER:
        holder = fleet.holder(gpu, name)
        return holder and _Story(family, value, _since(holder.load.workload.starts, ref), gpu, holder=holder)
    if family not in CONSTANT:
        return None
    starts = fleet.pod_starts(*name[:2]) if any(name) else -float("inf")
    return None if starts is None else _Story(family, value, _since(starts, ref), gpu)


def _since(starts: float, ref: SeriesRef) -> Sequence[_Variant]:
    return [_Variant(-float("inf"), None), _Variant(starts, ref)]


def _instance(gpu: SimGpu, labels: Mapping[str, str]) -> MigInstance | None:
    number = next((labels[name] for name in MIG_LABELS if labels.get(name)), None)
    return next((each for each in gpu.mig or () if str(each.gpu_instance_id) == number), None)


def _holders(
    ref: SeriesRef, labels: Mapping[str, str], gpu: SimGpu, instance: MigInstance | None, fleet: _Fleet
) -> Iterator[_Variant]:
    """Who held the device or instance alone, from when on; nobody's name while it was several, or none."""
    common = {name: value for name, value in labels.items() if name not in _HOLDER_LABELS}
    nobody = fleet.refs.ref(ref.target, ref.family, common)
    yield _Variant(-float("inf"), nobody)
    if gpu.mig is not None and instance is None:
        return
    loads = [load for load in gpu.loads if instance is None or load.instance is instance]
    for since in sorted({load.workload.starts for load in loads}):
        names = {_name(load.workload) for load in loads if load.workload.starts <= since}
        yield _Variant(since, _named(ref, common, names.pop(), fleet) if len(names) == 1 else nobody)


def _named(ref: SeriesRef, common: Mapping[str, str], name: tuple[str, str, str], fleet: _Fleet) -> SeriesRef:
    namespace, pod, container = name
    labels = {**common, "namespace": namespace, "pod": pod, "container": container}
    return fleet.refs.ref(ref.target, ref.family, labels)
