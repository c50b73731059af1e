"""How well GPUs are used, as the analyzer sees it: the families of seed 003."""

from functools import partial

from gpusight.catalog import labels as label
from gpusight.catalog.spec import FamilySpec, Waiver

_gauge = partial(FamilySpec, kind="gauge", origin="gpu-oour", endpoint="analyze")
_counter = partial(FamilySpec, kind="counter", unit="count", origin="gpu-oour", endpoint="analyze")

_GPU = (label.GPU_ID, label.POD, label.NAMESPACE, label.HOSTNAME)

_KEPT = "gpu-oour's name, kept so that its users' dashboards and rules go on working."
_UNIT_UNSAID = Waiver("unit-suffix", _KEPT)
_NOT_BASE_UNIT = Waiver("base-unit", _KEPT)
_RESERVED_SUFFIX = Waiver("reserved-suffix", _KEPT)

_WINDOW_MEAN = "Mean over the analysis window. Absent where the window has no data: absent is unknown, not 0."

# One GPU.

SCORE = _gauge(
    name="gpu_utilization_score",
    unit="score",
    labels=(*_GPU, label.MODEL),
    help="How well the GPU is used, 0 to 100: half compute, the rest memory traffic, memory held and power.",
    how_to_read="Memory held counts for it, so an idle GPU with a loaded model scores above 20: read it beside"
    " gpu_core_utilization. Unlike in gpu-oour the status is no label here, because a GPU that changed status would"
    " have two series; take it from gpu_status_count. Use avg by (namespace), not sum.",
)
CORE_UTILIZATION = _gauge(
    name="gpu_core_utilization",
    unit="percent",
    labels=_GPU,
    help="Share of time in which the GPU ran at least one kernel, 0 to 100.",
    how_to_read=_WINDOW_MEAN,
    waivers=(_UNIT_UNSAID, _NOT_BASE_UNIT),
)
MEMORY_USED = _gauge(
    name="gpu_memory_used_mb",
    unit="mebibytes",
    labels=_GPU,
    help="Memory in use on the GPU, in MiB.",
    how_to_read=_WINDOW_MEAN,
    waivers=(_NOT_BASE_UNIT,),
)
POWER_USAGE = _gauge(
    name="gpu_power_usage_watts",
    unit="watts",
    labels=_GPU,
    help="Power that the GPU draws.",
    how_to_read=f"{_WINDOW_MEAN} A GPU near its idle power does little, whatever its utilization says.",
)
MEMORY_COPY_UTILIZATION = _gauge(
    name="gpu_memory_copy_utilization",
    unit="percent",
    labels=_GPU,
    help="Share of time in which the GPU read or wrote its memory, 0 to 100.",
    how_to_read=_WINDOW_MEAN,
    waivers=(_UNIT_UNSAID, _NOT_BASE_UNIT),
)
SM_CLOCK = _gauge(
    name="gpu_sm_clock_mhz",
    unit="megahertz",
    labels=_GPU,
    help="Clock of the GPU's multiprocessors, in MHz.",
    how_to_read=f"{_WINDOW_MEAN} It drops when the GPU idles, and under load when it is too hot or short of power.",
    waivers=(_NOT_BASE_UNIT,),
)

# The language model's opinion: only if one is configured, and only for GPUs that it was asked about.

AI_CONFIDENCE = _gauge(
    name="gpu_ai_analysis_confidence",
    unit="ratio",
    labels=(label.GPU_ID, label.POD, label.NAMESPACE, label.AI_STATUS),
    help="How sure the language model is of its opinion on the GPU, 0 to 1.",
    how_to_read="The model's own claim, not a measured accuracy. Absent without a language model.",
    waivers=(_UNIT_UNSAID,),
)
AI_SCORE = _gauge(
    name="gpu_ai_adjusted_score",
    unit="score",
    labels=(label.GPU_ID, label.POD, label.NAMESPACE),
    help="The score of the GPU after the language model's correction, 0 to 100.",
    how_to_read="Compare with gpu_utilization_score; no action rests on it alone. Absent without a language model.",
)

# All GPUs.

TOTAL_COUNT = _gauge(
    name="gpu_total_count",
    unit="count",
    help="GPUs that the last analysis looked at.",
    how_to_read="A drop means lost GPUs or lost data: look at gpu_analysis_errors_total first.",
    waivers=(_RESERVED_SUFFIX,),
)
LOW_COUNT = _gauge(
    name="gpu_low_utilization_count",
    unit="count",
    help="GPUs whose score is below the threshold, idle ones included.",
    how_to_read="The threshold is a setting, 20 by default.",
    waivers=(_RESERVED_SUFFIX,),
)
IDLE_COUNT = _gauge(
    name="gpu_idle_count",
    unit="count",
    help="GPUs whose score is below 10.",
    how_to_read="Part of gpu_low_utilization_count.",
    waivers=(_RESERVED_SUFFIX,),
)
AVERAGE_SCORE = _gauge(
    name="gpu_average_score",
    unit="score",
    help="Mean score of all GPUs, 0 to 100.",
    how_to_read="GPUs of unknown score are not in it. Absent without any GPU.",
)
STATUS_COUNT = _gauge(
    name="gpu_status_count",
    unit="count",
    labels=(label.STATUS,),
    help="GPUs of each status.",
    how_to_read="Their sum is gpu_total_count. A rise of unknown points to the metrics, not to the GPUs.",
    waivers=(_RESERVED_SUFFIX,),
)
NAMESPACE_COUNT = _gauge(
    name="gpu_namespace_count",
    unit="count",
    labels=(label.NAMESPACE,),
    help="GPUs that the namespace's pods hold.",
    how_to_read="A GPU that pods of two namespaces share counts in both.",
    waivers=(_RESERVED_SUFFIX,),
)
NAMESPACE_AVERAGE_SCORE = _gauge(
    name="gpu_namespace_average_score",
    unit="score",
    labels=(label.NAMESPACE,),
    help="Mean score of the namespace's GPUs, 0 to 100.",
    how_to_read="Read it with gpu_namespace_count: a low mean over one GPU matters less than over eight.",
)

# The analyzer's own work.

ANALYSES = _counter(
    name="gpu_analysis_total",
    help="Rounds of analysis, failed ones included.",
    how_to_read="If it stands still for longer than the interval, every other family of this page is stale.",
)
ERRORS = _counter(
    name="gpu_analysis_errors_total",
    help="Rounds of analysis that failed.",
    how_to_read="Usually the metrics database did not answer. No verdict is passed on a failed round.",
)
DURATION = FamilySpec(
    name="gpu_analysis_duration_seconds",
    kind="histogram",
    unit="seconds",
    help="How long a round of analysis took.",
    origin="gpu-oour",
    endpoint="analyze",
    how_to_read="Must stay well below the interval between rounds, 300 s by default.",
    buckets=(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
)

FAMILIES: tuple[FamilySpec, ...] = (
    SCORE,
    CORE_UTILIZATION,
    MEMORY_USED,
    POWER_USAGE,
    MEMORY_COPY_UTILIZATION,
    SM_CLOCK,
    AI_CONFIDENCE,
    AI_SCORE,
    TOTAL_COUNT,
    LOW_COUNT,
    IDLE_COUNT,
    AVERAGE_SCORE,
    STATUS_COUNT,
    NAMESPACE_COUNT,
    NAMESPACE_AVERAGE_SCORE,
    ANALYSES,
    ERRORS,
    DURATION,
)
