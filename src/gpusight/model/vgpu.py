"""What libvgpu's shared regions say: one region per container, written by the container itself, so never trusted."""

from dataclasses import dataclass
from typing import Literal

from gpusight.model.identity import ContainerPid, GpuUuid, HostPid
from gpusight.model.units import Bytes

Layout = Literal["A", "B", "C", "D", "E", "F"]
"""The six layouts in the wild, by the names of the format notes in docs."""

RegionProblem = Literal[
    "truncated", "wrong_size", "bad_magic", "not_ready", "unknown_version", "not_a_file", "link", "unreadable",
    "corrupt", "over_limit", "bad_directory_name",
]  # fmt: skip
"""Why a file or directory gave no region."""


@dataclass(frozen=True, slots=True)
class RegionDevice:
    """One GPU as the container sees it, summed over its living processes. None is unknown."""

    index: int
    uuid: GpuUuid
    limit: Bytes
    """0 means no limit."""
    sm_limit: int | None
    used: Bytes | None
    context: Bytes | None
    module: Bytes | None
    buffer: Bytes | None
    offset: Bytes | None
    monitor_used: Bytes | None
    """What NVML says that these processes hold."""
    sm_percent: int | None
    encoder_percent: int | None
    decoder_percent: int | None


@dataclass(frozen=True, slots=True)
class RegionProcess:
    """One living slot."""

    container_pid: ContainerPid
    host_pid: HostPid | None
    status: int
    used: tuple[Bytes | None, ...]
    """Per device of the region."""


@dataclass(frozen=True, slots=True)
class Region:
    """One container's shared region, copied at one instant."""

    layout: Layout
    devices: tuple[RegionDevice, ...]
    processes: tuple[RegionProcess, ...]
    last_kernel_at: float | None
    """Unix time; None where the layout has none or nothing ran yet."""
    priority: int
    recent_kernel: int
    utilization_switch: int
    is_torn: bool = False
    """A slot changed while it was copied, several times over: its numbers may be mixed."""


@dataclass(frozen=True, slots=True)
class ContainerRegion:
    """A container directory `<podUID>_<container>` and the region found in it; None before the container used CUDA."""

    pod_uid: str
    container: str
    region: Region | None
    problem: RegionProblem | None = None


@dataclass(frozen=True, slots=True)
class VgpuSnapshot:
    """All container directories of a node."""

    taken_at: float
    is_present: bool
    """Whether the directory exists at all: without it HAMi does not run here."""
    containers: tuple[ContainerRegion, ...] = ()
    problems: tuple[tuple[RegionProblem, int], ...] = ()
    """How many entries gave nothing, by reason, this time."""
    junk: tuple[str, ...] = ()
    """Some names of entries that are no container's directory, as they stand on the disk: anything may be in them."""
