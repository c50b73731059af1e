"""libvgpu's files, the kubelet's socket, log directories."""

from pathlib import Path
from tempfile import TemporaryDirectory

from gpusight.simulate.regions import SimDevice, SimRegion, write_region
from tests.doctor.subjects import outcome, results_of, subject
from tests.support.kubelet import running_kubelet


def container(root: Path, name: str) -> Path:
    directory = root / f"11111111-2222-3333-4444-{name:0>12}_main"
    directory.mkdir(parents=True)
    return directory


def test_nothing_here_is_no_fault(tmp_path: Path) -> None:
    found = results_of(subject(tmp_path), "vgpu", "kubelet", "pods")
    assert {outcome(each) for each in found.values()} == {
        ("skip", "vgpu.no-dir"),
        ("skip", "kubelet.none"),
        ("skip", "pods.no-logs"),
    }


def test_layouts_are_counted(tmp_path: Path) -> None:
    root = tmp_path / "vgpu"
    for number, layout in enumerate(("A", "F", "F")):
        region = SimRegion(layout=layout, devices=[SimDevice("GPU-1", 1 << 30, 50)])  # type: ignore[arg-type]
        write_region(container(root, str(number)) / "x.cache", region)
    container(root, "9")
    found = results_of(subject(tmp_path, vgpu_dir=root), "vgpu")
    assert outcome(found["vgpu.dir"]) == ("ok", "vgpu.dir-ok")
    assert outcome(found["vgpu.regions"]) == ("ok", "vgpu.regions-ok")
    assert found["vgpu.regions"].finding.values == {"count": 3, "layouts": "A: 1, F: 2", "empty": 1}


def test_containers_without_any_cache_have_no_libvgpu(tmp_path: Path) -> None:
    root = tmp_path / "vgpu"
    container(root, "1")
    assert outcome(results_of(subject(tmp_path, vgpu_dir=root), "vgpu.regions")["vgpu.regions"]) == (
        "warn",
        "vgpu.empty",
    )


def test_broken_files_are_told_by_reason(tmp_path: Path) -> None:
    root = tmp_path / "vgpu"
    (container(root, "1") / "x.cache").write_bytes(b"rubbish")
    finding = results_of(subject(tmp_path, vgpu_dir=root), "vgpu.regions")["vgpu.regions"].finding
    assert (finding.status, finding.outcome) == ("fail", "vgpu.problems")
    assert finding.values["reasons"] == "wrong_size: 1"


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert outcome(results_of(subject(tmp_path, vgpu_dir=tmp_path / "file"), "vgpu.dir")["vgpu.dir"]) == (
        "fail",
        "vgpu.dir-unreadable",
    )


def test_a_kubelet() -> None:
    with TemporaryDirectory() as name, running_kubelet(Path(name)) as kubelet:
        here = subject(Path(name), kubelet_socket=kubelet.socket, network_patience=5.0)
        assert outcome(results_of(here, "kubelet")["kubelet.socket"]) == ("ok", "kubelet.ok")
        kubelet.behave(code="UNIMPLEMENTED")
        assert outcome(results_of(here, "kubelet")["kubelet.socket"]) == ("fail", "kubelet.not_supported")
        kubelet.behave(code="RESOURCE_EXHAUSTED")
        assert outcome(results_of(here, "kubelet")["kubelet.socket"]) == ("fail", "kubelet.refused")


def test_a_socket_that_is_not_mounted(tmp_path: Path) -> None:
    socket = tmp_path / "kubelet" / "pod-resources" / "kubelet.sock"
    socket.parent.mkdir(parents=True)
    found = results_of(subject(tmp_path, kubelet_socket=socket), "kubelet")["kubelet.socket"]
    assert outcome(found) == ("fail", "kubelet.no_socket")


def test_other_exporters_on_the_machine(tmp_path: Path) -> None:
    (tmp_path / "proc" / "12").mkdir(parents=True)
    (tmp_path / "proc" / "12" / "comm").write_text("dcgm-exporter\n")
    found = results_of(subject(tmp_path, procfs=tmp_path / "proc"), "node")["node.neighbours"]
    assert outcome(found) == ("warn", "neighbours.found")


def test_log_directories(tmp_path: Path) -> None:
    logs = tmp_path / "pods"
    (logs / "team_a_uid").mkdir(parents=True)
    found = results_of(subject(tmp_path, pod_logs=logs), "pods")["pods.logs"]
    assert (outcome(found), found.finding.values["count"]) == (("ok", "pods.logs-ok"), 1)
