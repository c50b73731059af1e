"""What the node's collectors look at: everything known of one node at one instant. Pure data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from gpusight.model.hardware import GpuReading, HardwareSnapshot
from gpusight.model.identity import ContainerRef, GpuUuid
from gpusight.model.ownership import Holder, Ownership, PodAllocations, PodInfo
from gpusight.model.units import Ratio, ratio_to_percent
from gpusight.model.vgpu import VgpuSnapshot


class ContainerName(NamedTuple):
    """A container as labels name it. A recreated pod keeps its name, so two pods may be one here."""

    namespace: str
    pod: str
    container: str


class XidTotal(NamedTuple):
    """Errors of one code on one device."""

    errors: int
    last_at: float


class Spent(NamedTuple):
    """Energy charged to a container, and when it last held the device."""

    joules: float
    seen_at: float


class NvmlHealth(NamedTuple):
    """How the reading of the driver went so far."""

    children: int
    failures: Mapping[str, int]
    implausible: Mapping[str, int]


class SourceHealth(NamedTuple):
    """How the reading of a source of names and grants goes."""

    name: str
    is_up: bool
    reason: str
    """Why it says nothing new; empty while it does."""
    heard_at: float | None
    """Unix time when it last said anything."""
    failures: Mapping[str, int]
    """So far, by reason."""
    unusable: int | None = None
    """Entries of its last answer that could not be used."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What adds up from reading to reading, since the process started; see `totals.accumulate`."""

    xids: Mapping[tuple[GpuUuid, int], XidTotal] = field(default_factory=dict)
    throttle_seconds: Mapping[tuple[GpuUuid, str], float] = field(default_factory=dict)
    container_energy: Mapping[tuple[GpuUuid, ContainerName], Spent] = field(default_factory=dict)
    idle_energy: Mapping[GpuUuid, float] = field(default_factory=dict)
    unattributed_energy: Mapping[GpuUuid, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node. A source that was not asked or did not answer is None: its families are absent."""

    node: str
    now: float
    hardware: HardwareSnapshot | None = None
    vgpu: VgpuSnapshot | None = None
    ownership: Ownership = field(default_factory=Ownership)
    pods: Sequence[PodInfo] = ()
    allocations: Mapping[str, PodAllocations] = field(default_factory=dict)
    """What HAMi's annotations on the pods say, by pod UID."""
    totals: Totals = field(default_factory=Totals)
    nvml: NvmlHealth | None = None
    other_exporters: Sequence[str] = ()
    sources: Sequence[SourceHealth] = ()
    is_simulated: bool = False
    memo: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What several collectors work out from the same view: worked out once."""

    @property
    def gpus(self) -> tuple[GpuReading, ...]:
        """The devices that could be read. One that is down has no reading, whatever was read of it before."""
        if self.hardware is None or not self.hardware.is_up:
            return ()
        if not self.hardware.down:
            return self.hardware.gpus
        # A number alone proves little: the driver counts anew when a device is gone.
        down = {device.index if device.uuid is None else device.uuid for device in self.hardware.down}
        return tuple(gpu for gpu in self.hardware.gpus if not {gpu.uuid, gpu.index} & down)


Look = Callable[[], NodeView]
"""The view of this moment."""


def name_of(holder: Holder) -> ContainerName | None:
    """The labels of a holder; None if some of its names are not known."""
    return _name(holder.container)


@lru_cache(maxsize=4096)
def _name(container: ContainerRef) -> ContainerName | None:
    name = ContainerName(container.pod.namespace, container.pod.name, container.name)
    return name if all(name) else None


def percent(ratio: Ratio | None) -> float | None:
    """For families of others; NVML's whole percents come out as whole as they went in."""
    return None if ratio is None else round(ratio_to_percent(ratio), 6)
