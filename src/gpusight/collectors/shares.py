"""Who holds each device, and how much of its memory and time is whose. The balance law is kept here.

Of a device that is busy for the share u of its time:

    containers' shares + unattributed + idle = 1,  with idle = 1 - u

A container's share comes from the first of these that says anything: the driver's shares of its processes, HAMi's count
inside it, or u itself if it alone is on the device. Where raw shares add up to more than u (kernels of two processes
may run at once), all are scaled down by one factor; where they add up to less, the rest is unattributed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpusight.collectors.grants import find_grants
from gpusight.collectors.view import ContainerName, NodeView, name_of
from gpusight.model.hardware import GpuProcess, GpuReading, MigReading
from gpusight.model.identity import GpuUuid, HostPid
from gpusight.model.ownership import How
from gpusight.model.units import Bytes, Percent, percent_to_ratio
from gpusight.model.vgpu import RegionDevice

# Who holds what.


@dataclass(slots=True)
class Holding:
    """All that is known of one container on one device."""

    how: How
    """Of the most trusted witness."""
    is_granted: bool
    """Whether Kubernetes or HAMi's scheduler gave the device to the container; else it was merely seen there."""
    migs: dict[str, MigReading | None] = field(default_factory=dict)
    """The device's MIG devices that the container holds, by UUID; None if they could not be read."""
    regions: list[RegionDevice] = field(default_factory=list)
    pids: set[HostPid] = field(default_factory=set)
    granted: Bytes | None = None
    is_untouched: bool = False
    """HAMi prepared the container, and nothing in it has called CUDA yet."""


Holders = Mapping[ContainerName, Holding]
"""The containers of one device."""

Holdings = Mapping[GpuUuid, Holders]


class _Book:
    """Holdings while witnesses are heard."""

    def __init__(self) -> None:
        self.found: dict[GpuUuid, dict[ContainerName, Holding]] = {}

    def at(self, uuid: GpuUuid, container: ContainerName, how: How, *, is_granted: bool) -> Holding:
        holders = self.found.setdefault(uuid, {})
        holding = holders.get(container)
        if holding is None:
            holding = holders[container] = Holding(how, is_granted)
        holding.is_granted |= is_granted
        return holding


def find_holdings(view: NodeView) -> Holdings:
    """Every container on every device, the most trusted witness heard first."""
    if "holdings" not in view.memo:
        view.memo["holdings"] = _find_holdings(view)
    found: Holdings = view.memo["holdings"]
    return found


def _find_holdings(view: NodeView) -> Holdings:
    book = _Book()
    for hear in (_hear_ownership, _hear_regions, _hear_scheduler, _hear_processes):
        hear(view, book)
    return book.found


def _hear_ownership(view: NodeView, book: _Book) -> None:
    """The kubelet, the API or an annotation named the device or a MIG device of it."""
    migs = {str(mig.uuid): (gpu.uuid, mig) for gpu in view.gpus for mig in gpu.mig}
    for device, holders in view.ownership.of_device.items():
        for holder in holders:
            wanted = holder.mig_uuid or device
            uuid, mig = migs.get(wanted, (GpuUuid(device), None))
            if name := name_of(holder):
                holding = book.at(uuid, name, holder.how, is_granted=True)
                if is_mig(wanted):
                    holding.migs[wanted] = mig


def is_mig(uuid: str) -> bool:
    return uuid.startswith("MIG-")


def _hear_regions(view: NodeView, book: _Book) -> None:
    """HAMi's library in the container counts on the device. The container can write there what it likes."""
    for entry in view.vgpu.containers if view.vgpu else ():
        holder = view.ownership.of_directory.get((entry.pod_uid, entry.container))
        if holder and entry.region and (name := name_of(holder)):
            for device in entry.region.devices:
                book.at(device.uuid, name, holder.how, is_granted=False).regions.append(device)


def _hear_scheduler(view: NodeView, book: _Book) -> None:
    """HAMi's scheduler wrote the device on the pod."""
    grants = find_grants(view)
    untouched = find_untouched(view)
    for pod in view.pods:
        for container in pod.containers:
            for grant in grants.get((pod.ref.uid, container), ()):
                name = ContainerName(pod.ref.namespace, pod.ref.name, container)
                holding = book.at(grant.uuid, name, "kubernetes_api", is_granted=True)
                holding.granted = grant.memory
                holding.is_untouched = (pod.ref.uid, container) in untouched


def find_untouched(view: NodeView) -> frozenset[tuple[str, str]]:
    """The containers, by pod UID and name, that HAMi prepared and that made no CUDA call yet."""
    entries = view.vgpu.containers if view.vgpu else ()
    return frozenset([(e.pod_uid, e.container) for e in entries if e.region is None and e.problem is None])


def _hear_processes(view: NodeView, book: _Book) -> None:
    """A process of the container is on the device, granted or not."""
    for gpu in view.gpus:
        pids = [one.pid for one in gpu.processes or ()] + [one.pid for one in gpu.process_utilization or ()]
        for pid in dict.fromkeys(pids):
            holder = view.ownership.of_process.get(pid)
            if holder and (name := name_of(holder)):
                book.at(gpu.uuid, name, holder.how, is_granted=False).pids.add(pid)


def sole_holder(holders: Holders) -> ContainerName | None:
    """The container that alone has the device; one that was merely seen there counts only if nobody was given it."""
    granted = [name for name, holding in holders.items() if holding.is_granted]
    names = granted or list(holders)
    return names[0] if len(names) == 1 else None


def sole_holder_of_instance(holders: Holders, gpu_instance_id: int) -> ContainerName | None:
    names = [name for name, holding in holders.items() if gpu_instance_id in _instances(holding)]
    return names[0] if len(names) == 1 else None


def _instances(holding: Holding) -> dict[int, MigReading]:
    return {mig.gpu_instance_id: mig for mig in holding.migs.values() if mig is not None}


def gpu_instances(gpu: GpuReading) -> list[MigReading]:
    """One MIG device of each GPU instance: those of one instance share its memory and its counters."""
    first: dict[int, MigReading] = {}
    for mig in gpu.mig:
        first.setdefault(mig.gpu_instance_id, mig)
    return list(first.values())


# Memory.


def memory_used(gpu: GpuReading | None, holders: Holders) -> dict[ContainerName, int | None]:
    """What each container holds on the device, by the best witness; None if none is to be trusted."""
    by_pid = process_memory(gpu.processes or ()) if gpu else {}
    is_told = gpu is not None and gpu.processes is not None and not _strangers(gpu, holders)
    return {name: _memory_of(holders, name, by_pid, is_told=is_told) for name in holders}


def _memory_of(
    holders: Holders, name: ContainerName, by_pid: Mapping[HostPid, int | None], *, is_told: bool
) -> int | None:
    """`is_told`: each process on the device is known to be a container's."""
    holding = holders[name]
    used = _sum([by_pid[pid] for pid in holding.pids if pid in by_pid])
    if used is None and holding.migs:
        used = _memory_of_instances(holders, name)
    if used is None:
        used = _memory_in_regions(holding)
    if used is None and (holding.is_untouched or (is_told and not holding.pids)):
        used = 0
    return used


def memory_limit(holding: Holding) -> int | None:
    """HAMi's limit or the MIG instances' size; None where there is no limit."""
    hami = [device.limit for device in holding.regions if device.limit > 0]
    return sum(hami) or holding.granted or _sum([mig.memory_total for mig in _instances(holding).values()])


def process_memory(processes: Iterable[GpuProcess]) -> dict[HostPid, int | None]:
    """By process: the sum over MIG instances; one listed as compute and as graphics counts once."""
    parts: dict[HostPid, dict[tuple[int | None, int | None], Bytes | None]] = {}
    for one in processes:
        instance = (one.gpu_instance_id, one.compute_instance_id)
        seen = parts.setdefault(one.pid, {})
        known = [memory for memory in (one.memory, seen.get(instance)) if memory is not None]
        seen[instance] = max(known, default=None)
    return {pid: _sum(list(seen.values())) for pid, seen in parts.items()}


def _memory_of_instances(holders: Holders, name: ContainerName) -> int | None:
    instances = _instances(holders[name])
    is_alone = all(sole_holder_of_instance(holders, instance) == name for instance in instances)
    return _sum([mig.memory_used for mig in instances.values()]) if is_alone else None


def _memory_in_regions(holding: Holding) -> int | None:
    return _sum([_memory_in_region(device) for device in holding.regions])


def _memory_in_region(device: RegionDevice) -> int | None:
    """HAMi's watcher sets the driver's figure to 0 before every refresh, so the greater of the two is nearer."""
    return max((value for value in (device.used, device.monitor_used) if value is not None), default=None)


def _strangers(gpu: GpuReading, holders: Holders) -> set[HostPid]:
    known = {pid for holding in holders.values() for pid in holding.pids}
    return {process.pid for process in gpu.processes or ()} - known


def _sum(parts: Sequence[int | None]) -> int | None:
    """None if nothing or not everything is known."""
    known = [part for part in parts if part is not None]
    return sum(known) if parts and len(known) == len(parts) else None


# Time.


class Shares(NamedTuple):
    """How a device's time is divided; all together make 1. A container whose share is not known is not there."""

    containers: Mapping[ContainerName, float]
    unattributed: float
    idle: float


class _Raw(NamedTuple):
    containers: Mapping[ContainerName, float]
    others: float = 0.0

    @property
    def total(self) -> float:
        return sum(self.containers.values()) + self.others


def find_shares(view: NodeView) -> Mapping[GpuUuid, Shares | None]:
    """How the time of each readable device is divided."""
    if "shares" not in view.memo:
        holdings = find_holdings(view)
        view.memo["shares"] = {gpu.uuid: time_shares(gpu, holdings.get(gpu.uuid, {})) for gpu in view.gpus}
    found: Mapping[GpuUuid, Shares | None] = view.memo["shares"]
    return found


def time_shares(gpu: GpuReading, holders: Holders) -> Shares | None:
    """None where the device does not say how busy it is."""
    if gpu.utilization is None:
        return None
    busy = min(max(gpu.utilization, 0.0), 1.0)
    if busy == 0:
        return Shares(dict.fromkeys(holders, 0.0), 0.0, 1.0)
    raw = next((raw for raw in _witnesses(gpu, holders, busy) if raw.total > 0), _Raw({}))
    scale = min(1.0, busy / raw.total) if raw.total else 1.0
    shares = {name: share * scale for name, share in raw.containers.items()}
    return Shares(shares, max(busy - sum(shares.values()), 0.0), 1 - busy)


def _witnesses(gpu: GpuReading, holders: Holders, busy: float) -> Iterable[_Raw]:
    yield _shares_of_processes(gpu, holders)
    yield _shares_in_regions(holders)
    if len(holders) == 1 and not _strangers(gpu, holders):
        yield _Raw(dict.fromkeys(holders, busy))


def _shares_of_processes(gpu: GpuReading, holders: Holders) -> _Raw:
    names = {pid: name for name, holding in holders.items() for pid in holding.pids}
    shares, others = dict.fromkeys(holders, 0.0), 0.0
    for one in gpu.process_utilization or ():
        if one.pid in names:
            shares[names[one.pid]] += one.sm
        else:
            others += one.sm
    return _Raw(shares, others)


def _shares_in_regions(holders: Holders) -> _Raw:
    percents = {name: _sum([device.sm_percent for device in holding.regions]) for name, holding in holders.items()}
    return _Raw({name: percent_to_ratio(Percent(p)) for name, p in percents.items() if p is not None})
