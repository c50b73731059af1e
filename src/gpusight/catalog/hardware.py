"""What a node's GPUs say of themselves, and who uses how much of them: our own names, in base units.

Every series of a GPU has the labels `uuid` and `gpu` only; model, driver and place stand on gpusight_gpu_info. A GPU's
families and those of its containers are never one: `sum` over a family counts nothing twice.

Shares of time obey a law. For every GPU whose utilization can be read, at any instant:

      sum of gpusight_container_gpu_utilization_ratio over its containers
    + gpusight_gpu_unattributed_ratio
    + gpusight_gpu_idle_ratio
    = 1
"""

from functools import partial

from gpusight.catalog import labels as label
from gpusight.catalog.spec import FamilySpec

_family = partial(FamilySpec, origin="gpusight", endpoint="node")
_gauge = partial(_family, kind="gauge", labels=(label.UUID, label.GPU))
_counter = partial(_family, kind="counter", labels=(label.UUID, label.GPU))
_ratio = partial(_gauge, unit="ratio")
_bytes = partial(_gauge, unit="bytes")
_flag = partial(_gauge, unit="boolean")

# Identity.

GPU_INFO = _gauge(
    name="gpusight_gpu_info",
    unit="info",
    labels=(
        label.UUID,
        label.GPU,
        label.NODE,
        label.NAME,
        label.BRAND,
        label.PCI_BUS_ID,
        label.SERIAL,
        label.DRIVER_VERSION,
        label.CUDA_VERSION,
    ),
    help="What the GPU is and where, always 1.",
    how_to_read="Multiply with it `on (uuid) group_left (name, node)` to see models and nodes beside any other family.",
)
LAST_READING = _gauge(
    name="gpusight_gpu_last_reading_timestamp_seconds",
    unit="timestamp",
    help="When the GPU was last read, in seconds since the Unix epoch.",
    how_to_read="time() less this value is the age of all its numbers.",
)
UNIFIED_MEMORY = _flag(
    name="gpusight_unified_memory",
    help="Whether the GPU shares the machine's memory: 1 yes, 0 it has its own.",
    how_to_read="At 1 the memory families are absent, because the driver has no numbers of the GPU's own.",
)

# Memory.

MEMORY_TOTAL = _bytes(
    name="gpusight_gpu_memory_total_bytes",
    help="Memory of the GPU.",
    how_to_read="The sum of used, free and reserved.",
)
MEMORY_USED = _bytes(
    name="gpusight_gpu_memory_used_bytes",
    help="Memory that programs have allocated on the GPU.",
    how_to_read="Without what the driver reserves, unlike HostGPUMemoryUsage. Held memory says nothing of use.",
)
MEMORY_FREE = _bytes(
    name="gpusight_gpu_memory_free_bytes",
    help="Memory of the GPU that is not in use.",
    how_to_read="Includes what sharing layers have promised to containers that did not take it yet.",
)
MEMORY_RESERVED = _bytes(
    name="gpusight_gpu_memory_reserved_bytes",
    help="Memory that the driver and the firmware keep for themselves.",
    how_to_read="Some hundred MiB, more with ECC on. Absent with drivers that count it as used.",
)
BAR1_TOTAL = _bytes(
    name="gpusight_gpu_bar1_total_bytes",
    help="Size of the window through which the processor and other devices reach the GPU's memory.",
    how_to_read="Compare with the used part where GPUDirect or many processes map memory.",
)
BAR1_USED = _bytes(
    name="gpusight_gpu_bar1_used_bytes",
    help="Part of the window into the GPU's memory that is in use.",
    how_to_read="Near the total, new mappings fail although memory is free.",
)

# Utilization.

UTILIZATION = _ratio(
    name="gpusight_gpu_utilization_ratio",
    help="Share of time in which at least one kernel ran on the GPU.",
    how_to_read="1 may be one tiny kernel that never ends: it says busy, not well used. Absent in MIG mode.",
)
MEMORY_UTILIZATION = _ratio(
    name="gpusight_gpu_memory_utilization_ratio",
    help="Share of time in which the GPU's memory was read or written.",
    how_to_read="Traffic, not occupancy. Absent in MIG mode.",
)
ENCODER_UTILIZATION = _ratio(
    name="gpusight_gpu_encoder_utilization_ratio",
    help="Share of time in which the video encoder worked.",
    how_to_read="Video work that gpusight_gpu_utilization_ratio does not show.",
)
DECODER_UTILIZATION = _ratio(
    name="gpusight_gpu_decoder_utilization_ratio",
    help="Share of time in which the video decoder worked.",
    how_to_read="Video work that gpusight_gpu_utilization_ratio does not show.",
)
IDLE = _ratio(
    name="gpusight_gpu_idle_ratio",
    help="Share of time in which no kernel ran on the GPU.",
    how_to_read="1 less the utilization: what containers used, gpusight_gpu_unattributed_ratio and this make 1.",
)
UNATTRIBUTED = _ratio(
    name="gpusight_gpu_unattributed_ratio",
    help="Share of time in which the GPU ran kernels that no known container can be charged with.",
    how_to_read="Programs outside of pods, and all use where the driver tells nothing of processes.",
)

# Power, clocks, temperature.

POWER = _gauge(
    name="gpusight_gpu_power_watts",
    unit="watts",
    help="Power that the board draws.",
    how_to_read="High power at low utilization, or the reverse, is worth a look.",
)
POWER_LIMIT = _gauge(
    name="gpusight_gpu_power_limit_watts",
    unit="watts",
    help="Power that the board may draw.",
    how_to_read="The limit in force, which an administrator may have lowered.",
)
ENERGY = _counter(
    name="gpusight_gpu_energy_joules_total",
    unit="joules",
    help="Energy that the board has used since the driver was loaded.",
    how_to_read="rate() of it is the mean power, without the gaps of sampling. Absent before the Volta generation.",
)
SM_CLOCK = _gauge(
    name="gpusight_gpu_sm_clock_hertz",
    unit="hertz",
    help="Clock of the multiprocessors.",
    how_to_read="Falls when the GPU idles or is throttled: see gpusight_gpu_throttle_reason.",
)
MAX_SM_CLOCK = _gauge(
    name="gpusight_gpu_sm_clock_max_hertz",
    unit="hertz",
    help="Highest clock that the multiprocessors can have.",
    how_to_read="The clock divided by it is how fast the GPU may work now.",
)
MEMORY_CLOCK = _gauge(
    name="gpusight_gpu_memory_clock_hertz",
    unit="hertz",
    help="Clock of the memory.",
    how_to_read="Low in idle states.",
)
GRAPHICS_CLOCK = _gauge(
    name="gpusight_gpu_graphics_clock_hertz",
    unit="hertz",
    help="Clock of the graphics engine.",
    how_to_read="On data center GPUs the same as the multiprocessors'.",
)
VIDEO_CLOCK = _gauge(
    name="gpusight_gpu_video_clock_hertz",
    unit="hertz",
    help="Clock of the video engines.",
    how_to_read="Of interest for encoding and decoding only.",
)
TEMPERATURE = _gauge(
    name="gpusight_gpu_temperature_celsius",
    unit="celsius",
    help="Temperature of the GPU's core.",
    how_to_read="Compare with gpusight_gpu_slowdown_temperature_celsius.",
)
MEMORY_TEMPERATURE = _gauge(
    name="gpusight_gpu_memory_temperature_celsius",
    unit="celsius",
    help="Temperature of the GPU's memory.",
    how_to_read="Absent for boards without a sensor there.",
)
SLOWDOWN_TEMPERATURE = _gauge(
    name="gpusight_gpu_slowdown_temperature_celsius",
    unit="celsius",
    help="Temperature of the core at which the GPU slows itself down.",
    how_to_read="A constant of the model.",
)
FAN_SPEED = _ratio(
    name="gpusight_gpu_fan_speed_ratio",
    labels=(label.UUID, label.GPU, label.FAN),
    help="Speed that the fan is meant to have, as a share of its highest.",
    how_to_read="What is asked of the fan, not what it does. Absent for boards that the machine cools.",
)
PERFORMANCE_STATE = _gauge(
    name="gpusight_gpu_performance_state",
    unit="level",
    help="Performance state, from 0 the fastest to 15 the slowest.",
    how_to_read="8 or more is usual at idle.",
)
PERSISTENCE_MODE = _flag(
    name="gpusight_gpu_persistence_mode",
    help="Whether the driver stays loaded while nobody uses the GPU: 1 yes, 0 no.",
    how_to_read="At 0 every first use of an idle GPU takes seconds longer.",
)
THROTTLE_REASON = _flag(
    name="gpusight_gpu_throttle_reason",
    labels=(label.UUID, label.GPU, label.THROTTLE_REASON),
    help="Whether this reason holds the clocks down now: 1 yes, 0 no.",
    how_to_read="`gpu_idle` and `applications_clocks` are no problem; `hw_thermal`, `hw_slowdown` and `hw_power_brake`"
    " are.",
)
THROTTLE_SECONDS = _counter(
    name="gpusight_gpu_throttle_seconds_total",
    unit="seconds",
    labels=(label.UUID, label.GPU, label.THROTTLE_REASON),
    help="Time for which this reason held the clocks down, since this process started.",
    how_to_read="rate() of it is the share of time. As fine as the interval between readings.",
)

# Errors.

ECC_ERRORS = _counter(
    name="gpusight_gpu_ecc_errors_total",
    unit="count",
    labels=(label.UUID, label.GPU, label.ECC_KIND, label.ECC_SPAN),
    help="Memory errors that ECC found.",
    how_to_read="Choose one `span`: `aggregate` has the errors of `volatile` in it, so never sum over both.",
)
REMAPPED_ROWS = _counter(
    name="gpusight_gpu_remapped_rows_total",
    unit="count",
    labels=(label.UUID, label.GPU, label.ROW_KIND),
    help="Rows of memory that were replaced by spare ones.",
    how_to_read="A few are normal in a long life. Absent before the Ampere generation.",
)
ROW_REMAP_PENDING = _flag(
    name="gpusight_gpu_row_remap_pending",
    help="Whether a row waits for the next reset of the GPU to be replaced: 1 yes, 0 no.",
    how_to_read="At 1 drain the GPU and reset it.",
)
ROW_REMAP_FAILED = _flag(
    name="gpusight_gpu_row_remap_failed",
    help="Whether replacing a row has ever failed: 1 yes, 0 no.",
    how_to_read="At 1 the board is due for exchange.",
)
RETIRED_PAGES_PENDING = _flag(
    name="gpusight_gpu_retired_pages_pending",
    help="Whether pages of memory wait for a reset of the GPU to be retired: 1 yes, 0 no.",
    how_to_read="The like of gpusight_gpu_row_remap_pending for boards before the Ampere generation.",
)
XID_ERRORS = _counter(
    name="gpusight_gpu_xid_errors_total",
    unit="count",
    labels=(label.UUID, label.XID),
    help="Errors of this code that the driver reported since this process started.",
    how_to_read="The first error of a code starts the series, which increase() cannot see: alert on the timestamp."
    " Stays while the GPU itself cannot be read.",
)
XID_LAST = _gauge(
    name="gpusight_gpu_xid_last_timestamp_seconds",
    unit="timestamp",
    labels=(label.UUID, label.XID),
    help="When the driver last reported an error of this code, in seconds since the Unix epoch.",
    how_to_read="time() less this value < 300 is an alert that neither misses the first error nor stays for ever.",
)

# PCI Express and NVLink.

PCIE_GENERATION = _gauge(
    name="gpusight_gpu_pcie_link_generation",
    unit="level",
    help="PCI Express generation that the link runs at.",
    how_to_read="Falls at idle to save power. Below the maximum under load points to a bad slot or riser.",
)
PCIE_MAX_GENERATION = _gauge(
    name="gpusight_gpu_pcie_link_max_generation",
    unit="level",
    help="Highest PCI Express generation that GPU and machine both support.",
    how_to_read="What the link should reach under load.",
)
PCIE_WIDTH = _gauge(
    name="gpusight_gpu_pcie_link_width",
    unit="count",
    help="PCI Express lanes that the link uses.",
    how_to_read="Fewer than the maximum points to a bad slot or riser, idle or not.",
)
PCIE_MAX_WIDTH = _gauge(
    name="gpusight_gpu_pcie_link_max_width",
    unit="count",
    help="PCI Express lanes that GPU and machine both have.",
    how_to_read="What the link should use.",
)
PCIE_REPLAYS = _counter(
    name="gpusight_gpu_pcie_replays_total",
    unit="count",
    help="Packets that had to be sent again over PCI Express.",
    how_to_read="Should stand still; a steady rise points to a bad slot, riser or cable.",
)
PCIE_TRANSMIT = _gauge(
    name="gpusight_gpu_pcie_transmit_bytes_per_second",
    unit="bytes per second",
    help="Data that the GPU sends over PCI Express.",
    how_to_read="Before Hopper a sample of 20 milliseconds: good for a glance, not for sums.",
)
PCIE_RECEIVE = _gauge(
    name="gpusight_gpu_pcie_receive_bytes_per_second",
    unit="bytes per second",
    help="Data that the GPU receives over PCI Express.",
    how_to_read="Before Hopper a sample of 20 milliseconds: good for a glance, not for sums.",
)
NVLINK_UP = _flag(
    name="gpusight_gpu_nvlink_up",
    labels=(label.UUID, label.GPU, label.LINK),
    help="Whether the NVLink is active: 1 yes, 0 no.",
    how_to_read="Alert on a change: links that are not wired are 0 for ever.",
)
NVLINK_ERRORS = _counter(
    name="gpusight_gpu_nvlink_errors_total",
    unit="count",
    labels=(label.UUID, label.GPU, label.LINK, label.LINK_ERROR),
    help="Errors of the NVLink.",
    how_to_read="`replay` costs speed, `recovery` means that the link had to be trained again.",
)

NVLINK_TRANSMIT = _gauge(
    name="gpusight_gpu_nvlink_transmit_bytes_per_second",
    unit="bytes per second",
    help="Data that the GPU sends over all its NVLinks.",
    how_to_read="Hopper and later.",
)
NVLINK_RECEIVE = _gauge(
    name="gpusight_gpu_nvlink_receive_bytes_per_second",
    unit="bytes per second",
    help="Data that the GPU receives over all its NVLinks.",
    how_to_read="Hopper and later.",
)

# GPM: what the GPU's own counters say of the work, without DCGM and without privileges. Hopper and later.

_MIG = (label.UUID, label.GPU, label.GPU_INSTANCE_ID)
_mig_bytes = partial(_bytes, labels=_MIG)
_mig_ratio = partial(_ratio, labels=_MIG)

GRAPHICS_ACTIVE = _ratio(
    name="gpusight_gpu_graphics_active_ratio",
    help="Share of time in which any compute or graphics work was active.",
    how_to_read="The sharper sister of gpusight_gpu_utilization_ratio.",
)
SM_ACTIVE = _ratio(
    name="gpusight_gpu_sm_active_ratio",
    help="Share of the multiprocessors that had work, over time.",
    how_to_read="The honest measure of load: 0.8 and more is good use, low beside high utilization is small kernels.",
)
SM_OCCUPANCY = _ratio(
    name="gpusight_gpu_sm_occupancy_ratio",
    help="Share of the warps that multiprocessors can hold which were there, over time.",
    how_to_read="Higher is not always better; low with memory-bound work leaves speed unused.",
)
TENSOR_ACTIVE = _ratio(
    name="gpusight_gpu_tensor_active_ratio",
    help="Share of cycles in which tensor cores worked.",
    how_to_read="0 in training or inference means that the fast path is not taken.",
)
DRAM_ACTIVE = _ratio(
    name="gpusight_gpu_dram_active_ratio",
    help="Share of the memory's bandwidth in use.",
    how_to_read="Near 0.8 the work is bound by memory.",
)
FP64_ACTIVE = _ratio(
    name="gpusight_gpu_fp64_active_ratio",
    help="Share of cycles in which units for 64-bit numbers worked.",
    how_to_read="Science, seldom machine learning.",
)
FP32_ACTIVE = _ratio(
    name="gpusight_gpu_fp32_active_ratio",
    help="Share of cycles in which units for 32-bit numbers worked.",
    how_to_read="High beside idle tensor cores: the program may gain from lower precision.",
)
FP16_ACTIVE = _ratio(
    name="gpusight_gpu_fp16_active_ratio",
    help="Share of cycles in which units for 16-bit numbers worked.",
    how_to_read="Without the tensor cores.",
)
MIG_GRAPHICS_ACTIVE = _mig_ratio(
    name="gpusight_mig_graphics_active_ratio",
    help="Share of time in which any work was active in the MIG instance.",
    how_to_read="The utilization of a MIG instance, which the driver otherwise does not tell.",
)
MIG_SM_ACTIVE = _mig_ratio(
    name="gpusight_mig_sm_active_ratio",
    help="Share of the MIG instance's multiprocessors that had work, over time.",
    how_to_read="Of the instance, not of the whole GPU.",
)
MIG_SM_OCCUPANCY = _mig_ratio(
    name="gpusight_mig_sm_occupancy_ratio",
    help="Share of the warps that the MIG instance can hold which were there, over time.",
    how_to_read="Of the instance, not of the whole GPU.",
)
MIG_TENSOR_ACTIVE = _mig_ratio(
    name="gpusight_mig_tensor_active_ratio",
    help="Share of cycles in which the MIG instance's tensor cores worked.",
    how_to_read="Of the instance, not of the whole GPU.",
)
MIG_DRAM_ACTIVE = _mig_ratio(
    name="gpusight_mig_dram_active_ratio",
    help="Share of the MIG instance's memory bandwidth in use.",
    how_to_read="Of the instance, not of the whole GPU.",
)

# MIG.

MIG_MODE = _flag(
    name="gpusight_gpu_mig_mode",
    help="Whether the GPU is split into MIG instances: 1 yes, 0 no.",
    how_to_read="At 1 the GPU has no utilization of its own: gpusight_mig_sm_active_ratio has the instances'.",
)
MIG_INFO = _gauge(
    name="gpusight_mig_info",
    unit="info",
    labels=(
        label.UUID,
        label.GPU,
        label.MIG_UUID,
        label.GPU_INSTANCE_ID,
        label.COMPUTE_INSTANCE_ID,
        label.PROFILE,
    ),
    help="A MIG device of the GPU, always 1.",
    how_to_read="Leads from the gpu_instance_id of other families to mig_uuid and from there to its holder.",
)
MIG_MEMORY_TOTAL = _mig_bytes(
    name="gpusight_mig_memory_total_bytes",
    help="Memory of the MIG instance.",
    how_to_read="MIG devices of one GPU instance share it, so there is one series per GPU instance.",
)
MIG_MEMORY_USED = _mig_bytes(
    name="gpusight_mig_memory_used_bytes",
    help="Memory in use in the MIG instance.",
    how_to_read="MIG devices of one GPU instance share it, so there is one series per GPU instance.",
)
MIG_MEMORY_FREE = _mig_bytes(
    name="gpusight_mig_memory_free_bytes",
    help="Memory of the MIG instance that is not in use.",
    how_to_read="MIG devices of one GPU instance share it, so there is one series per GPU instance.",
)

# Processes.

PROCESSES = _gauge(
    name="gpusight_gpu_processes",
    unit="count",
    help="Processes that hold a context on the GPU.",
    how_to_read="0 beside held memory points to processes that the driver does not show here, or to a leak.",
)

_PROCESS = (label.UUID, label.PID, label.NAMESPACE, label.POD, label.CONTAINER, label.SLURM_JOB)

PROCESS_MEMORY_USED = _bytes(
    name="gpusight_process_gpu_memory_used_bytes",
    labels=_PROCESS,
    help="GPU memory that the process holds.",
    how_to_read="A series per process and GPU: switched off unless the set `processes` is asked for.",
)
PROCESS_UTILIZATION = _ratio(
    name="gpusight_process_gpu_utilization_ratio",
    labels=_PROCESS,
    help="Share of the GPU's time that the driver says the process used.",
    how_to_read="As the driver tells it: the sum over processes may exceed the GPU's utilization.",
)

# Containers.

_CONTAINER = (label.NAMESPACE, label.POD, label.CONTAINER, label.UUID)

CONTAINER_MEMORY_USED = _bytes(
    name="gpusight_container_gpu_memory_used_bytes",
    labels=_CONTAINER,
    help="GPU memory that the container holds.",
    how_to_read="0 from the moment that a GPU is allocated. Absent where it cannot be known.",
)
CONTAINER_MEMORY_LIMIT = _bytes(
    name="gpusight_container_gpu_memory_limit_bytes",
    labels=_CONTAINER,
    help="GPU memory that the container may hold.",
    how_to_read="HAMi's limit or the size of the MIG instance. Absent where there is none.",
)
CONTAINER_UTILIZATION = _ratio(
    name="gpusight_container_gpu_utilization_ratio",
    labels=_CONTAINER,
    help="Share of the GPU's time that the container used.",
    how_to_read="The driver's shares of processes, scaled down together where their sum exceeds the GPU's utilization."
    " With gpusight_gpu_unattributed_ratio and gpusight_gpu_idle_ratio they make 1.",
)
CONTAINER_ENERGY = _counter(
    name="gpusight_container_gpu_energy_joules_total",
    unit="joules",
    labels=_CONTAINER,
    help="The container's part of the GPU's energy, since this process first saw it.",
    how_to_read="Each interval's energy in proportion to the shares of time. With the idle and the unattributed part it"
    " makes the GPU's energy.",
)
IDLE_ENERGY = _counter(
    name="gpusight_gpu_idle_energy_joules_total",
    unit="joules",
    help="The part of the GPU's energy for the time in which no kernel ran, since this process started.",
    how_to_read="What an empty or waiting GPU costs.",
)
UNATTRIBUTED_ENERGY = _counter(
    name="gpusight_gpu_unattributed_energy_joules_total",
    unit="joules",
    help="The part of the GPU's energy that no known container can be charged with, since this process started.",
    how_to_read="All of it where the utilization cannot be read, as in MIG mode.",
)
HOLDER_INFO = _gauge(
    name="gpusight_holder_info",
    unit="info",
    labels=(*_CONTAINER, label.MIG_UUID, label.HOW),
    help="The container holds the GPU or a MIG device of it, always 1.",
    how_to_read="`how` says where we know it from. Count by (uuid) to see how many share a GPU.",
)

GPU_FAMILIES: tuple[FamilySpec, ...] = (
    GPU_INFO,
    LAST_READING,
    UNIFIED_MEMORY,
    MEMORY_TOTAL,
    MEMORY_USED,
    MEMORY_FREE,
    MEMORY_RESERVED,
    BAR1_TOTAL,
    BAR1_USED,
    UTILIZATION,
    MEMORY_UTILIZATION,
    ENCODER_UTILIZATION,
    DECODER_UTILIZATION,
    IDLE,
    UNATTRIBUTED,
    POWER,
    POWER_LIMIT,
    ENERGY,
    IDLE_ENERGY,
    UNATTRIBUTED_ENERGY,
    SM_CLOCK,
    MAX_SM_CLOCK,
    MEMORY_CLOCK,
    GRAPHICS_CLOCK,
    VIDEO_CLOCK,
    TEMPERATURE,
    MEMORY_TEMPERATURE,
    SLOWDOWN_TEMPERATURE,
    FAN_SPEED,
    PERFORMANCE_STATE,
    PERSISTENCE_MODE,
    THROTTLE_REASON,
    THROTTLE_SECONDS,
    ECC_ERRORS,
    REMAPPED_ROWS,
    ROW_REMAP_PENDING,
    ROW_REMAP_FAILED,
    RETIRED_PAGES_PENDING,
    XID_ERRORS,
    XID_LAST,
    PCIE_GENERATION,
    PCIE_MAX_GENERATION,
    PCIE_WIDTH,
    PCIE_MAX_WIDTH,
    PCIE_REPLAYS,
    PCIE_TRANSMIT,
    PCIE_RECEIVE,
    NVLINK_UP,
    NVLINK_ERRORS,
    NVLINK_TRANSMIT,
    NVLINK_RECEIVE,
    GRAPHICS_ACTIVE,
    SM_ACTIVE,
    SM_OCCUPANCY,
    TENSOR_ACTIVE,
    DRAM_ACTIVE,
    FP64_ACTIVE,
    FP32_ACTIVE,
    FP16_ACTIVE,
    MIG_MODE,
    MIG_INFO,
    MIG_MEMORY_TOTAL,
    MIG_MEMORY_USED,
    MIG_MEMORY_FREE,
    MIG_GRAPHICS_ACTIVE,
    MIG_SM_ACTIVE,
    MIG_SM_OCCUPANCY,
    MIG_TENSOR_ACTIVE,
    MIG_DRAM_ACTIVE,
    PROCESSES,
)
CONTAINER_FAMILIES: tuple[FamilySpec, ...] = (
    CONTAINER_MEMORY_USED,
    CONTAINER_MEMORY_LIMIT,
    CONTAINER_UTILIZATION,
    CONTAINER_ENERGY,
    HOLDER_INFO,
)
PROCESS_FAMILIES: tuple[FamilySpec, ...] = (PROCESS_MEMORY_USED, PROCESS_UTILIZATION)
FAMILIES: tuple[FamilySpec, ...] = (*GPU_FAMILIES, *CONTAINER_FAMILIES, *PROCESS_FAMILIES)
