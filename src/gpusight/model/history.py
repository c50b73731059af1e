"""What the journal keeps, as rows. Times are Unix seconds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol


class VerdictChange(NamedTuple):
    """A subject entered a state. `detail` is JSON: the verdict with its evidence as it was then."""

    at: float
    cluster: str
    namespace: str
    subject: str
    state: str
    previous: str
    confidence: float
    reason: str
    detail: str


class HourUse(NamedTuple):
    """What one subject held and used in one hour; (hour, subject) is unique, and writing it again replaces it.

    `hour` is the Unix time at which the hour began. GPU-hours are weighted by the fraction of the GPU that the
    subject may use. `cost` is None without a price.
    """

    hour: int
    cluster: str
    namespace: str
    subject: str
    model: str
    held_gpu_hours: float
    used_gpu_hours: float
    idle_gpu_hours: float
    unknown_gpu_hours: float
    energy_joules: float | None
    cost: float | None
    currency: str
    owner: str
    team: str


class ConfigChange(NamedTuple):
    """One setting changed at run time, by whom; secrets are masked before they come here."""

    at: float
    actor: str
    name: str
    old: str
    new: str


class Episode(NamedTuple):
    """One stretch of idleness of one subject: it opens when the verdict turns idle and closes when it turns away."""

    id: str
    cluster: str
    namespace: str
    subject: str
    state: str
    opened: float
    closed: float | None
    reason: str


class JournalError(Exception):
    """The journal cannot be read or written; one sentence that says where and what to do."""


class Journal(Protocol):
    """Durable: a method that returned has its rows on disk. May be called from any thread."""

    def record_round(
        self,
        changes: Sequence[VerdictChange],
        hours: Sequence[HourUse],
        episodes: Sequence[Episode],
        state: bytes,
        *,
        at: float,
    ) -> None:
        """What one round found, in one transaction: all of it or nothing."""
        ...

    def state(self) -> bytes | None:
        """The analysis state of the last recorded round."""
        ...

    def changes(
        self,
        *,
        start: float,
        end: float,
        subject: str | None = None,
        namespaces: Iterable[str] | None = None,
        limit: int = 1000,
    ) -> Sequence[VerdictChange]:
        """Newest first."""
        ...

    def hours(self, *, start: float, end: float, namespaces: Iterable[str] | None = None) -> Sequence[HourUse]: ...

    def totals(self, *, start: float, end: float, namespaces: Iterable[str] | None = None) -> Sequence[HourUse]:
        """The same hours summed up per subject, owner and currency; `hour` is the first of them."""
        ...

    def episodes(
        self, *, open_only: bool = False, namespaces: Iterable[str] | None = None, limit: int = 1000
    ) -> Sequence[Episode]: ...

    def change_config(self, values: Mapping[str, str], changes: Sequence[ConfigChange]) -> None:
        """The overrides from now on (they replace the old ones), and who changed what: in one transaction."""
        ...

    def config(self) -> Mapping[str, str]:
        """The overrides in force."""
        ...

    def config_changes(self, limit: int = 1000) -> Sequence[ConfigChange]:
        """Newest first."""
        ...

    def prune(self, now: float) -> None:
        """Drop what is older than the retention."""
        ...

    def close(self) -> None: ...
