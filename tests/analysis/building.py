"""Small readings to judge: series are written as samples, and aggregated here as a store would."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpusight.analysis.criteria import Criteria, asks
from gpusight.analysis.memory import Memory
from gpusight.analysis.parts import Part, build_parts
from gpusight.analysis.records import GpuResult, Verdict
from gpusight.analysis.rounds import Conclusion, judge_round
from gpusight.analysis.tenancy import Tenancy
from gpusight.model.series import (
    Aggregate,
    Owner,
    Place,
    PodKey,
    Quantity,
    Reading,
    Scope,
    SeriesKey,
    Span,
    Windows,
)

NOW = 1_700_000_000.0
SPAN = Span(NOW, 600.0, 30.0)
LOOKS = SPAN.expected
CRITERIA = Criteria()
GIB = 2.0**30
MIB = 2.0**20

H100 = "NVIDIA H100 80GB HBM3"
"""70 W idle, 700 W at most."""

Samples = float | Sequence[float]
"""One value for the whole window, or one per look, the newest last."""


def key_of(
    pod: str = "train",
    gpu: str = "GPU-1",
    *,
    namespace: str = "team",
    container: str = "main",
    mig: str = "",
    slot: str = "",
    cluster: str = "",
) -> SeriesKey:
    return SeriesKey(cluster, gpu, mig, slot, namespace if pod else "", pod, container if pod else "")


def signal(
    quantity: Quantity,
    series: Mapping[SeriesKey, Samples],
    *,
    family: str = "",
    scope: Scope = "device",
    span: Span = SPAN,
    ended: Iterable[SeriesKey] = (),
    above: float = CRITERIA.active_above,
) -> Windows:
    """All aggregates of an activity signal; `ended` series have no newest sample."""
    columns: dict[Aggregate, dict[SeriesKey, float]] = {
        name: {} for name in ("last_seen", "count", "mean", "max", "active_count", "last_active")
    }
    gone = set(ended)
    for key, given in series.items():
        samples = [given] * span.expected if isinstance(given, int | float) else list(given)
        for aggregate, value in _aggregates(samples, span, above).items():
            if not (aggregate == "last_seen" and key in gone):
                columns[aggregate][key] = value
    return Windows(quantity, scope, family or f"{scope}_{quantity}", columns)


def _aggregates(samples: Sequence[float], span: Span, above: float) -> dict[Aggregate, float]:
    times = [span.end - span.step * back for back in range(len(samples) - 1, -1, -1)]
    active = [time for time, value in zip(times, samples, strict=True) if value > above]
    found: dict[Aggregate, float] = {
        "last_seen": span.end - 5,
        "count": len(samples),
        "mean": sum(samples) / len(samples),
        "max": max(samples),
    }
    # As a store that counts has it: no row where there is nothing to count.
    return found | {"active_count": len(active), "last_active": active[-1]} if active else found


def means(
    quantity: Quantity, values: Mapping[SeriesKey, float], *, family: str = "", scope: Scope = "device"
) -> Windows:
    """What is asked of a quantity that only describes: its mean, or its newest value."""
    wanted = next(ask.aggregates for ask in asks(CRITERIA) if ask.quantity == quantity)
    columns: dict[Aggregate, Mapping[SeriesKey, float]] = {
        aggregate: dict.fromkeys(values, SPAN.end - 5) if aggregate == "last_seen" else values for aggregate in wanted
    }
    return Windows(quantity, scope, family or f"{scope}_{quantity}", columns)


def gpu(
    key: SeriesKey,
    *,
    util: Samples | None = None,
    engine: Samples | None = None,
    own: Samples | None = None,
    used: float | None = None,
    total: float | None = None,
    own_used: float | None = None,
    own_limit: float | None = None,
    **described: float | None,
) -> list[Windows]:
    """One part's windows, from as many of its series as are given."""
    windows: list[Windows] = []
    if util is not None:
        windows.append(signal("utilization", {key: util}))
    if engine is not None:
        windows.append(signal("engine_active", {key: engine}))
    if own is not None:
        windows.append(signal("utilization", {key: own}, scope="holder"))
    held: tuple[tuple[Quantity, Scope, float | None], ...] = (
        ("memory_used", "device", used),
        ("memory_total", "device", total),
        ("memory_used", "holder", own_used),
        ("memory_total", "holder", own_limit),
    )
    windows += [means(name, {key: value}, scope=scope) for name, scope, value in held if value is not None]
    names: dict[str, Quantity] = {ask.quantity: ask.quantity for ask in asks(CRITERIA)}
    windows += [means(names[name], {key: value}) for name, value in described.items() if value is not None]
    return windows


def idle_gpu(key: SeriesKey, **changed: Any) -> list[Windows]:
    """Inactive beyond doubt: 60 of 80 GiB held, 100 of 700 W drawn."""
    return gpu(
        key, **{"util": 0.0, "used": 60 * GIB, "total": 80 * GIB, "power": 100.0, "power_limit": 700.0} | changed
    )


def busy_gpu(key: SeriesKey, **changed: Any) -> list[Windows]:
    return idle_gpu(key, **{"util": 0.9, "power": 600.0} | changed)


def reading_of(*groups: Sequence[Windows], span: Span = SPAN, model: str = H100, **more: Any) -> Reading:
    """Windows of the same quantity, scope and family become one, as a store has it."""
    merged: dict[tuple[str, str, str], dict[Aggregate, dict[SeriesKey, float]]] = {}
    order: dict[tuple[str, str, str], Windows] = {}
    for each in (windows for group in groups for windows in group):
        name = (each.quantity, each.scope, each.family)
        order.setdefault(name, each)
        merged.setdefault(name, {})
        for aggregate, values in each.columns.items():
            merged[name].setdefault(aggregate, {}).update(values)
    windows = [Windows(each.quantity, each.scope, each.family, merged[name]) for name, each in order.items()]
    devices = {key[:2] for each in windows for column in each.columns.values() for key in column}
    return Reading(
        **{"span": span, "windows": windows, "places": dict.fromkeys(devices, Place("node-1", model))} | more
    )


def later(reading: Reading, seconds: float) -> Reading:
    """The same samples, as if all had been taken later."""
    moved = [
        Windows(
            each.quantity,
            each.scope,
            each.family,
            {
                aggregate: {key: value + seconds for key, value in values.items()}
                if aggregate in ("last_seen", "last_active")
                else values
                for aggregate, values in each.columns.items()
            },
        )
        for each in reading.windows
    ]
    span = reading.span._replace(end=reading.span.end + seconds)
    return Reading(
        span,
        moved,
        reading.places,
        reading.owners,
        reading.started,
        reading.failures,
        reading.warnings,
        reading.queries,
    )


def part_of(*groups: Sequence[Windows], criteria: Criteria = CRITERIA, **more: Any) -> Part:
    (part,) = build_parts(reading_of(*groups, **more), criteria)
    return part


def judge(reading: Reading, memory: Memory | None = None, criteria: Criteria = CRITERIA) -> Conclusion:
    return judge_round(reading, memory or Memory(), criteria, Tenancy())


def verdicts_in(conclusion: Conclusion) -> dict[str, Verdict]:
    """By the name of the subject."""
    return {each.verdict.subject.name: each.verdict for each in conclusion.judged}


def results_in(conclusion: Conclusion) -> dict[str, GpuResult]:
    """By pod."""
    return {each.pod: each for each in conclusion.results}


def verdict_of(*groups: Sequence[Windows], criteria: Criteria = CRITERIA, **more: Any) -> Verdict:
    """Of the only subject, at first sight."""
    (judged,) = judge(reading_of(*groups, **more), criteria=criteria).judged
    return judged.verdict


def owned_by(name: str, *pods: str, kind: str = "Deployment", cluster: str = "") -> dict[PodKey, Owner]:
    return {PodKey(cluster, "team", pod): Owner(kind, name, "kube_pod_owner") for pod in pods}
