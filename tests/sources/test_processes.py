"""Processes of a /proc: a made-up one, and the real one of this machine."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpusight.model.identity import HostPid
from gpusight.model.ownership import ProcessOwner
from gpusight.sources import processes
from gpusight.sources.processes import Processes

UID = "7f3c2a10-8d4e-4b5a-9c61-0e2d4f6a8b1c"
ID = "4be7c3f7303d558d435e99a160631fe4c0ffee00112233445566778899aabbcc"
POD = f"0::/kubepods/pod{UID}/{ID}\n"
TICKS = os.sysconf("SC_CLK_TCK")


class Proc:
    """A /proc with few entries."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "2").mkdir(parents=True)
        (root / "2" / "comm").write_text("kthreadd\n")
        (root / "stat").write_text("cpu 1 2 3\nbtime 1700000000\nprocesses 5\n")

    def add(self, pid: int, cgroup: str = POD, comm: bytes = b"python", start: int = 5000, uid: int = 1000) -> HostPid:
        directory = self.root / str(pid)
        directory.mkdir(exist_ok=True)
        fields = " ".join(["S", "1", *["0"] * 17, str(start), "4096", "100"])
        (directory / "stat").write_bytes(b"%d (%s) %s\n" % (pid, comm, fields.encode()))
        (directory / "cgroup").write_text(cgroup)
        (directory / "status").write_text(f"Name:\tx\nUid:\t{uid}\t0\t0\t0\n")
        return HostPid(pid)

    def read(self, *pids: int, **options: float) -> processes.ProcessesReading:
        return Processes(self.root).read(map(HostPid, pids), **options)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path / "proc")


def test_a_process_in_a_pod(proc: Proc) -> None:
    pid = proc.add(77)
    reading = proc.read(77)
    assert reading.owners == {pid: ProcessOwner(pid, 5000, "python", UID, ID)}
    assert reading.failures == {}


def test_the_user_is_told_outside_of_containers_only(proc: Proc) -> None:
    proc.add(1, cgroup="0::/system.slice/x.service\n", uid=33)
    proc.add(3, cgroup="0::/user.slice/user-1005.slice/session-1.scope\n", uid=0)
    proc.add(4, cgroup=f"0::/system.slice/docker-{ID}.scope\n", uid=0)
    proc.add(5, cgroup="0::/system.slice/slurmstepd.scope/job_8/step_0\n", uid=1234)
    owners = proc.read(1, 3, 4, 5).owners
    assert [owner.user_id for owner in owners.values()] == [33, 1005, None, 1234]
    assert owners[HostPid(5)].slurm_job == "8"


@pytest.mark.parametrize(
    ("comm", "shown"),
    [
        (b"python3.11", "python3.11"),
        (b"a) S 1 (b", "a) S 1 (b"),
        (b'evil\n{x="y"}', 'evil?{x="y"}'),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"\x1b[31mred", "?[31mred"),
        (b"", ""),
        (b"x" * 200, "x" * 64),
    ],
)  # fmt: skip
def test_a_command_is_made_printable(proc: Proc, comm: bytes, shown: str) -> None:
    pid = proc.add(9, comm=comm)
    assert proc.read(9).owners[pid].command == shown


def test_a_process_that_is_gone(proc: Proc) -> None:
    assert proc.read(404).failures == {404: "process_gone"}


def test_a_process_without_cgroup_file(proc: Proc) -> None:
    proc.add(5)
    (proc.root / "5" / "cgroup").unlink()
    assert proc.read(5).failures == {5: "process_gone"}


@pytest.mark.parametrize("stat", [b"", b"5 (x", b"5 (x) S 1 2", b"5 (x) " + b"S " * 30, b")" * 50])
def test_a_stat_that_makes_no_sense(proc: Proc, stat: bytes) -> None:
    proc.add(5)
    (proc.root / "5" / "stat").write_bytes(stat)
    assert proc.read(5).failures == {5: "process_gone"}


@pytest.mark.parametrize("path", ["5", "5/cgroup"])
def test_a_process_that_must_not_be_looked_at(proc: Proc, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    proc.add(5)
    real = os.open

    def denied(name: str, *args: int, **more: int) -> int:
        if str(name).endswith(path.rpartition("/")[2]):
            raise PermissionError(13, "Permission denied")
        return real(name, *args, **more)

    monkeypatch.setattr(os, "open", denied)
    assert proc.read(5).failures == {5: "no_cgroup"}


def test_a_number_given_anew_while_looking(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process with the same number appears between the two looks at its start."""
    proc.add(5, start=100)

    def replaced(read: Callable[..., bytes]) -> Callable[..., bytes]:
        def reading(directory: int, name: str, *args: str, **more: str) -> bytes:
            data = read(directory, name, *args, **more)
            if name == "cgroup":
                proc.add(5, start=101)
            return data

        return reading

    monkeypatch.setattr(processes, "_read", replaced(processes._read))
    assert proc.read(5).failures == {5: "process_gone"}


def test_a_process_that_started_after_the_list_was_made(proc: Proc) -> None:
    """NVML named the number at 1,700,000,100; who has it now began 20 seconds later."""
    proc.add(5, start=120 * TICKS)
    proc.add(6, start=99 * TICKS)
    reading = proc.read(5, 6, listed_at=1_700_000_100.0)
    assert reading.failures == {5: "process_gone"}
    assert list(reading.owners) == [6]


def test_the_boot_time_may_be_missing(proc: Proc) -> None:
    proc.add(5)
    (proc.root / "stat").write_text("cpu 1\n")
    assert list(proc.read(5, listed_at=1.0).owners) == [5]
    (proc.root / "stat").unlink()
    assert list(proc.read(5, listed_at=1.0).owners) == [5]


def test_numbers_of_a_container_are_not_taken_for_the_hosts(proc: Proc) -> None:
    """Without the host's PID namespace, number 5 is somebody else."""
    proc.add(5)
    (proc.root / "2" / "comm").write_text("bash\n")
    assert proc.read(5).failures == {5: "no_processes"}
    (proc.root / "2" / "comm").unlink()
    assert proc.read(5).failures == {5: "no_processes"}
    assert list(Processes(proc.root, is_host=True).read([HostPid(5)]).owners) == [5]


def test_no_proc_at_all(tmp_path: Path) -> None:
    assert Processes(tmp_path / "none").read([HostPid(1)]).failures == {1: "no_processes"}


def test_this_process() -> None:
    pid = HostPid(os.getpid())
    owner = Processes(Path("/proc"), is_host=True).read([pid], listed_at=time.time()).owners[pid]
    assert owner.pid == pid
    assert owner.start_time > 0
    assert owner.command


def test_a_child_that_has_ended() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert Processes(Path("/proc"), is_host=True).read([HostPid(child.pid)]).failures == {child.pid: "process_gone"}


def test_no_file_stays_open(proc: Proc) -> None:
    proc.add(5)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        proc.read(5, 404)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
