"""Recordings out of a Prometheus range query, asked for piece by piece or saved to a file."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import msgspec
from msgspec import Struct

from gpusight.analysis.replay_csv import FULL, BadLine, TraceError, Unit, percent, scale_warnings
from gpusight.analysis.replay_trace import NAN, Columns, Problems, Trace, build

Labels = Mapping[str, str]
Points = Iterable[tuple[float, float]]
MOST_POINTS = 10_000
"""Per series and query: Prometheus refuses more than 11,000."""


class RangeSource(Protocol):
    """Something that answers a range query, raising StoreError when it cannot.

    If it has `warnings`, sentences of what the engine doubts, they are passed on.
    """

    def __call__(self, query: str, start: float, end: float, step: float) -> Iterable[tuple[Labels, Points]]: ...


class _Series(Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _Data(Struct):
    resultType: str  # noqa: N815 - Prometheus's name
    result: list[msgspec.Raw]


class _Response(Struct):
    status: str
    data: _Data | None = None
    error: str = ""
    warnings: list[str] = []


def fetch(source: RangeSource, query: str, *, start: float, end: float, step: float, unit: Unit = "percent") -> Trace:
    """The range in pieces small enough for Prometheus."""
    if not 0 < step <= end - start:
        raise TraceError("the range must begin before it ends and be at least one step long")
    pieces = (source(query, first, last, step) for first, last in _pieces(start, end, step))
    trace = from_series(f"prometheus:{query}", (each for piece in pieces for each in piece), unit=unit, step=step)
    return replace(trace, warnings=(*_doubts(getattr(source, "warnings", ())), *trace.warnings))


def _doubts(warnings: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"Prometheus warned: {each[:200]}" for each in warnings[:5])


def _pieces(start: float, end: float, step: float) -> Iterator[tuple[float, float]]:
    length = step * (MOST_POINTS - 1)
    while start <= end:
        yield start, min(end, start + length)
        start += length + step


def parse_response(data: bytes, source: str, *, unit: Unit = "percent", step: float | None = None) -> Trace:
    """The JSON that `/api/v1/query_range` answers."""
    try:
        response = msgspec.json.decode(data, type=_Response)
    except msgspec.DecodeError as error:
        raise TraceError(f"{source} is not the JSON of a range query: {error}") from None
    if response.status != "success" or response.data is None:
        raise TraceError(f"{source} is an answer without data: {response.error[:200] or response.status[:200]}")
    if response.data.resultType != "matrix":
        raise TraceError(f"{source} is not the answer to a range query but a {response.data.resultType[:50]}")
    problems = Problems()
    series = _decoded(response.data.result, problems)
    doubts = _doubts(response.warnings)
    return from_series(source, series, unit=unit, step=step, problems=problems, warnings=doubts)


def _decoded(result: Sequence[msgspec.Raw], problems: Problems) -> Iterator[tuple[Labels, Points]]:
    for raw in result:
        try:
            series = msgspec.json.decode(raw, type=_Series)
            yield series.metric, [(time, float(value)) for time, value in series.values]
        except (msgspec.DecodeError, ValueError):
            problems.add("the series cannot be read")


def from_series(
    source: str,
    series: Iterable[tuple[Labels, Points]],
    *,
    unit: Unit = "percent",
    step: float | None = None,
    problems: Problems | None = None,
    warnings: tuple[str, ...] = (),
) -> Trace:
    """One subject per pod where the labels name one, else per series.

    A pod's GPUs are one subject: active when one of them is, idle when all are, unknown when one is missing.
    """
    problems = problems or Problems()
    parts: dict[str, dict[str, Columns]] = {}
    for labels, points in series:
        columns = parts.setdefault(subject_of(labels), {}).setdefault(_text(labels), Columns())
        _add(columns, points, FULL[unit], problems)
    folded = {subject: _folded(list(each.values())) for subject, each in parts.items()}
    known = {subject: columns for subject, columns in folded.items() if columns.times}
    doubts = (*warnings, *scale_warnings(known.values(), unit))
    return build(source, known, step=step, problems=problems.all(), warnings=doubts)


def _add(columns: Columns, points: Points, full: float, problems: Problems) -> None:
    for time, value in points:
        try:
            columns.util.append(percent(str(value), full))
        except BadLine as error:
            problems.add(str(error))
            columns.util.append(NAN)
        columns.times.append(time)


def subject_of(labels: Labels) -> str:
    """`exported_` labels go first: without honorLabels, `pod` is the exporter's own."""
    for prefix in ("exported_", ""):
        namespace, pod = labels.get(f"{prefix}namespace"), labels.get(f"{prefix}pod")
        if pod:
            cluster = labels.get("cluster")
            return "/".join(filter(None, (cluster, namespace, pod)))
    return _text(labels)


def _text(labels: Labels) -> str:
    return "{" + ",".join(f"{key}={value!r}" for key, value in sorted(labels.items()) if key != "__name__") + "}"


def _folded(parts: Sequence[Columns]) -> Columns:
    parts = [part for part in parts if part.times]
    if len(parts) < 2:
        return parts[0] if parts else Columns()
    firsts = sorted(min(part.times) for part in parts)
    lasts = sorted(max(part.times) for part in parts)
    seen: dict[float, tuple[float, int]] = {}
    for part in parts:
        for time, value in zip(part.times, part.util, strict=True):
            largest, count = seen.get(time, (0.0, 0))
            known = value == value  # noqa: PLR0124 - NaN
            seen[time] = (max(largest, value) if known else largest, count + known)
    result = Columns()
    for time in sorted(seen):
        largest, count = seen[time]
        alive = bisect_right(firsts, time) - bisect_left(lasts, time)
        result.gpus = max(result.gpus, float(alive))
        result.times.append(time)
        result.util.append(largest if largest > 0 or count >= alive else NAN)
    return result


def is_response(head: bytes) -> bool:
    return head.lstrip()[:1] == b"{"
