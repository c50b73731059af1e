"""Where the analyzer keeps things: room, rights, and a journal that can be opened."""

import os
import stat
import tempfile
from pathlib import Path

from gpusight.doctor.exam import Exam
from gpusight.doctor.findings import Finding, Private, fail, ok, skip, warn

_TOO_LITTLE = 64 << 20
_LITTLE = 1 << 30


def data(exam: Exam) -> Finding:
    directory = exam.subject.data_dir
    place = _existing(directory)
    if not place.is_dir():
        return fail("disk.not-a-directory", path=place)
    if problem := _write_problem(place):
        return fail("disk.not-writable", path=place, detail=problem)
    room = os.statvfs(place)
    free = room.f_bavail * room.f_frsize
    if free < _TOO_LITTLE or (room.f_files and not room.f_favail):
        return fail("disk.full", path=directory, free=_mib(free))
    wanted = max(_LITTLE, _to_grow(exam))
    if free < wanted:
        return warn("disk.little", path=directory, free=_mib(free), wanted=_mib(wanted))
    if place == directory and place.stat().st_mode & stat.S_IWOTH:
        return warn("file.writable", path=directory)
    return ok("disk.ok" if place == directory else "disk.to-be-made", path=directory, free=_mib(free))


def journal(exam: Exam) -> Finding:
    from gpusight.journal.open import is_postgres, open_existing  # noqa: PLC0415 - an extra
    from gpusight.model.history import JournalError  # noqa: PLC0415 - likewise

    location = exam.subject.journal
    if not is_postgres(location) and not os.path.lexists(location):
        return skip("journal.none", path=location)
    try:
        engine, version = open_existing(location, clock=exam.subject.clock)
    except JournalError as error:
        return fail("journal.wrong", detail=error)
    try:
        return ok("journal.ok", name=Private(engine.name), version=version)
    finally:
        engine.close()


def _to_grow(exam: Exam) -> int:
    """What the embedded store may still take."""
    subject = exam.subject
    if subject.store != "embedded" or subject.store_file is None:
        return 0
    try:
        taken = subject.store_file.stat().st_size
    except OSError:
        taken = 0
    return max(0, subject.store_max_bytes - taken)


def _existing(path: Path) -> Path:
    """The directory, or the one in which it would be made."""
    return next((each for each in (path, *path.absolute().parents) if each.exists()), Path("/"))


def _write_problem(directory: Path) -> str:
    """Why nothing can be written; by trying, as rights alone do not tell of read-only mounts and quotas."""
    try:
        with tempfile.TemporaryFile(dir=directory, prefix=".gpusight-doctor-") as file:
            file.write(b"\0" * 4096)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


def _mib(size: int) -> str:
    return f"{size >> 20} MiB"
