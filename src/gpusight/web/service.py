"""What the web layer asks of the analyzer: the composition root hands in something that can do this."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol

from msgspec import Struct

from gpusight.analysis.records import Round, TenantUse
from gpusight.exposition.endpoint import Endpoint
from gpusight.model.history import ConfigChange, Episode, HourUse, VerdictChange
from gpusight.model.series import Point, Quantity


class Health(Struct, frozen=True, kw_only=True):
    """The published analyzer's health answer: made from memory, nobody is asked."""

    status: Literal["healthy", "degraded", "warning"]
    prometheus_connected: bool
    last_analysis: datetime | None
    analysis_timeout: bool
    ai_enabled: bool
    interval: float
    reason: str
    leader: bool


class Trigger(Struct, frozen=True, kw_only=True):
    """What became of a request for a round."""

    outcome: Literal["scheduled", "joined", "limited"]
    retry_after: float = 0.0
    """Seconds, when limited."""


class ConfigValue(Struct, frozen=True, kw_only=True):
    """One setting as anybody may see it: secrets are masked."""

    name: str
    value: Any
    origin: str
    changeable: bool
    help: str


class RoleStatus(Struct, frozen=True, kw_only=True):
    """One role that runs beside this one, or this one itself."""

    name: str
    url: str
    """Where it can be reached; empty if nowhere."""
    page: str
    """Its page here, `/` first; empty if it has none."""
    state: Literal["starting", "running", "restarting", "stopped"]
    restarts: int
    since: datetime
    last_exit: str
    """How it ended the last time; empty if it never did."""


class OperationSample(Struct, frozen=True, kw_only=True):
    """The newest sample of one series of an instrumented program: a family of `gpusight.catalog.ops`."""

    family: str
    """As the page has it: histograms as `..._sum`, `..._count`, `..._bucket`."""
    labels: Mapping[str, str]
    """With `job` and `instance`."""
    value: float
    rate: float | None
    """Per second over the last five minutes, of counters; null where that is not known."""


class Analyzer(Protocol):
    """The analyzer as the API sees it. Methods return at once unless they say that they block."""

    @property
    def endpoint(self) -> Endpoint:
        """For /metrics."""
        ...

    def round(self) -> Round | None:
        """The last finished round."""
        ...

    def trigger(self) -> Trigger:
        """Have a read-only round soon; joins the one under way."""
        ...

    def health(self) -> Health: ...

    def ready(self) -> bool: ...

    def config(self) -> Sequence[ConfigValue]: ...

    def update_config(self, changes: Mapping[str, str], actor: str) -> Mapping[str, Any]:
        """Validate all, then apply all and keep them; name -> new value. Blocks. Raises SettingsError, JournalError."""
        ...

    def window(self, result_id: str, quantity: Quantity) -> Sequence[Point]:
        """One GPU's samples over the analysis window. Blocks. Raises StoreError, KeyError for an unknown row."""
        ...

    def changes(
        self, *, start: float, end: float, subject: str | None, namespaces: Sequence[str] | None, limit: int
    ) -> Sequence[VerdictChange]:
        """Verdict history, newest first. Blocks."""
        ...

    def hours(self, *, start: float, end: float, namespaces: Sequence[str] | None) -> Sequence[HourUse]:
        """Blocks."""
        ...

    def tenants(self, *, start: float, end: float, namespaces: Sequence[str] | None) -> Sequence[TenantUse]:
        """Blocks."""
        ...

    def episodes(self, *, open_only: bool, namespaces: Sequence[str] | None) -> Sequence[Episode]:
        """Blocks."""
        ...

    def config_changes(self, limit: int) -> Sequence[ConfigChange]:
        """Blocks."""
        ...

    def floor(self, result_id: str) -> float | None:
        """Watts that the row's GPU draws when idle, as learnt; None before that is known, and for an unknown row."""
        ...

    def operations(self) -> Sequence[OperationSample]:
        """What instrumented programs report now; nothing if none is scraped. Blocks. Raises StoreError."""
        ...

    def roles(self) -> Sequence[RoleStatus]:
        """What runs here; at least this role."""
        ...

    def simulated(self) -> bool | None:
        """Whether what is shown was made up; None while that is not known."""
        ...
