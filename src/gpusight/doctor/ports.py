"""Whether a role could listen where it should, and who does so already."""

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from gpusight.doctor.exam import Exam
from gpusight.doctor.findings import Finding, Private, bad, fail, ok
from gpusight.doctor.subject import Listen
from gpusight.exposition.listen import ListenError, bind, parse_address

_LISTENING = "0A"
_OWN = "gpusight"


class Holder(NamedTuple):
    """A process that listens."""

    pid: int
    name: str
    arguments: tuple[str, ...]

    @property
    def is_ours(self) -> bool:
        """`gpusight node`, `python -m gpusight node`, `uvicorn gpusight.runtime...`."""
        named = [*self.arguments[:2], *(after for dash, after in pairwise(self.arguments[:4]) if dash == "-m")]
        return any(not each.startswith("-") and Path(each).name.partition(".")[0] == _OWN for each in named)


def port(exam: Exam, listen: Listen) -> Finding:
    values = {"role": listen.role, "address": listen.address, "port": listen.port}
    try:
        sockets = bind(parse_address(listen.address))
    except ListenError as error:
        return _taken(exam, listen) if _is_taken(exam, listen) else fail("port.unusable", **values, detail=error)
    for sock in sockets:
        sock.close()
    return ok("port.free", **values)


def _is_taken(exam: Exam, listen: Listen) -> bool:
    return bool(_inodes(exam.subject.procfs, listen.port))


def _taken(exam: Exam, listen: Listen) -> Finding:
    procfs = exam.subject.procfs
    holder = holder_of(procfs, listen.port)
    values = {"role": listen.role, "address": listen.address, "port": listen.port}
    if holder and holder.is_ours:
        return ok("port.ours", **values, pid=holder.pid)
    is_needed = exam.subject.needs(listen.role)
    if holder:
        return bad(is_needed, "port.taken", **values, pid=holder.pid, name=Private(holder.name))
    return bad(is_needed, "port.taken-unseen", **values)


def holder_of(procfs: Path, number: int) -> Holder | None:
    """Who listens on a TCP port; None if nobody does, or somebody whose files we may not see."""
    links = {f"socket:[{inode}]" for inode in _inodes(procfs, number)}
    for process in _processes(procfs) if links else ():
        with suppress(OSError):  # it has ended, or is another user's
            if any(_link(each) in links for each in (process / "fd").iterdir()):
                return _described(process)
    return None


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _described(process: Path) -> Holder:
    arguments = (process / "cmdline").read_bytes()[:4096].decode("utf-8", "replace").split("\0")
    name = (process / "comm").read_bytes()[:64].decode("utf-8", "replace").strip()
    return Holder(int(process.name), name, tuple(arguments))


def _processes(procfs: Path) -> Iterator[Path]:
    with os.scandir(procfs) as entries:
        yield from (Path(entry.path) for entry in entries if entry.name.isdecimal())


def _inodes(procfs: Path, number: int) -> set[str]:
    """Of the sockets that listen on a port, in our own network namespace."""
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = (procfs / "self/net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == number:
                found.add(fields[9])
    return found
