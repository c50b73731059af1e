"""What the host's /proc says of GPU processes: which pod, container or Slurm job they run in.

Only `parse_cgroup` knows how runtimes name cgroups. A path is read from its root, and the outermost pod counts: what
stands below it was made by the pod itself and proves nothing. Container ids are taken from below the pod for the same
reason. Paths that begin with `/..` are what a container without the host's cgroup namespace sees; they still end alike.
"""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gpusight.model.identity import HostPid
from gpusight.model.ownership import JoinFailure, ProcessOwner

_LARGEST_FILE = 64 * 1024
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_SLACK = 1.5
"""Seconds by which a start time may be off: the kernel tells the boot time in whole seconds."""

_UID = r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_POD = re.compile(rf"(?:.*-)?pod({_UID})(?:\.slice)?")
"""`pod<uid>`, `kubepods-burstable-pod<uid with _>.slice`; a static pod's uid has no dashes."""
_CONTAINER = re.compile(
    r"(?:(?:cri-containerd|containerd|crio|cri-o|docker|libpod|nerdctl)-)?([0-9a-f]{64})(?:\.scope)?"
)
"""`crio-conmon-<id>` and `libpod-conmon-<id>` are the runtime's own processes, and do not match."""
_SLURM = re.compile(r"slurm(?:_.+)?|(?:.+_)?slurmstepd\.scope")
_SLURM_USER = re.compile(r"uid_(\d{1,10})")
_SLURM_JOB = re.compile(r"job_(\d{1,20})")
_USER = re.compile(r"user-(\d{1,10})\.slice")
_SEPARATORS = re.compile(r"[/:]")
"""A colon where containerd was given systemd's name for a cgroupfs path: `...pod<uid>.slice:cri-containerd:<id>`."""


class CgroupOwner(NamedTuple):
    """What the names in a cgroup path tell."""

    pod_uid: str | None = None
    container_id: str | None = None
    slurm_job: str | None = None
    user_id: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessesReading:
    """The processes asked about, each in one of the two."""

    owners: Mapping[HostPid, ProcessOwner] = field(default_factory=dict)
    failures: Mapping[HostPid, JoinFailure] = field(default_factory=dict)


class _Failure(Exception):  # noqa: N818
    """A process that tells nothing."""

    def __init__(self, reason: JoinFailure) -> None:
        super().__init__(reason)
        self.reason = reason


class Processes:
    """The processes below a /proc. `is_host` says whether its numbers are the host's; None finds out."""

    def __init__(self, root: Path, *, is_host: bool | None = None) -> None:
        self._root = root
        self._is_host = is_host

    def read(self, pids: Iterable[HostPid], listed_at: float | None = None) -> ProcessesReading:
        """`listed_at` is the Unix time when the ids were known to be right: who started later is someone else."""
        if not self.shows_the_host():
            return ProcessesReading({}, dict.fromkeys(pids, "no_processes"))
        latest = self._latest_start(listed_at)
        owners: dict[HostPid, ProcessOwner] = {}
        failures: dict[HostPid, JoinFailure] = {}
        for pid in dict.fromkeys(pids):
            try:
                owners[pid] = self._owner(pid, latest)
            except _Failure as failure:
                failures[pid] = failure.reason
        return ProcessesReading(owners, failures)

    def shows_the_host(self) -> bool:
        """Every host has its kernel thread starter at number 2; no other PID namespace does."""
        if self._is_host is None:
            try:
                self._is_host = (self._root / "2" / "comm").read_bytes() == b"kthreadd\n"
            except OSError:
                return False
        return self._is_host

    def _latest_start(self, listed_at: float | None) -> float:
        """The latest start, in ticks since boot, that a process known at that time can have."""
        if listed_at is None:
            return float("inf")
        try:
            stat = (self._root / "stat").read_bytes()
        except OSError:
            return float("inf")
        booted = re.search(rb"^btime (\d+)$", stat, re.MULTILINE)
        return (listed_at - int(booted[1]) + _SLACK) * _TICKS_PER_SECOND if booted else float("inf")

    def _owner(self, pid: HostPid, latest_start: float) -> ProcessOwner:
        with _opened(self._root / str(pid)) as directory:
            start_time, command = _parse_stat(_read(directory, "stat"))
            cgroup = parse_cgroup(_read(directory, "cgroup", or_else="no_cgroup").decode("utf-8", "replace"))
            user_id = cgroup.user_id if _is_somewhere(cgroup) else _read_uid(directory)
            if start_time > latest_start or _parse_stat(_read(directory, "stat"))[0] != start_time:
                raise _Failure("process_gone")
        pod_uid, container_id, slurm_job, _ = cgroup
        return ProcessOwner(pid, start_time, command, pod_uid, container_id, slurm_job, user_id)


def parse_cgroup(text: str) -> CgroupOwner:
    """The most telling of the lines of a /proc/PID/cgroup: one line with version 2, one per controller with 1."""
    paths = (line.split(":", 2)[2] for line in text.splitlines() if line.count(":") >= 2)
    return max(map(_parse_path, paths), key=_weight, default=CgroupOwner())


def _weight(owner: CgroupOwner) -> tuple[bool, ...]:
    return tuple(value is not None for value in owner)


def _parse_path(path: str) -> CgroupOwner:
    segments = _SEPARATORS.split(path.removesuffix(" (deleted)"))
    at, pod = _first(_POD, segments)
    _, container = _first(_CONTAINER, segments[at + 1 :] if pod else segments)
    _, user = _first(_USER, segments)
    slurm_job, slurm_user = _parse_slurm(segments)
    uid = slurm_user or user
    if pod:
        return CgroupOwner(pod.replace("_", "-"), container)
    return CgroupOwner(None, container, slurm_job, int(uid) if uid else None)


def _parse_slurm(segments: list[str]) -> tuple[str | None, str | None]:
    """The job and the user of `/slurm/uid_1000/job_123/...` or `.../slurmstepd.scope/job_123/...`."""
    at, found = _first(_SLURM, segments)
    if found is None:
        return None, None
    below = segments[at + 1 : at + 3]
    return _first(_SLURM_JOB, below)[1], _first(_SLURM_USER, below[:1])[1]


def _first(pattern: re.Pattern[str], segments: list[str]) -> tuple[int, str | None]:
    """Where the first segment that fits stands, and what it names."""
    for at, segment in enumerate(segments):
        if found := pattern.fullmatch(segment):
            return at, found[found.lastindex or 0]
    return -1, None


def _parse_stat(data: bytes) -> tuple[int, str]:
    """Start time and command. The command stands in brackets and may itself hold brackets, spaces and line ends."""
    head, _, tail = data.rpartition(b")")
    try:
        return int(tail.split()[19]), _printable(head.partition(b"(")[2])
    except (IndexError, ValueError):
        raise _Failure("process_gone") from None


def _is_somewhere(cgroup: CgroupOwner) -> bool:
    """Whether the path tells a user, or a container, in which users are not the host's."""
    return any(value is not None for value in (cgroup.pod_uid, cgroup.container_id, cgroup.user_id))


def _read_uid(directory: int) -> int | None:
    with suppress(_Failure):
        if found := re.search(rb"^Uid:\s+(\d+)", _read(directory, "status"), re.MULTILINE):
            return int(found[1])
    return None


def _printable(name: bytes) -> str:
    """A name that the process chose itself, with everything that is not plain text made visible."""
    return "".join(char if char.isprintable() else "?" for char in name.decode("utf-8", "replace")[:64])


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A directory of /proc, held open: when its process ends, it stays empty even if the number is given anew."""
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _Failure(_reason(error, "no_cgroup")) from error
    try:
        yield directory
    finally:
        os.close(directory)


def _read(directory: int, name: str, or_else: JoinFailure = "no_cgroup") -> bytes:
    try:
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=directory)
        try:
            return b"".join(iter(lambda: os.read(file, _LARGEST_FILE), b""))[:_LARGEST_FILE]
        finally:
            os.close(file)
    except OSError as error:
        raise _Failure(_reason(error, or_else)) from error


def _reason(error: OSError, or_else: JoinFailure) -> JoinFailure:
    return "process_gone" if error.errno in {errno.ENOENT, errno.ESRCH} else or_else
