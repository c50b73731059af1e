"""Shared regions as libvgpu writes them, in every layout: for the simulated fleet and the tests.

`encode_region` makes the bytes of a whole file, `write_region` keeps a file up to date in place, as a running program
would: only what changed, each slot under its seqlock, the magic number last.
"""

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpusight.model.vgpu import Layout
from gpusight.sources.vgpu.layouts import (
    LAYOUTS,
    MAGIC,
    TAIL,
    U64,
    UUID_SIZE,
    WORD,
    RegionLayout,
    SlotLayout,
)

_MODE = 0o666
_PIDS = struct.Struct("<2i")
_STATUS = struct.Struct("<i")
_VERSION = struct.Struct("<2I")
_MAGIC = struct.Struct("<i")
_USED = struct.Struct("<5Q")
_UTIL = struct.Struct("<3Q")
_SEMAPHORE = struct.Struct("<2Q")
"""The first half of glibc's sem_t: its count, and whether processes share it."""
_SHARED = 0x80


@dataclass(frozen=True, slots=True)
class SimDevice:
    """One GPU as the container sees it; a memory limit of 0 is none."""

    uuid: str
    limit: int = 0
    sm_limit: int = 100


@dataclass(frozen=True, slots=True)
class SimUse:
    """What one process does on one device. Without `total` it is the sum of the parts, as libvgpu keeps it."""

    context: int = 0
    module: int = 0
    buffer: int = 0
    offset: int = 0
    total: int | None = None
    monitor_used: int = 0
    sm_percent: int = 0
    encoder_percent: int = 0
    decoder_percent: int = 0


@dataclass(frozen=True, slots=True)
class SimProcess:
    """One slot. Status 1 runs, 2 is suspended, 0 has ended; a host pid of 0 was never found out."""

    pid: int
    host_pid: int = 0
    status: int = 1
    uses: Sequence[SimUse] = ()
    """Per device."""


@dataclass(frozen=True, slots=True)
class SimRegion:
    """One container's region."""

    layout: Layout = "F"
    devices: Sequence[SimDevice] = ()
    processes: Sequence[SimProcess] = ()
    last_kernel_at: int = 0
    priority: int = 1
    recent_kernel: int = 2
    utilization_switch: int = 1


def encode_region(region: SimRegion) -> bytes:
    """The whole file."""
    layout = LAYOUTS[region.layout]
    slots = b"".join(_slot(layout.slot, process) for process in region.processes)
    return _piece([*_fields(region, layout), (layout.procs, slots)], 0, layout.size + 1)


def write_region(path: Path, region: SimRegion) -> None:
    """Bring the file to this state, making it if need be."""
    layout = LAYOUTS[region.layout]
    fields = list(_fields(region, layout))
    with _opened(path) as fd:
        if os.fstat(fd).st_size != layout.size + 1:
            _create(fd, layout)
        before = TAIL.unpack(os.pread(fd, TAIL.size, layout.proc_num))[0]
        for index, process in enumerate(region.processes):
            _write_slot(fd, layout, index, _slot(layout.slot, process))
        _write(fd, layout.proc_num, _piece(fields, layout.proc_num, layout.size))
        for index in range(len(region.processes), before):
            _write(fd, layout.procs + index * layout.slot.size, bytes(layout.slot.size))
        _write(fd, _MAGIC.size, _piece(fields, _MAGIC.size, layout.procs))
        _write(fd, 0, _MAGIC.pack(MAGIC))


# Encoding: fields with their offsets, put together piece by piece.

_Field = tuple[int, bytes]


def _piece(fields: Iterable[_Field], start: int, end: int) -> bytes:
    """The bytes from `start` to `end`: the fields in there, and zeros."""
    data = bytearray(end - start)
    for offset, field in fields:
        if start <= offset < end:
            data[offset - start : offset - start + len(field)] = field
    return bytes(data)


def _fields(region: SimRegion, layout: RegionLayout) -> Iterator[_Field]:
    """All but the slots."""
    yield 0, _MAGIC.pack(MAGIC)
    if layout.version:
        yield _MAGIC.size, _VERSION.pack(*layout.version)
    for offset in layout.semaphores:
        yield offset, _SEMAPHORE.pack(1, _SHARED)
    yield layout.device_num, U64.pack(len(region.devices))
    for index, device in enumerate(region.devices):
        yield layout.uuids + index * UUID_SIZE, device.uuid.encode(errors="surrogateescape")[:UUID_SIZE]
        yield layout.limits + index * WORD, U64.pack(device.limit)
        yield layout.sm_limits + index * WORD, U64.pack(device.sm_limit)
    counts = (len(region.processes), region.utilization_switch, region.recent_kernel, region.priority)
    yield layout.proc_num, TAIL.pack(*counts)
    if layout.last_kernel is not None:
        yield layout.last_kernel, U64.pack(region.last_kernel_at)


def _slot(layout: SlotLayout, process: SimProcess) -> bytes:
    return _piece(_slot_fields(layout, process), 0, layout.size)


def _slot_fields(layout: SlotLayout, process: SimProcess) -> Iterator[_Field]:
    yield 0, _PIDS.pack(process.pid, process.host_pid)
    yield layout.status, _STATUS.pack(process.status)
    for index, use in enumerate(process.uses):
        total = use.context + use.module + use.buffer if use.total is None else use.total
        used = (use.context, use.module, use.buffer, use.offset, total)
        yield layout.used + index * layout.used_stride, _USED.pack(*used)
        yield layout.monitor_used + index * WORD, U64.pack(use.monitor_used)
        if layout.util is not None:
            util = (use.decoder_percent, use.encoder_percent, use.sm_percent)
            yield layout.util + index * layout.util_stride, _UTIL.pack(*util)


# Writing in place.


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
    try:
        yield fd
    finally:
        os.close(fd)


def _create(fd: int, layout: RegionLayout) -> None:
    """An empty region, sparse; whatever was in the file before is gone."""
    os.fchmod(fd, _MODE)
    os.ftruncate(fd, 0)
    os.pwrite(fd, b"\0", layout.size)


def _write_slot(fd: int, layout: RegionLayout, index: int, new: bytes) -> None:
    offset, seqlock = layout.procs + index * layout.slot.size, layout.slot.seqlock
    if seqlock is None:
        _write(fd, offset, new)
        return
    old = os.pread(fd, len(new), offset)
    count = U64.unpack_from(old, seqlock)[0]
    if _with_word(new, seqlock, count) == old:
        return
    odd = count | 1
    os.pwrite(fd, U64.pack(odd), offset + seqlock)
    os.pwrite(fd, _with_word(new, seqlock, odd), offset)
    os.pwrite(fd, U64.pack((odd + 1) % 2**64), offset + seqlock)


def _write(fd: int, offset: int, data: bytes) -> None:
    if os.pread(fd, len(data), offset) != data:
        os.pwrite(fd, data, offset)


def _with_word(data: bytes, offset: int, word: int) -> bytes:
    return data[:offset] + U64.pack(word) + data[offset + WORD :]
