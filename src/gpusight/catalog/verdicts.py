"""What the analyzer concludes of workloads, and how its rounds go: families of our own beside those of seed 003."""

from functools import partial

from gpusight.catalog import labels as label
from gpusight.catalog.spec import FamilySpec, Waiver

_gauge = partial(FamilySpec, kind="gauge", origin="gpusight", endpoint="analyze")
_counter = partial(FamilySpec, kind="counter", origin="gpusight", endpoint="analyze")

_CLUSTER = Waiver("target-label", "One analyzer judges the workloads of several clusters.")
_workload = partial(_gauge, waivers=(_CLUSTER,))
_WORKLOAD = (label.CLUSTER, label.NAMESPACE, label.WORKLOAD_KIND, label.WORKLOAD)

STATE = _workload(
    name="gpusight_workload_state",
    unit="boolean",
    labels=(*_WORKLOAD, label.VERDICT),
    help="The state that the workload is in, always 1.",
    how_to_read="Each workload has one such series at a time; the old one ends with the round that leaves the state."
    ' Alert on {state="idle-held"} with gpusight_workload_idle_seconds, never on unknown.',
)
CONFIDENCE = _workload(
    name="gpusight_workload_confidence_ratio",
    unit="ratio",
    labels=_WORKLOAD,
    help="How far the evidence supports the state, 0 to 1.",
    how_to_read="By the kind of evidence, its coverage and, for idleness, its length; 0 for unknown.",
)
IDLE_SECONDS = _workload(
    name="gpusight_workload_idle_seconds",
    unit="seconds",
    labels=_WORKLOAD,
    help="How long the workload has not computed anything, on all its GPUs.",
    how_to_read="Absent while it is active or unknown: any activity and any doubt start it anew.",
)
ACTIVE_RATIO = _workload(
    name="gpusight_workload_active_ratio",
    unit="ratio",
    labels=_WORKLOAD,
    help="Share of the window's samples in which the workload computed.",
    how_to_read="Of its most active GPU. Absent where nothing can be concluded.",
)
COVERAGE = _workload(
    name="gpusight_workload_coverage_ratio",
    unit="ratio",
    labels=_WORKLOAD,
    help="Share of the expected samples that were there, on the GPU with the fewest.",
    how_to_read="Below the setting coverage, 0.8 by default, nothing is concluded.",
)
GPUS = _workload(
    name="gpusight_workload_gpus",
    unit="count",
    labels=_WORKLOAD,
    help="GPUs that the workload holds, parts of shared ones by their fraction.",
    how_to_read="Sums up to the GPUs in use.",
)
MEMORY_HELD = _workload(
    name="gpusight_workload_memory_held_bytes",
    unit="bytes",
    labels=_WORKLOAD,
    help="GPU memory that the workload holds.",
    how_to_read="A cost, not an alibi: memory held does not make a workload busy. Absent where nobody measures it.",
)
WORKLOADS = _gauge(
    name="gpusight_workloads",
    unit="count",
    labels=(label.VERDICT,),
    help="Workloads in each state.",
    how_to_read="All states are there, also at 0. A rise of unknown points to the metrics, not to the workloads.",
)
GPU_SECONDS = _counter(
    name="gpusight_tenant_gpu_seconds_total",
    unit="seconds",
    labels=(label.CLUSTER, label.NAMESPACE, label.USE),
    waivers=(_CLUSTER,),
    help="GPU time that the namespace held, by what came of it; parts of shared GPUs count by their fraction.",
    how_to_read="increase(...[30d]) / 3600 are GPU-hours. The journal keeps the same by the hour for 13 months.",
)
QUERIES = _gauge(
    name="gpusight_analysis_queries",
    unit="count",
    help="Queries of the last round.",
    how_to_read="Depends on the metric families that are there, not on the number of GPUs.",
)
PROBLEMS = _gauge(
    name="gpusight_analysis_problems",
    unit="count",
    help="What the last round could not read; /api/v1/round says it in sentences.",
    how_to_read="Above 0 some verdicts are unknown for want of data.",
)
LAST_SUCCESS = _gauge(
    name="gpusight_analysis_last_success_timestamp_seconds",
    unit="timestamp",
    help="When the last round that could read its store ended, in seconds since the Unix epoch.",
    how_to_read="time() less this value must stay below a few intervals.",
)
LEADER = _gauge(
    name="gpusight_analysis_leader",
    unit="boolean",
    help="Whether this replica is the one that journals and acts: 1 yes, 0 no.",
    how_to_read="The sum over all replicas must be 1.",
)

FAMILIES: tuple[FamilySpec, ...] = (
    STATE,
    CONFIDENCE,
    IDLE_SECONDS,
    ACTIVE_RATIO,
    COVERAGE,
    GPUS,
    MEMORY_HELD,
    WORKLOADS,
    GPU_SECONDS,
    QUERIES,
    PROBLEMS,
    LAST_SUCCESS,
    LEADER,
)
