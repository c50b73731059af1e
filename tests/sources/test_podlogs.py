"""Pod names from the kubelet's log directories, some of them odd."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.model.identity import PodRef
from gpusight.model.ownership import PodInfo
from gpusight.model.time import ManualClock
from gpusight.sources.podlogs import PodLogs, parse_directory_name

UID = "7f3c2a10-8d4e-4b5a-9c61-0e2d4f6a8b1c"
UID2 = "8f3c2a10-8d4e-4b5a-9c61-0e2d4f6a8b1c"
STATIC = "f1b5933fe4b5f315ecd71c2efc6e4d94"
ID, ID2 = "ab" * 32, "cd" * 32


def make(root: Path, name: str, *containers: str, at: int = 1_700_000_000) -> None:
    (root / name).mkdir(parents=True)
    for container in containers:
        (root / name / container).mkdir()
    os.utime(root / name, (at, at))


@pytest.mark.parametrize(
    ("name", "ref"),
    [
        (f"team_train-0_{UID}", PodRef("c", "team", "train-0", UID)),
        (f"kube-system_etcd-node.example.com_{STATIC}", PodRef("c", "kube-system", "etcd-node.example.com", STATIC)),
        (f"team_train_{UID[:-1]}", None),
        (f"team_{UID}", None),
        (f"a_b_c_{UID}", None),
        (f"Team_train_{UID}", None),
        (f"team_train_{UID}\n", None),
        (f"team_-x_{UID}", None),
        ("", None),
        ("lost+found", None),
    ],
)
def test_a_directory_name(name: str, ref: PodRef | None) -> None:
    assert parse_directory_name(name, "c") == ref


@given(st.text(max_size=100))
def test_any_name_is_read(name: str) -> None:
    parse_directory_name(name)


def test_pods_and_their_containers(tmp_path: Path) -> None:
    make(tmp_path, f"team_train-0_{UID}", "main", "side")
    make(tmp_path, f"team_idle_{UID2}", at=1_600_000_000)
    (tmp_path / f"team_train-0_{UID}" / "main" / "0.log").touch()
    (tmp_path / "other").mkdir()
    reading = PodLogs(tmp_path, ManualClock(), "east").read()
    assert reading.pods == (
        PodInfo(PodRef("east", "team", "train-0", UID), ("main", "side")),
        PodInfo(PodRef("east", "team", "idle", UID2)),
    )
    assert (reading.is_up, reading.skipped) == (True, 1)


def test_a_pod_made_anew_comes_before_its_predecessor(tmp_path: Path) -> None:
    make(tmp_path, f"team_db-0_{UID}", "db", at=1_700_000_000)
    make(tmp_path, f"team_db-0_{UID2}", "db", at=1_700_000_500)
    assert [pod.ref.uid for pod in PodLogs(tmp_path, ManualClock()).read().pods] == [UID2, UID]


def test_links_and_files_are_not_followed(tmp_path: Path) -> None:
    make(tmp_path / "elsewhere", "main")
    pods = tmp_path / "pods"
    make(pods, f"team_real_{UID}", "main")
    (pods / f"team_real_{UID}" / "link").symlink_to(tmp_path / "elsewhere")
    (pods / f"team_real_{UID}" / "file").touch()
    (pods / f"team_fake_{UID2}").symlink_to(tmp_path / "elsewhere")
    (pods / f"team_file_{STATIC}").touch()
    reading = PodLogs(pods, ManualClock()).read()
    assert [(pod.ref.name, pod.containers) for pod in reading.pods] == [("real", ("main",))]
    assert reading.skipped == 2


def test_container_ids_from_the_names_of_links(tmp_path: Path) -> None:
    pods, links = tmp_path / "pods", tmp_path / "containers"
    make(pods, f"team_train-0_{UID}", "main", "side")
    links.mkdir()

    def link(container: str, container_id: str, at: int, target: str | None = None) -> None:
        path = links / f"train-0_team_{container}-{container_id}.log"
        path.symlink_to(target or f"/var/log/pods/team_train-0_{UID}/{container}/0.log")
        os.utime(path, (at, at), follow_symlinks=False)

    link("main", ID2, at=1000)
    link("main", ID, at=2000)
    link("side", ID, at=1, target="/etc/passwd")
    (links / f"plain-{ID}.log").touch()
    (links / "short-abc.log").symlink_to("/x")
    (pod,) = PodLogs(pods, ManualClock(), links=links).read().pods
    assert pod.container_ids == {"main": ID}


def test_links_are_optional(tmp_path: Path) -> None:
    make(tmp_path, f"team_train-0_{UID}", "main")
    (pod,) = PodLogs(tmp_path, ManualClock(), links=tmp_path / "none").read().pods
    assert pod.container_ids == {}


def test_looks_again_after_some_seconds_only(tmp_path: Path) -> None:
    clock = ManualClock()
    logs = PodLogs(tmp_path, clock, every=5)
    assert logs.read().pods == ()
    make(tmp_path, f"team_train-0_{UID}")
    clock.advance(4.9)
    assert logs.read().pods == ()
    clock.advance(0.1)
    assert len(logs.read().pods) == 1


def test_no_directory(tmp_path: Path) -> None:
    reading = PodLogs(tmp_path / "none", ManualClock()).read()
    assert (reading.is_up, reading.reason) == (False, "no_directory")
    (tmp_path / "file").touch()
    assert PodLogs(tmp_path / "file", ManualClock()).read().reason == "no_directory"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user for a moment")
def test_no_permission(tmp_path: Path) -> None:
    (tmp_path / "pods").mkdir(mode=0o700)
    logs = PodLogs(tmp_path / "pods", ManualClock())
    for parent in (tmp_path, *tmp_path.parents):
        if parent.owner() == "root" and str(parent).startswith("/tmp/pytest"):  # pytest keeps its own private
            parent.chmod(0o755)
    os.seteuid(65534)
    try:
        assert logs.read().reason == "no_permission"
    finally:
        os.seteuid(0)


def test_a_crowd_of_entries_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusight.sources.podlogs._MOST_PODS", 20)
    monkeypatch.setattr("gpusight.sources.podlogs._MOST_CONTAINERS", 3)
    for number in range(30):
        make(tmp_path, f"team_pod-{number}_{UID[:-2]}{number:02}", *(f"c{n}" for n in range(5)))
    reading = PodLogs(tmp_path, ManualClock()).read()
    assert (len(reading.pods), reading.skipped) == (20, 10)
    assert {len(pod.containers) for pod in reading.pods} == {3}
