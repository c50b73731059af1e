"""Filters, order and pages over the rows of a round."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Depends, Query, Request
from msgspec import Struct
from msgspec.structs import fields

from gpusight.analysis.records import GpuResult, State, Status, Verdict
from gpusight.web.accept import prefers
from gpusight.web.encoding import JSON
from gpusight.web.errors import ApiError
from gpusight.web.tables import CSV

T = TypeVar("T")
Format = Literal["json", "csv"]
Getter = Callable[[Any], Any]

RESULT_COLUMNS: Mapping[str, Getter] = {
    field.name: attrgetter(field.name) for field in fields(GpuResult) if field.name != "ai_analysis"
}
VERDICT_COLUMNS: Mapping[str, Getter] = {
    "subject": lambda v: v.subject.id,
    "cluster": lambda v: v.subject.cluster,
    "namespace": lambda v: v.subject.namespace,
    "kind": lambda v: v.subject.kind,
    "name": lambda v: v.subject.name,
    "state": lambda v: v.state,
    "since": lambda v: v.since,
    "confidence": lambda v: v.confidence,
    "evidence": lambda v: v.evidence,
    "coverage": lambda v: v.coverage,
    "idle_seconds": lambda v: v.activity.idle_seconds,
    "active_share": lambda v: v.activity.active_share,
    "last_active": lambda v: v.activity.last_active,
    "gpus": lambda v: v.holding.gpus,
    "memory_bytes": lambda v: v.holding.memory_bytes,
    "idle_byte_hours": lambda v: v.holding.idle_byte_hours,
    "owner": lambda v: v.owner,
    "team": lambda v: v.team,
}

_SEARCHED = ("gpu_id", "pod", "namespace", "hostname", "model_name", "cluster", "container", "subject", "note")
_EARLIEST, _LATEST = 0.0, 253402300799.0

Names = Annotated[list[str] | None, Query(max_length=100)]
Score = Annotated[float | None, Query(ge=0, le=100, allow_inf_nan=False)]


class Filters(Struct, frozen=True, kw_only=True):
    """What a row must be; several values of one kind are alternatives."""

    allowed: Mapping[str, frozenset[str]]
    min_score: float | None = None
    max_score: float | None = None
    search: str = ""

    @property
    def is_empty(self) -> bool:
        return not self.allowed and self.min_score is None and self.max_score is None and not self.search

    def admits(self, row: GpuResult) -> bool:
        return (
            all(getattr(row, name) in values for name, values in self.allowed.items())
            and self._is_scored(row.score)
            and (not self.search or any(self.search in str(getattr(row, name)).lower() for name in _SEARCHED))
        )

    def admits_verdict(self, verdict: Verdict, rows: Sequence[GpuResult]) -> bool:
        """By its own words, or else by any of its rows; scores and GPUs are the rows' alone."""
        if self.search and self.search in f"{verdict.subject.id} {verdict.owner} {verdict.team}".lower():
            without_search = Filters(allowed=self.allowed, min_score=self.min_score, max_score=self.max_score)
            return without_search.admits_verdict(verdict, rows)
        return self.is_empty or any(map(self.admits, rows))

    def _is_scored(self, score: float | None) -> bool:
        if self.min_score is None and self.max_score is None:
            return True
        return (
            score is not None
            and (self.min_score is None or score >= self.min_score)
            and (self.max_score is None or score <= self.max_score)
        )


def filters(
    cluster: Names = None,
    namespace: Names = None,
    pod: Names = None,
    gpu_id: Names = None,
    model: Names = None,
    status: Annotated[list[Status] | None, Query(max_length=100)] = None,
    state: Annotated[list[State] | None, Query(max_length=100)] = None,
    subject: Names = None,
    min_score: Score = None,
    max_score: Score = None,
    q: Annotated[str, Query(max_length=200, description="Part of any name, in any case.")] = "",
) -> Filters:
    given: dict[str, Iterable[str] | None] = {
        "cluster": cluster,
        "namespace": namespace,
        "pod": pod,
        "gpu_id": gpu_id,
        "model_name": model,
        "status": status,
        "state": state,
        "subject": subject,
    }
    return Filters(
        allowed={name: frozenset(values) for name, values in given.items() if values is not None},
        min_score=min_score,
        max_score=max_score,
        search=q.lower(),
    )


class PageOf(Struct, frozen=True):
    limit: int
    offset: int


def page(
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100, offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0
) -> PageOf:
    return PageOf(limit, offset)


def wanted_format(request: Request, format: Annotated[Format | None, Query()] = None) -> Format:  # noqa: A002
    """By name, or else by the Accept header."""
    if format is not None:
        return format
    return "csv" if prefers(request.headers.get("accept", ""), CSV, JSON) else "json"


FilterQuery = Annotated[Filters, Depends(filters)]
PageQuery = Annotated[PageOf, Depends(page)]
FormatQuery = Annotated[Format, Depends(wanted_format)]


def sort_query(columns: Mapping[str, Getter]) -> Any:
    """A query parameter that names a column, with `-` before it for the other way round."""
    choices = [*columns, *(f"-{name}" for name in columns)]
    return Query(description="A column; with - before it the largest first.", json_schema_extra={"enum": choices})


def in_order(rows: Sequence[T], sort: str | None, columns: Mapping[str, Getter]) -> Sequence[T]:
    """What is unknown comes last either way."""
    if sort is None:
        return rows
    get = columns.get(sort.removeprefix("-"))
    if get is None:
        raise ApiError(422, "invalid_request", "This is no column to sort by.", detail={"columns": list(columns)})
    known = [row for row in rows if get(row) is not None]
    unknown = [row for row in rows if get(row) is None]
    return sorted(known, key=get, reverse=sort.startswith("-")) + unknown


class SpanOf(Struct, frozen=True):
    """Unix seconds."""

    start: float
    end: float


def span(
    request: Request,
    from_: Annotated[
        str | None, Query(alias="from", max_length=64, description="RFC 3339 or Unix seconds; a day before `to`.")
    ] = None,
    to: Annotated[str | None, Query(max_length=64, description="RFC 3339 or Unix seconds; now by default.")] = None,
) -> SpanOf:
    now = request.app.state.clock.now()
    end = parse_time(to, "to") if to else now
    start = parse_time(from_, "from") if from_ else max(end - 86400, _EARLIEST)
    if start > end:
        raise ApiError(422, "invalid_request", "The span ends before it begins: `from` is later than `to`.")
    return SpanOf(start, end)


SpanQuery = Annotated[SpanOf, Depends(span)]


def parse_time(text: str, name: str) -> float:
    seconds = _seconds(text.strip().replace(" ", "+"))  # a + in an address arrives as a space
    if seconds is None or not _EARLIEST <= seconds <= _LATEST:
        message = f"`{name}` is not a time; write 2026-01-31T12:00:00Z or Unix seconds."
        raise ApiError(422, "invalid_request", message)
    return seconds


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
