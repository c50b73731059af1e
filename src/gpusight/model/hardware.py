"""What one node's GPUs say of themselves at one instant. A reading that could not be had is None, never 0."""

from dataclasses import dataclass, field
from typing import Literal

from gpusight.model.identity import GpuUuid, HostPid, MigUuid
from gpusight.model.units import Bytes, Ratio

DownReason = Literal["blocked", "lost", "reset_required", "no_permission", "bad_identity", "error"]
"""Why a device has no reading: its calls do not return, the driver says it fell off the bus, ..."""

BackendReason = Literal[
    "", "no_library", "no_driver", "version_mismatch", "no_permission", "blocked", "crashed", "error"
]
"""Why NVML as a whole gives nothing; empty while it works."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds a context on the device. `memory` is None where the driver does not tell."""

    pid: HostPid
    kind: Literal["compute", "graphics"]
    memory: Bytes | None = None
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessUtilization:
    """A process's share of the device's time over the last sampling period."""

    pid: HostPid
    sm: Ratio
    memory: Ratio
    encoder: Ratio
    decoder: Ratio


@dataclass(frozen=True, slots=True)
class MigReading:
    """One MIG instance of a device."""

    uuid: MigUuid
    gpu_instance_id: int
    compute_instance_id: int
    profile: str
    memory_total: Bytes | None = None
    memory_used: Bytes | None = None
    memory_free: Bytes | None = None
    gpu_slices: int | None = None
    sm_count: int | None = None
    gpm: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NvLink:
    """One NVLink of a device."""

    link: int
    is_active: bool
    replay_errors: int | None = None
    recovery_errors: int | None = None
    crc_errors: int | None = None


@dataclass(frozen=True, slots=True)
class EccCount:
    """Errors of one kind since `volatile` (driver load) or `aggregate` (life of the board)."""

    kind: Literal["corrected", "uncorrected"]
    span: Literal["volatile", "aggregate"]
    count: int


@dataclass(frozen=True, slots=True)
class RemappedRows:
    correctable: int
    uncorrectable: int
    is_pending: bool
    has_failed: bool


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One device. Units are the base units of the names: bytes, ratios 0-1, watts, joules, hertz, celsius."""

    uuid: GpuUuid
    index: int
    name: str
    taken_at: float
    """Unix time of the reading."""
    minor_number: int | None = None
    pci_bus_id: str | None = None
    serial: str | None = None
    brand: str | None = None
    is_unified_memory: bool = False
    memory_total: Bytes | None = None
    memory_used: Bytes | None = None
    """Without what the driver reserves."""
    memory_free: Bytes | None = None
    memory_reserved: Bytes | None = None
    bar1_total: Bytes | None = None
    bar1_used: Bytes | None = None
    utilization: Ratio | None = None
    memory_utilization: Ratio | None = None
    encoder_utilization: Ratio | None = None
    decoder_utilization: Ratio | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    """The enforced limit."""
    energy_joules: float | None = None
    sm_clock_hertz: int | None = None
    memory_clock_hertz: int | None = None
    graphics_clock_hertz: int | None = None
    video_clock_hertz: int | None = None
    max_sm_clock_hertz: int | None = None
    temperature_celsius: float | None = None
    memory_temperature_celsius: float | None = None
    slowdown_temperature_celsius: float | None = None
    fan_ratios: tuple[float, ...] = ()
    performance_state: int | None = None
    compute_mode: str | None = None
    persistence_mode: bool | None = None
    throttle_reasons: tuple[str, ...] | None = None
    """Clock event reasons in force, by our own words (see sources.nvml); None where the driver does not tell."""
    ecc: tuple[EccCount, ...] = ()
    remapped_rows: RemappedRows | None = None
    retired_pages_pending: bool | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_max_generation: int | None = None
    pcie_max_width: int | None = None
    pcie_replays: int | None = None
    pcie_tx_bytes_per_second: float | None = None
    pcie_rx_bytes_per_second: float | None = None
    nvlinks: tuple[NvLink, ...] = ()
    nvlink_bytes_per_second: float | None = None
    """Data over all links, both ways together, since the reading before."""
    mig_mode: bool | None = None
    mig: tuple[MigReading, ...] = ()
    processes: tuple[GpuProcess, ...] | None = None
    process_utilization: tuple[ProcessUtilization, ...] | None = None
    gpm: dict[str, float] = field(default_factory=dict)
    """GPM ratios 0-1 by our own words (sm_active, sm_occupancy, tensor_active, dram_active, ...); rates in bytes/s."""


@dataclass(frozen=True, slots=True)
class DeviceDown:
    """A device that exists, or did a moment ago, and cannot be read now."""

    index: int
    reason: DownReason
    since: float
    uuid: GpuUuid | None = None
    name: str | None = None
    code: int | None = None
    """NVML's return code, where there is one."""


@dataclass(frozen=True, slots=True)
class XidEvent:
    """A critical error that the driver reported through NVML's event set."""

    uuid: GpuUuid
    xid: int
    at: float


@dataclass(frozen=True, slots=True)
class HardwareSnapshot:
    """All devices of one node at one instant."""

    taken_at: float
    is_up: bool
    reason: BackendReason = ""
    detail: str = ""
    driver_version: str | None = None
    nvml_version: str | None = None
    cuda_version: str | None = None
    gpus: tuple[GpuReading, ...] = ()
    down: tuple[DeviceDown, ...] = ()
    xids: tuple[XidEvent, ...] = ()
    """Events since the snapshot before this one."""
    is_simulated: bool = False
