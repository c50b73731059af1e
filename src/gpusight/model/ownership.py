"""Who holds which GPU on a node, as each source tells it, and the join made of them."""

from dataclasses import dataclass, field
from typing import Literal

from gpusight.model.identity import ContainerRef, HostPid, PodRef
from gpusight.model.units import Bytes

How = Literal["pod_resources", "dra", "hami_directory", "kubernetes_api", "cgroup", "mig_annotation"]
"""How a join was made."""

JoinFailure = Literal[
    "no_kubelet_socket", "unknown_pod_uid", "unknown_device_id", "no_cgroup", "process_gone", "not_in_a_pod",
    "unsupported_device_id", "ambiguous", "no_processes",
]  # fmt: skip
"""Why a join could not be made."""


@dataclass(frozen=True, slots=True)
class DeviceGrant:
    """The kubelet gave this device to this container (pod-resources). `device_id` as the device plugin spells it."""

    namespace: str
    pod: str
    container: str
    resource: str
    device_id: str
    pod_uid: str = ""


@dataclass(frozen=True, slots=True)
class ClaimGrant:
    """The kubelet gave this DRA device to this container."""

    namespace: str
    pod: str
    container: str
    claim: str
    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class ProcessOwner:
    """What /proc says of a process. Ids only: names come from elsewhere."""

    pid: HostPid
    start_time: int
    """Clock ticks since boot: tells a process from a later one with the same id."""
    command: str
    pod_uid: str | None = None
    container_id: str | None = None
    slurm_job: str | None = None
    user_id: int | None = None


@dataclass(frozen=True, slots=True)
class PodInfo:
    """A pod of this node, from the API watch or the kubelet's log directories."""

    ref: PodRef
    containers: tuple[str, ...] = ()
    """Init containers first, then the others, in spec order."""
    init_containers: int = 0
    container_ids: dict[str, str] = field(default_factory=dict)
    """Container name to runtime id without its scheme."""
    phase: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceAllocation:
    """A device, or a part of it, that HAMi's scheduler gave to a container."""

    uuid: str
    kind: str
    """The vendor's word, such as `NVIDIA`."""
    memory: Bytes
    cores: int
    """Percent of the device's cores."""
    mig_slot: tuple[int, int] | None = None
    """Geometry and slot of the `[0-1]` that HAMi up to 2.9 appended to a MIG device's UUID."""


@dataclass(frozen=True, slots=True)
class MigAllocation:
    """A MIG instance that HAMi (2.10 and later) gave to a container; the last three are None until it exists."""

    container_index: int
    """Init containers count first."""
    device_index: int
    gpu_uuid: str
    profile: str
    start: int
    size: int
    mig_uuid: str | None = None
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None


@dataclass(frozen=True, slots=True)
class PodAllocations:
    """What the annotations of one pod say. Whoever may edit the pod may write them: to be checked, not trusted."""

    containers: tuple[tuple[DeviceAllocation, ...], ...] = ()
    """Per container, with empty ones in between; whether init containers are among them depends on HAMi's version."""
    mig: tuple[MigAllocation, ...] = ()


@dataclass(frozen=True, slots=True)
class Holder:
    """A container that holds a device or a part of it, and how we know."""

    container: ContainerRef
    how: How
    mig_uuid: str | None = None
    replica: str = ""
    """The time-slice replica of a shared device, where the device id names one."""


@dataclass(frozen=True, slots=True)
class Unjoined:
    """Something that could not be given an owner, and why."""

    what: str
    reason: JoinFailure


@dataclass(frozen=True, slots=True)
class Ownership:
    """The join of one instant: by device, by process and by container directory."""

    of_device: dict[str, tuple[Holder, ...]] = field(default_factory=dict)
    """GPU or MIG UUID to its holders."""
    of_process: dict[HostPid, Holder] = field(default_factory=dict)
    of_directory: dict[tuple[str, str], Holder] = field(default_factory=dict)
    """(pod UID, container) of a HAMi directory."""
    slurm_of_process: dict[HostPid, str] = field(default_factory=dict)
    unjoined: tuple[Unjoined, ...] = ()
