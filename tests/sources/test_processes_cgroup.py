"""Cgroup paths as runtimes and schedulers make them: one row per way of running something."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.sources.processes import CgroupOwner, parse_cgroup

UID = "7f3c2a10-8d4e-4b5a-9c61-0e2d4f6a8b1c"
UID_ = UID.replace("-", "_")
STATIC = "f1b5933fe4b5f315ecd71c2efc6e4d94"
ID = "4be7c3f7303d558d435e99a160631fe4c0ffee00112233445566778899aabbcc"
OTHER = "ab" * 32
IN_POD = CgroupOwner(UID, ID)
IN_CONTAINER = CgroupOwner(None, ID)

CASES = {
    # Kubernetes, cgroup v2, systemd driver
    "containerd burstable": (
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice/cri-containerd-{ID}.scope",
        IN_POD,
    ),
    "containerd besteffort": (
        f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID_}.slice/cri-containerd-{ID}.scope",
        IN_POD,
    ),
    "containerd guaranteed": (f"0::/kubepods.slice/kubepods-pod{UID_}.slice/cri-containerd-{ID}.scope", IN_POD),
    "cri-o": (
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice/crio-{ID}.scope",
        IN_POD,
    ),
    "cri-o with crun": (f"0::/kubepods.slice/kubepods-pod{UID_}.slice/crio-{ID}.scope/container", IN_POD),
    "cri-dockerd": (f"0::/kubepods.slice/kubepods-pod{UID_}.slice/docker-{ID}.scope", IN_POD),
    "static pod": (
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{STATIC}.slice/cri-containerd-{ID}.scope",
        CgroupOwner(STATIC, ID),
    ),
    "pod's own cgroup": (f"0::/kubepods.slice/kubepods-pod{UID_}.slice", CgroupOwner(UID)),
    "conmon": (f"0::/kubepods.slice/kubepods-pod{UID_}.slice/crio-conmon-{ID}.scope", CgroupOwner(UID)),
    "a unit inside the container": (
        f"0::/kubepods.slice/kubepods-pod{UID_}.slice/cri-containerd-{ID}.scope/system.slice/job.service",
        IN_POD,
    ),
    "deleted": (f"0::/kubepods.slice/kubepods-pod{UID_}.slice/cri-containerd-{ID}.scope (deleted)", IN_POD),
    # Kubernetes, cgroupfs driver
    "cgroupfs burstable": (f"0::/kubepods/burstable/pod{UID}/{ID}", IN_POD),
    "cgroupfs guaranteed": (f"0::/kubepods/pod{UID}/{ID}", IN_POD),
    "cgroupfs cri-o": (f"0::/kubepods/burstable/pod{UID}/crio-{ID}", IN_POD),
    "containerd given a slice under cgroupfs": (
        f"0::/system.slice/containerd.service/kubepods-burstable-pod{UID_}.slice:cri-containerd:{ID}",
        IN_POD,
    ),
    # cgroup v1
    "v1 docker": (
        (
            f"12:pids:/kubepods/besteffort/pod{UID}/{ID}\n11:cpuset:/kubepods/besteffort/pod{UID}/{ID}\n"
            f"1:name=systemd:/kubepods/besteffort/pod{UID}/{ID}\n0::/system.slice/containerd.service"
        ),
        IN_POD,
    ),
    "v1 systemd, some controllers at the root": (
        f"4:perf_event:/\n3:cpu,cpuacct:/kubepods.slice/kubepods-pod{UID_}.slice/docker-{ID}.scope\n2:rdma:/",
        IN_POD,
    ),
    # nested
    "kind, cgroupfs": (f"0::/docker/{OTHER}/kubelet/kubepods/burstable/pod{UID}/{ID}", IN_POD),
    "kind, seen from its own node": (
        (
            "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
            f"kubelet-kubepods-burstable-pod{UID_}.slice/cri-containerd-{ID}.scope"
        ),
        IN_POD,
    ),
    "kind, seen from the host": (
        (
            f"0::/system.slice/docker-{OTHER}.scope/kubelet.slice/kubelet-kubepods.slice/"
            f"kubelet-kubepods-pod{UID_}.slice/cri-containerd-{ID}.scope"
        ),
        IN_POD,
    ),
    "Kubernetes in a pod": (
        f"0::/kubepods.slice/kubepods-pod{UID_}.slice/cri-containerd-{ID}.scope/kubelet/kubepods/pod{STATIC}/{OTHER}",
        IN_POD,
    ),
    "a pod that names itself after another one": (
        f"0::/kubepods/pod{UID}/{ID}/kubepods/pod00000000-0000-0000-0000-000000000000/{OTHER}",
        IN_POD,
    ),
    # seen from inside a container that has not the host's cgroup namespace
    "relative": (
        f"0::/../../../kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice/cri-containerd-{ID}.scope",
        IN_POD,
    ),
    "relative, cgroupfs": (f"0::/../../pod{UID}/{ID}", IN_POD),
    "relative, of the same pod": (f"0::/../cri-containerd-{ID}.scope", IN_CONTAINER),
    # containers without Kubernetes
    "docker, systemd": (f"0::/system.slice/docker-{ID}.scope", IN_CONTAINER),
    "docker, cgroupfs": (f"5:memory:/docker/{ID}\n0::/", IN_CONTAINER),
    "podman": (f"0::/machine.slice/libpod-{ID}.scope/container", IN_CONTAINER),
    "podman, rootless": (
        f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container",
        CgroupOwner(None, ID, None, 1000),
    ),
    "podman's monitor": (f"0::/machine.slice/libpod-conmon-{ID}.scope", CgroupOwner()),
    "nerdctl": (f"0::/system.slice/nerdctl-{ID}.scope", IN_CONTAINER),
    "containerd's default namespace": (f"0::/default/{ID}", IN_CONTAINER),
    # Slurm
    "slurm v1": (
        "9:memory:/slurm/uid_1000/job_123/step_0/task_2\n1:name=systemd:/",
        CgroupOwner(None, None, "123", 1000),
    ),
    "slurm v1, several nodes on one host": (
        "4:devices:/slurm_n1/uid_1001/job_77/step_batch",
        CgroupOwner(None, None, "77", 1001),
    ),
    "slurm v2": ("0::/system.slice/slurmstepd.scope/job_123/step_0/user/task_0", CgroupOwner(None, None, "123")),
    "slurm v2, several nodes on one host": (
        "0::/system.slice/n1_slurmstepd.scope/job_9/step_extern/user/task_special",
        CgroupOwner(None, None, "9"),
    ),
    "a container in a Slurm job": (
        f"0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_0/docker-{ID}.scope",
        CgroupOwner(None, ID, "5"),
    ),
    "a directory called job": ("0::/system.slice/cron.service/job_123", CgroupOwner()),
    "a job without number": ("0::/system.slice/slurmstepd.scope/job_x/step_0", CgroupOwner()),
    "slurmd itself": ("0::/system.slice/slurmd.service", CgroupOwner()),
    # bare metal
    "login": ("0::/user.slice/user-1000.slice/session-3.scope", CgroupOwner(None, None, None, 1000)),
    "desktop": (
        "0::/user.slice/user-1001.slice/user@1001.service/app.slice/app-code.scope",
        CgroupOwner(None, None, None, 1001),
    ),
    "service": ("0::/system.slice/ssh.service", CgroupOwner()),
    "root": ("0::/", CgroupOwner()),
    # not what it seems
    "short id": ("0::/docker/4be7c3f7303d", CgroupOwner()),
    "capital id": (f"0::/docker/{ID.upper()}", CgroupOwner()),
    "uid too short": (f"0::/kubepods/pod{UID[:-1]}/{ID}", IN_CONTAINER),
    "pod in the middle of a word": (f"0::/kubepods/tripod{UID}/x", CgroupOwner()),
    "empty": ("", CgroupOwner()),
    "no colons": ("nothing here", CgroupOwner()),
}


@pytest.mark.parametrize("name", CASES)
def test_a_cgroup_tells_its_owner(name: str) -> None:
    text, expected = CASES[name]
    assert parse_cgroup(f"{text}\n") == expected


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    parse_cgroup(text)


@given(
    st.lists(st.sampled_from(["kubepods", f"pod{UID}", ID, "..", "", "slurm", "job_1", "uid_2", ":", "user-5.slice"]))
)
def test_any_path_is_read(segments: list[str]) -> None:
    owner = parse_cgroup("0::/" + "/".join(segments))
    assert owner.pod_uid in {None, UID}
    assert owner.container_id in {None, ID}
