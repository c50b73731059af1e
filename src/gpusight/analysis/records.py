"""What a round concludes, as it is kept, shown and sent: the one definition, from which OpenAPI is made too."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

Status = Literal["idle", "low", "normal", "high", "unknown"]
"""The published analyzer's words for a score, and `unknown` for a subject without enough data."""

State = Literal[
    "unallocated",
    "warming",
    "idle-empty",
    "idle-held",
    "bursty",
    "hollow-busy",
    "starved",
    "memory-bound",
    "productive",
    "unknown",
]

Evidence = Literal["profiling", "profiling-default", "container", "utilization-power", "utilization", "none"]
"""How good the evidence is, the best first; see docs/analyze.md."""

Share = Annotated[float, Meta(ge=0, le=1)]
Score = Annotated[float, Meta(ge=0, le=100)]


class AiAnalysis(Struct, frozen=True, kw_only=True):
    """A language model's opinion on one GPU."""

    gpu_id: str
    status: Literal["active", "idle", "suspicious"]
    confidence: Share
    reason: str
    recommendation: str
    raw_score: Score | None
    ai_adjusted_score: Score | None


class GpuResult(Struct, frozen=True, kw_only=True):
    """One GPU (or part of one) in the hands of one container: the published analyzer's row, then what we add.

    Means over the window; null is unknown, never 0.
    """

    gpu_id: str
    pod: str
    namespace: str
    hostname: str
    model_name: str
    gpu_util: float | None
    mem_copy: float | None
    mem_used_mb: float | None
    mem_total_mb: float | None
    mem_usage_percent: float | None
    power_usage: float | None
    sm_clock: float | None
    score: Score | None
    status: Status
    timestamp: datetime
    ai_analysis: AiAnalysis | None = None
    id: str
    """Stable over rounds: the address of this row in the API."""
    cluster: str
    container: str
    mig_instance: str
    slot: str
    subject: str
    state: State
    note: str
    """Which terms of the score had no data, or why there is no score."""


class Subject(Struct, frozen=True, kw_only=True):
    """A workload within its cluster: all its pods with all their GPUs."""

    id: str
    """`cluster/namespace/Kind/name`."""
    cluster: str
    namespace: str
    kind: str
    name: str
    how: str
    """Which series names the owner, or why the subject is the pod itself."""


class Activity(Struct, frozen=True, kw_only=True):
    """Does it compute at all?"""

    last_active: datetime | None
    active_share: Share | None
    idle_seconds: float | None
    """Since when nothing ran, over rounds; any activity and any doubt set it back."""


class Efficiency(Struct, frozen=True, kw_only=True):
    """How well it computes while it does: means over its parts, null where nobody measures it."""

    utilization: Share | None
    engine_active: Share | None
    sm_active: Share | None
    tensor_active: Share | None
    dram_active: Share | None
    power_above_floor: Share | None
    """0 at the device's learnt idle power, 1 at its limit."""


class Holding(Struct, frozen=True, kw_only=True):
    """What it keeps from others."""

    gpus: float
    """Weighted by the fraction of each GPU that it may use."""
    memory_bytes: float | None
    memory_share: Share | None
    idle_byte_hours: float
    """Memory held while inactive, since the idle time began."""


class Verdict(Struct, frozen=True, kw_only=True):
    """What is concluded of one subject; the only thing that anything acts on."""

    subject: Subject
    state: State
    since: datetime
    confidence: Share
    reason: str
    """One sentence with its numbers."""
    evidence: Evidence
    coverage: Share | None
    activity: Activity
    efficiency: Efficiency
    holding: Holding
    pods: tuple[str, ...]
    parts: tuple[str, ...]
    """The rows (GpuResult.id) it was judged by."""
    nodes: tuple[str, ...]
    models: tuple[str, ...]
    pending: State | None
    """The state that it would enter if this goes on."""
    pending_rounds: int
    owner: str
    team: str


class Stats(Struct, frozen=True, kw_only=True):
    """The published analyzer's summary. GPUs of unknown score are in no average."""

    total_gpus: int
    avg_score: float | None
    min_score: float | None
    max_score: float | None
    low_utilization_count: int
    idle_count: int
    by_status: Mapping[str, int]
    by_namespace: Mapping[str, "NamespaceStats"]


class NamespaceStats(Struct, frozen=True, kw_only=True):
    count: int
    avg_score: float | None
    low_util_count: int


class TenantUse(Struct, frozen=True, kw_only=True):
    """What one namespace held and used over a span of time."""

    cluster: str
    namespace: str
    owner: str
    team: str
    held_gpu_hours: float
    used_gpu_hours: float
    idle_gpu_hours: float
    unknown_gpu_hours: float
    energy_joules: float | None
    cost: float | None
    idle_cost: float | None
    currency: str


class Loan(Struct, frozen=True, kw_only=True):
    """One line of the lending report: who holds what since when, and what came of it."""

    cluster: str
    namespace: str
    owner: str
    team: str
    subject: str
    state: State
    gpus: float
    models: tuple[str, ...]
    since: datetime | None
    """First seen holding; null before the journal knows."""
    used_gpu_hours: float
    idle_gpu_hours: float
    unknown_gpu_hours: float


class Round(Struct, frozen=True, kw_only=True):
    """One finished round of analysis."""

    number: int
    at: datetime
    duration_seconds: float
    window_seconds: float
    threshold: float
    store: str
    queries: int
    results: tuple[GpuResult, ...]
    """Ascending by score, the unknown last."""
    verdicts: tuple[Verdict, ...]
    stats: Stats
    loans: tuple[Loan, ...]
    problems: tuple[str, ...]
    """What could not be read, in sentences; a round with problems calls nobody idle because of them."""
