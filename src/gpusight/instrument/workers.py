"""Several processes of one program, one page: each worker keeps its cells in a file, readers add the files up.

A worker writes its cells through a shared mapping, so what it recorded stands in the file even when it is killed. It
holds a lock on its file while it lives: a file without a lock is a dead worker's. Of the dead the counters stay (a
total never goes back), gauges and windows go. Readers copy files; only the file's own worker maps it.

A file is a header, then entries of (key length, number of floats, key as JSON padded to 8, floats). No entry crosses a
segment's end: a key length of 0 says that the next one starts in the next segment. The header's `used` is written last.
"""

import fcntl
import json
import math
import mmap
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from gpusight.instrument import ledger as cells
from gpusight.instrument.ledger import Cell, Key, reduced

_MAGIC = b"gpsops01"
_HEADER = struct.Struct("<8s36s4xdQ")  # magic, boot id, slot seconds, used
_USED = struct.Struct("<Q")
_USED_AT = _HEADER.size - _USED.size
_ENTRY = struct.Struct("<II")
_SEGMENT = 256 * 1024
_SUFFIX = ".ops"
_GRAVEYARD = "dead.json"
_LOCK = "readers.lock"
_DEAD_AT_ONCE = 16
"""Dead workers' files that are left lying before they are added up into one."""

_DAMAGED = (ValueError, TypeError, IndexError, struct.error)

Table = dict[Key, list[float]]


class WorkerFile:
    """This process's cells in its own file: the Store of multi-process mode."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._start, self._used = 0, _HEADER.size
        self._segment = self._map()

    @classmethod
    def create(cls, directory: str | os.PathLike[str], window: float) -> "WorkerFile":
        """A new file in the directory, which is made if need be; it becomes visible when it is locked and whole."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{os.getpid()}-{os.urandom(6).hex()}{_SUFFIX}"
        hidden = folder / f".{name}"
        descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            file = cls(descriptor)
            os.pwrite(descriptor, _HEADER.pack(_MAGIC, _boot_id(), window / cells.SLOTS, _HEADER.size), 0)
            hidden.rename(folder / name)
        except OSError:
            hidden.unlink(missing_ok=True)
            raise
        return file

    def cell(self, key: Key, size: int) -> Cell:
        """A new cell of zeros, visible to readers once it is whole."""
        name = json.dumps(key).encode()
        body = _ENTRY.size + _padded(len(name))
        length = body + 8 * size
        if self._used - self._start + length > _SEGMENT:
            self._start += _SEGMENT
            self._segment = self._map()
            self._used = self._start
        at = self._used - self._start
        _ENTRY.pack_into(self._segment, at, len(name), size)
        self._segment[at + _ENTRY.size : at + _ENTRY.size + len(name)] = name
        self._used += length
        os.pwrite(self._descriptor, _USED.pack(self._used), _USED_AT)
        return memoryview(self._segment)[at + body : at + length].cast("d")  # type: ignore[return-value]  # all we use

    def _map(self) -> mmap.mmap:
        """The current segment, its space reserved: writing to a hole of a full disk would kill the program."""
        os.posix_fallocate(self._descriptor, self._start, _SEGMENT)
        return mmap.mmap(self._descriptor, _SEGMENT, offset=self._start)

    def __del__(self) -> None:
        with suppress(Exception):
            os.close(self._descriptor)


class _Workers(NamedTuple):
    """What a directory holds."""

    living: list[Table]
    dead: dict[Path, Table]
    buried: "_Graveyard"
    unreadable: int


class _Graveyard(NamedTuple):
    """Dead workers added up: their files' names (in case a file is still there), how many, and their cells."""

    names: frozenset[str]
    workers: int
    table: Table


def read_directory(directory: str | os.PathLike[str], now: float) -> Table:
    """The cells of all workers, living and dead, merged. An unreadable file is counted and costs only itself."""
    folder = Path(directory)
    with _locked(folder, fcntl.LOCK_SH):
        workers = _read_all(folder, now)
    if len(workers.dead) > _DEAD_AT_ONCE:
        _bury(folder, now)
    merged = merge([*workers.living, *workers.dead.values(), workers.buried.table])
    merged[cells.WORKERS, "live"] = [float(len(workers.living))]
    merged[cells.WORKERS, "dead"] = [float(len(workers.dead) + workers.buried.workers)]
    merged[cells.WORKERS, "unreadable"] = [float(workers.unreadable)]
    return merged


def merge(tables: Iterable[Table]) -> Table:
    """Counters add up, runs too; of gauges the newest or the sum counts, whichever the gauge means."""
    merged: Table = {}
    for table in tables:
        for key, cell in table.items():
            known = merged.get(key)
            merged[key] = list(cell) if known is None else _MERGE.get(key[0], _add)(known, cell)
    return merged


def _add(a: list[float], b: list[float]) -> list[float]:
    return [a[0] + b[0]]


def _add_gauge(a: list[float], b: list[float]) -> list[float]:
    return [a[0] + b[0], max(a[1], b[1])]


def _newest(a: list[float], b: list[float]) -> list[float]:
    return max(a, b, key=lambda cell: cell[1])


def _largest(a: list[float], b: list[float]) -> list[float]:
    return max(a, b)


def _add_runs(a: list[float], b: list[float]) -> list[float]:
    merged = [x + y for x, y in zip(a, b, strict=True)]
    for index in (cells.MIN, cells.WINDOW_MIN):
        merged[index] = min(a[index], b[index])
    for index in (cells.MAX, cells.WINDOW_MAX):
        merged[index] = max(a[index], b[index])
    later = a if a[cells.AT] >= b[cells.AT] else b
    for index in (cells.LAST, cells.SIZE, cells.AT):
        merged[index] = later[index]
    return merged


_MERGE = {
    cells.RUN: _add_runs,
    cells.QUEUE: _add_gauge,
    cells.MEMORY: _add_gauge,
    cells.MEMORY_TOTAL: _largest,
    cells.SPAN: _largest,
    cells.DEVICE: _newest,
}
_GAUGES = (cells.QUEUE, cells.MEMORY, cells.MEMORY_TOTAL, cells.DEVICE)


def _read_all(folder: Path, now: float) -> _Workers:
    buried = _read_graveyard(folder)
    living: list[Table] = []
    dead: dict[Path, Table] = {}
    unreadable = 0
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.suffix != _SUFFIX or path.name in buried.names:
            continue
        try:
            table, alive = _read_worker(path, now)
        except (OSError, *_DAMAGED):
            unreadable += 1
            continue
        if alive:
            living.append(table)
        else:
            dead[path] = _what_stays(table)
    return _Workers(living, dead, buried, unreadable)


def _read_worker(path: Path, now: float) -> tuple[Table, bool]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        alive = _is_locked(descriptor)
        return parse(file.read(), now), alive


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def parse(data: bytes, now: float) -> Table:
    """The cells of a worker file; none where it dates from before the machine's last start."""
    magic, boot, slot_seconds, used = _HEADER.unpack_from(data)
    if magic != _MAGIC or used > len(data) or not slot_seconds > 0:
        raise ValueError("not a worker file")
    if boot != _boot_id():
        return {}
    return {key: reduced(key, cell, now, slot_seconds) for key, cell in _entries(data, used)}


def _entries(data: bytes, used: int) -> Iterator[tuple[Key, tuple[float, ...]]]:
    at = _HEADER.size
    while at + _ENTRY.size <= used:
        length, size = _ENTRY.unpack_from(data, at)
        if not length:
            at = (at // _SEGMENT + 1) * _SEGMENT
            continue
        body = at + _ENTRY.size + _padded(length)
        key = tuple(json.loads(data[at + _ENTRY.size : at + _ENTRY.size + length]))
        yield key, struct.unpack_from(f"<{size}d", data, body)
        at = body + 8 * size


def _what_stays(table: Table) -> Table:
    """Of a dead worker: what it counted, not what it last saw."""
    stays = {key: list(cell) for key, cell in table.items() if key[0] not in _GAUGES}
    for key, cell in stays.items():
        if key[0] == cells.RUN:
            cell[cells.WINDOW :] = [0.0, 0.0, 0.0, math.inf, 0.0]
    return stays


def _read_graveyard(folder: Path) -> _Graveyard:
    try:
        content = json.loads((folder / _GRAVEYARD).read_bytes())
        if content["boot"] == _boot_id().decode():
            table = {tuple(key): cell for key, cell in content["cells"]}
            return _Graveyard(frozenset(content["names"]), content["count"], table)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return _Graveyard(frozenset(), 0, {})


def _bury(folder: Path, now: float) -> None:
    """Add the dead up in one file and remove theirs, while nobody reads.

    A crash in between loses and doubles nothing: files named in the graveyard are not read again.
    """
    with suppress(OSError), _locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
        workers = _read_all(folder, now)
        content = {
            "boot": _boot_id().decode(),
            "names": [path.name for path in workers.dead],
            "count": workers.buried.workers + len(workers.dead),
            "cells": list(merge([workers.buried.table, *workers.dead.values()]).items()),
        }
        for name in workers.buried.names:
            (folder / name).unlink(missing_ok=True)
        draft = folder / f"{_GRAVEYARD}.new"
        draft.write_text(json.dumps(content))
        draft.rename(folder / _GRAVEYARD)
        for path in workers.dead:
            path.unlink(missing_ok=True)


@contextmanager
def _locked(folder: Path, mode: int) -> Iterator[None]:
    """Hold the directory's lock; a reader that may not create it reads without, nobody can bury there then."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError:
        if mode != fcntl.LOCK_SH:
            raise
        yield
        return
    try:
        fcntl.flock(descriptor, mode)
        yield
    finally:
        os.close(descriptor)


def _padded(length: int) -> int:
    return (length + 7) & ~7


def _boot_id() -> bytes:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes()[:36].ljust(36, b"-")
    except OSError:
        return b"-" * 36
