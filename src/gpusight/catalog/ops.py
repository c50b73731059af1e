"""GPU operations inside a program, as the program itself reports them (`gpusight.instrument`)."""

from functools import partial
from typing import NamedTuple

from gpusight.catalog import labels as label
from gpusight.catalog.spec import FamilySpec, Waiver

_seed = partial(FamilySpec, origin="supervm", endpoint="ops")
_own = partial(FamilySpec, origin="gpusight", endpoint="ops")

_NO_TOTAL = Waiver("counter-suffix", "The SuperVM guide fixes the name; OpenMetrics pages append `_total`.")
_RATE_IS_RATIO = Waiver("unit-suffix", "The SuperVM guide fixes the name and calls a lifetime ratio a rate.")
_MILLISECONDS = Waiver("base-unit", "The SuperVM guide fixes the name; gpusight_ops_duration_seconds has seconds.")

_UNTIL_SET = "Absent until the program reports it."

# The guide's global families.

AVAILABLE = _seed(
    name="gpu_available",
    kind="gauge",
    unit="boolean",
    labels=(label.DEVICE, label.DEVICE_NAME),
    help="Whether the program can use the device: 1 yes, 0 no.",
    how_to_read="At 0 all work goes to the CPU. Absent until the program reports a device.",
)
TOTAL_EXECUTIONS = _seed(
    name="gpu_total_executions",
    kind="counter",
    unit="count",
    help="GPU executions of all modules, failed ones included.",
    how_to_read="Use rate(): GPU operations per second. Work that fell back to the CPU is not in it.",
    waivers=(_NO_TOTAL,),
)
TOTAL_FAILURES = _seed(
    name="gpu_total_failures",
    kind="counter",
    unit="count",
    help="GPU executions of all modules that failed.",
    how_to_read="gpusight_ops_failures_total has the same events by module and reason.",
    waivers=(_NO_TOTAL,),
)
FAILURE_RATE = _seed(
    name="gpu_failure_rate",
    kind="gauge",
    unit="ratio",
    help="Share of GPU executions that failed, 0 to 1, over the life of the process.",
    how_to_read="failures / executions since the program started, 0 before the first one. It reacts ever more slowly:"
    " for alerts prefer rate(gpu_total_failures[5m]) / rate(gpu_total_executions[5m]).",
    waivers=(_RATE_IS_RATIO,),
)
CPU_FALLBACK_RATE = _seed(
    name="gpu_cpu_fallback_rate",
    kind="gauge",
    unit="ratio",
    help="Share of work that the CPU did instead of the GPU, 0 to 1, over the life of the process.",
    how_to_read="fallbacks / (executions + fallbacks) since the program started, 0 before the first one;"
    " 1 means that no work reached a GPU.",
    waivers=(_RATE_IS_RATIO,),
)
QUEUE_DEPTH = _seed(
    name="gpu_queue_depth",
    kind="gauge",
    unit="count",
    labels=(label.DEVICE,),
    help="Operations waiting for the device right now.",
    how_to_read=f"Steady growth means that work arrives faster than the device finishes it. {_UNTIL_SET}",
)
MEMORY_USED = _seed(
    name="gpu_memory_used_bytes",
    kind="gauge",
    unit="bytes",
    labels=(label.DEVICE,),
    help="Device memory that the program has allocated.",
    how_to_read=f"The program's own count, not the driver's. Compare with gpu_memory_total_bytes. {_UNTIL_SET}",
)
TOTAL_EXEC_TIME = _seed(
    name="gpu_total_exec_time_seconds",
    kind="counter",
    unit="seconds",
    help="Time spent in GPU executions of all modules, failed ones included.",
    how_to_read="Use rate(): seconds of GPU work per second; above 1 where operations overlap.",
    waivers=(_NO_TOTAL,),
)

# The guide's families per module: the module is in the name, not in a label.


class ModuleFamilies(NamedTuple):
    """The eight families of one module."""

    executions: FamilySpec
    failures: FamilySpec
    cpu_fallback: FamilySpec
    last_size: FamilySpec
    last_latency: FamilySpec
    latency_avg: FamilySpec
    latency_min: FamilySpec
    latency_max: FamilySpec


def _module(module: str, work: str, size_name: str, size: str) -> ModuleFamilies:
    def counter(name: str, text: str, how_to_read: str) -> FamilySpec:
        return _seed(name=f"gpu_{module}_{name}", kind="counter", unit="count", help=text, how_to_read=how_to_read)

    def latency(name: str, text: str, how_to_read: str) -> FamilySpec:
        return _seed(
            name=f"gpu_{module}_{name}",
            kind="gauge",
            unit="milliseconds",
            help=text,
            how_to_read=f"{how_to_read} Failed executions count. Absent until the first execution.",
            waivers=(_MILLISECONDS,),
        )

    return ModuleFamilies(
        executions=counter(
            "executions_total",
            f"GPU executions of {work}s, failed ones included.",
            "Its rate() is the module's throughput on the GPU.",
        ),
        failures=counter(
            "failures_total",
            f"GPU executions of {work}s that failed.",
            "Its rate() over that of the executions is the module's share of failures.",
        ),
        cpu_fallback=counter(
            "cpu_fallback_total",
            f"Number of {work}s that the CPU did instead of the GPU.",
            "Rising while the executions stand still: the module does not reach the GPU at all.",
        ),
        last_size=_seed(
            name=f"gpu_{module}_{size_name}",
            kind="gauge",
            unit="count",
            help=f"{size} of the most recent {work}.",
            how_to_read="One execution, not a mean. Absent until the first execution.",
        ),
        last_latency=latency(
            "last_latency_ms",
            f"How long the most recent {work} took on the GPU, in milliseconds.",
            "One execution, not a mean.",
        ),
        latency_avg=latency(
            "latency_avg_ms",
            f"Mean time of a {work} on the GPU, in milliseconds.",
            "Over the life of the process: an old slow phase stays in it.",
        ),
        latency_min=latency(
            "latency_min_ms", f"Shortest time of a {work} on the GPU, in milliseconds.", "Over the life of the process."
        ),
        latency_max=latency(
            "latency_max_ms",
            f"Longest time of a {work} on the GPU, in milliseconds.",
            "Over the life of the process: one outlier stays for ever.",
        ),
    )


MODULES: dict[str, ModuleFamilies] = {
    "crypto": _module("crypto", "crypto operation", "last_batch_size", "Batch size"),
    "merkle": _module("merkle", "Merkle tree build", "last_tree_size", "Number of leaves"),
    "zk": _module("zk", "zero-knowledge proof", "last_constraints", "Number of constraints"),
}

# Our own generic families: any module, with device, backend and reason as labels.

_BY_PLACE = (label.MODULE, label.DEVICE, label.BACKEND)
_IN_WINDOW = "Within the last gpusight_ops_window_seconds; absent for a module without executions in the window."

MEMORY_TOTAL = _own(
    name="gpu_memory_total_bytes",
    kind="gauge",
    unit="bytes",
    labels=(label.DEVICE,),
    help="Device memory there is.",
    how_to_read=f"What gpu_memory_used_bytes is to be compared with. {_UNTIL_SET}",
)
OPS_EXECUTIONS = _own(
    name="gpusight_ops_executions_total",
    kind="counter",
    unit="count",
    labels=_BY_PLACE,
    help="Executions, failed ones included, by module, device and backend.",
    how_to_read="Use rate() by (backend) to compare backends and by (device) to see how work is spread.",
)
OPS_FAILURES = _own(
    name="gpusight_ops_failures_total",
    kind="counter",
    unit="count",
    labels=(label.MODULE, label.FAILURE_REASON),
    help="Executions that failed, by module and reason.",
    how_to_read="The reason tells what to do: out of memory, device lost, timeout and so on.",
)
OPS_FALLBACKS = _own(
    name="gpusight_ops_cpu_fallbacks_total",
    kind="counter",
    unit="count",
    labels=(label.MODULE, label.FALLBACK_REASON),
    help="Operations that the CPU did instead of the GPU, by module and reason.",
    how_to_read="A failure that was then repeated on the CPU counts here and in gpusight_ops_failures_total.",
)
OPS_DURATION = _own(
    name="gpusight_ops_duration_seconds",
    kind="histogram",
    unit="seconds",
    labels=_BY_PLACE,
    help="How long executions took, failed ones included.",
    how_to_read="histogram_quantile() over rate() of the buckets; replaces the lifetime gpu_*_latency_*_ms gauges.",
    buckets=(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
OPS_LAST_SIZE = _own(
    name="gpusight_ops_last_size",
    kind="gauge",
    unit="count",
    labels=(label.MODULE,),
    help="Size of the most recent operation, in the module's own units.",
    how_to_read="One execution, not a mean. Absent until the first execution.",
)
OPS_CONSISTENCY = _own(
    name="gpusight_ops_consistency_checks_total",
    kind="counter",
    unit="count",
    labels=(label.MODULE, label.CONSISTENCY_RESULT),
    help="Comparisons of a GPU result with the CPU's, by module and result.",
    how_to_read="Any increase of result=mismatched means wrong answers: stop using that device.",
)
DEVICE_INFO = _own(
    name="gpusight_ops_device_info",
    kind="gauge",
    unit="info",
    labels=(label.DEVICE, label.DEVICE_NAME, label.BACKEND),
    help="The devices that the program knows, always 1.",
    how_to_read="Join on device to get the name and backend of other series.",
)
DEVICE_EXECUTIONS = _own(
    name="gpusight_ops_device_executions_total",
    kind="counter",
    unit="count",
    labels=(label.DEVICE,),
    help="Executions per device over all modules, failed ones included.",
    how_to_read="Use rate() to see how operations are spread over devices.",
)
DEVICE_BUSY_SECONDS = _own(
    name="gpusight_ops_device_busy_seconds_total",
    kind="counter",
    unit="seconds",
    labels=(label.DEVICE,),
    help="Time that the device spent in executions, summed over all of them.",
    how_to_read="Use rate(): above 1 where operations on one device overlap.",
)
DEVICE_BUSY_RATIO = _own(
    name="gpusight_ops_device_busy_ratio",
    kind="gauge",
    unit="ratio",
    labels=(label.DEVICE,),
    help="Busy seconds of the device within the aggregation window, divided by the window.",
    how_to_read="1 is one operation at all times; more than 1 means that operations overlap.",
)
LOAD_IMBALANCE = _own(
    name="gpusight_ops_load_imbalance_ratio",
    kind="gauge",
    unit="ratio",
    help="Busy seconds of the busiest device over the mean of all known devices, within the aggregation window.",
    how_to_read="1 is balanced; with n devices, n means that one does everything."
    " Absent with fewer than two devices or without work.",
)
WINDOW_SECONDS = _own(
    name="gpusight_ops_window_seconds",
    kind="gauge",
    unit="seconds",
    help="Length of the aggregation window that the gpusight_ops_window families look back over.",
    how_to_read="A setting, not a measurement.",
)
WINDOW_EXECUTIONS = _own(
    name="gpusight_ops_window_executions",
    kind="gauge",
    unit="count",
    labels=(label.MODULE,),
    help="Executions within the aggregation window, failed ones included.",
    how_to_read=f"{_IN_WINDOW} In PromQL prefer increase(gpusight_ops_executions_total[1m]).",
)
WINDOW_FAILURES = _own(
    name="gpusight_ops_window_failures",
    kind="gauge",
    unit="count",
    labels=(label.MODULE,),
    help="Executions that failed within the aggregation window.",
    how_to_read=f"{_IN_WINDOW} In PromQL prefer increase(gpusight_ops_failures_total[1m]).",
)


def _window_latency(which: str, text: str) -> FamilySpec:
    return _own(
        name=f"gpusight_ops_window_latency_{which}_seconds",
        kind="gauge",
        unit="seconds",
        labels=(label.MODULE,),
        help=f"{text} of an execution within the aggregation window.",
        how_to_read=_IN_WINDOW,
    )


WINDOW_LATENCY_AVG = _window_latency("avg", "Mean duration")
WINDOW_LATENCY_MIN = _window_latency("min", "Shortest duration")
WINDOW_LATENCY_MAX = _window_latency("max", "Longest duration")

INSTRUMENT_ERRORS = _own(
    name="gpusight_instrument_errors_total",
    kind="counter",
    unit="count",
    labels=(label.INSTRUMENT_ERROR_REASON,),
    help="Records that the instrumentation library refused or failed to keep.",
    how_to_read="An increase means that records are missing from the other families, or that a page was not served.",
)
INSTRUMENT_WORKERS = _own(
    name="gpusight_instrument_workers",
    kind="gauge",
    unit="count",
    labels=(label.WORKER_STATE,),
    help="Worker processes whose records are merged into this page.",
    how_to_read="Only in multi-process mode. Counters of dead workers stay in the sums; their gauges do not.",
)

SEED_FAMILIES: tuple[FamilySpec, ...] = (
    AVAILABLE,
    TOTAL_EXECUTIONS,
    TOTAL_FAILURES,
    FAILURE_RATE,
    CPU_FALLBACK_RATE,
    QUEUE_DEPTH,
    MEMORY_USED,
    TOTAL_EXEC_TIME,
    *(family for module in MODULES.values() for family in module),
)
FAMILIES: tuple[FamilySpec, ...] = (
    *SEED_FAMILIES,
    MEMORY_TOTAL,
    OPS_EXECUTIONS,
    OPS_FAILURES,
    OPS_FALLBACKS,
    OPS_DURATION,
    OPS_LAST_SIZE,
    OPS_CONSISTENCY,
    DEVICE_INFO,
    DEVICE_EXECUTIONS,
    DEVICE_BUSY_SECONDS,
    DEVICE_BUSY_RATIO,
    LOAD_IMBALANCE,
    WINDOW_SECONDS,
    WINDOW_EXECUTIONS,
    WINDOW_FAILURES,
    WINDOW_LATENCY_AVG,
    WINDOW_LATENCY_MIN,
    WINDOW_LATENCY_MAX,
    INSTRUMENT_ERRORS,
    INSTRUMENT_WORKERS,
)
