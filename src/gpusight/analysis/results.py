"""Rows of the published analyzer's view, made from parts."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import blake2s

from gpusight.analysis.criteria import Criteria
from gpusight.analysis.parts import Part
from gpusight.analysis.records import GpuResult, NamespaceStats, Stats, Verdict
from gpusight.analysis.score import memory_share, score_part
from gpusight.model.series import SeriesKey

_STATUSES = ("idle", "low", "normal", "high", "unknown")


@lru_cache(maxsize=200_000)
def result_id(key: SeriesKey) -> str:
    return blake2s(repr(tuple(key)).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def result_of(part: Part, verdict: Verdict, at: datetime, criteria: Criteria, reading_doubt: str) -> GpuResult:
    scored = score_part(part, criteria, reading_doubt)
    key = part.key
    return GpuResult(
        gpu_id=key.gpu,
        pod=key.pod,
        namespace=key.namespace,
        hostname=part.place.node,
        model_name=part.place.model,
        gpu_util=_scaled(part.utilization, 100),
        mem_copy=_scaled(part.memory_copy, 100),
        mem_used_mb=_scaled(part.memory_used, 2**-20),
        mem_total_mb=_scaled(part.memory_total, 2**-20),
        mem_usage_percent=_scaled(memory_share(part), 100),
        power_usage=_scaled(part.power, 1),
        sm_clock=_scaled(part.sm_clock, 1e-6),
        score=scored.score,
        status=scored.status,
        timestamp=at,
        id=result_id(key),
        cluster=key.cluster,
        container=key.container,
        mig_instance=key.mig,
        slot=key.slot,
        subject=verdict.subject.id,
        state=verdict.state,
        note=scored.note,
    )


def _scaled(value: float | None, factor: float) -> float | None:
    if value is None:
        return None
    scaled = value * factor
    return round(scaled, 1) if scaled else scaled


def sort_results(results: Iterable[GpuResult]) -> list[GpuResult]:
    """Ascending by score, the unknown last."""
    return sorted(results, key=_order)


def _order(result: GpuResult) -> tuple[float, str, str, str]:
    score = 101.0 if result.score is None else result.score
    return score, result.namespace, result.pod, result.gpu_id


def stats_of(results: Sequence[GpuResult], low_below: float) -> Stats:
    """What is unknown counts as unknown and is in no average."""
    scores = [result.score for result in results if result.score is not None]
    by_status = dict.fromkeys(_STATUSES, 0)
    namespaces: dict[str, list[GpuResult]] = {}
    for result in results:
        by_status[result.status] += 1
        namespaces.setdefault(result.namespace, []).append(result)
    return Stats(
        total_gpus=len(results),
        avg_score=_mean(scores),
        min_score=min(scores, default=None),
        max_score=max(scores, default=None),
        low_utilization_count=sum(score < low_below for score in scores),
        idle_count=by_status["idle"],
        by_status=by_status,
        by_namespace={name: _namespace(rows, low_below) for name, rows in sorted(namespaces.items())},
    )


def _namespace(rows: Sequence[GpuResult], low_below: float) -> NamespaceStats:
    scores = [row.score for row in rows if row.score is not None]
    return NamespaceStats(
        count=len(rows), avg_score=_mean(scores), low_util_count=sum(score < low_below for score in scores)
    )


def _mean(scores: Sequence[float]) -> float | None:
    return round(sum(scores) / len(scores), 1) if scores else None
