"""The families of NVIDIA's dcgm-exporter, so that its users' dashboards and rules work on nodes where it does not run.

Names, labels and units up to version 4.8, read through NVML and GPM. A family has one row per GPU, or one row per GPU
instance where a GPU in MIG mode has the reading of each; never both for one GPU, so that `sum` counts nothing twice. A
row names the pod that holds the GPU or the instance alone. Of a shared GPU the row names no pod: dcgm-exporter repeats
the whole device's value under every pod instead, and the shares of each are in gpusight_container_gpu_ families here.

Left out: DCGM_FI_DEV_VGPU_LICENSE_STATUS.
"""

from functools import partial

from gpusight.catalog import labels as label
from gpusight.catalog.spec import FamilySpec, Waiver

_KEPT = "dcgm-exporter's name, kept so that its users' dashboards and rules go on working."
_CASE = Waiver("snake-case", _KEPT)
_UNSAID = Waiver("unit-suffix", _KEPT)
_NOT_BASE = Waiver("base-unit", "dcgm-exporter's unit.")
_NO_TOTAL = Waiver("counter-suffix", _KEPT)
_TYPE_IN_NAME = Waiver("type-in-name", _KEPT)

LABELS = (
    label.GPU,
    label.DCGM_UUID,
    label.PCI_BUS_ID,
    label.DCGM_DEVICE,
    label.DCGM_MODEL_NAME,
    label.GPU_I_PROFILE,
    label.GPU_I_ID,
    label.DCGM_HOSTNAME,
    label.SOLE_CONTAINER,
    label.SOLE_NAMESPACE,
    label.SOLE_POD,
)

_family = partial(FamilySpec, kind="gauge", labels=LABELS, origin="dcgm", endpoint="node")
_base = partial(_family, waivers=(_CASE, _UNSAID))
_other = partial(_family, waivers=(_CASE, _UNSAID, _NOT_BASE))
_percent = partial(_other, unit="percent")
_mebibytes = partial(_other, unit="mebibytes")
_megahertz = partial(_other, unit="megahertz")
_celsius = partial(_base, unit="celsius")
_watts = partial(_base, unit="watts")
_ratio = partial(_base, unit="ratio")
_bytes_per_second = partial(_base, unit="bytes per second")
_count = partial(_family, kind="counter", unit="count", waivers=(_CASE, _NO_TOTAL))

GPU_UTIL = _percent(
    name="DCGM_FI_DEV_GPU_UTIL",
    help="Share of time in which at least one kernel ran on the GPU, 0 to 100.",
    how_to_read="100 may be one tiny kernel that never ends: it says busy, not well used. Absent in MIG mode.",
)
MEM_COPY_UTIL = _percent(
    name="DCGM_FI_DEV_MEM_COPY_UTIL",
    help="Share of time in which the GPU's memory was read or written, 0 to 100.",
    how_to_read="Traffic, not occupancy. Absent in MIG mode.",
)
ENC_UTIL = _percent(
    name="DCGM_FI_DEV_ENC_UTIL",
    help="Share of time in which the video encoder worked, 0 to 100.",
    how_to_read="Video work that the GPU's utilization does not show.",
)
DEC_UTIL = _percent(
    name="DCGM_FI_DEV_DEC_UTIL",
    help="Share of time in which the video decoder worked, 0 to 100.",
    how_to_read="Video work that the GPU's utilization does not show.",
)
FB_TOTAL = _mebibytes(
    name="DCGM_FI_DEV_FB_TOTAL",
    help="Memory of the GPU or MIG instance, in MiB.",
    how_to_read="The sum of used, free and reserved. Whole MiB, as all of dcgm-exporter's memory families.",
)
FB_USED = _mebibytes(
    name="DCGM_FI_DEV_FB_USED",
    help="Memory in use on the GPU or MIG instance, in MiB.",
    how_to_read="Without what the driver reserves. MiB, not bytes.",
)
FB_FREE = _mebibytes(
    name="DCGM_FI_DEV_FB_FREE",
    help="Memory of the GPU or MIG instance that is not in use, in MiB.",
    how_to_read="MiB, not bytes.",
)
FB_RESERVED = _mebibytes(
    name="DCGM_FI_DEV_FB_RESERVED",
    help="Memory that the driver and the firmware keep for themselves, in MiB.",
    how_to_read="Of the whole GPU, in MIG mode too.",
)
POWER_USAGE = _watts(
    name="DCGM_FI_DEV_POWER_USAGE",
    help="Power that the board draws, in watts.",
    how_to_read="Of the whole board, in MIG mode too.",
)
ENFORCED_POWER_LIMIT = _watts(
    name="DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
    help="Power that the board may draw, in watts.",
    how_to_read="The limit in force, which an administrator may have lowered.",
)
TOTAL_ENERGY_CONSUMPTION = _family(
    name="DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    kind="counter",
    unit="millijoules",
    help="Energy that the board has used since the driver was loaded, in millijoules.",
    how_to_read="rate() of it divided by 1000 is the mean power in watts.",
    waivers=(_CASE, _UNSAID, _NOT_BASE, _NO_TOTAL),
)
SM_CLOCK = _megahertz(
    name="DCGM_FI_DEV_SM_CLOCK",
    help="Clock of the multiprocessors, in MHz.",
    how_to_read="Falls when the GPU idles or is throttled.",
)
MEM_CLOCK = _megahertz(
    name="DCGM_FI_DEV_MEM_CLOCK",
    help="Clock of the memory, in MHz.",
    how_to_read="Low in idle states.",
)
GPU_TEMP = _celsius(
    name="DCGM_FI_DEV_GPU_TEMP",
    help="Temperature of the GPU's core, in degrees Celsius.",
    how_to_read="The model's limit is gpusight_gpu_slowdown_temperature_celsius.",
)
MEMORY_TEMP = _celsius(
    name="DCGM_FI_DEV_MEMORY_TEMP",
    help="Temperature of the GPU's memory, in degrees Celsius.",
    how_to_read="Absent for boards without a sensor there, where dcgm-exporter shows 0.",
)
XID_ERRORS = _family(
    name="DCGM_FI_DEV_XID_ERRORS",
    unit="code",
    help="Code of the last XID error that the driver reported since this process started, 0 for none.",
    how_to_read="A code, not a count, and it stays: gpusight_gpu_xid_last_timestamp_seconds is what to alert on.",
    waivers=(_CASE,),
)
PCIE_REPLAY_COUNTER = _count(
    name="DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    help="Packets that had to be sent again over PCI Express.",
    how_to_read="A steady rise points to a bad slot, riser or cable.",
    waivers=(_CASE, _NO_TOTAL, _TYPE_IN_NAME),
)
UNCORRECTABLE_REMAPPED_ROWS = _count(
    name="DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    help="Rows of memory that were replaced because of uncorrectable errors.",
    how_to_read="A few are normal in a long life.",
)
CORRECTABLE_REMAPPED_ROWS = _count(
    name="DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    help="Rows of memory that were replaced because of correctable errors.",
    how_to_read="A few are normal in a long life.",
)
ROW_REMAP_FAILURE = _family(
    name="DCGM_FI_DEV_ROW_REMAP_FAILURE",
    unit="boolean",
    help="Whether replacing a row has ever failed: 1 yes, 0 no.",
    how_to_read="At 1 the board is due for exchange.",
    waivers=(_CASE,),
)
GR_ENGINE_ACTIVE = _ratio(
    name="DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    help="Share of time in which any compute or graphics work was active, 0 to 1.",
    how_to_read="From the GPU's own counters, Hopper and later, as all families with PROF in their names.",
)
SM_ACTIVE = _ratio(
    name="DCGM_FI_PROF_SM_ACTIVE",
    help="Share of the multiprocessors that had work, over time, 0 to 1.",
    how_to_read="The honest measure of load: 0.8 and more is good use.",
)
SM_OCCUPANCY = _ratio(
    name="DCGM_FI_PROF_SM_OCCUPANCY",
    help="Share of the warps that multiprocessors can hold which were there, over time, 0 to 1.",
    how_to_read="Higher is not always better.",
)
PIPE_TENSOR_ACTIVE = _ratio(
    name="DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    help="Share of cycles in which tensor cores worked, 0 to 1.",
    how_to_read="0 in training or inference means that the fast path is not taken.",
)
DRAM_ACTIVE = _ratio(
    name="DCGM_FI_PROF_DRAM_ACTIVE",
    help="Share of the memory's bandwidth in use, 0 to 1.",
    how_to_read="Near 0.8 the work is bound by memory.",
)
PIPE_FP64_ACTIVE = _ratio(
    name="DCGM_FI_PROF_PIPE_FP64_ACTIVE",
    help="Share of cycles in which units for 64-bit numbers worked, 0 to 1.",
    how_to_read="Science, seldom machine learning.",
)
PIPE_FP32_ACTIVE = _ratio(
    name="DCGM_FI_PROF_PIPE_FP32_ACTIVE",
    help="Share of cycles in which units for 32-bit numbers worked, 0 to 1.",
    how_to_read="High beside idle tensor cores: the program may gain from lower precision.",
)
PIPE_FP16_ACTIVE = _ratio(
    name="DCGM_FI_PROF_PIPE_FP16_ACTIVE",
    help="Share of cycles in which units for 16-bit numbers worked, 0 to 1.",
    how_to_read="Without the tensor cores.",
)
PCIE_TX_BYTES = _bytes_per_second(
    name="DCGM_FI_PROF_PCIE_TX_BYTES",
    help="Data that the GPU sends over PCI Express, in bytes per second.",
    how_to_read="A rate already: do not use rate() on it.",
)
PCIE_RX_BYTES = _bytes_per_second(
    name="DCGM_FI_PROF_PCIE_RX_BYTES",
    help="Data that the GPU receives over PCI Express, in bytes per second.",
    how_to_read="A rate already: do not use rate() on it.",
)

NVLINK_BANDWIDTH_TOTAL = _family(
    name="DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
    unit="mebibytes per second",
    help="Data over all NVLinks of the GPU, both ways together, in MiB per second.",
    how_to_read="A rate already: do not use rate() on it, although dcgm-exporter calls it a counter.",
    waivers=(_CASE, _UNSAID, _NOT_BASE),
)

FAMILIES: tuple[FamilySpec, ...] = (
    SM_CLOCK,
    MEM_CLOCK,
    MEMORY_TEMP,
    GPU_TEMP,
    POWER_USAGE,
    ENFORCED_POWER_LIMIT,
    TOTAL_ENERGY_CONSUMPTION,
    PCIE_REPLAY_COUNTER,
    NVLINK_BANDWIDTH_TOTAL,
    GPU_UTIL,
    MEM_COPY_UTIL,
    ENC_UTIL,
    DEC_UTIL,
    XID_ERRORS,
    FB_TOTAL,
    FB_FREE,
    FB_USED,
    FB_RESERVED,
    UNCORRECTABLE_REMAPPED_ROWS,
    CORRECTABLE_REMAPPED_ROWS,
    ROW_REMAP_FAILURE,
    GR_ENGINE_ACTIVE,
    SM_ACTIVE,
    SM_OCCUPANCY,
    PIPE_TENSOR_ACTIVE,
    DRAM_ACTIVE,
    PIPE_FP64_ACTIVE,
    PIPE_FP32_ACTIVE,
    PIPE_FP16_ACTIVE,
    PCIE_TX_BYTES,
    PCIE_RX_BYTES,
)
