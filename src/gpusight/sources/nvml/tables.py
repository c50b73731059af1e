"""What is asked of a device, as data: NVML's functions and numbers on one side, our fields and words on the other."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

import pynvml


def _percent(value: int) -> float:
    return value / 100


def _thousandths(value: int) -> float:
    return value / 1000


def _megahertz(value: int) -> int:
    return value * 1_000_000


def _first(pair: list[int]) -> int:
    return pair[0]


class Probe(NamedTuple):
    """One number, from the first of `functions` that answers, believed from `low` to `high` in NVML's unit."""

    field: str
    functions: tuple[str, ...]
    args: tuple[int, ...] = ()
    low: float = 0
    high: float = 2**32 - 2  # all ones is how drivers spell "I do not know"
    convert: Callable[[int], Any] = int
    pick: Callable[[Any], int] | None = None


def _clock(field: str, kind: int, function: str = "nvmlDeviceGetClockInfo") -> Probe:
    return Probe(field, (function,), (kind,), high=50_000, convert=_megahertz)


def _engine(field: str, function: str) -> Probe:
    return Probe(field, (function,), high=100, convert=_percent, pick=_first)


EVERY_SWEEP: Final = (
    Probe("power_watts", ("nvmlDeviceGetPowerUsage",), high=20_000_000, convert=_thousandths),
    Probe("energy_joules", ("nvmlDeviceGetTotalEnergyConsumption",), high=2**63, convert=_thousandths),
    _clock("sm_clock_hertz", pynvml.NVML_CLOCK_SM),
    _clock("memory_clock_hertz", pynvml.NVML_CLOCK_MEM),
    _clock("graphics_clock_hertz", pynvml.NVML_CLOCK_GRAPHICS),
    _clock("video_clock_hertz", pynvml.NVML_CLOCK_VIDEO),
    Probe(
        "temperature_celsius",
        ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"),
        (pynvml.NVML_TEMPERATURE_GPU,),
        low=-50,
        high=150,
        convert=float,
    ),
    Probe("performance_state", ("nvmlDeviceGetPerformanceState",), high=pynvml.NVML_PSTATE_15),
    _engine("encoder_utilization", "nvmlDeviceGetEncoderUtilization"),
    _engine("decoder_utilization", "nvmlDeviceGetDecoderUtilization"),
)

NOW_AND_THEN: Final = (
    Probe("power_limit_watts", ("nvmlDeviceGetEnforcedPowerLimit",), low=1, high=20_000_000, convert=_thousandths),
    Probe("persistence_mode", ("nvmlDeviceGetPersistenceMode",), high=1, convert=bool),
    Probe("retired_pages_pending", ("nvmlDeviceGetRetiredPagesPendingStatus",), high=1, convert=bool),
    Probe("pcie_generation", ("nvmlDeviceGetCurrPcieLinkGeneration",), low=1, high=16),
    Probe("pcie_width", ("nvmlDeviceGetCurrPcieLinkWidth",), low=1, high=64),
    Probe("pcie_replays", ("nvmlDeviceGetPcieReplayCounter",)),
)

RARELY: Final = (
    Probe("minor_number", ("nvmlDeviceGetMinorNumber",), high=65_535),
    Probe(
        "slowdown_temperature_celsius",
        ("nvmlDeviceGetTemperatureThreshold",),
        (pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN,),
        low=1,
        high=200,
        convert=float,
    ),
    _clock("max_sm_clock_hertz", pynvml.NVML_CLOCK_SM, "nvmlDeviceGetMaxClockInfo"),
    Probe("pcie_max_generation", ("nvmlDeviceGetMaxPcieLinkGeneration",), low=1, high=16),
    Probe("pcie_max_width", ("nvmlDeviceGetMaxPcieLinkWidth",), low=1, high=64),
)

THROUGHPUT: Final = (
    # NVML documents KB/s; the binding's other rates are MiB/s and say so.
    Probe(
        "pcie_tx_bytes_per_second",
        ("nvmlDeviceGetPcieThroughput",),
        (pynvml.NVML_PCIE_UTIL_TX_BYTES,),
        high=10**9,
        convert=lambda value: value * 1000.0,
    ),
    Probe(
        "pcie_rx_bytes_per_second",
        ("nvmlDeviceGetPcieThroughput",),
        (pynvml.NVML_PCIE_UTIL_RX_BYTES,),
        high=10**9,
        convert=lambda value: value * 1000.0,
    ),
)

THROTTLE_FUNCTIONS: Final = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")

THROTTLE_REASONS: Final[Mapping[int, str]] = {
    pynvml.nvmlClocksEventReasonGpuIdle: "gpu_idle",
    pynvml.nvmlClocksEventReasonApplicationsClocksSetting: "applications_clocks",
    pynvml.nvmlClocksEventReasonSwPowerCap: "sw_power_cap",
    pynvml.nvmlClocksEventReasonHwSlowdown: "hw_slowdown",
    pynvml.nvmlClocksEventReasonSyncBoost: "sync_boost",
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "sw_thermal",
    pynvml.nvmlClocksEventReasonHwThermalSlowdown: "hw_thermal",
    pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "hw_power_brake",
    pynvml.nvmlClocksEventReasonDisplayClockSetting: "display_clocks",
}
"""Any other bit is told as `other`."""

BRANDS: Final[Mapping[int, str]] = {
    pynvml.NVML_BRAND_QUADRO: "quadro",
    pynvml.NVML_BRAND_TESLA: "tesla",
    pynvml.NVML_BRAND_NVS: "nvs",
    pynvml.NVML_BRAND_GRID: "grid",
    pynvml.NVML_BRAND_GEFORCE: "geforce",
    pynvml.NVML_BRAND_TITAN: "titan",
    pynvml.NVML_BRAND_NVIDIA_VAPPS: "nvidia_vapps",
    pynvml.NVML_BRAND_NVIDIA_VPC: "nvidia_vpc",
    pynvml.NVML_BRAND_NVIDIA_VCS: "nvidia_vcs",
    pynvml.NVML_BRAND_NVIDIA_VWS: "nvidia_vws",
    pynvml.NVML_BRAND_NVIDIA_CLOUD_GAMING: "nvidia_cloud_gaming",
    pynvml.NVML_BRAND_QUADRO_RTX: "quadro_rtx",
    pynvml.NVML_BRAND_NVIDIA_RTX: "nvidia_rtx",
    pynvml.NVML_BRAND_NVIDIA: "nvidia",
    pynvml.NVML_BRAND_GEFORCE_RTX: "geforce_rtx",
    pynvml.NVML_BRAND_TITAN_RTX: "titan_rtx",
}

COMPUTE_MODES: Final[Mapping[int, str]] = {
    pynvml.NVML_COMPUTEMODE_DEFAULT: "default",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_THREAD: "exclusive_thread",
    pynvml.NVML_COMPUTEMODE_PROHIBITED: "prohibited",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive_process",
}

_CORRECTED, _UNCORRECTED = pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
_VOLATILE, _AGGREGATE = pynvml.NVML_VOLATILE_ECC, pynvml.NVML_AGGREGATE_ECC

ECC_COUNTS: Final[
    tuple[tuple[Literal["corrected", "uncorrected"], Literal["volatile", "aggregate"], int, int], ...]
] = (
    ("corrected", "volatile", _CORRECTED, _VOLATILE),
    ("corrected", "aggregate", _CORRECTED, _AGGREGATE),
    ("uncorrected", "volatile", _UNCORRECTED, _VOLATILE),
    ("uncorrected", "aggregate", _UNCORRECTED, _AGGREGATE),
)

NVLINK_ERRORS: Final[Mapping[str, tuple[int, ...]]] = {
    "replay_errors": (pynvml.NVML_NVLINK_ERROR_DL_REPLAY,),
    "recovery_errors": (pynvml.NVML_NVLINK_ERROR_DL_RECOVERY,),
    "crc_errors": (pynvml.NVML_NVLINK_ERROR_DL_CRC_FLIT, pynvml.NVML_NVLINK_ERROR_DL_CRC_DATA),
}
"""Our counters of a link, each the sum of NVML's."""

FIELD_VALUE_TYPES: Final[Mapping[int, str]] = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}
"""Which member of the union holds a field's value."""


_ALL_LINKS: Final = 2**32 - 1

MEMORY_TEMPERATURE_FIELD: Final = pynvml.NVML_FI_DEV_MEMORY_TEMP
LINK_TRAFFIC_FIELDS: Final = (
    pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
    pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
)
"""KiB since the driver was loaded."""
FIELDS: Final = (MEMORY_TEMPERATURE_FIELD, *((field, _ALL_LINKS) for field in LINK_TRAFFIC_FIELDS))
"""What is asked in one call, in every sweep."""


class GpmMetric(NamedTuple):
    """One GPM metric. A percentage becomes a ratio, MiB/s become bytes/s."""

    name: str
    id: int
    high: float
    factor: float


def _ratio(name: str, metric: int) -> GpmMetric:
    return GpmMetric(name, metric, 101.0, 0.01)  # hardware rounds a little above 100


def _rate(name: str, metric: int) -> GpmMetric:
    return GpmMetric(name, metric, 1e7, 1024.0 * 1024.0)


GPM_METRICS: Final = (
    _ratio("gr_engine_active", pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL),
    _ratio("sm_active", pynvml.NVML_GPM_METRIC_SM_UTIL),
    _ratio("sm_occupancy", pynvml.NVML_GPM_METRIC_SM_OCCUPANCY),
    # Two ids for one name: the later stands where the device knows both.
    _ratio("tensor_active", pynvml.NVML_GPM_METRIC_HMMA_TENSOR_UTIL),
    _ratio("tensor_active", pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL),
    _ratio("dram_active", pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL),
    _ratio("fp64_active", pynvml.NVML_GPM_METRIC_FP64_UTIL),
    _ratio("fp32_active", pynvml.NVML_GPM_METRIC_FP32_UTIL),
    _ratio("fp16_active", pynvml.NVML_GPM_METRIC_FP16_UTIL),
    _rate("pcie_tx_bytes_per_second", pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC),
    _rate("pcie_rx_bytes_per_second", pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC),
    _rate("nvlink_tx_bytes_per_second", pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC),
    _rate("nvlink_rx_bytes_per_second", pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC),
)

PROCESS_LISTS: Final[tuple[tuple[Literal["compute", "graphics"], tuple[str, ...]], ...]] = (
    ("compute", ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")),
    ("compute", ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2")),
    ("graphics", ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2")),
)
"""Clients of an MPS server stand in a list of their own."""
