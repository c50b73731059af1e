"""Every metric family that we can read: what it measures, of whom, in which unit, and how we know.

A row's `scale` turns its values into base units (see Quantity). None means that the same name was used with different
units: such a family is read only if somebody declares its unit. Rows of one quantity and scope are in order of trust.

Left out on purpose: nvshare's nvshare_client_core_usage_ratio and nvshare_client_core_active_time_total_ms, which stay
at 0 while a turn is not settled or the client reports no active time: their 0 would call a busy client idle.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gpusight.model.series import Quantity, Scope

PERCENT = 0.01
MIB = 2.0**20
MEGA = 1e6
MILLI = 1e-3

SeriesKind = Literal["gauge", "counter"]


@dataclass(frozen=True, slots=True)
class Source:
    """One family as the source of one quantity."""

    family: str
    quantity: Quantity
    scope: Scope
    scale: float | None
    kind: SeriesKind
    proof: str
    only: Mapping[str, str] = field(default_factory=dict)
    """Values that labels must have, if they are there at all; the family's other series are something else."""
    summed: bool = False
    """Series that differ in labels beyond the identity are parts of one subject, to be added up at each look."""
    ceiling: float = 1.0
    """By how much a value may exceed the quantity's range before it is rejected; it is cut to the range then."""


Row = tuple[str, Quantity, float | None, str]


def _table(scope: Scope, rows: Sequence[Row], **options: object) -> Iterator[Source]:
    for family, quantity, scale, proof in rows:
        kind: SeriesKind = "counter" if quantity == "energy" else "gauge"
        yield Source(family, quantity, scope, scale, kind, proof, **options)  # type: ignore[arg-type]


_OWN = "Our own catalog: base unit, named in the suffix."
_DCGM_MIB = "dcgm-exporter's help says MiB; DCGM's field is in MB of 2^20 (the table that calls it bytes is wrong)."
_DCGM_PERCENT = "dcgm-exporter's help says %; DCGM passes on NVML's whole percents."
_PROF = "DCGM's profiling fields are ratios from 0 to 1, under the old and the new names."
_PROF_RATE = "DCGM's profiling field is a rate in bytes per second already."
_RENAMED = "DCGM 4.6 renamed the field and kept its unit."
_BASE = "The base-unit field of DCGM 4.7 and later: unit in the suffix, no older field of this name."
_V1_PERCENT = "dcgm-exporter 1.x: help says %."
_V1_MIB = "dcgm-exporter 1.x: help says MiB."
_NVIDIA_SMI = "nvidia_gpu_exporter turns nvidia-smi's unit into the base unit that the suffix names."
_ALL_SMI = "all-smi: unit in the suffix."
_NVSHARE = "nvshare: help says the unit, which the suffix names."
_OTEL = "OpenTelemetry's semantic conventions: unit in the suffix, ratios are 0 to 1."
_HAMI_BYTES = "HAMi passes on bytes."
_DCU = "dcu-exporter: bytes and watts, percent for utilization, as its documentation says."
_NPU = "npu-exporter's documentation: MB of 2^20, percent, watts, degrees Celsius."
_MLU = "mlu-exporter: percent, watts and degrees Celsius."

_DEVICE: tuple[Row, ...] = (
    ("DCGM_FI_DEV_GPU_UTIL", "utilization", PERCENT, _DCGM_PERCENT),
    (
        "DCGM_FI_DEV_GPU_UTIL_RATIO",
        "utilization",
        None,
        "One name, two units: whole percents in DCGM 4.6, 0 to 1 from 4.7 on.",
    ),
    ("gpusight_gpu_utilization_ratio", "utilization", 1.0, _OWN),
    ("nvidia_smi_utilization_gpu_ratio", "utilization", 1.0, _NVIDIA_SMI),
    ("nvshare_gpu_utilization_ratio", "utilization", 1.0, "nvshare: help says 0~1, the value is NVML's percent / 100."),
    ("HostCoreUtilization", "utilization", PERCENT, "HAMi passes on NVML's whole percents."),
    ("hami_host_gpu_utilization_ratio", "utilization", PERCENT, "HAMi's help says 0-100 in spite of the suffix."),
    ("all_smi_gpu_utilization", "utilization", PERCENT, "all-smi: help says percentage."),
    ("dcgm_gpu_utilization", "utilization", PERCENT, _V1_PERCENT),
    ("npu_chip_info_utilization", "utilization", PERCENT, _NPU),
    ("dcu_utilizationrate", "utilization", PERCENT, _DCU),
    ("mx_gpu_usage", "utilization", PERCENT, "mx-exporter: percent, as its users divide it by 100."),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "engine_active", 1.0, _PROF),
    ("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", "engine_active", 1.0, _PROF),
    ("gpusight_gpu_graphics_active_ratio", "engine_active", 1.0, _OWN),
    ("gpusight_mig_graphics_active_ratio", "engine_active", 1.0, _OWN),
    ("nvidia_smi_mig_graphics_activity_ratio", "engine_active", 1.0, _NVIDIA_SMI),
    ("DCGM_FI_PROF_SM_ACTIVE", "sm_active", 1.0, _PROF),
    ("DCGM_FI_PROF_SM_UTIL_RATIO", "sm_active", 1.0, _PROF),
    ("gpusight_gpu_sm_active_ratio", "sm_active", 1.0, _OWN),
    ("gpusight_mig_sm_active_ratio", "sm_active", 1.0, _OWN),
    ("nvidia_smi_mig_sm_activity_ratio", "sm_active", 1.0, _NVIDIA_SMI),
    ("DCGM_FI_PROF_SM_OCCUPANCY", "sm_occupancy", 1.0, _PROF),
    ("DCGM_FI_PROF_SM_OCCUPANCY_RATIO", "sm_occupancy", 1.0, _PROF),
    ("gpusight_gpu_sm_occupancy_ratio", "sm_occupancy", 1.0, _OWN),
    ("gpusight_mig_sm_occupancy_ratio", "sm_occupancy", 1.0, _OWN),
    ("nvidia_smi_mig_sm_occupancy_ratio", "sm_occupancy", 1.0, _NVIDIA_SMI),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "tensor_active", 1.0, _PROF),
    ("DCGM_FI_PROF_TENSOR_UTIL_RATIO", "tensor_active", 1.0, _PROF),
    ("gpusight_gpu_tensor_active_ratio", "tensor_active", 1.0, _OWN),
    ("gpusight_mig_tensor_active_ratio", "tensor_active", 1.0, _OWN),
    ("nvidia_smi_mig_tensor_activity_ratio", "tensor_active", 1.0, _NVIDIA_SMI),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "dram_active", 1.0, _PROF),
    ("DCGM_FI_PROF_DRAM_UTIL_RATIO", "dram_active", 1.0, _PROF),
    ("gpusight_gpu_dram_active_ratio", "dram_active", 1.0, _OWN),
    ("gpusight_mig_dram_active_ratio", "dram_active", 1.0, _OWN),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "memory_copy", PERCENT, _DCGM_PERCENT),
    ("DCGM_FI_DEV_MEMORY_UTIL_RATIO", "memory_copy", 1.0, _BASE),
    ("gpusight_gpu_memory_utilization_ratio", "memory_copy", 1.0, _OWN),
    ("nvidia_smi_utilization_memory_ratio", "memory_copy", 1.0, _NVIDIA_SMI),
    ("nvshare_gpu_memory_utilization_ratio", "memory_copy", 1.0, "nvshare: memory controller, 0~1."),
    (
        "hami_host_gpu_memory_controller_utilization_ratio",
        "memory_copy",
        PERCENT,
        "HAMi's help says 0-100 in spite of the suffix.",
    ),
    ("dcgm_mem_copy_utilization", "memory_copy", PERCENT, _V1_PERCENT),
    ("DCGM_FI_DEV_FB_USED", "memory_used", MIB, _DCGM_MIB),
    ("DCGM_FI_DEV_FB_USED_BYTES", "memory_used", 1.0, _BASE),
    ("gpusight_gpu_memory_used_bytes", "memory_used", 1.0, _OWN),
    ("gpusight_mig_memory_used_bytes", "memory_used", 1.0, _OWN),
    ("nvidia_smi_memory_used_bytes", "memory_used", 1.0, _NVIDIA_SMI),
    ("nvidia_smi_mig_memory_used_bytes", "memory_used", 1.0, _NVIDIA_SMI),
    ("nvshare_gpu_memory_used_bytes", "memory_used", 1.0, _NVSHARE),
    ("HostGPUMemoryUsage", "memory_used", 1.0, _HAMI_BYTES),
    ("hami_host_gpu_memory_used_bytes", "memory_used", 1.0, _HAMI_BYTES),
    ("hw_gpu_memory_usage_bytes", "memory_used", 1.0, _OTEL),
    ("all_smi_gpu_memory_used_bytes", "memory_used", 1.0, _ALL_SMI),
    ("dcgm_fb_used", "memory_used", MIB, _V1_MIB),
    ("npu_chip_info_hbm_used_memory", "memory_used", MIB, _NPU),
    ("dcu_usedmemory_bytes", "memory_used", 1.0, _DCU),
    ("DCGM_FI_DEV_FB_FREE", "memory_free", MIB, _DCGM_MIB),
    ("DCGM_FI_DEV_FB_FREE_BYTES", "memory_free", 1.0, _BASE),
    ("gpusight_gpu_memory_free_bytes", "memory_free", 1.0, _OWN),
    ("gpusight_mig_memory_free_bytes", "memory_free", 1.0, _OWN),
    ("nvidia_smi_memory_free_bytes", "memory_free", 1.0, _NVIDIA_SMI),
    ("nvidia_smi_mig_memory_free_bytes", "memory_free", 1.0, _NVIDIA_SMI),
    ("nvshare_gpu_memory_free_bytes", "memory_free", 1.0, _NVSHARE),
    ("dcgm_fb_free", "memory_free", MIB, _V1_MIB),
    ("DCGM_FI_DEV_FB_RESERVED", "memory_reserved", MIB, _DCGM_MIB),
    ("DCGM_FI_DEV_FB_RESERVED_BYTES", "memory_reserved", 1.0, _BASE),
    ("gpusight_gpu_memory_reserved_bytes", "memory_reserved", 1.0, _OWN),
    ("nvidia_smi_memory_reserved_bytes", "memory_reserved", 1.0, _NVIDIA_SMI),
    ("nvidia_smi_mig_memory_reserved_bytes", "memory_reserved", 1.0, _NVIDIA_SMI),
    ("DCGM_FI_DEV_FB_TOTAL", "memory_total", MIB, _DCGM_MIB),
    ("DCGM_FI_DEV_FB_CAPACITY_BYTES", "memory_total", 1.0, _BASE),
    ("gpusight_gpu_memory_total_bytes", "memory_total", 1.0, _OWN),
    ("gpusight_mig_memory_total_bytes", "memory_total", 1.0, _OWN),
    ("nvidia_smi_memory_total_bytes", "memory_total", 1.0, _NVIDIA_SMI),
    ("nvidia_smi_mig_memory_total_bytes", "memory_total", 1.0, _NVIDIA_SMI),
    ("nvshare_gpu_memory_total_bytes", "memory_total", 1.0, _NVSHARE),
    ("hw_gpu_memory_limit_bytes", "memory_total", 1.0, _OTEL),
    ("all_smi_gpu_memory_total_bytes", "memory_total", 1.0, _ALL_SMI),
    ("dcgm_fb_total", "memory_total", MIB, _V1_MIB),
    ("npu_chip_info_hbm_total_memory", "memory_total", MIB, _NPU),
    ("dcu_memorycap_bytes", "memory_total", 1.0, _DCU),
    ("DCGM_FI_DEV_POWER_USAGE", "power", 1.0, "dcgm-exporter's help says W."),
    ("DCGM_FI_DEV_BOARD_POWER_WATTS", "power", 1.0, _RENAMED),
    ("gpusight_gpu_power_watts", "power", 1.0, _OWN),
    ("nvidia_smi_power_draw_watts", "power", 1.0, _NVIDIA_SMI),
    ("hami_host_gpu_power_usage_watts", "power", 1.0, "HAMi divides NVML's milliwatts by 1000."),
    ("all_smi_gpu_power_consumption_watts", "power", 1.0, _ALL_SMI),
    ("dcgm_power_usage", "power", 1.0, "dcgm-exporter 1.x: help says W."),
    ("npu_chip_info_power", "power", 1.0, _NPU),
    ("dcu_power_usage", "power", 1.0, _DCU),
    ("mx_board_power", "power", MILLI, "mx-exporter reports milliwatts: HAMi's web interface divides by 1000."),
    ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "power_limit", 1.0, "DCGM's field 164 is in watts."),
    ("DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", "power_limit", 1.0, _RENAMED),
    ("gpusight_gpu_power_limit_watts", "power_limit", 1.0, _OWN),
    ("nvidia_smi_enforced_power_limit_watts", "power_limit", 1.0, _NVIDIA_SMI),
    ("DCGM_FI_DEV_POWER_MGMT_LIMIT", "power_limit", 1.0, "DCGM's field 160 is in watts: what was asked for."),
    ("DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS", "power_limit", 1.0, _RENAMED),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "energy", MILLI, "dcgm-exporter's help says mJ."),
    ("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", "energy", 1.0, _BASE),
    ("gpusight_gpu_energy_joules_total", "energy", 1.0, _OWN),
    ("nvidia_smi_energy_joules_total", "energy", 1.0, _NVIDIA_SMI),
    ("all_smi_energy_consumed_joules_total", "energy", 1.0, _ALL_SMI),
    ("dcgm_total_energy_consumption", "energy", MILLI, "dcgm-exporter 1.x: help says mJ."),
    ("DCGM_FI_DEV_SM_CLOCK", "sm_clock", MEGA, "dcgm-exporter's help says MHz."),
    ("DCGM_FI_DEV_SM_CLOCK_HERTZ", "sm_clock", 1.0, _BASE),
    ("gpusight_gpu_sm_clock_hertz", "sm_clock", 1.0, _OWN),
    ("nvidia_smi_clocks_current_sm_clock_hz", "sm_clock", 1.0, _NVIDIA_SMI),
    ("dcgm_sm_clock", "sm_clock", MEGA, "dcgm-exporter 1.x: help says MHz."),
    ("DCGM_FI_DEV_GPU_TEMP", "temperature", 1.0, "dcgm-exporter's help says C."),
    ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", "temperature", 1.0, _RENAMED),
    ("gpusight_gpu_temperature_celsius", "temperature", 1.0, _OWN),
    ("nvidia_smi_temperature_gpu", "temperature", 1.0, "nvidia-smi's temperature.gpu is in degrees Celsius."),
    ("hami_host_gpu_temperature_celsius", "temperature", 1.0, "HAMi passes on NVML's degrees Celsius."),
    ("all_smi_gpu_temperature_celsius", "temperature", 1.0, _ALL_SMI),
    ("dcgm_gpu_temp", "temperature", 1.0, "dcgm-exporter 1.x: help says C."),
    ("npu_chip_info_temperature", "temperature", 1.0, _NPU),
    ("dcu_temp", "temperature", 1.0, _DCU),
    ("mx_chip_hotspot_temp", "temperature", None, "mx-exporter: no source says the unit."),
    ("DCGM_FI_PROF_PCIE_TX_BYTES", "pcie_transmit", 1.0, _PROF_RATE),
    ("gpusight_gpu_pcie_transmit_bytes_per_second", "pcie_transmit", 1.0, _OWN),
    ("nvidia_smi_pcie_throughput_tx_bytes_per_second", "pcie_transmit", 1.0, _NVIDIA_SMI),
    ("nvidia_smi_mig_pcie_throughput_tx_bytes_per_second", "pcie_transmit", 1.0, _NVIDIA_SMI),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", "pcie_receive", 1.0, _PROF_RATE),
    ("gpusight_gpu_pcie_receive_bytes_per_second", "pcie_receive", 1.0, _OWN),
    ("nvidia_smi_pcie_throughput_rx_bytes_per_second", "pcie_receive", 1.0, _NVIDIA_SMI),
    ("nvidia_smi_mig_pcie_throughput_rx_bytes_per_second", "pcie_receive", 1.0, _NVIDIA_SMI),
)

_MLU_CARDS: tuple[Row, ...] = (
    ("mlu_utilization", "utilization", PERCENT, _MLU),
    ("mlu_memory_used", "memory_used", None, "mlu-exporter: no source says whether bytes or MiB."),
    ("mlu_memory_total", "memory_total", None, "mlu-exporter: no source says whether bytes or MiB."),
    ("mlu_power_usage", "power", 1.0, _MLU),
    ("mlu_temperature", "temperature", 1.0, _MLU),
)

_OTEL_TASKS: tuple[Row, ...] = (("hw_gpu_utilization_ratio", "utilization", 1.0, _OTEL),)

_METAX: tuple[Row, ...] = (
    ("mx_memory_used", "memory_used", None, "mx-exporter: no source proves the unit; its users take KiB."),
    ("mx_memory_total", "memory_total", None, "mx-exporter: no source proves the unit; its users take KiB."),
)

_HOLDER: tuple[Row, ...] = (
    ("gpusight_container_gpu_utilization_ratio", "utilization", 1.0, _OWN),
    ("gpusight_container_gpu_memory_used_bytes", "memory_used", 1.0, _OWN),
    ("vGPU_device_memory_usage_in_bytes", "memory_used", 1.0, _HAMI_BYTES),
    ("hami_vgpu_memory_used_bytes", "memory_used", 1.0, _HAMI_BYTES),
    ("hami_container_device_memory_bytes", "memory_used", 1.0, _HAMI_BYTES),
    ("gpusight_container_gpu_memory_limit_bytes", "memory_total", 1.0, _OWN),
    ("vGPU_device_memory_limit_in_bytes", "memory_total", 1.0, "HAMi passes on bytes; 0 means no limit: unknown."),
    ("hami_vgpu_memory_limit_bytes", "memory_total", 1.0, "HAMi passes on bytes; 0 means no limit: unknown."),
    ("gpusight_container_gpu_energy_joules_total", "energy", 1.0, _OWN),
    ("hami_container_last_kernel_elapsed_seconds", "last_kernel", 1.0, "HAMi: seconds, named in the suffix."),
    ("Device_last_kernel_of_container", "last_kernel", 1.0, "HAMi subtracts Unix seconds."),
)

_HAMI_SHARE: tuple[Row, ...] = (
    (
        "hami_container_device_utilization_ratio",
        "utilization",
        PERCENT,
        "HAMi sums its processes' percents of the whole GPU, in spite of the suffix; the sum may exceed 100.",
    ),
    (
        "Device_utilization_desc_of_container",
        "utilization",
        PERCENT,
        "HAMi sums its processes' percents of the whole GPU; the sum may exceed 100.",
    ),
)

_CLIENTS: tuple[Row, ...] = (
    ("nvshare_client_nvml_used_bytes", "memory_used", 1.0, "nvshare: NVML's bytes of one process."),
    ("nvshare_client_allocated_bytes", "memory_used", 1.0, _NVSHARE),
    ("nvshare_client_managed_allocated_bytes", "memory_used", 1.0, _NVSHARE),
    ("nvshare_client_memory_quota_bytes", "memory_total", 1.0, "nvshare: bytes; 0 means no quota: unknown."),
)

SOURCES: tuple[Source, ...] = (
    *_table("device", _DEVICE),
    *_table("device", _OTEL_TASKS, only={"hw_gpu_task": "general"}),
    *_table("device", _MLU_CARDS, only={"vf": ""}),
    *_table("device", _METAX, only={"type": "vram"}),
    *_table("holder", _HOLDER),
    *_table("holder", _HAMI_SHARE, ceiling=16.0),
    *_table("holder", _CLIENTS, summed=True),
)
