"""Joins, source by source: what is known, how, and what is not and why."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.attribution.join import Joiner, join
from gpusight.model.hardware import DeviceDown, GpuProcess, GpuReading, HardwareSnapshot, MigReading
from gpusight.model.identity import ContainerRef, GpuUuid, HostPid, MigUuid, PodRef
from gpusight.model.ownership import (
    ClaimGrant,
    DeviceAllocation,
    DeviceGrant,
    Holder,
    JoinFailure,
    MigAllocation,
    Ownership,
    PodAllocations,
    PodInfo,
    ProcessOwner,
)
from gpusight.model.units import Bytes
from gpusight.model.vgpu import ContainerRegion, Region, RegionDevice, VgpuSnapshot


def uuid(number: int, kind: str = "GPU") -> str:
    return f"{kind}-{number:08}-0000-0000-0000-000000000000"


G0, G1, G2, M0, M1 = uuid(0), uuid(1), uuid(2), uuid(10, "MIG"), uuid(11, "MIG")
UID, UID2 = "7f3c2a10-8d4e-4b5a-9c61-0e2d4f6a8b1c", "8f3c2a10-8d4e-4b5a-9c61-0e2d4f6a8b1c"
ID, ID2 = "ab" * 32, "cd" * 32


def gpu(name: str, index: int, mig: Sequence[MigReading] = (), pids: Sequence[int | GpuProcess] = ()) -> GpuReading:
    listed = tuple(pid if isinstance(pid, GpuProcess) else GpuProcess(HostPid(pid), "compute") for pid in pids)
    return GpuReading(GpuUuid(name), index, "A100", 0.0, minor_number=index, mig=tuple(mig), processes=listed)


def hardware(*gpus: GpuReading, **more: Any) -> HardwareSnapshot:
    return HardwareSnapshot(0.0, **{"is_up": True, "gpus": gpus, **more})


TWO = hardware(gpu(G0, 0), gpu(G1, 1))
PARTED = hardware(
    gpu(G0, 0), gpu(G1, 1, [MigReading(MigUuid(M0), 3, 0, "2g.10gb"), MigReading(MigUuid(M1), 5, 0, "3g.20gb")])
)


def info(
    name: str = "train",
    uid: str = UID,
    containers: Sequence[str] = ("main",),
    init: int = 0,
    phase: str = "Running",
    **more: Any,
) -> PodInfo:
    return PodInfo(PodRef("east", "team", name, uid), tuple(containers), init, phase=phase, **more)


def logged(name: str = "train", uid: str = UID, containers: Sequence[str] = ("main",), **more: Any) -> PodInfo:
    return info(name, uid, containers, phase="", **more)


def ref(container: str = "main", name: str = "train", uid: str = UID) -> ContainerRef:
    return ContainerRef(PodRef("east", "team", name, uid), container)


def grant(
    device_id: str, container: str = "main", name: str = "train", resource: str = "nvidia.com/gpu"
) -> DeviceGrant:
    return DeviceGrant("team", name, container, resource, device_id)


def allocated(*segments: Sequence[str], mig: Sequence[MigAllocation] = ()) -> PodAllocations:
    def devices(names: Sequence[str]) -> tuple[DeviceAllocation, ...]:
        return tuple(DeviceAllocation(name, "NVIDIA", Bytes(1), 10) for name in names)

    return PodAllocations(tuple(map(devices, segments)), tuple(mig))


def directory(*devices: str, uid: str = UID, container: str = "main", has_region: bool = True) -> ContainerRegion:
    listed = tuple(RegionDevice(i, GpuUuid(name), Bytes(0), *([None] * 10)) for i, name in enumerate(devices))
    region = Region("F", listed, (), None, 0, 0, 0)
    return ContainerRegion(uid, container, region if has_region else None)


def joined(
    devices: HardwareSnapshot = TWO,
    grants: Sequence[DeviceGrant] | None = (),
    pods: Sequence[PodInfo] = (),
    directories: Sequence[ContainerRegion] | None = None,
    claims: Sequence[ClaimGrant] = (),
    processes: Mapping[int, ProcessOwner] | None = None,
    **more: Any,
) -> Ownership:
    vgpu = None if directories is None else VgpuSnapshot(0.0, is_present=True, containers=tuple(directories))
    owners = {HostPid(pid): owner for pid, owner in (processes or {}).items()}
    return join(devices, vgpu, grants, claims, pods, owners, cluster="east", **more)


def why(ownership: Ownership) -> list[tuple[str, JoinFailure]]:
    return [(each.what, each.reason) for each in ownership.unjoined]


# --- the kubelet -----------------------------------------------------------------------------------------------------


def test_nothing_to_join() -> None:
    assert joined() == Ownership()


def test_a_grant_names_its_holder() -> None:
    ownership = joined(grants=[grant(G0)], pods=[info()])
    assert ownership == Ownership({G0: (Holder(ref(), "pod_resources"),)})


def test_a_grant_without_any_pod_source_has_no_uid() -> None:
    ownership = joined(grants=[grant(G0)])
    assert ownership.of_device == {G0: (Holder(ref(uid=""), "pod_resources"),)}
    assert ownership.unjoined == ()


def test_a_shared_gpu_has_several_holders_in_order() -> None:
    grants = [grant(f"{G0}::3", name="b"), grant(f"{G0}::1", name="a"), grant(f"{G0}::0", name="a")]
    ownership = joined(grants=grants, pods=[info("a", UID), info("b", UID2)])
    assert ownership.of_device == {
        G0: (
            Holder(ref(name="a"), "pod_resources", replica="0,1"),
            Holder(ref(name="b", uid=UID2), "pod_resources", replica="3"),
        )
    }


def test_a_mig_instance_is_also_a_part_of_its_gpu() -> None:
    ownership = joined(PARTED, [grant(f"{M0}::2")], [info()])
    holder = Holder(ref(), "pod_resources", M0, "2")
    assert ownership.of_device == {M0: (holder,), G1: (holder,)}


@pytest.mark.parametrize(
    ("device_id", "keys", "mig"),
    [
        ("nvidia1", {G1}, None),
        ("nvidia1/vgpu4", {G1}, None),
        ("nvidia1/gi5", {G1, M1}, M1),
        ("nvidia1/gi3/vgpu0", {G1, M0}, M0),
        (f"MIG-{G1}/3/0", {G1, M0}, M0),
        (f"{G1}__2", {G1}, None),
    ],
)
def test_other_spellings(device_id: str, keys: set[str], mig: str | None) -> None:
    ownership = joined(PARTED, [grant(device_id)], [info()])
    assert set(ownership.of_device) == keys
    assert {holders[0].mig_uuid for holders in ownership.of_device.values()} == {mig}


@pytest.mark.parametrize(
    ("device_id", "resource", "reason"),
    [
        (G2, "nvidia.com/gpu", "unknown_device_id"),
        ("nvidia7", "nvidia.com/gpu", "unknown_device_id"),
        ("nvidia1/gi9", "nvidia.com/gpu", "unknown_device_id"),
        (f"MIG-{G1}/3/7", "nvidia.com/gpu", "unknown_device_id"),
        ("0000:81:00.0", "nvidia.com/gpu", "unsupported_device_id"),
        ("mlx5_0", "rdma/hca", None),
    ],
)
def test_ids_that_lead_nowhere(device_id: str, resource: str, reason: str | None) -> None:
    ownership = joined(PARTED, [grant(device_id, resource=resource)], [info()])
    assert ownership.of_device == {}
    expected = [] if reason is None else [(f"device {device_id} of team/train/main", reason)]
    assert why(ownership) == expected


def test_a_renamed_resource_does_not_matter() -> None:
    assert G0 in joined(grants=[grant(G0, resource="example.com/accelerator")]).of_device


def test_a_device_that_is_down_keeps_its_holder() -> None:
    down = hardware(gpu(G0, 0), down=(DeviceDown(1, "lost", 0.0, GpuUuid(G1)),))
    assert joined(down, [grant(G1)], [info()]).of_device[G1][0].container == ref()


def test_without_a_hardware_reading_uuids_are_taken_at_their_word() -> None:
    blind = hardware(is_up=False)
    ownership = joined(blind, [grant(G0), grant(M0), grant("nvidia0")], [info()])
    assert set(ownership.of_device) == {G0, M0}
    assert why(ownership) == [("device nvidia0 of team/train/main", "unknown_device_id")]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_holds_nothing(phase: str) -> None:
    """Some kubelets go on listing it."""
    ownership = joined(
        grants=[grant(G0)],
        pods=[info(phase=phase)],
        claims=[ClaimGrant("team", "train", "main", "c", "gpu.nvidia.com", "p", "d")],
        allocations={UID: allocated([G1])},
        directories=[directory(G1)],
    )
    assert (ownership.of_device, ownership.unjoined) == ({}, ())
    assert ownership.of_directory == {(UID, "main"): Holder(ref(), "hami_directory")}


def test_no_kubelet() -> None:
    assert why(joined(grants=None)) == [("kubelet", "no_kubelet_socket")]


def test_a_grant_with_a_uid_is_the_pods_own() -> None:
    """A pod made anew under its name: the grant is still the old one's."""
    old = DeviceGrant("team", "train", "main", "nvidia.com/gpu", G0, pod_uid=UID2)
    ownership = joined(grants=[old], pods=[info(uid=UID), logged(uid=UID2)])
    assert ownership.of_device[G0][0].container == ref(uid=UID2)


# --- pods from two sources -------------------------------------------------------------------------------------------


def test_the_api_goes_before_the_log_directories() -> None:
    pods = [logged(uid=UID2), info(uid=UID)]
    assert joined(grants=[grant(G0)], pods=pods).of_device[G0][0].container.pod.uid == UID


def test_among_log_directories_the_first_one_counts() -> None:
    pods = [logged(uid=UID2), logged(uid=UID)]
    assert joined(grants=[grant(G0)], pods=pods).of_device[G0][0].container.pod.uid == UID2


def test_two_names_for_one_uid_are_a_contradiction() -> None:
    ownership = joined(grants=[grant(G0)], pods=[logged("other"), info()])
    assert ownership.of_device[G0][0].container == ref()
    assert why(ownership) == [(f"pod uid {UID}", "ambiguous")]


def test_a_static_pod_is_known_by_its_hash() -> None:
    file_hash = "f1b5933fe4b5f315ecd71c2efc6e4d94"
    mirror = info(annotations={"kubernetes.io/config.hash": file_hash})
    for pods in ([mirror], [logged(uid=file_hash), mirror]):
        ownership = joined(pods=pods, directories=[directory(uid=file_hash)])
        assert ownership.of_directory == {(file_hash, "main"): Holder(ref(), "hami_directory")}


@pytest.mark.parametrize("claimed", [UID2, "f1b5933fe4b5f315ecd71c2efc6e4d94"])
def test_nobody_takes_anothers_uid_by_an_annotation(claimed: str) -> None:
    thief = info("thief", UID, annotations={"kubernetes.io/config.hash": claimed})
    ownership = joined(pods=[thief, logged("victim", claimed)], directories=[directory(uid=claimed)])
    assert ownership.of_directory[claimed, "main"].container.pod.name == "victim"


# --- DRA -------------------------------------------------------------------------------------------------------------


def test_a_claim_is_joined_through_the_slices() -> None:
    claims = [
        ClaimGrant("team", "train", "main", "c", "gpu.nvidia.com", "node-1", device) for device in ("gpu-0", "mig-0")
    ]
    slices = {("gpu.nvidia.com", "node-1", "gpu-0"): G0, ("gpu.nvidia.com", "node-1", "mig-0"): M0}
    ownership = joined(PARTED, claims=claims, pods=[info()], claimed_devices=slices)
    part = Holder(ref(), "dra", M0)
    assert ownership.of_device == {G0: (Holder(ref(), "dra"),), M0: (part,), G1: (part,)}


def test_a_claim_without_a_slice() -> None:
    claims = [
        ClaimGrant("team", "train", "main", "c", "gpu.nvidia.com", "node-1", "gpu-0"),
        ClaimGrant("team", "train", "main", "n", "nic.example.com", "node-1", "nic-0"),
    ]
    ownership = joined(claims=claims, pods=[info()])
    assert why(ownership) == [("claimed device gpu.nvidia.com/node-1/gpu-0 of team/train/main", "unknown_device_id")]


# --- HAMi ------------------------------------------------------------------------------------------------------------


def test_hamis_slots_do_not_tell_the_device_but_its_annotation_does() -> None:
    """The kubelet picked a slot of GPU 0; HAMi gave GPU 1 (its issue 1741)."""
    ownership = joined(grants=[grant(f"{G0}-7")], pods=[info()], allocations={UID: allocated([G1])})
    assert ownership == Ownership({G1: (Holder(ref(), "kubernetes_api"),)})


def test_without_an_annotation_the_containers_own_region_tells() -> None:
    ownership = joined(grants=[grant(f"{G0}-7")], pods=[logged()], directories=[directory(G1, "GPU-forged")])
    assert ownership.of_device == {G1: (Holder(ref(), "hami_directory"),)}
    assert ownership.unjoined == ()


def test_without_either_only_a_single_gpu_is_certain() -> None:
    grants = [grant(f"{G0}-7"), grant(f"{G0}-8")]
    assert joined(hardware(gpu(G0, 0)), grants, [info()]).of_device == {G0: (Holder(ref(), "pod_resources"),)}
    assert why(joined(TWO, grants, [info()])) == [(f"slot {G0}-7 of team/train/main", "ambiguous")]
    down = hardware(gpu(G0, 0), down=(DeviceDown(1, "lost", 0.0),))
    assert joined(down, grants, [info()]).of_device == {}


def test_an_annotation_counts_without_a_kubelet() -> None:
    ownership = joined(grants=None, pods=[info()], allocations={UID: allocated([G1, uuid(9)])})
    assert ownership.of_device == {G1: (Holder(ref(), "kubernetes_api"),)}
    assert why(ownership)[1:] == [(f"device {uuid(9)} of team/train/main", "unknown_device_id")]


def test_an_annotation_on_a_pod_without_gpus_is_a_contradiction() -> None:
    """Anyone may write one on their own pod."""
    pods = [info(), info("liar", UID2)]
    ownership = joined(grants=[grant(G0)], pods=pods, allocations={UID2: allocated([G0])})
    assert ownership.of_device == {G0: (Holder(ref(), "pod_resources"),)}
    assert why(ownership) == [("annotation of team/liar", "ambiguous")]


def test_the_kubelet_goes_before_an_annotation() -> None:
    """NVIDIA's own plugin names the device for certain."""
    ownership = joined(grants=[grant(G0)], pods=[info()], allocations={UID: allocated([G0, G1])})
    assert ownership.of_device == {G0: (Holder(ref(), "pod_resources"),)}
    assert why(ownership) == [(f"device {G1} of team/train/main", "ambiguous")]


def test_an_annotation_of_an_unknown_pod_is_left_alone() -> None:
    assert joined(allocations={UID2: allocated([G0])}) == Ownership()


@pytest.mark.parametrize(
    ("segments", "granted", "expected"),
    [
        ([[], [], [G0]], None, {"b": G0}),  # init container first, all there (2.9 and later)
        ([[], [G0], [G1]], None, {"a": G0, "b": G1}),
        ([[G0], [G1]], None, {"a": G0, "b": G1}),  # regular containers only (up to 2.8)
        ([[], [G1]], None, {"b": G1}),
        ([[G0]], None, {}),  # neither
        ([[G0]], ["b"], {"b": G0}),
        ([[G0], [], []], ["b"], {"b": G0}),  # issue 3079: in the init container's place
        ([[G0], [G1], []], ["a", "b"], {"a": G0, "b": G1}),
        ([[G0], [], []], ["a", "b"], {}),
        ([[G0], [G1], [], []], ["a", "b"], {"a": G0, "b": G1}),
    ],
)
def test_which_container_a_segment_is_for(
    segments: list[list[str]], granted: list[str] | None, expected: dict[str, str]
) -> None:
    grants = None if granted is None else [grant(f"{G0}-{number}", name) for number, name in enumerate(granted)]
    pods = [info(containers=["init", "a", "b"], init=1)]
    ownership = joined(grants=grants, pods=pods, allocations={UID: allocated(*segments)})
    found = {holder.container.name: uuid for uuid, holders in ownership.of_device.items() for holder in holders}
    assert found == expected
    if not expected:
        assert "ambiguous" in [reason for _, reason in why(ownership)]


def mig(index: int = 0, uuid: str | None = M0, instance: int | None = 3) -> MigAllocation:
    compute = None if instance is None else 0
    return MigAllocation(index, 0, G1, "2g.10gb", 0, 2, uuid, instance, compute)


def test_a_mig_annotation() -> None:
    allocation = allocated([G1], mig=[mig()])
    ownership = joined(PARTED, [grant(f"{G0}-1")], [info()], allocations={UID: allocation})
    holder = Holder(ref(), "mig_annotation", M0)
    assert ownership == Ownership({M0: (holder,), G1: (holder,)})


def test_a_mig_annotation_with_a_stale_uuid_is_found_by_its_ids() -> None:
    ownership = joined(
        PARTED, None, [info()], allocations={UID: allocated(mig=[mig(uuid=uuid(99, "MIG"), instance=5)])}
    )
    assert ownership.of_device[M1][0].container == ref()


def test_mig_annotations_that_lead_nowhere() -> None:
    allocation = allocated(mig=[mig(uuid=None, instance=None), mig(uuid=uuid(99, "MIG"), instance=9), mig(index=5)])
    ownership = joined(PARTED, None, [info()], allocations={UID: allocation})
    assert ownership.of_device == {}
    assert why(ownership)[1:] == [
        (f"device {uuid(99, 'MIG')} of team/train/main", "unknown_device_id"),
        (f"device {M0} of team/train/", "ambiguous"),
    ]


def test_directories_find_their_containers() -> None:
    directories = [
        directory(has_region=False),
        directory(uid=UID2),
        directory(container="stranger"),
    ]
    ownership = joined(pods=[info()], directories=directories)
    assert ownership.of_directory == {(UID, "main"): Holder(ref(), "hami_directory")}
    assert why(ownership) == [
        (f"directory {UID2}_main", "unknown_pod_uid"),
        (f"directory {UID}_stranger", "ambiguous"),
    ]


def test_log_directories_may_not_have_a_container_yet() -> None:
    ownership = joined(pods=[logged(containers=[])], directories=[directory()])
    assert ownership.of_directory == {(UID, "main"): Holder(ref(), "hami_directory")}


def test_a_region_counts_only_for_who_was_given_a_gpu() -> None:
    both: dict[str, Any] = {"pods": [info()], "directories": [directory(G1)]}
    assert joined(grants=[], **both).of_device == {}
    assert joined(grants=None, **both).of_device == {G1: (Holder(ref(), "hami_directory"),)}
    assert joined(grants=[grant(G0)], **both).of_device == {G0: (Holder(ref(), "pod_resources"),)}


# --- processes -------------------------------------------------------------------------------------------------------


def owner(pid: int, pod_uid: str | None = UID, container_id: str | None = ID, **more: Any) -> ProcessOwner:
    return ProcessOwner(HostPid(pid), 1, "python", pod_uid, container_id, **more)


def test_a_process_finds_its_container_by_id() -> None:
    pods = [info(containers=["a", "b"], container_ids={"a": ID2, "b": ID})]
    ownership = joined(hardware(gpu(G0, 0, pids=[7])), pods=pods, processes={7: owner(7)})
    assert ownership.of_process == {7: Holder(ref("b"), "cgroup")}
    assert ownership.unjoined == ()


def test_a_process_of_a_pod_from_the_log_directories() -> None:
    """The container is known if there is one only, or only one with a GPU."""
    single = joined(pods=[logged()], processes={7: owner(7)})
    assert single.of_process == {7: Holder(ref(), "cgroup")}
    granted = joined(grants=[grant(G0, "b")], pods=[logged(containers=["a", "b"])], processes={7: owner(7)})
    assert granted.of_process == {7: Holder(ref("b"), "cgroup")}
    unknown = joined(pods=[logged(containers=["a", "b"])], processes={7: owner(7)})
    assert unknown.of_process == {7: Holder(ref(""), "cgroup")}
    assert why(unknown) == [("container of pid 7", "ambiguous")]


def test_a_process_without_pod_uid_is_found_by_its_container() -> None:
    pods = [info(container_ids={"main": ID})]
    assert joined(pods=pods, processes={7: owner(7, pod_uid=None)}).of_process == {7: Holder(ref(), "cgroup")}


def test_a_container_of_another_pod_is_a_contradiction() -> None:
    pods = [info(), info("other", UID2, container_ids={"main": ID})]
    ownership = joined(pods=pods, processes={7: owner(7)})
    assert ownership.of_process == {}
    assert why(ownership) == [("pid 7", "ambiguous")]


def test_processes_that_lead_nowhere() -> None:
    ownership = joined(
        hardware(gpu(G0, 0, pids=[1, 2, 3, 4, 5])),
        processes={1: owner(1, UID2), 2: owner(2, None, ID), 3: owner(3, None, None, slurm_job="77")},
        process_failures={HostPid(4): "process_gone"},
    )
    assert ownership.of_process == {}
    assert ownership.slurm_of_process == {3: "77"}
    assert why(ownership) == [
        ("pid 1", "unknown_pod_uid"),
        ("pid 2", "not_in_a_pod"),
        ("pid 4", "process_gone"),
        ("pid 5", "no_processes"),
    ]


def test_a_process_on_a_mig_instance_names_it() -> None:
    on_mig = GpuProcess(HostPid(7), "compute", gpu_instance_id=5, compute_instance_id=0)
    parted = hardware(gpu(G0, 0, [MigReading(MigUuid(M1), 5, 0, "3g.20gb")], [on_mig]))
    ownership = joined(parted, pods=[info()], processes={7: owner(7)})
    assert ownership.of_process == {7: Holder(ref(), "cgroup", M1)}
    assert set(ownership.of_device) == {G0, M1}


def test_a_process_tells_the_holder_where_nobody_else_does() -> None:
    used = hardware(gpu(G0, 0, pids=[7]), gpu(G1, 1, pids=[7, 8]))
    pods = [info(), info("other", UID2)]
    processes = {7: owner(7), 8: owner(8, UID2, None)}
    alone = joined(used, None, pods, processes=processes)
    assert alone.of_device == {
        G0: (Holder(ref(), "cgroup"),),
        G1: (Holder(ref(name="other", uid=UID2), "cgroup"), Holder(ref(), "cgroup")),
    }
    beside = joined(used, [grant(G1, name="other")], pods, processes=processes)
    assert beside.of_device == {
        G0: (Holder(ref(), "cgroup"),),
        G1: (Holder(ref(name="other", uid=UID2), "pod_resources"),),
    }


def test_two_pods_with_one_name_in_two_namespaces() -> None:
    other = PodInfo(PodRef("east", "red", "train", UID2), ("main",), phase="Running")
    red = DeviceGrant("red", "train", "main", "nvidia.com/gpu", G1)
    ownership = joined(grants=[grant(G0), red], pods=[info(), other])
    assert [holders[0].container.pod.uid for holders in ownership.of_device.values()] == [UID2, UID]


# --- anything --------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["train", "idle", "none"])
UIDS = st.sampled_from([UID, UID2, ""])
CONTAINERS = st.sampled_from(["main", "side", "init"])
IDS = st.sampled_from([G0, G1, G2, M0, f"{G0}::1", f"{G0}-3", f"{G1}__1", "nvidia0", "nvidia1/gi3", "x", ""])
DEVICES = st.sampled_from([G0, G1, G2, M0, "x"])
PODS = st.builds(
    PodInfo,
    st.builds(PodRef, st.just("east"), st.just("team"), NAMES, UIDS),
    st.lists(CONTAINERS, unique=True).map(tuple),
    st.integers(0, 2),
    st.dictionaries(CONTAINERS, st.sampled_from([ID, ID2])),
    st.sampled_from(["", "Running", "Succeeded"]),
)
GRANTS = st.builds(DeviceGrant, st.just("team"), NAMES, CONTAINERS, st.sampled_from(["nvidia.com/gpu", "x"]), IDS)
SEGMENTS = st.lists(st.lists(DEVICES, max_size=2), max_size=3)
ALLOCATIONS = st.dictionaries(UIDS, st.builds(lambda segments: allocated(*segments, mig=[mig()]), SEGMENTS))
DIRECTORIES = st.lists(st.builds(lambda devices, uid, name: directory(*devices, uid=uid, container=name),
                                 st.lists(DEVICES, max_size=2), UIDS, CONTAINERS))  # fmt: skip
OWNERS = st.dictionaries(
    st.integers(1, 4),
    st.builds(lambda uid, id_: owner(0, uid or None, id_), UIDS, st.sampled_from([None, ID, ID2])),
)


@given(st.none() | st.lists(GRANTS), st.lists(PODS), ALLOCATIONS, DIRECTORIES, OWNERS)
def test_any_join_is_sound(
    grants: list[DeviceGrant] | None,
    pods: list[PodInfo],
    allocations: dict[str, PodAllocations],
    directories: list[ContainerRegion],
    owners: dict[int, ProcessOwner],
) -> None:
    devices = hardware(gpu(G0, 0, pids=[1, 2]), *PARTED.gpus[1:])
    processes = {pid: replace(owner, pid=HostPid(pid)) for pid, owner in owners.items()}
    ownership = joined(devices, grants, pods, directories, processes=processes, allocations=allocations)
    assert set(ownership.of_device) <= {G0, G1, M0, M1}
    for holders in ownership.of_device.values():
        assert len({(holder.container, holder.mig_uuid) for holder in holders}) == len(holders)
    for pid in {1, 2} | set(processes):
        assert (pid in ownership.of_process) != (f"pid {pid}" in {what for what, _ in why(ownership)})
    kubelet = {(holder.container.pod.name, holder.container.name) for holder in ownership.of_device.get(G0, ())}
    ended = {pod.ref.name for pod in pods if pod.phase == "Succeeded"}
    for each in grants or ():
        if each.device_id == G0 and each.pod not in ended:
            assert (each.pod, each.container) in kubelet


# --- joining again ---------------------------------------------------------------------------------------------------

FACTS: dict[str, Any] = {
    "hardware": hardware(gpu(G0, 0, pids=[7]), gpu(G1, 1)),
    "vgpu": VgpuSnapshot(0.0, is_present=True, containers=(directory(G0),)),
    "grants": (grant(G0),),
    "claims": (),
    "pods": (info(),),
    "processes": {HostPid(7): ProcessOwner(HostPid(7), 1, "python", UID)},
    "allocations": {},
    "claimed_devices": {},
    "process_failures": {},
}
CLAIMED = ClaimGrant("team", "train", "main", "c", "gpu.nvidia.com", "node-1", "gpu-0")


def again(joiner: Joiner, **changed: Any) -> Ownership:
    facts = FACTS | changed
    positional = [facts.pop(name) for name in ("hardware", "vgpu", "grants", "claims", "pods", "processes")]
    return joiner.join(*positional, **facts)


def test_the_same_facts_give_the_same_join() -> None:
    joiner = Joiner("east")
    first = again(joiner)
    busy = replace(FACTS["hardware"].gpus[0], utilization=0.5, memory_used=7, taken_at=9.0)
    later = replace(FACTS["hardware"], taken_at=9.0, gpus=(busy, FACTS["hardware"].gpus[1]))
    assert again(joiner, hardware=later, pods=(info(),)) is first
    assert first == joined(
        FACTS["hardware"],
        FACTS["grants"],
        FACTS["pods"],
        FACTS["vgpu"].containers,
        processes=FACTS["processes"],
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"hardware": TWO},
        {"hardware": hardware(gpu(G0, 0, pids=[8]), gpu(G1, 1))},
        {"hardware": hardware(gpu(G0, 0, pids=[7]))},
        {"hardware": hardware(gpu(G0, 0, pids=[7]), gpu(G1, 1), is_up=False)},
        {"hardware": hardware(gpu(G0, 0, pids=[7]), gpu(G1, 1), down=(DeviceDown(2, "lost", 0.0, GpuUuid(G2)),))},
        {"hardware": hardware(gpu(G0, 0, [MigReading(MigUuid(M0), 3, 0, "2g.10gb")], [7]), gpu(G1, 1))},
        {"vgpu": None},
        {"vgpu": VgpuSnapshot(0.0, is_present=True, containers=(directory(G1),))},
        {"vgpu": VgpuSnapshot(0.0, is_present=True, containers=(directory(has_region=False),))},
        {"grants": None},
        {"grants": (grant(G1),)},
        {"claims": (CLAIMED,)},
        {"pods": (info(phase="Failed"),)},
        {"processes": {}},
        {"allocations": {UID: allocated([G1])}},
        {"process_failures": {HostPid(7): "no_cgroup"}, "processes": {}},
    ],
)
def test_whatever_changes_a_join_is_noticed(changed: dict[str, Any]) -> None:
    joiner = Joiner("east")
    first = again(joiner)
    second = again(joiner, **changed)
    assert second is not first
    assert second == again(Joiner("east"), **changed)


def test_a_slice_that_comes_later_is_noticed() -> None:
    joiner = Joiner("east")
    without = again(joiner, claims=(CLAIMED,))
    resolved = again(joiner, claims=(CLAIMED,), claimed_devices={("gpu.nvidia.com", "node-1", "gpu-0"): G1})
    assert (G1 in without.of_device, G1 in resolved.of_device) == (False, True)
