"""The answers of the API that are not records of the analysis; OpenAPI is made from these and those alike."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints

from msgspec import UNSET, Struct, UnsetType, defstruct

from gpusight.analysis.records import Evidence, GpuResult, Loan, State, TenantUse, Verdict
from gpusight.model.history import ConfigChange, Episode, HourUse, VerdictChange
from gpusight.model.series import Point, Quantity
from gpusight.web.service import ConfigValue

T = TypeVar("T")


class ErrorInfo(Struct, frozen=True, kw_only=True):
    """What went wrong: a word for programs, a sentence for people, and what else there is to say."""

    code: str
    message: str
    detail: Any = None


class ErrorAnswer(Struct, frozen=True):
    """The one shape of every refusal and failure."""

    error: ErrorInfo


# --- the published analyzer's view ---


class Features(Struct, frozen=True, kw_only=True):
    ai_analysis: bool
    prometheus_metrics: bool
    control_api: bool


class ServiceConfig(Struct, frozen=True, kw_only=True):
    prometheus_url: str | None
    threshold: float | None
    interval: float | None
    time_window_min: float | None
    max_workers: int | None


class ServiceInfo(Struct, frozen=True, kw_only=True):
    service: str
    version: str
    features: Features
    config: ServiceConfig
    endpoints: Mapping[str, str]


class Triggered(Struct, frozen=True, kw_only=True):
    status: str
    message: str
    use_ai: bool
    reason: str | UnsetType = UNSET
    """Why no language model is asked, when one was asked for."""


class LowResults(Struct, frozen=True, kw_only=True):
    count: int
    threshold: float | None
    timestamp: datetime | None
    gpus: tuple[GpuResult, ...]


class SeedConfig(Struct, frozen=True, kw_only=True):
    """The settings in the published analyzer's groups; none of them is a secret."""

    prometheus: Mapping[str, Any]
    scoring: Mapping[str, Any]
    thresholds: Mapping[str, Any]
    scheduler: Mapping[str, Any]
    ai: Mapping[str, Any]
    control: Mapping[str, Any]


class ConfigUpdated(Struct, frozen=True, kw_only=True):
    status: str
    updates: Mapping[str, Any]
    note: str


class LoggedIn(Struct, frozen=True, kw_only=True):
    status: str
    name: str
    role: str
    namespaces: tuple[str, ...] | None


class Said(Struct, frozen=True):
    """A word that says that it was done."""

    status: str


# --- the journal's rows, as objects with readable times ---

_TIMES: Mapping[str, Any] = {"at": datetime, "opened": datetime, "hour": datetime, "closed": datetime | None}


def _row_type(kind: Any, name: str, **instead: Any) -> Any:
    """A Struct with the fields of a NamedTuple: one definition, two encodings."""
    hints = {**get_type_hints(kind), **instead}
    fields = [(field, _TIMES.get(field, hints[field])) for field in kind._fields]
    return defstruct(name, fields, frozen=True, kw_only=True, module=__name__, namespace={"__doc__": kind.__doc__})


HistoryRow = _row_type(VerdictChange, "HistoryRow", detail=Any)
HourRow = _row_type(HourUse, "HourRow")
EpisodeRow = _row_type(Episode, "EpisodeRow")
ConfigChangeRow = _row_type(ConfigChange, "ConfigChangeRow")


def as_row(row_type: Any, record: NamedTuple, **instead: Any) -> Any:
    values = {**record._asdict(), **instead}
    for field in _TIMES:
        if values.get(field) is not None:
            values[field] = as_datetime(values[field])
    return row_type(**values)


def as_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


# --- the real API ---


class Paged(Struct, Generic[T], frozen=True, kw_only=True):
    """A part of what the filters let through; `total` counts all of it."""

    total: int
    limit: int
    offset: int
    round: int
    timestamp: datetime
    items: tuple[T, ...]


class Spanned(Struct, Generic[T], frozen=True, kw_only=True, rename={"start": "from", "end": "to"}):
    """What is known of a span of time."""

    start: datetime
    end: datetime
    items: tuple[T, ...]


class Listed(Struct, Generic[T], frozen=True):
    items: tuple[T, ...]


class ResultDetail(Struct, frozen=True, kw_only=True):
    """One GPU in the hands of one container, and what is concluded of its workload."""

    result: GpuResult
    verdict: Verdict | None


class WindowAnswer(Struct, frozen=True, kw_only=True):
    """Samples of one row over the window: pairs of Unix time and value, in the quantity's base unit."""

    id: str
    quantity: Quantity
    points: tuple[Point, ...]


class Explanation(Struct, frozen=True, kw_only=True):
    """How a verdict came about, in sentences, with the rows that it was judged by."""

    subject: str
    state: State
    reason: str
    evidence: Evidence
    steps: tuple[str, ...]
    verdict: Verdict
    results: tuple[GpuResult, ...]


class RoundInfo(Struct, frozen=True, kw_only=True):
    """The last finished round without its rows."""

    number: int
    at: datetime
    duration_seconds: float
    window_seconds: float
    threshold: float
    store: str
    queries: int
    results: int
    verdicts: int
    problems: tuple[str, ...]


class ResultPage(Paged[GpuResult], frozen=True, kw_only=True):
    """GPUs in the hands of containers."""


class VerdictPage(Paged[Verdict], frozen=True, kw_only=True):
    """Verdicts on workloads."""


class History(Spanned[HistoryRow], frozen=True, kw_only=True):  # type: ignore[valid-type]  # made above
    """Verdicts that changed, newest first."""


class Hours(Spanned[HourRow], frozen=True, kw_only=True):  # type: ignore[valid-type]  # made above
    """Held and used, hour by hour."""


class Tenants(Spanned[TenantUse], frozen=True, kw_only=True):
    """Held and used, by namespace."""


class Lending(Listed[Loan], frozen=True):
    """Who holds what since when."""


class Episodes(Listed[EpisodeRow], frozen=True):  # type: ignore[valid-type]  # made above
    """Stretches of idleness, newest first."""


class ConfigValues(Listed[ConfigValue], frozen=True):
    """Every setting with its origin; secrets are masked."""


class ConfigChanges(Listed[ConfigChangeRow], frozen=True):  # type: ignore[valid-type]  # made above
    """Settings changed at run time, newest first."""
