"""Time-sharing of one GPU among processes: the families of nvshare's metrics fork, in its second and third version."""

from functools import partial

from gpusight.catalog import labels as label
from gpusight.catalog.spec import FamilySpec, Waiver

_GPU = (label.GPU_UUID, label.GPU_INDEX)
_CLIENT = (label.NAMESPACE, label.POD, label.CLIENT_ID, label.GPU_UUID)

_gauge = partial(FamilySpec, kind="gauge", origin="nvshare", endpoint="share")
_counter = partial(FamilySpec, kind="counter", unit="count", origin="nvshare", endpoint="share")
_gpu = partial(_gauge, labels=_GPU)
_client = partial(_gauge, labels=_CLIENT)
_designed = partial(_client, stability="experimental")

_KEPT = "The fork's name, kept so that its users' dashboards and rules go on working."
_MILLISECONDS = Waiver("base-unit", _KEPT)
_PERCENT = Waiver("base-unit", "The fork's name; its quotas are set in percent as well.")
_RESERVED_SUFFIX = Waiver("reserved-suffix", _KEPT)
_NO_TOTAL = Waiver("counter-suffix", f"{_KEPT} OpenMetrics pages append `_total`.")
_TYPE_LABEL = Waiver("target-label", "The fork's label `type`, which its users' queries select on.")

_WINDOW = "The window is the period, 2 s by default, over which compute quotas are kept."

# Version 2 of the fork: the GPUs.

NVML_UP = _gauge(
    name="nvshare_nvml_up",
    unit="boolean",
    help="Whether NVML can be used: 1 yes, 0 no.",
    how_to_read="At 0 the nvshare_gpu families are absent, while clients and queues are still reported. Usually the"
    " container was not given the driver's libraries.",
)
GPU_INFO = _gauge(
    name="nvshare_gpu_info",
    unit="info",
    labels=(*_GPU, label.GPU_NAME),
    help="The GPUs that NVML shows, always 1.",
    how_to_read="Join on gpu_uuid to get the model for other series.",
)
GPU_MEMORY_TOTAL = _gpu(
    name="nvshare_gpu_memory_total_bytes",
    unit="bytes",
    help="Memory that the GPU has.",
    how_to_read="Clients together may allocate more: what is not running is paged out.",
)
GPU_MEMORY_USED = _gpu(
    name="nvshare_gpu_memory_used_bytes",
    unit="bytes",
    help="Memory in use on the GPU.",
    how_to_read="The driver's count over all processes, clients or not.",
)
GPU_MEMORY_FREE = _gpu(
    name="nvshare_gpu_memory_free_bytes",
    unit="bytes",
    help="Memory free on the GPU.",
    how_to_read="Near 0 is normal while a client runs whose data fills the GPU.",
)
GPU_UTILIZATION = _gpu(
    name="nvshare_gpu_utilization_ratio",
    unit="ratio",
    help="Share of time in which the GPU ran at least one kernel, 0 to 1.",
    how_to_read="Low while clients wait means that the holder of the GPU does not use its turn.",
)
GPU_MEMORY_UTILIZATION = _gpu(
    name="nvshare_gpu_memory_utilization_ratio",
    unit="ratio",
    help="Share of time in which the GPU read or wrote its memory, 0 to 1.",
    how_to_read="Traffic, not memory held.",
)
GPU_PROCESSES = _gpu(
    name="nvshare_gpu_process_count",
    unit="count",
    help="Processes that compute on the GPU.",
    how_to_read="More than the clients of the GPU: someone uses it without the scheduler.",
    waivers=(_RESERVED_SUFFIX,),
)

# Version 2: the clients.

CLIENT_INFO = _gauge(
    name="nvshare_client_info",
    unit="info",
    labels=(*_CLIENT, label.GPU_INDEX, label.HOST_PID),
    help="The clients that are registered, always 1.",
    how_to_read="Count it for the number of clients. No series means that no client is connected.",
)
CLIENT_MANAGED = _client(
    name="nvshare_client_managed_allocated_bytes",
    unit="bytes",
    help="Managed memory that the client has allocated.",
    how_to_read="As the client last reported it; it may be more than the GPU has.",
)
CLIENT_MANAGED_PEAK = _client(
    name="nvshare_client_managed_allocated_peak_bytes",
    unit="bytes",
    help="The most managed memory that the client ever had allocated.",
    how_to_read="A good first value for a memory quota.",
)
CLIENT_NVML_USED = _gauge(
    name="nvshare_client_nvml_used_bytes",
    unit="bytes",
    labels=(*_CLIENT, label.HOST_PID),
    help="Memory of the GPU that the driver counts for the client's process.",
    how_to_read="Needs NVML and the process id on the host. Less than allocated means that the rest is paged out.",
)
CLIENT_MEMORY_QUOTA = _client(
    name="nvshare_client_memory_quota_bytes",
    unit="bytes",
    help="The client's memory quota; 0 means none.",
    how_to_read="Guard divisions by it with `> 0`.",
)
CLIENT_MEMORY_QUOTA_EXCEEDED = _client(
    name="nvshare_client_memory_quota_exceeded",
    unit="boolean",
    help="Whether the client has more allocated than its memory quota: 1 yes, 0 no.",
    how_to_read="1 after a quota was lowered below what is already allocated.",
)
CLIENT_CORE_QUOTA = _client(
    name="nvshare_client_core_quota_config_percent",
    unit="percent",
    help="The client's compute quota as configured, 1 to 100.",
    how_to_read="100 is the default and means no limit.",
    waivers=(_PERCENT,),
)
CLIENT_CORE_QUOTA_EFFECTIVE = _client(
    name="nvshare_client_core_quota_effective_percent",
    unit="percent",
    help="The client's compute quota after scaling.",
    how_to_read="Less than configured where the quotas of a GPU's clients add up to more than 100.",
    waivers=(_PERCENT,),
)
CLIENT_WINDOW_USAGE = _client(
    name="nvshare_client_core_window_usage_ms",
    unit="milliseconds",
    help="Run time that the current window has charged to the client, in milliseconds.",
    how_to_read=f"{_WINDOW} A run in progress may not be charged yet.",
    waivers=(_MILLISECONDS,),
)
CLIENT_WINDOW_LIMIT = _client(
    name="nvshare_client_core_window_limit_ms",
    unit="milliseconds",
    help="Run time that the client may have per window, in milliseconds.",
    how_to_read=f"{_WINDOW} The whole window for a client without a limit.",
    waivers=(_MILLISECONDS,),
)
CLIENT_CORE_USAGE = _client(
    name="nvshare_client_core_usage_ratio",
    unit="ratio",
    help="Run time charged to the client in the window over what it may have.",
    how_to_read="1 or more: throttled until the next window.",
)
CLIENT_THROTTLED = _client(
    name="nvshare_client_throttled",
    unit="boolean",
    help="Whether the client has to pause because its compute quota is used up: 1 yes, 0 no.",
    how_to_read="Its average over minutes tells whether the quota is too small.",
)
CLIENT_PENDING_DROP = _client(
    name="nvshare_client_pending_drop",
    unit="boolean",
    help="Whether the client was told to give up the GPU and has not done so yet: 1 yes, 0 no.",
    how_to_read="Staying at 1 means a client that hangs in a long kernel while others wait.",
)
CLIENT_QUOTA_DEBT = _client(
    name="nvshare_client_quota_debt_ms",
    unit="milliseconds",
    help="Run time beyond its quota that the client carries into the current window, in milliseconds.",
    how_to_read="Always above 0: the client's kernels outlast its quota.",
    waivers=(_MILLISECONDS,),
)

# Version 2: the scheduler.

RUNNING_CLIENTS = _gpu(
    name="nvshare_scheduler_running_clients",
    unit="count",
    help="Clients that hold the GPU right now.",
    how_to_read="More than 1 where memory allows clients to run together.",
)
REQUEST_QUEUE = _gpu(
    name="nvshare_scheduler_request_queue_clients",
    unit="count",
    help="Clients that asked for the GPU and wait for their turn.",
    how_to_read="Above 0 for long at low utilization: turns are too long or a holder hangs.",
)
WAIT_QUEUE = _gpu(
    name="nvshare_scheduler_wait_queue_clients",
    unit="count",
    help="Clients that wait for memory or for the next window.",
    how_to_read="Above 0 for long: clients together need more memory than the safe limit.",
)
RUNNING_MEMORY = _gpu(
    name="nvshare_scheduler_running_memory_bytes",
    unit="bytes",
    help="Managed memory of the clients that hold the GPU right now.",
    how_to_read="Compare with nvshare_scheduler_memory_safe_limit_bytes.",
)
PEAK_RUNNING_MEMORY = _gpu(
    name="nvshare_scheduler_peak_running_memory_bytes",
    unit="bytes",
    help="The most managed memory that clients holding the GPU ever had together.",
    how_to_read="Since the scheduler started.",
)
MEMORY_SAFE_LIMIT = _gpu(
    name="nvshare_scheduler_memory_safe_limit_bytes",
    unit="bytes",
    help="Memory up to which clients may run together: the GPU's less a reserve.",
    how_to_read="A setting; beyond it the scheduler lets clients run one by one.",
)
MEMORY_OVERLOADED = _gpu(
    name="nvshare_scheduler_memory_overloaded",
    unit="boolean",
    help="Whether running clients went over the safe memory limit: 1 yes, 0 no.",
    how_to_read="At 1 clients run one by one.",
)
MESSAGES = _counter(
    name="nvshare_scheduler_messages_total",
    labels=(label.MESSAGE_TYPE,),
    help="Messages of the wire protocol, by type.",
    how_to_read="Version 2 counts received messages only, version 3 sent ones too.",
    waivers=(_TYPE_LABEL,),
)
DROP_LOCK = _counter(
    name="nvshare_scheduler_drop_lock_total",
    help="How often a client was told to give up the GPU.",
    how_to_read="Rises with every change of turn; normal when several clients compete.",
)
CLIENT_DISCONNECTS = _counter(
    name="nvshare_scheduler_client_disconnect_total",
    help="Connections that ended.",
    how_to_read="Control tools that connect briefly count too.",
)
WAIT_FOR_MEM = _counter(
    name="nvshare_scheduler_wait_for_mem_total",
    help="How often a client was told to wait for memory.",
    how_to_read="A steady rise means that the GPU is over-committed.",
)
MEM_AVAILABLE = _counter(
    name="nvshare_scheduler_mem_available_total",
    help="How often a waiting client was told that it may run.",
    how_to_read="Falling behind nvshare_scheduler_wait_for_mem_total: clients are left waiting.",
)

# What version 3 of the fork added.

SAMPLER_UP = _gauge(
    name="nvshare_gpu_sampler_up",
    unit="boolean",
    help="Whether any library for GPU readings can be used: 1 yes, 0 no.",
    how_to_read="nvshare_gpu_sampler_backend_info says which one.",
)
SAMPLER_BACKEND = _gauge(
    name="nvshare_gpu_sampler_backend_info",
    unit="info",
    labels=(label.SAMPLER_BACKEND,),
    help="The library that GPU readings come from, always 1.",
    how_to_read="`nvml` for NVIDIA, `dcmi` or `acl` for Ascend.",
)
CLIENT_ALLOCATED = _client(
    name="nvshare_client_allocated_bytes",
    unit="bytes",
    help="Memory that the client has allocated, managed or not.",
    how_to_read="As the client last reported it.",
)
CLIENT_NPU_MANAGED = _client(
    name="nvshare_client_npu_managed_allocated_bytes",
    unit="bytes",
    help="Managed memory that the client has allocated on an Ascend device.",
    how_to_read="Can be paged out. Ascend devices only.",
)
CLIENT_NPU_NATIVE = _client(
    name="nvshare_client_npu_native_allocated_bytes",
    unit="bytes",
    help="Memory that the client has allocated on an Ascend device by the device's own calls.",
    how_to_read="Cannot be paged out. Ascend devices only.",
)
CLIENT_NPU_MODE = _gauge(
    name="nvshare_client_npu_alloc_mode",
    unit="boolean",
    labels=(*_CLIENT, label.NPU_MODE),
    help="How the client allocates on an Ascend device: 1 for the mode in force.",
    how_to_read="Ascend devices only.",
)
CLIENT_NPU_FALLBACKS = _counter(
    name="nvshare_client_npu_managed_alloc_fallback_total",
    labels=(*_CLIENT, label.NPU_FALLBACK_REASON),
    help="Allocations on an Ascend device that could not be managed, by reason.",
    how_to_read="Any increase: the client holds memory that cannot be paged out. Ascend devices only.",
)
CLIENT_NPU_PREFETCHES = _counter(
    name="nvshare_client_npu_prefetch_total",
    labels=(*_CLIENT, label.NPU_PREFETCH_RESULT),
    help="Attempts to bring managed memory to an Ascend device ahead of use, by result.",
    how_to_read="Ascend devices only.",
)
CLIENT_ACTIVE_METER = _client(
    name="nvshare_client_core_window_usage_active_meter",
    unit="boolean",
    help="Whether the client is charged for the time that the device worked, instead of the time that it held it.",
    how_to_read="1 once the client reported such a time.",
)
CLIENT_WALL_TIME = _client(
    name="nvshare_client_core_wall_time_window_ms",
    unit="milliseconds",
    help="Time that the client held the device in the current window, in milliseconds.",
    how_to_read=_WINDOW,
    waivers=(_MILLISECONDS,),
)
CLIENT_ACTIVE_TIME_WINDOW = _client(
    name="nvshare_client_core_active_time_window_ms",
    unit="milliseconds",
    help="Time that the device worked for the client in the current window, in milliseconds.",
    how_to_read=f"{_WINDOW} Far less than the wall time: the client holds the device without using it.",
    waivers=(_MILLISECONDS,),
)
CLIENT_ACTIVE_TIME = _counter(
    name="nvshare_client_core_active_time_total_ms",
    unit="milliseconds",
    labels=_CLIENT,
    help="Time that the device worked for the client, as the client reports it, in milliseconds.",
    how_to_read="rate() / 1000 is the share of the device that the client really uses.",
    waivers=(_NO_TOTAL, _MILLISECONDS),
)
CLIENT_ACTIVE_TIME_REPORTS = _counter(
    name="nvshare_client_core_active_time_reports_total",
    labels=_CLIENT,
    help="Reports of time that the device worked for the client, those of no time left out.",
    how_to_read="Standing still while the client runs: charged by wall time, or nothing to report.",
)
CLIENT_CAPABILITIES = _client(
    name="nvshare_client_capability_flags",
    unit="bitmap",
    help="What the client's library can do, as a bitmap.",
    how_to_read="Differs between clients where their libraries are of different versions.",
)
INIT_QUEUE = _gpu(
    name="nvshare_scheduler_init_wait_queue_clients",
    unit="count",
    help="Clients that wait for leave to initialize the device.",
    how_to_read="Devices that must be initialized by one client at a time have this gate.",
)
INIT_OWNER = _gpu(
    name="nvshare_scheduler_init_owner_active",
    unit="boolean",
    help="Whether a client is initializing the device: 1 yes, 0 no.",
    how_to_read="Staying at 1 means a client that hangs in its initialization and blocks the others.",
)
INIT_WAITS = _counter(
    name="nvshare_scheduler_init_wait_count",
    help="Waits for leave to initialize a device.",
    how_to_read="The divisor of nvshare_scheduler_init_wait_sum_ms.",
    waivers=(_NO_TOTAL, _RESERVED_SUFFIX),
)
INIT_WAIT_SUM = _counter(
    name="nvshare_scheduler_init_wait_sum_ms",
    unit="milliseconds",
    help="Time spent waiting for leave to initialize a device, in milliseconds.",
    how_to_read="rate() over rate(nvshare_scheduler_init_wait_count) is the mean wait.",
    waivers=(_NO_TOTAL, _MILLISECONDS),
)
INIT_WAIT_MAX = _gauge(
    name="nvshare_scheduler_init_wait_max_ms",
    unit="milliseconds",
    help="The longest wait for leave to initialize a device, in milliseconds.",
    how_to_read="Since the scheduler started.",
    waivers=(_MILLISECONDS,),
)
INIT_PREEMPTIONS = _counter(
    name="nvshare_scheduler_init_preempt_total",
    help="How often running clients were told to give up the device so that another could initialize it.",
    how_to_read="Happens when a client has waited for 8 s.",
)
INIT_FAILURES = _counter(
    name="nvshare_scheduler_init_fail_reason_total",
    labels=(label.ACL_ERROR,),
    help="Initializations that failed, by error code.",
    how_to_read="Look the code up in the Ascend documentation.",
)

# Designed by the fork's authors, built by nobody so far.

CLIENT_OVERHEAD = _designed(
    name="nvshare_client_memory_overhead_baseline_bytes",
    unit="bytes",
    help="Memory of the GPU that the client needs beside its data, as estimated.",
    how_to_read="A smoothed reading of the driver's count while the client has little allocated.",
)
CLIENT_NEED = _designed(
    name="nvshare_client_memory_need_estimated_bytes",
    unit="bytes",
    help="Memory of the GPU that the client needs, as estimated: its data and the overhead.",
    how_to_read="Add it up over clients to see whether they could run together.",
)
CLIENT_NEED_UPPER = _designed(
    name="nvshare_client_memory_need_upper_bytes",
    unit="bytes",
    help="The most memory of the GPU that the client can need: its data and all that the driver counts for it.",
    how_to_read="Counts data on the GPU twice, so it is a bound, not an estimate.",
)
CLIENT_QUOTA_SOURCE = _designed(
    name="nvshare_client_memory_quota_source_info",
    unit="info",
    labels=(*_CLIENT, label.QUOTA_SOURCE),
    help="Where the client's memory quota was set, always 1.",
    how_to_read="Join on client_id when a quota surprises.",
)

FORK_V2: tuple[FamilySpec, ...] = (
    NVML_UP,
    GPU_INFO,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_MEMORY_FREE,
    GPU_UTILIZATION,
    GPU_MEMORY_UTILIZATION,
    GPU_PROCESSES,
    CLIENT_INFO,
    CLIENT_MANAGED,
    CLIENT_MANAGED_PEAK,
    CLIENT_NVML_USED,
    CLIENT_MEMORY_QUOTA,
    CLIENT_MEMORY_QUOTA_EXCEEDED,
    CLIENT_CORE_QUOTA,
    CLIENT_CORE_QUOTA_EFFECTIVE,
    CLIENT_WINDOW_USAGE,
    CLIENT_WINDOW_LIMIT,
    CLIENT_CORE_USAGE,
    CLIENT_THROTTLED,
    CLIENT_PENDING_DROP,
    CLIENT_QUOTA_DEBT,
    RUNNING_CLIENTS,
    REQUEST_QUEUE,
    WAIT_QUEUE,
    RUNNING_MEMORY,
    PEAK_RUNNING_MEMORY,
    MEMORY_SAFE_LIMIT,
    MEMORY_OVERLOADED,
    MESSAGES,
    DROP_LOCK,
    CLIENT_DISCONNECTS,
    WAIT_FOR_MEM,
    MEM_AVAILABLE,
)
FORK_V3_ADDED: tuple[FamilySpec, ...] = (
    SAMPLER_UP,
    SAMPLER_BACKEND,
    CLIENT_ALLOCATED,
    CLIENT_NPU_MANAGED,
    CLIENT_NPU_NATIVE,
    CLIENT_NPU_MODE,
    CLIENT_NPU_FALLBACKS,
    CLIENT_NPU_PREFETCHES,
    CLIENT_ACTIVE_METER,
    CLIENT_WALL_TIME,
    CLIENT_ACTIVE_TIME_WINDOW,
    CLIENT_ACTIVE_TIME,
    CLIENT_ACTIVE_TIME_REPORTS,
    CLIENT_CAPABILITIES,
    INIT_QUEUE,
    INIT_OWNER,
    INIT_WAITS,
    INIT_WAIT_SUM,
    INIT_WAIT_MAX,
    INIT_PREEMPTIONS,
    INIT_FAILURES,
)
DESIGNED: tuple[FamilySpec, ...] = (CLIENT_OVERHEAD, CLIENT_NEED, CLIENT_NEED_UPPER, CLIENT_QUOTA_SOURCE)
FAMILIES: tuple[FamilySpec, ...] = (*FORK_V2, *FORK_V3_ADDED, *DESIGNED)
DIALECTS: dict[str, tuple[FamilySpec, ...]] = {
    "fork-v2": FORK_V2,
    "fork-v3": (*FORK_V2, *FORK_V3_ADDED),
    "designed": DESIGNED,
}
