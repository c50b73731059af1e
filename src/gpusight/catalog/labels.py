"""The labels that families share: each meaning written once. Two labels of one name but different meaning are two."""

from gpusight.catalog.spec import Label

# What an instrumented program says of its own work.

DEVICE = Label("device", "The device's id, for example `GPU-0`; left out if the program does not say.")
DEVICE_NAME = Label("gpu_device_name", "The device's product name as the program reports it.")
MODULE = Label("module", "The kind of work: `crypto`, `merkle`, `zk` or a name that the program chose.")
BACKEND = Label("backend", "What executes the work, for example `cuda`, `vulkan` or `metal`; left out if not said.")
FAILURE_REASON = Label("reason", "Why it failed, in the program's words; `unspecified` if it did not say.")
FALLBACK_REASON = Label(
    "reason", "Why the CPU did it instead, in the program's words; `unspecified` if it did not say."
)
CONSISTENCY_RESULT = Label("result", "Whether the GPU's and the CPU's answer agreed: `matched` or `mismatched`.")
INSTRUMENT_ERROR_REASON = Label(
    "reason",
    "What was wrong: `bad_latency`, `bad_size`, `bad_value`, `too_many_series`, `no_space`, `serve` or `internal`.",
)
WORKER_STATE = Label("state", "`live`, `dead`, or `unreadable`: a file that could not be read.")

# Where a workload runs.

NAMESPACE = Label("namespace", "Namespace of the pod.")
POD = Label("pod", "Name of the pod.")
CONTAINER = Label("container", "Name of the container.")
NODE = Label("node", "Name of the Kubernetes node.")
HOSTNAME = Label("hostname", "Name of the machine that has the GPU.")

# HAMi since v2.9.

ZONE_VALUE = "vGPU"
ZONE = Label("zone", f"Always `{ZONE_VALUE}`: HAMi puts this constant on every series.")
DEVICE_UUID = Label("device_uuid", "UUID of the physical GPU: the only label to join node and cluster series on.")
DEVICE_INDEX = Label("device_index", "Number of the GPU on its node.")
DEVICE_TYPE = Label(
    "device_type", "Model of the GPU; node and cluster series may spell it differently, so never join on it."
)
DEVICE_CORES = Label("device_cores", "Compute of the GPU in percent: allocated up to v2.9, there in all since v2.10.")
DEVICE_MEMORY_LIMIT = Label("device_memory_limit", "Memory of the GPU in MiB.")
SHARED_CONTAINERS = Label("shared_containers", "How many containers share the GPU.")
VDEVICE_INDEX = Label("vdevice_index", "Number of the GPU as the container sees it.")
CONTAINER_INDEX = Label(
    "container_index",
    "Which container of the pod: up to v2.8 its rank among those with a GPU, in v2.9 its position counting init"
    " containers first, in v2.10 always 0.",
)
QUOTA_NAMESPACE = Label("namespace", "Namespace that the quota is for.")
QUOTA_NAME = Label("quota_name", "Resource that the quota limits, for example `nvidia.com/gpumem`.")
QUOTA_LIMIT = Label("limit", "The quota's limit, in the units of the value; 0 if there is none.")
MIG_NAME = Label("mig_name", "MIG profile and slot, joined by a dash.")
INSTANCE_ID = Label("instance_id", "GPU instance id of the MIG device.")
MIG_UUID = Label("mig_uuid", "UUID of the MIG device.")
PROFILE = Label("profile", "MIG profile, for example `1g.5gb`.")
GPU_INSTANCE_ID = Label("gpu_instance_id", "GPU instance id of the MIG device.")
COMPUTE_INSTANCE_ID = Label("compute_instance_id", "Compute instance id of the MIG device.")
PLACEMENT_START = Label("placement_start", "First memory slice of the MIG device.")
PLACEMENT_SIZE = Label("placement_size", "Number of memory slices of the MIG device.")
CONTEXT_SIZE = Label("context_size", "Bytes held by CUDA contexts.")
MODULE_SIZE = Label("module_size", "Bytes held by loaded modules.")
BUFFER_SIZE = Label("buffer_size", "Bytes held by the program's buffers.")
OFFSET = Label("offset", "Bytes in none of the three other parts.")

VERSION = Label("version", "Version of the program.")
REVISION = Label("revision", "Source revision of the build.")
BUILD_DATE = Label("build_date", "When it was built.")
GO_VERSION = Label("go_version", "Version of the Go toolchain; empty for a program that is not written in Go.")
COMPILER = Label("compiler", "Compiler or interpreter.")
PLATFORM = Label("platform", "Operating system and processor, for example `linux/amd64`.")

# The same in HAMi's spelling before v2.9.

NODEID = Label("nodeid", NODE.meaning)
NODENAME = Label("nodename", NODE.meaning)
DEVICEUUID = Label("deviceuuid", DEVICE_UUID.meaning)
DEVICEIDX = Label("deviceidx", DEVICE_INDEX.meaning)
DEVICETYPE = Label("devicetype", DEVICE_TYPE.meaning)
DEVICECORES = Label("devicecores", DEVICE_CORES.meaning)
DEVICEMEMORYLIMIT = Label("devicememorylimit", DEVICE_MEMORY_LIMIT.meaning)
SHAREDCONTAINERS = Label("sharedcontainers", SHARED_CONTAINERS.meaning)
MIGNAME = Label("migname", MIG_NAME.meaning)
PODNAMESPACE = Label("podnamespace", NAMESPACE.meaning)
PODNAME = Label("podname", POD.meaning)
CTRNAME = Label("ctrname", CONTAINER.meaning)
CONTAINERIDX = Label("containeridx", CONTAINER_INDEX.meaning)
VDEVICEID = Label("vdeviceid", VDEVICE_INDEX.meaning)
INSTANCEID = Label("instanceid", INSTANCE_ID.meaning)
QUOTANAMESPACE = Label("quotanamespace", QUOTA_NAMESPACE.meaning)
QUOTANAME = Label("quotaName", QUOTA_NAME.meaning)
CONTEXT = Label("context", CONTEXT_SIZE.meaning)
MODULE_BYTES = Label("module", MODULE_SIZE.meaning)
DATA = Label("data", BUFFER_SIZE.meaning)

# The analyzer.

GPU_ID = Label("gpu_id", "Full UUID of the GPU or MIG device.")
MODEL = Label("model", "Model of the GPU.")
STATUS = Label("status", "How well the GPU is used: `idle`, `low`, `normal`, `high`, or `unknown` for want of data.")
AI_STATUS = Label("ai_status", "The language model's opinion: `active`, `idle` or `suspicious`.")

# The time-sharing scheduler.

GPU_UUID = Label("gpu_uuid", "UUID of the GPU.")
GPU_INDEX = Label("gpu_index", "Number of the GPU on its node; `-1` if not known.")
GPU_NAME = Label("gpu_name", "Model of the GPU.")
CLIENT_ID = Label("client_id", "Id that the scheduler gave to the client when it registered.")
HOST_PID = Label("host_pid", "The client's process id on the host, never the one inside its container.")
SAMPLER_BACKEND = Label("backend", "Library that GPU readings come from: `nvml`, `dcmi`, `acl` or `unknown`.")
NPU_MODE = Label("mode", "How the client allocates: `managed`, `native`, `mixed` or `unknown`.")
NPU_FALLBACK_REASON = Label(
    "reason",
    "Why managed memory was not to be had: `symbol_unavailable`, `align_overflow`, `alloc_failed`, `cfg_nonnull`.",
)
NPU_PREFETCH_RESULT = Label("result", "`ok` or `fail`.")
MESSAGE_TYPE = Label("type", "Message of the wire protocol, for example `REGISTER`, `REQ_LOCK` or `LOCK_RELEASED`.")
ACL_ERROR = Label("acl_error", "Error code of the Ascend library; 2147483647 collects codes beyond a fixed number.")
QUOTA_SOURCE = Label("source", "Where the quota was set: `annotation`, `env`, `default` or `none`.")

# The hardware of a node.

UUID = Label("uuid", "UUID of the GPU: the label to join on.")
GPU = Label("gpu", "Number of the GPU on its node; may change when the machine restarts.")
NAME = Label("name", "Model of the GPU as the driver names it.")
BRAND = Label("brand", "Product line of the GPU; left out where the driver does not tell.")
PCI_BUS_ID = Label("pci_bus_id", "Place of the GPU on the PCI bus; left out where the driver does not tell.")
SERIAL = Label("serial", "Serial number of the board; left out where the driver does not tell.")
DRIVER_VERSION = Label("driver_version", "Version of the NVIDIA driver.")
CUDA_VERSION = Label("cuda_version", "Newest version of CUDA that the driver supports.")
FAN = Label("fan", "Number of the fan on its GPU.")
ECC_KIND = Label("kind", "`corrected` or `uncorrected`.")
ECC_SPAN = Label("span", "Since when: `volatile` the driver's start, `aggregate` the board's first day.")
ROW_KIND = Label("kind", "Kind of the errors that the rows had: `correctable` or `uncorrectable`.")
LINK = Label("link", "Number of the NVLink on its GPU.")
LINK_ERROR = Label("kind", "Kind of error: `replay`, `recovery` or `crc`.")
THROTTLE_REASON = Label(
    "reason",
    "What holds the clocks down: `gpu_idle`, `applications_clocks`, `sw_power_cap`, `hw_slowdown`, `sync_boost`,"
    " `sw_thermal`, `hw_thermal`, `hw_power_brake`, `display_clocks` or `other`.",
)
XID = Label("xid", "Code of the error in NVIDIA's list of XIDs.")
HOW = Label(
    "how",
    "How we know: `pod_resources`, `dra`, `hami_directory`, `kubernetes_api`, `cgroup` or `mig_annotation`.",
)
PID = Label("pid", "Process id on the host, never the one inside a container.")
SLURM_JOB = Label("slurm_job", "Id of the Slurm job; left out for other processes.")

# The same in dcgm-exporter's spelling.

DCGM_UUID = Label("UUID", UUID.meaning)
DCGM_DEVICE = Label("device", "`nvidia` and the number of the GPU, for example `nvidia0`.")
DCGM_MODEL_NAME = Label("modelName", NAME.meaning)
DCGM_HOSTNAME = Label("Hostname", "Name of the node.")
GPU_I_PROFILE = Label("GPU_I_PROFILE", "MIG profile, for example `1g.5gb`; only on rows of a MIG instance.")
GPU_I_ID = Label("GPU_I_ID", "GPU instance id; only on rows of a MIG instance.")
SOLE_CONTAINER = Label("container", "Name of the container that alone holds the GPU; left out if shared or free.")
SOLE_NAMESPACE = Label("namespace", "Namespace of the pod that alone holds the GPU; left out if shared or free.")
SOLE_POD = Label("pod", "Name of the pod that alone holds the GPU; left out if shared or free.")

# How the reading of a node goes.

DOWN_REASON = Label(
    "reason",
    "Why it cannot be read: `blocked`, `lost`, `reset_required`, `no_permission`, `bad_identity` or `error`; empty if"
    " it can.",
)
NVML_REASON = Label(
    "reason",
    "Why it gives nothing: `no_library`, `no_driver`, `version_mismatch`, `no_permission`, `blocked`, `crashed` or"
    " `error`; empty while it works.",
)
REGION_PROBLEM = Label(
    "reason",
    "What is wrong: `truncated`, `wrong_size`, `bad_magic`, `not_ready`, `unknown_version`, `not_a_file`, `link`,"
    " `unreadable`, `corrupt`, `over_limit` or `bad_directory_name`.",
)
MATCH_STATE = Label("state", "`matched` to a pod or `unmatched`.")
JOIN_FAILURE = Label(
    "reason",
    "Why nobody was found: `no_kubelet_socket`, `unknown_pod_uid`, `unknown_device_id`, `no_cgroup`, `process_gone`,"
    " `not_in_a_pod`, `unsupported_device_id`, `ambiguous` or `no_processes`.",
)

# The program itself.

PYTHON_VERSION = Label("python_version", "Version of the Python interpreter.")
ROLE = Label("role", "What this process does: `ops`, `node`, `cluster`, `share` or `analyze`.")
COLLECTOR = Label("collector", "The part that collects one topic of metrics, for example `vgpu`.")
DROP_REASON = Label("reason", "Why the series was left out: `duplicate`.")
REJECT_REASON = Label("reason", "Why the scrape was refused: `busy`, `timeout`, `auth` or `connections`.")

SOURCE = Label("source", "What is asked for owners: `kubelet`, `pod_logs`, `kubernetes_pods` or `kubernetes_slices`.")
SOURCE_REASON = Label(
    "reason",
    "Why it gave nothing, such as `no_socket`, `no_permission`, `no_directory`, `forbidden`, `unreachable` or"
    " `timeout`; empty while it answers.",
)
FIELD = Label("field", "The field of a reading, in our own words.")
CHILD_FAILURE = Label("failure", "`crashed`, `hung`, `killed` or `abandoned`: it could not be killed.")
EXPORTER = Label("exporter", "`dcgm-exporter`, `hami-vgpu-monitor`, `nvidia_gpu_exporter` or `nvitop-exporter`.")

# What the analyzer concludes.

CLUSTER = Label("cluster", "Name of the cluster; empty where the series do not say.")
OWNER_KIND = Label("owner_kind", "Kind of the workload at the top of the chain of owners; `Pod` for a pod without.")
OWNER_NAME = Label("owner_name", "Name of that workload.")
WORKLOAD_KIND = Label("workload_kind", "Kind of the workload, such as `Deployment`; `Pod` where nobody names an owner.")
WORKLOAD = Label("workload", "Name of the workload.")
VERDICT = Label(
    "state",
    "`unallocated`, `warming`, `idle-empty`, `idle-held`, `bursty`, `hollow-busy`, `starved`, `memory-bound`,"
    " `productive` or `unknown`.",
)
USE = Label("use", "What came of the time: `used`, `idle` or `unknown`.")
