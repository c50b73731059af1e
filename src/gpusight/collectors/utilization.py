"""The last round of analysis as the families of seed 003: what is not known has no series, what is gone neither."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from gpusight.analysis.records import GpuResult, Round
from gpusight.catalog import utilization as family
from gpusight.catalog.spec import FamilySpec
from gpusight.exposition.blocks import FamilyBlock, Histogram, LabelValues, Sample

_STATUSES = ("idle", "low", "normal", "high", "unknown")


class Work(NamedTuple):
    """The analyzer's own counters."""

    rounds: int
    errors: int
    durations: Histogram


class UtilizationCollector:
    """Blocks are made once per round."""

    name = "utilization"

    def __init__(self, last_round: Callable[[], Round | None], work: Callable[[], Work]) -> None:
        self._last_round = last_round
        self._work = work
        self._made: tuple[Round | None, Sequence[Sample | FamilyBlock]] = (None, ())

    def collect(self) -> Iterable[Sample | FamilyBlock]:
        work = self._work()
        yield Sample(family.ANALYSES, (), work.rounds)
        yield Sample(family.ERRORS, (), work.errors)
        yield Sample(family.DURATION, (), work.durations)
        last = self._last_round()
        if last is None:
            return
        made, blocks = self._made
        if made is not last:
            blocks = list(_blocks(last))
            self._made = (last, blocks)
        yield from blocks


def _blocks(last: Round) -> Iterator[Sample | FamilyBlock]:
    yield from _gpus(last.results)
    yield from _fleet(last)
    yield from _namespaces(last)


_MEANS: tuple[tuple[FamilySpec, Callable[[GpuResult], float | None]], ...] = (
    (family.CORE_UTILIZATION, lambda row: row.gpu_util),
    (family.MEMORY_USED, lambda row: row.mem_used_mb),
    (family.POWER_USAGE, lambda row: row.power_usage),
    (family.MEMORY_COPY_UTILIZATION, lambda row: row.mem_copy),
    (family.SM_CLOCK, lambda row: row.sm_clock),
)


def _gpus(results: Sequence[GpuResult]) -> Iterator[FamilyBlock]:
    """One series per GPU and pod: of a pod's several containers or MIG instances on one GPU the labels know nothing."""
    rows = _distinct(results)
    scored = [(key, row) for key, row in rows if row.score is not None]
    yield FamilyBlock(
        family.SCORE, [(*key, row.model_name) for key, row in scored], [float(row.score or 0.0) for _, row in scored]
    )
    for spec, read in _MEANS:
        known = [(key, value) for key, row in rows if (value := read(row)) is not None]
        yield FamilyBlock(spec, [key for key, _ in known], [float(value) for _, value in known])


def _distinct(results: Sequence[GpuResult]) -> list[tuple[LabelValues, GpuResult]]:
    """Rows that the labels cannot tell apart are left out, rather than one shown for all."""
    keyed = [((row.gpu_id, row.pod, row.namespace, row.hostname), row) for row in results]
    seen = Counter(key for key, _ in keyed)
    return [(key, row) for key, row in keyed if seen[key] == 1]


def _fleet(last: Round) -> Iterator[Sample]:
    stats = last.stats
    yield Sample(family.TOTAL_COUNT, (), stats.total_gpus)
    yield Sample(family.LOW_COUNT, (), stats.low_utilization_count)
    yield Sample(family.IDLE_COUNT, (), stats.idle_count)
    if stats.avg_score is not None:
        yield Sample(family.AVERAGE_SCORE, (), stats.avg_score)
    for status in _STATUSES:
        yield Sample(family.STATUS_COUNT, (status,), stats.by_status.get(status, 0))


def _namespaces(last: Round) -> Iterator[Sample]:
    for name, stats in last.stats.by_namespace.items():
        yield Sample(family.NAMESPACE_COUNT, (name,), stats.count)
        if stats.avg_score is not None:
            yield Sample(family.NAMESPACE_AVERAGE_SCORE, (name,), stats.avg_score)
