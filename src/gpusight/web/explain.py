"""A verdict in sentences: which evidence there was, and what follows from it."""

from collections.abc import Iterable, Iterator

from gpusight.analysis.records import Evidence, GpuResult, Verdict
from gpusight.web.answers import Explanation

_EVIDENCE: dict[Evidence, str] = {
    "profiling": "The profiling counters of the GPU itself were read, SM activity among them.",
    "profiling-default": "The default profiling counters were read: engine, tensor and memory activity.",
    "container": "The node tells the use of each container apart.",
    "utilization-power": "Only utilization and power were known.",
    "utilization": "Only utilization was known, which one tiny kernel can hold at 100 %.",
    "none": "Nothing was known that could prove use or idleness.",
}


def explain(verdict: Verdict, results: Iterable[GpuResult]) -> Explanation:
    return Explanation(
        subject=verdict.subject.id,
        state=verdict.state,
        reason=verdict.reason,
        evidence=verdict.evidence,
        steps=tuple(_steps(verdict)),
        verdict=verdict,
        results=tuple(results),
    )


def _steps(verdict: Verdict) -> Iterator[str]:
    yield f"The subject is {verdict.subject.kind} {verdict.subject.name}: {verdict.subject.how}."
    yield f"Pods: {len(verdict.pods)}; GPUs and parts of GPUs: {len(verdict.parts)}."
    yield _EVIDENCE[verdict.evidence]
    yield _coverage(verdict.coverage)
    yield from _activity(verdict)
    yield from _efficiency(verdict)
    yield _holding(verdict)
    if verdict.pending is not None:
        yield f"If this goes on, it becomes {verdict.pending}; rounds that agree so far: {verdict.pending_rounds}."
    since = f"{verdict.since:%Y-%m-%d %H:%M:%S %Z}"
    yield f"So it is {verdict.state} since {since}, with confidence {_percent(verdict.confidence)}."


def _coverage(coverage: float | None) -> str:
    if coverage is None:
        return "How many of the expected samples were there is not known."
    return f"Of the expected samples {_percent(coverage)} were there."


def _activity(verdict: Verdict) -> Iterator[str]:
    activity = verdict.activity
    if activity.active_share is not None:
        yield f"It computed in {_percent(activity.active_share)} of the window."
    if activity.last_active is not None:
        yield f"It was last seen active at {activity.last_active:%Y-%m-%d %H:%M:%S %Z}."
    if activity.idle_seconds is not None:
        yield f"It has been idle for {activity.idle_seconds / 60:.0f} minutes; activity or doubt would set that back."


def _efficiency(verdict: Verdict) -> Iterator[str]:
    efficiency = verdict.efficiency
    measured = {name.replace("_", " "): getattr(efficiency, name) for name in efficiency.__struct_fields__}
    known = [f"{name} {_percent(value)}" for name, value in measured.items() if value is not None]
    if known:
        yield f"Means: {', '.join(known)}."


def _holding(verdict: Verdict) -> str:
    holding = verdict.holding
    memory = "" if holding.memory_bytes is None else f" and {holding.memory_bytes / 2**30:.1f} GiB of memory"
    return f"It holds {holding.gpus:g} GPUs{memory}."


def _percent(share: float) -> str:
    return f"{share:.0%}"
