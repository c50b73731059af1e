"""Samples over time as analysis asks for them: aggregates of quantities, never raw samples of a whole fleet."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

Quantity = Literal[
    "utilization",  # ratio of time in which at least one kernel ran
    "memory_copy",  # ratio of time in which memory was read or written
    "memory_used",  # bytes
    "memory_free",  # bytes
    "memory_reserved",  # bytes
    "memory_total",  # bytes; of a container: its limit
    "power",  # watts
    "power_limit",  # watts, enforced
    "energy",  # joules, a counter
    "sm_clock",  # hertz
    "temperature",  # degrees Celsius
    "engine_active",  # ratio
    "sm_active",  # ratio
    "sm_occupancy",  # ratio
    "tensor_active",  # ratio
    "dram_active",  # ratio
    "pcie_transmit",  # bytes per second
    "pcie_receive",  # bytes per second
    "last_kernel",  # seconds since the container's last kernel
]
"""What can be known of a GPU, in base units; the words are ours, whatever an exporter calls it."""

Scope = Literal["device", "holder"]
"""`device`: of the whole GPU or MIG instance, copied to each pod that holds it. `holder`: of one container alone."""

Aggregate = Literal["count", "mean", "min", "max", "last", "last_seen", "active_count", "last_active", "increase"]
"""Over the window, looked at every `step`: `count` samples, `active_count` samples above the threshold, `last_seen`
the Unix time of the newest sample (series that ended have none), `last_active` the Unix time of the newest sample
above the threshold, `increase` of a counter."""


class SeriesKey(NamedTuple):
    """What a series is about, in one dialect; empty text where the series does not say.

    `mig` is the GPU instance id of a MIG part, `slot` the replica or virtual device of a shared GPU.
    """

    cluster: str
    gpu: str
    mig: str
    slot: str
    namespace: str
    pod: str
    container: str


class Place(NamedTuple):
    """Where a device is and what it is, as far as its series say."""

    node: str
    model: str


class Span(NamedTuple):
    """A window and the distance at which it is looked at, in seconds; `end` is Unix time."""

    end: float
    length: float
    step: float

    @property
    def start(self) -> float:
        return self.end - self.length

    @property
    def expected(self) -> int:
        """How many looks fit in: the count of a series without a gap."""
        return max(1, round(self.length / self.step))


class Ask(NamedTuple):
    """One quantity and the aggregates wanted of it; `active_above` is in the quantity's base unit."""

    quantity: Quantity
    aggregates: tuple[Aggregate, ...]
    active_above: float = 0.0


@dataclass(frozen=True, slots=True)
class Windows:
    """Aggregates of one quantity from one metric family, per series.

    `columns` maps an aggregate to values by key; a key that is missing there has no such value. NaN does not occur:
    what is not a number, a blank sentinel or out of the quantity's range is missing, and counted in `rejected`.
    """

    quantity: Quantity
    scope: Scope
    family: str
    columns: Mapping[Aggregate, Mapping[SeriesKey, float]]
    rejected: int = 0


class Failure(NamedTuple):
    """One family (or `*`) that could not be read in full, and the sentence why."""

    family: str
    quantity: Quantity | None
    reason: str
    is_standing: bool = False
    """It is so in every round, such as a unit that nobody declared: nothing went missing, so nothing is in doubt."""


class Owner(NamedTuple):
    """The workload that a pod belongs to, and the family that says so."""

    kind: str
    name: str
    how: str


class PodKey(NamedTuple):
    cluster: str
    namespace: str
    pod: str


@dataclass(frozen=True, slots=True)
class Reading:
    """All that one round knows. Windows of one quantity are in order of trust, the best first."""

    span: Span
    windows: Sequence[Windows]
    places: Mapping[tuple[str, str], Place] = field(default_factory=dict)
    """By (cluster, gpu)."""
    owners: Mapping[PodKey, Owner] = field(default_factory=dict)
    started: Mapping[PodKey, float] = field(default_factory=dict)
    """Unix time at which a pod started, where somebody says so."""
    failures: Sequence[Failure] = ()
    warnings: Sequence[str] = ()
    """What the engine itself doubts: a partial response is not the whole truth."""
    queries: int = 0


class Point(NamedTuple):
    time: float
    value: float


class Newest(NamedTuple):
    """The newest sample of a living series, as it was scraped: no unit is converted."""

    family: str
    labels: Mapping[str, str]
    value: float


class StoreError(Exception):
    """The store cannot answer at all; the message is one sentence that says which store, what and why."""


class SeriesStore(Protocol):
    """Where samples come from. All methods block, may be called from any thread, and hold a deadline."""

    @property
    def name(self) -> str:
        """For people: `prometheus http://host:9090`, without credentials."""
        ...

    def families(self) -> frozenset[str]:
        """The metric families that are there now and that we can read."""
        ...

    def read(self, asks: Sequence[Ask], span: Span) -> Reading:
        """One round. A family that fails is in `failures`; StoreError when nothing at all could be read."""
        ...

    def range(self, key: SeriesKey, quantity: Quantity, span: Span) -> Sequence[Point]:
        """One subject's samples for a chart, one per step, from the most trusted family that has them."""
        ...

    def latest(self, families: Iterable[str]) -> Sequence[Newest]:
        """The living series of any families, whether analysis knows them or not."""
        ...

    def check(self) -> None:
        """Raise StoreError unless the store answers."""
        ...

    def close(self) -> None: ...
