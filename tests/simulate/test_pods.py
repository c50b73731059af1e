"""The pods that go with the fleet, read back with the agent's own sources."""

import uuid
from pathlib import Path
from typing import get_args

import pytest

from gpusight.model.time import ManualClock
from gpusight.model.vgpu import ContainerRegion, Layout
from gpusight.simulate.fleet import place
from gpusight.simulate.pods import CgroupStyle, SimContainer, cgroup, containers, grants, lay_out, pods
from gpusight.simulate.spec import FleetSpec, load_spec
from gpusight.simulate.state import state_at
from gpusight.sources.annotations import decode_allocations
from gpusight.sources.podlogs import PodLogs
from gpusight.sources.processes import Processes, parse_cgroup
from gpusight.sources.vgpu.scan import VgpuSource
from tests.simulate.conftest import fleet

DEFAULT = load_spec()
NODE = "gpu-node-1"
STARTED = 1_700_000_000.0


def by_pod(spec: FleetSpec, node: str) -> dict[str, SimContainer]:
    return {container.ref.pod.name: container for container in containers(spec, node)}


def test_pods_are_kubernetes_pods() -> None:
    found = pods(DEFAULT, NODE, 0.0)
    assert len(found) == 13
    for pod in found:
        assert str(uuid.UUID(pod.ref.uid)) == pod.ref.uid
        assert pod.ref.cluster == "demo"
        assert set(pod.container_ids) == set(pod.containers)
        assert all(len(runtime_id) == 64 for runtime_id in pod.container_ids.values())
    assert len({pod.ref.uid for pod in found}) == 13


def test_hami_pods_carry_what_the_scheduler_wrote() -> None:
    found = pods(DEFAULT, NODE, 0.0)
    reading = decode_allocations(found)
    assert not reading.bad
    trainer = next(pod for pod in found if pod.ref.name == "detector-train-0")
    ((device,),) = [c for c in reading.of_pod[trainer.ref.uid].containers if c]
    assert (device.uuid, device.memory, device.cores) == (place(DEFAULT, NODE).gpus[0].uuid, 12288 << 20, 40)
    assert trainer.labels["hami.io/vgpu-node"] == NODE
    assert len(reading.of_pod) == 5


def test_two_containers_of_a_pod() -> None:
    both = [{"pod": "p", "container": name, "kind": "training", "gpus": [0], "share": {"cores": 10}} for name in "ab"]
    spec = load_spec(fleet({"model": "t4"}, workloads=both))
    (pod,) = pods(spec, "n1", 0.0)
    assert pod.containers == ("a", "b")
    assert pod.annotations["hami.io/vgpu-devices-allocated"].count(";") == 2


def test_a_pod_comes_when_it_starts_and_outlives_its_process() -> None:
    workload = {"kind": "training", "gpus": [0], "starts": 10, "ends": 20}
    spec = load_spec(fleet({"model": "t4"}, workloads=[workload]))
    assert [len(pods(spec, "n1", t)) for t in (9.0, 10.0, 21.0)] == [0, 1, 1]
    assert [len(grants(spec, "n1", t)) for t in (9.0, 10.0, 21.0)] == [0, 1, 1]
    assert [len(state_at(spec, "n1", t).gpus[0].processes) for t in (9.0, 10.0, 21.0)] == [0, 1, 0]


def test_grants_are_spelled_as_each_plugin_does() -> None:
    gpus = place(DEFAULT, NODE).gpus
    ids = {grant.pod: grant.device_id for grant in grants(DEFAULT, NODE, 0.0)}
    assert ids["spin-0"] == gpus[1].uuid
    assert gpus[2].mig
    assert ids["finetune-7b-0"] == gpus[2].mig[0].uuid
    assert {ids["vllm-70b-0"], ids["thesis-notebook"]} == {f"{gpus[6].uuid}::{n}" for n in (0, 1)}
    assert [g.device_id for g in grants(DEFAULT, NODE, 0.0) if g.pod == "pretrain-0"] == [gpus[3].uuid, gpus[4].uuid]
    hami, _, slot = ids["detector-train-0"].rpartition("-")
    assert hami in {gpu.uuid for gpu in gpus}
    assert 0 <= int(slot) < 10


def test_the_kubelets_choice_says_nothing_about_a_hami_share() -> None:
    spec = load_spec("eight-gpus-40-containers")
    gpus = place(spec, "bench-node").gpus
    real = {c.ref.pod.name: gpus[c.workload.gpus[0]].uuid for c in containers(spec, "bench-node")}
    right = [g.device_id.startswith(real[g.pod]) for g in grants(spec, "bench-node", 0.0)]
    assert 0 < sum(right) < 20


@pytest.mark.parametrize("style", get_args(CgroupStyle))
def test_cgroups_lead_back_to_the_container(style: CgroupStyle) -> None:
    container = by_pod(DEFAULT, NODE)["spin-0"]
    owner = parse_cgroup(cgroup(container, style))
    assert (owner.pod_uid, owner.container_id) == (container.ref.pod.uid, container.container_id)


def test_laid_out_processes_are_found(tmp_path: Path) -> None:
    lay_out(tmp_path, DEFAULT, NODE, 100.0, started_at=STARTED)
    running = [p for gpu in state_at(DEFAULT, NODE, 100.0).gpus for p in gpu.processes]
    reading = Processes(tmp_path / "proc").read([p.pid for p in running], STARTED + 100)
    assert not reading.failures
    known = by_pod(DEFAULT, NODE)
    for process in running:
        owner = reading.owners[process.pid]
        assert owner.pod_uid == known[process.load.workload.pod].ref.pod.uid
        assert owner.command == "python3"


def test_laid_out_again_later_over_the_same_root(tmp_path: Path) -> None:
    lay_out(tmp_path, DEFAULT, NODE, 0.0, started_at=STARTED)
    lay_out(tmp_path, DEFAULT, NODE, 0.0, started_at=STARTED + 86_400)
    pids = [p.pid for gpu in state_at(DEFAULT, NODE, 0.0).gpus for p in gpu.processes]
    assert not Processes(tmp_path / "proc").read(pids, STARTED + 86_400).failures
    assert f"btime {int(STARTED) + 86_400 - 259_260}" in (tmp_path / "proc" / "stat").read_text("utf-8")


def test_laid_out_logs_name_the_pods(tmp_path: Path) -> None:
    lay_out(tmp_path, DEFAULT, NODE, 100.0, started_at=STARTED)
    reading = PodLogs(tmp_path / "log" / "pods", ManualClock(), "demo", tmp_path / "log" / "containers").read()
    assert reading.is_up
    assert not reading.skipped
    assert {pod.ref for pod in reading.pods} == {pod.ref for pod in pods(DEFAULT, NODE, 100.0)}
    ids = {pod.ref: pod.container_ids for pod in reading.pods}
    assert ids == {pod.ref: pod.container_ids for pod in pods(DEFAULT, NODE, 100.0)}


def regions(root: Path) -> dict[str, ContainerRegion]:
    snapshot = VgpuSource(root / "vgpu" / "containers", ManualClock(STARTED)).read()
    assert snapshot.is_present
    assert not snapshot.problems
    return {container.pod_uid: container for container in snapshot.containers}


def test_laid_out_regions_agree_with_the_driver(tmp_path: Path) -> None:
    files = lay_out(tmp_path, DEFAULT, NODE, 100.0, started_at=STARTED)
    known = by_pod(DEFAULT, NODE)
    found = regions(tmp_path)
    assert len(found) == 5, "whole devices and MIG have none"
    assert found[known["tts-eval-0"].ref.pod.uid].region is None, "nobody has used CUDA there yet"
    for t in (100.0, 160.0, 1000.0):
        files.refresh(t)
        found = regions(tmp_path)
        for process in state_at(DEFAULT, NODE, t).gpus[0].processes:
            workload = process.load.workload
            region = found[known[workload.pod].ref.pod.uid].region
            assert region is not None
            assert region.layout == workload.layout
            (device,) = region.devices
            assert device.uuid == place(DEFAULT, NODE).gpus[0].uuid
            assert device.limit == (workload.share.memory_limit << 20 if workload.share else 0)
            assert device.monitor_used == process.memory
            assert device.used is not None
            assert 0.9 * process.memory < device.used <= process.memory
            if workload.layout != "A":
                assert device.sm_percent == round(process.sm * 100)
            assert region.processes[0].host_pid == process.pid


def test_refresh_follows_a_crash(tmp_path: Path) -> None:
    files = lay_out(tmp_path, DEFAULT, NODE, 890.0, started_at=STARTED)
    crashed = by_pod(DEFAULT, NODE)["asr-crash-0"]
    proc = tmp_path / "proc" / str(crashed.loads[0].pid)
    assert proc.is_dir()
    files.refresh(910.0)
    assert not proc.exists()
    region = regions(tmp_path)[crashed.ref.pod.uid].region
    assert region is not None
    assert region.processes == ()
    assert region.devices[0].used == 0


def test_last_kernel_tells_who_is_idle(tmp_path: Path) -> None:
    shares = {"share": {"memory_limit": 1000, "cores": 20}, "gpus": [0], "starts": -5000}
    kinds = ("training", "forgotten")
    spec = load_spec(fleet({"model": "t4"}, workloads=[{**shares, "kind": kind} for kind in kinds]))
    lay_out(tmp_path, spec, "n1", 300.0, started_at=STARTED)
    found = regions(tmp_path)
    busy, idle = (found[c.ref.pod.uid].region for c in containers(spec, "n1"))
    assert busy
    assert idle
    assert busy.last_kernel_at == STARTED + 300
    assert idle.last_kernel_at == STARTED - 5000, "a process that attaches counts as a kernel"


@pytest.mark.parametrize("layout", sorted(set(get_args(Layout)) - {"D"}))
def test_any_layout_can_be_asked_for(tmp_path: Path, layout: Layout) -> None:
    """D cannot be told from C by whoever reads it, so that it is not tried here."""
    lay_out(tmp_path, DEFAULT, NODE, 100.0, started_at=STARTED, layouts=[layout])
    assert {c.region.layout for c in regions(tmp_path).values() if c.region} == {layout}
