"""The join of one instant: which container holds which device, runs which process, owns which HAMi directory.

Sources of "this container holds that device", the more trusted first; a later one adds only what no earlier one knows:

    pod_resources    the kubelet, which handed the device out (not HAMi's ids: there the kubelet picks blindly)
    dra              the kubelet, for devices of ResourceClaims
    mig_annotation   HAMi's scheduler, on the pod; whoever may edit the pod may edit it
    kubernetes_api   likewise, for whole or shared GPUs
    hami_directory   the container itself, through libvgpu's file; for devices of this node only
    cgroup           a process of the container is on the device, and nothing else says who holds it

An annotation on a pod that the kubelet gave no GPU is a contradiction, and contradictions are reported as `ambiguous`,
not resolved. Names of pods come from the API, else from the kubelet's log directories.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpusight.attribution.device_ids import DeviceId, is_gpu_resource, parse_device_id
from gpusight.attribution.devices import Devices, Part
from gpusight.attribution.pods import Pods, container_name, describe, has_ended, is_from_api, places
from gpusight.model.hardware import HardwareSnapshot
from gpusight.model.identity import ContainerRef, HostPid, PodRef
from gpusight.model.ownership import (
    ClaimGrant,
    DeviceGrant,
    Holder,
    How,
    JoinFailure,
    Ownership,
    PodAllocations,
    PodInfo,
    ProcessOwner,
    Unjoined,
)
from gpusight.model.vgpu import ContainerRegion, VgpuSnapshot

ClaimedDevice = tuple[str, str, str]
"""Driver, pool and device: what a ResourceSlice gives a UUID to."""


def join(
    hardware: HardwareSnapshot,
    vgpu: VgpuSnapshot | None,
    grants: Sequence[DeviceGrant] | None,
    claims: Sequence[ClaimGrant],
    pods: Iterable[PodInfo],
    processes: Mapping[HostPid, ProcessOwner],
    *,
    cluster: str = "",
    allocations: Mapping[str, PodAllocations] | None = None,
    claimed_devices: Mapping[ClaimedDevice, str] | None = None,
    process_failures: Mapping[HostPid, JoinFailure] | None = None,
) -> Ownership:
    """`grants` is None where the kubelet should answer and does not. `allocations` are by pod uid."""
    work = _Join(hardware, Pods(pods), cluster, has_kubelet=grants is not None)
    work.take_grants(grants or ())
    work.take_claims(claims, claimed_devices or {})
    work.take_annotations(allocations or {})
    work.take_directories(vgpu.containers if vgpu else ())
    work.settle_slots()
    work.take_processes(hardware, processes, process_failures or {})
    return work.result()


class Joiner:
    """Joins anew when anything that a join looks at has changed, and otherwise gives the same one again."""

    def __init__(self, cluster: str = "") -> None:
        self._cluster = cluster
        self._seen: tuple[object, ...] = ()
        self._made = Ownership()

    def join(
        self,
        hardware: HardwareSnapshot,
        vgpu: VgpuSnapshot | None,
        grants: Sequence[DeviceGrant] | None,
        claims: Sequence[ClaimGrant],
        pods: Sequence[PodInfo],
        processes: Mapping[HostPid, ProcessOwner],
        *,
        allocations: Mapping[str, PodAllocations],
        claimed_devices: Mapping[ClaimedDevice, str],
        process_failures: Mapping[HostPid, JoinFailure],
    ) -> Ownership:
        others = (grants, claims, pods, processes, allocations, claimed_devices, process_failures)
        seen = (_identities(hardware), _directories(vgpu), *others)
        if seen != self._seen:
            self._made = join(
                hardware, vgpu, grants, claims, pods, processes, cluster=self._cluster, allocations=allocations,
                claimed_devices=claimed_devices, process_failures=process_failures,
            )  # fmt: skip
            self._seen = seen
        return self._made


def _identities(hardware: HardwareSnapshot) -> object:
    """What a join looks at in a reading of the hardware: who is there, not what it does."""
    gpus = [
        (
            gpu.uuid,
            gpu.index,
            gpu.minor_number,
            [(mig.uuid, mig.gpu_instance_id, mig.compute_instance_id) for mig in gpu.mig],
            [(one.pid, one.gpu_instance_id, one.compute_instance_id) for one in gpu.processes or ()],
        )
        for gpu in hardware.gpus
    ]
    return hardware.is_up, [down.uuid for down in hardware.down], gpus


def _directories(vgpu: VgpuSnapshot | None) -> object:
    """Likewise in the containers' own files: which devices they name."""
    return [
        (each.pod_uid, each.container, each.region and [device.uuid for device in each.region.devices])
        for each in (vgpu.containers if vgpu else ())
    ]


class _Join:
    """A join being made, source by source."""

    def __init__(self, hardware: HardwareSnapshot, pods: Pods, cluster: str, *, has_kubelet: bool) -> None:
        self._devices = Devices(hardware)
        self._pods = pods
        self._cluster = cluster
        self._has_kubelet = has_kubelet
        self._only_gpu = hardware.gpus[0].uuid if len(hardware.gpus) == 1 and not hardware.down else ""
        self._granted: dict[PodRef, dict[str, None]] = defaultdict(dict)
        """The containers that the kubelet gave a GPU to, in its order."""
        self._slots: dict[ContainerRef, DeviceId] = {}
        """Containers with HAMi's ids: that they hold something is certain, what is not."""
        self._bound: set[ContainerRef] = set()
        """Containers whose devices the kubelet names for certain."""
        self._holders: dict[tuple[ContainerRef, Part], How] = {}
        self._holding: set[ContainerRef] = set()
        self._replicas: dict[tuple[ContainerRef, Part], list[str]] = defaultdict(list)
        self._of_process: dict[HostPid, Holder] = {}
        self._of_directory: dict[tuple[str, str], Holder] = {}
        self._slurm: dict[HostPid, str] = {}
        self._unjoined: dict[Unjoined, None] = {}
        if not has_kubelet:
            self._give_up("kubelet", "no_kubelet_socket")
        for uid in pods.contradictions:
            self._give_up(f"pod uid {uid}", "ambiguous")

    def result(self) -> Ownership:
        of_device: dict[str, list[Holder]] = defaultdict(list)
        for (container, part), how in sorted(
            self._holders.items(), key=lambda item: (item[0][0], item[0][1].mig or "")
        ):
            replica = ",".join(sorted(self._replicas.get((container, part), ()), key=int))
            for uuid in filter(None, (part.mig, part.gpu)):
                of_device[uuid].append(Holder(container, how, part.mig, replica))
        return Ownership(
            {uuid: tuple(holders) for uuid, holders in of_device.items()},
            self._of_process,
            self._of_directory,
            self._slurm,
            tuple(self._unjoined),
        )

    def _give_up(self, what: str, reason: JoinFailure) -> None:
        self._unjoined[Unjoined(what, reason)] = None

    def _hold(self, container: ContainerRef, part: Part, how: How) -> None:
        self._holders.setdefault((container, part), how)
        self._holding.add(container)

    # --- the kubelet -------------------------------------------------------------------------------------------------

    def take_grants(self, grants: Iterable[DeviceGrant]) -> None:
        for grant in grants:
            container = self._container(grant.namespace, grant.pod, grant.container, grant.pod_uid)
            if container:
                self._take_grant(grant, container)

    def _container(self, namespace: str, pod: str, container: str, uid: str = "") -> ContainerRef | None:
        """None for a pod that has ended: some kubelets go on listing what it had."""
        known = self._pods.by_uid(uid) if uid else self._pods.by_name(namespace, pod)
        if known is None:
            return ContainerRef(PodRef(self._cluster, namespace, pod, uid), container)
        return None if has_ended(known) else ContainerRef(known.ref, container)

    def _take_grant(self, grant: DeviceGrant, container: ContainerRef) -> None:
        device = parse_device_id(grant.device_id)
        what = f"device {grant.device_id} of {describe(container)}"
        if device is None:
            if is_gpu_resource(grant.resource):
                self._granted[container.pod][container.name] = None
                self._give_up(what, "unsupported_device_id")
            return
        self._granted[container.pod][container.name] = None
        if not device.is_binding:
            self._slots.setdefault(container, device)
            return
        self._bound.add(container)
        part = self._devices.resolve(device)
        if not isinstance(part, Part):
            self._give_up(what, part)
            return
        self._hold(container, part, "pod_resources")
        if device.replica:
            self._replicas[container, part].append(device.replica)

    def take_claims(self, claims: Iterable[ClaimGrant], devices: Mapping[ClaimedDevice, str]) -> None:
        for claim in claims:
            container = self._container(claim.namespace, claim.pod, claim.container)
            uuid = devices.get((claim.driver, claim.pool, claim.device))
            if container is None or (uuid is None and not claim.driver.startswith("gpu.")):  # a network card, say
                continue
            self._granted[container.pod][container.name] = None
            part = self._devices.named(uuid) if uuid else None
            if part:
                self._hold(container, part, "dra")
            else:
                name = f"{claim.driver}/{claim.pool}/{claim.device}"
                self._give_up(f"claimed device {name} of {describe(container)}", "unknown_device_id")

    # --- HAMi's annotations ------------------------------------------------------------------------------------------

    def take_annotations(self, allocations: Mapping[str, PodAllocations]) -> None:
        for uid, allocation in allocations.items():
            pod = self._pods.by_uid(uid)
            if pod is None or has_ended(pod):
                continue
            if self._has_kubelet and pod.ref not in self._granted:
                self._give_up(f"annotation of {pod.ref.namespace}/{pod.ref.name}", "ambiguous")
                continue
            self._take_mig(pod, allocation)
            self._take_devices(pod, allocation)

    def _take_mig(self, pod: PodInfo, allocation: PodAllocations) -> None:
        for mig in allocation.mig:
            if mig.mig_uuid is None or mig.gpu_instance_id is None:
                continue  # promised, not made yet
            container = self._at(pod, mig.container_index)
            uuid = self._devices.instance(mig.gpu_uuid, mig.gpu_instance_id, mig.compute_instance_id)
            part = self._devices.named(mig.mig_uuid) or (Part(mig.gpu_uuid, uuid) if uuid else None)
            self._take_allocated(container, mig.mig_uuid, part, "mig_annotation")

    def _at(self, pod: PodInfo, index: int) -> ContainerRef:
        segments = [["it"] if number == index else [] for number in range(len(pod.containers))]
        granted = tuple(self._granted.get(pod.ref, ()))
        name = dict(enumerate(places(pod, segments, granted))).get(index, "")
        return ContainerRef(pod.ref, name)

    def _take_devices(self, pod: PodInfo, allocation: PodAllocations) -> None:
        in_parts = {mig.gpu_uuid for mig in allocation.mig}
        granted = tuple(self._granted.get(pod.ref, ()))
        for name, devices in zip(places(pod, allocation.containers, granted), allocation.containers, strict=True):
            container = ContainerRef(pod.ref, name)
            for device in devices:
                if device.uuid not in in_parts:
                    self._take_allocated(container, device.uuid, self._devices.named(device.uuid), "kubernetes_api")

    def _take_allocated(self, container: ContainerRef, uuid: str, part: Part | None, how: How) -> None:
        what = f"device {uuid} of {describe(container)}"
        if part is None:
            self._give_up(what, "unknown_device_id")
        elif not container.name or (container in self._bound and (container, part) not in self._holders):
            self._give_up(what, "ambiguous")
        else:
            self._hold(container, part, how)

    # --- HAMi's directories ------------------------------------------------------------------------------------------

    def take_directories(self, directories: Iterable[ContainerRegion]) -> None:
        for directory in directories:
            pod = self._pods.by_uid(directory.pod_uid)
            what = f"directory {directory.pod_uid}_{directory.container}"
            if pod is None:
                self._give_up(what, "unknown_pod_uid")
            elif is_from_api(pod) and directory.container not in pod.containers:
                self._give_up(what, "ambiguous")
            else:
                container = ContainerRef(pod.ref, directory.container)
                self._of_directory[directory.pod_uid, directory.container] = Holder(container, "hami_directory")
                self._take_region(pod, container, directory)

    def _take_region(self, pod: PodInfo, container: ContainerRef, directory: ContainerRegion) -> None:
        is_expected = not self._has_kubelet or container.name in self._granted.get(pod.ref, ())
        if directory.region is None or has_ended(pod) or not is_expected or container in self._holding:
            return
        for device in directory.region.devices:
            if part := self._devices.named(device.uuid):
                self._hold(container, part, "hami_directory")

    def settle_slots(self) -> None:
        """Who has a slot of HAMi's and no other source: with a single GPU it can only be that one."""
        for container, device in self._slots.items():
            if container in self._holding:
                continue
            if device.uuid == self._only_gpu:
                self._hold(container, Part(device.uuid), "pod_resources")
            else:
                self._give_up(f"slot {device.uuid}-{device.replica} of {describe(container)}", "ambiguous")

    # --- processes ---------------------------------------------------------------------------------------------------

    def take_processes(
        self,
        hardware: HardwareSnapshot,
        processes: Mapping[HostPid, ProcessOwner],
        failures: Mapping[HostPid, JoinFailure],
    ) -> None:
        seen = dict(_parts_in_use(hardware, self._devices))
        for pid in dict.fromkeys((*seen, *processes)):
            owner = processes.get(pid)
            if owner is None:
                self._give_up(f"pid {pid}", failures.get(pid, "no_processes"))
            else:
                self._take_process(owner, seen.get(pid, []))
        self._fill_in(seen)

    def _take_process(self, owner: ProcessOwner, parts: Sequence[Part]) -> None:
        if owner.slurm_job:
            self._slurm[owner.pid] = owner.slurm_job
        place = self._pods.by_container(owner.container_id)
        pod = self._pods.by_uid(owner.pod_uid) if owner.pod_uid else (place.pod if place else None)
        what = f"pid {owner.pid}"
        if pod is None:
            if not owner.slurm_job:
                self._give_up(what, "unknown_pod_uid" if owner.pod_uid else "not_in_a_pod")
            return
        if place and place.pod.ref != pod.ref:
            self._give_up(what, "ambiguous")
            return
        name = container_name(pod, owner.container_id, self._granted.get(pod.ref, ()))
        mig = next((part.mig for part in parts if part.mig), None)
        self._of_process[owner.pid] = Holder(ContainerRef(pod.ref, name), "cgroup", mig)
        if not name:
            self._give_up(f"container of pid {owner.pid}", "ambiguous")

    def _fill_in(self, seen: Mapping[HostPid, Sequence[Part]]) -> None:
        held = {uuid for _, part in self._holders for uuid in part}
        for pid, parts in seen.items():
            holder = self._of_process.get(pid)
            for part in parts:
                if holder and (part.mig or part.gpu) not in held:
                    self._hold(holder.container, part, "cgroup")


def _parts_in_use(hardware: HardwareSnapshot, devices: Devices) -> Iterator[tuple[HostPid, list[Part]]]:
    """Which GPUs and MIG instances each process is on."""
    found: dict[HostPid, dict[Part, None]] = defaultdict(dict)
    for gpu in hardware.gpus:
        for process in gpu.processes or ():
            mig = None
            if process.gpu_instance_id is not None:
                mig = devices.instance(gpu.uuid, process.gpu_instance_id, process.compute_instance_id)
            found[process.pid][Part(gpu.uuid, mig)] = None
    yield from ((pid, list(parts)) for pid, parts in found.items())
