"""What never changes about a fleet: its devices, their identities, and which load is placed where."""

import hashlib
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from gpusight.model.identity import ContainerPid, GpuUuid, HostPid, MigUuid
from gpusight.simulate.faults import FaultPlan, scheduled
from gpusight.simulate.models import MIB, GpuModel, MigProfile
from gpusight.simulate.spec import FleetSpec, GpuSpec, NodeSpec, WorkloadSpec
from gpusight.simulate.workloads import KINDS, Activity

DRIVER_LOADED: Final = -259_200.0
"""Counters count from here, three days before the start, so that a back-filled day does not begin at zero."""
UNOWNED: Final = 4 * MIB
"""Memory in use on a device that is no process's."""
UNOWNED_IN_INSTANCE: Final = 12 * MIB

_NAMESPACE: Final = uuid.UUID("6a1f36a0-6f27-5d55-9f0c-6770757369fe")
_CRASHES_AFTER: Final = 600.0


class Rates(NamedTuple):
    """Averages over an interval: ratios 0-1 of the device (or instance), watts above idle, bytes per second."""

    busy: float = 0.0
    sm: float = 0.0
    occupancy: float = 0.0
    tensor: float = 0.0
    dram: float = 0.0
    power: float = 0.0
    pcie_rx: float = 0.0
    pcie_tx: float = 0.0
    nvlink: float = 0.0
    encoder: float = 0.0
    decoder: float = 0.0


@dataclass(frozen=True, slots=True)
class MigInstance:
    """One instance cut out of a device."""

    index: int
    uuid: MigUuid
    profile: MigProfile
    gpu_instance_id: int
    compute_instance_id: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """One process of a workload on one device."""

    workload: WorkloadSpec
    activity: Activity
    pid: HostPid
    container_pid: ContainerPid
    gpu: int
    instance: MigInstance | None
    memory: int
    """What it holds once it runs."""
    per_second: Rates
    """What a busy second adds to the device."""
    ends: float
    busy_at_first: float
    """When the counters began to count."""

    def busy(self, t: float) -> float:
        """Busy seconds up to `t`; they stop when the process ends."""
        return self.activity.busy_seconds(min(max(t, self.workload.starts), self.ends))

    def is_alive(self, t: float) -> bool:
        return self.workload.starts <= t < self.ends and self.workload.kind != "untouched"


@dataclass(frozen=True, slots=True, eq=False)
class SimGpu:
    """A device of the fleet and the loads placed on it."""

    index: int
    uuid: GpuUuid
    model: GpuModel
    serial: str
    pci_bus: int
    key: int
    """What its little differences from others of its model hang on."""
    mig: tuple[MigInstance, ...] | None
    loads: tuple[Load, ...]

    @property
    def pci_bus_id(self) -> str:
        return f"00000000:{self.pci_bus:02X}:00.0"


@dataclass(frozen=True, slots=True, eq=False)
class SimNode:
    """A node of the fleet with everything placed on it."""

    spec: FleetSpec
    name: str
    gpus: tuple[SimGpu, ...]
    plan: FaultPlan
    """The scheduled faults."""

    @property
    def loads(self) -> tuple[Load, ...]:
        return tuple(load for gpu in self.gpus for load in gpu.loads)


def identifier(spec: FleetSpec, *parts: object) -> uuid.UUID:
    """The same UUID for the same thing of the same fleet, always."""
    return uuid.uuid5(_NAMESPACE, "/".join(map(str, (spec.seed, *parts))))


def key(spec: FleetSpec, *parts: object) -> int:
    """64 bits that depend on the seed and the thing."""
    text = "/".join(map(str, (spec.seed, *parts)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


@lru_cache(maxsize=4096)
def place(spec: FleetSpec, node_name: str) -> SimNode:
    """The node with its identities made and its workloads placed."""
    node = spec.node(node_name)
    mig = [_instances(spec, node_name, index, gpu) for index, gpu in enumerate(node.gpus)]
    loads = _loads(spec, node, mig)
    gpus = tuple(
        SimGpu(
            index=index,
            uuid=GpuUuid(f"GPU-{identifier(spec, node_name, index)}"),
            model=gpu.model,
            serial=f"1{key(spec, node_name, index, 'serial') % 10**12:012d}",
            pci_bus=0x07 + 8 * index if index < 31 else index,
            key=key(spec, node_name, index),
            mig=mig[index],
            loads=tuple(load for load in loads if load.gpu == index),
        )
        for index, gpu in enumerate(node.gpus)
    )
    return SimNode(spec, node_name, gpus, scheduled(spec.faults, node_name))


def _instances(spec: FleetSpec, node: str, index: int, gpu: GpuSpec) -> tuple[MigInstance, ...] | None:
    if gpu.mig is None:
        return None
    taken: Counter[int] = Counter()
    made = []
    for number, profile in enumerate(gpu.mig):
        instance_id = profile.first_instance_id + taken[profile.first_instance_id]
        taken[profile.first_instance_id] += 1
        name = MigUuid(f"MIG-{identifier(spec, node, index, 'mig', number)}")
        made.append(MigInstance(number, name, profile, instance_id))
    return tuple(made)


class _Placed(NamedTuple):
    number: int
    """Among the workloads of its node."""
    workload: WorkloadSpec


def _loads(spec: FleetSpec, node: NodeSpec, mig: Sequence[tuple[MigInstance, ...] | None]) -> list[Load]:
    """Every workload of the node has one process on each of its devices, as torchrun or vLLM would start them."""
    places: dict[tuple[int, int | None], list[_Placed]] = {}
    for number, workload in enumerate(spec.on_node(node.name)):
        for index in workload.gpus:
            places.setdefault((index, workload.mig), []).append(_Placed(number, workload))
    loads = []
    for (index, slot), placed in places.items():
        cut = mig[index]
        instance = None if cut is None or slot is None else cut[slot]
        loads += _share_out(spec, node.gpus[index].model, index, instance, placed)
    return loads


def _share_out(
    spec: FleetSpec, model: GpuModel, gpu: int, instance: MigInstance | None, placed: Sequence[_Placed]
) -> list[Load]:
    """Divide one device or instance among its workloads, so that neither its time nor its memory is given twice."""
    demands = [_demand(workload) for _, workload in placed]
    wanted = [_memory_wanted(workload, model, instance, len(placed)) for _, workload in placed]
    room = instance.profile.memory - UNOWNED_IN_INSTANCE if instance else model.memory - model.reserved - UNOWNED
    fit = min(1.0, room / max(1, sum(wanted)))
    crowding = max(1.0, sum(demands))
    return [
        _load(spec, model, gpu, instance, who, demand / crowding, int(memory * fit))
        for who, demand, memory in zip(placed, demands, wanted, strict=True)
    ]


def _demand(workload: WorkloadSpec) -> float:
    """The share of the device's time that it takes when it is busy."""
    demand = KINDS[workload.kind].demand
    cores = workload.share.cores if workload.share else 0
    return min(demand, cores / 100) if cores else demand


def _memory_wanted(workload: WorkloadSpec, model: GpuModel, instance: MigInstance | None, sharers: int) -> int:
    allowance = instance.profile.memory if instance else model.memory // sharers
    if workload.share and workload.share.memory_limit:
        allowance = workload.share.memory_limit * MIB
    if workload.memory is None:
        return int(KINDS[workload.kind].intensity.memory * allowance)
    return min(workload.memory * MIB, allowance) if workload.share else workload.memory * MIB


def _load(
    spec: FleetSpec, model: GpuModel, gpu: int, instance: MigInstance | None, placed: _Placed, weight: float,
    memory: int,
) -> Load:  # fmt: skip
    number, workload = placed
    rank = workload.gpus.index(gpu)
    signal = Activity(workload.kind, key(spec, workload.identity))
    ends = workload.ends if workload.ends is not None else _default_end(workload)
    return Load(
        workload=workload,
        activity=signal,
        pid=HostPid(20_000 + number * 131 + rank + key(spec, workload.identity, "pid") % 64),
        container_pid=ContainerPid(1 + rank),
        gpu=gpu,
        instance=instance,
        memory=memory,
        per_second=_per_second(workload, model, instance, weight),
        ends=ends,
        busy_at_first=signal.busy_seconds(min(max(DRIVER_LOADED, workload.starts), ends)),
    )


def _default_end(workload: WorkloadSpec) -> float:
    return _CRASHES_AFTER if workload.kind == "crashed" else float("inf")


def _per_second(workload: WorkloadSpec, model: GpuModel, instance: MigInstance | None, weight: float) -> Rates:
    """What a busy second of this load adds to the whole device."""
    kind = KINDS[workload.kind].intensity
    part = weight * (instance.profile.sm_count / model.sm_count if instance else 1.0)
    bus = part * 2.0 ** (model.pcie_generation - 4) * model.pcie_width / 16
    return Rates(
        busy=part,
        sm=part * kind.sm,
        occupancy=part * kind.occupancy,
        tensor=part * kind.tensor,
        dram=part * kind.dram,
        power=part * kind.power * (model.full_watts - model.idle_watts),
        pcie_rx=bus * kind.pcie_rx,
        pcie_tx=bus * kind.pcie_tx,
        nvlink=part * kind.nvlink * (model.nvlinks > 0) * (len(workload.gpus) > 1),
        encoder=part * kind.encoder * (model.encoders > 0),
        decoder=part * kind.decoder * (model.decoders > 0),
    )
