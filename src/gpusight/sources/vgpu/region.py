"""One shared region, from bytes or from a file.

The file belongs to a tenant, who may write, cut, swap or replace it at any moment. So it is copied with `pread` and
never mapped: a mapped file that is cut short kills its reader with SIGBUS.
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from gpusight.model.identity import ContainerPid, GpuUuid, HostPid
from gpusight.model.units import Bytes
from gpusight.model.vgpu import Region, RegionDevice, RegionProblem, RegionProcess
from gpusight.sources.vgpu.layouts import (
    BUFFER,
    CONTEXT,
    DECODER,
    ENCODER,
    LAYOUTS_BY_SIZE,
    MAGIC,
    MAX_DEVICES,
    MAX_PROCESSES,
    MODULE,
    OFFSET,
    SM,
    TAIL,
    TOTAL,
    U64,
    UUID_SIZE,
    VERSION,
    WORD,
    RegionLayout,
)

At = Callable[[int, int], bytes]
"""`at(offset, size)`: exactly that many bytes, fresh on each call; RegionError("truncated") where there are fewer."""

_Row = tuple[int, ...]
"""A process slot as 64-bit words."""

_RETRIES = 3
_UNDERFLOW = 1 << 63
_UUID = re.compile(rb"[!-~]{1,40}")
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_PROBLEMS: Mapping[int | None, RegionProblem] = {errno.ELOOP: "link", errno.ENXIO: "not_a_file"}


class RegionError(Exception):
    """There is no region to be had here, and why."""

    def __init__(self, problem: RegionProblem) -> None:
        super().__init__(problem)
        self.problem = problem


def parse_region(data: bytes) -> Region:
    """The region in a copy of a whole file."""
    return decode_region(partial(_slice, data), len(data))


def read_region(path: str | os.PathLike[str], dir_fd: int | None = None) -> Region:
    """The region in a file that nobody vouches for; `path` is relative to `dir_fd` if given. Reads what is in use."""
    try:
        # Looked at before it is opened: opening a device node alone can have effects.
        _require_own_file(os.stat(path, dir_fd=dir_fd, follow_symlinks=False))
        fd = os.open(path, _FLAGS, dir_fd=dir_fd)
        try:
            status = os.fstat(fd)
            _require_own_file(status)
            return decode_region(partial(_pread, fd), status.st_size)
        finally:
            os.close(fd)
    except OSError as error:
        raise RegionError(_PROBLEMS.get(error.errno, "unreadable")) from error


def decode_region(at: At, size: int) -> Region:
    """The region of which `at` gives pieces, in a file of `size` bytes."""
    layouts = _layouts_of_size(size)
    head = at(0, layouts[0].procs)
    layouts = _layouts_of_header(layouts, head)
    uuids = _uuids(layouts[0], head)
    copy = _steady_copy(at, layouts)
    living = [row for row in copy.rows if _is_alive(copy.layout, row)]
    _, utilization_switch, recent_kernel, priority = copy.tail
    return Region(
        layout=copy.layout.name,
        devices=tuple(_device(copy.layout, head, living, index, uuid) for index, uuid in uuids.items()),
        processes=_processes(copy.layout, living, tuple(uuids)),
        last_kernel_at=_last_kernel(at, copy.layout),
        priority=priority,
        recent_kernel=recent_kernel,
        utilization_switch=utilization_switch,
        is_torn=copy.is_torn,
    )


def _slice(data: bytes, offset: int, size: int) -> bytes:
    return data[offset : offset + size]


def _pread(fd: int, offset: int, size: int) -> bytes:
    data = os.pread(fd, size, offset)
    if len(data) < size:
        raise RegionError("truncated")
    return data


def _require_own_file(status: os.stat_result) -> None:
    """A second name of the same file may be another tenant's."""
    if stat.S_ISLNK(status.st_mode):
        raise RegionError("link")
    if not stat.S_ISREG(status.st_mode):
        raise RegionError("not_a_file")
    if status.st_nlink > 1:
        raise RegionError("link")


# The head: what is written once.


def _layouts_of_size(size: int) -> tuple[RegionLayout, ...]:
    if size == 0:
        raise RegionError("not_ready")
    if size not in LAYOUTS_BY_SIZE:
        raise RegionError("wrong_size")
    return LAYOUTS_BY_SIZE[size]


def _layouts_of_header(layouts: Sequence[RegionLayout], head: bytes) -> tuple[RegionLayout, ...]:
    magic, *version = VERSION.unpack_from(head)
    if magic != MAGIC:
        raise RegionError("bad_magic" if magic else "not_ready")  # libvgpu writes the magic number last
    fitting = tuple(layout for layout in layouts if layout.version in (None, tuple(version)))
    if not fitting:
        raise RegionError("unknown_version")
    return fitting


def _uuids(layout: RegionLayout, head: bytes) -> dict[int, GpuUuid]:
    """Index to UUID of the devices that have one."""
    count = _u64(head, layout.device_num)
    if count > MAX_DEVICES:
        raise RegionError("corrupt")
    fields = [_slice(head, layout.uuids + UUID_SIZE * index, UUID_SIZE).partition(b"\0")[0] for index in range(count)]
    uuids = {index: GpuUuid(uuid[:40].decode()) for index, uuid in enumerate(fields) if _UUID.fullmatch(uuid[:40])}
    if fields and not uuids:
        raise RegionError("corrupt" if any(fields) else "not_ready")  # libvgpu writes the count before the UUIDs
    return uuids


# The slots: what changes all the time.


class _Copy(NamedTuple):
    layout: RegionLayout
    tail: tuple[int, ...]
    rows: list[_Row]
    is_torn: bool


def _steady_copy(at: At, layouts: Sequence[RegionLayout]) -> _Copy:
    """Slots move when a process ends, and then one may be copied twice or not at all: so the count must stay."""
    copy = _copy(at, layouts)
    for _ in range(_RETRIES):
        if _tail(at, layouts[0])[0] == copy.tail[0]:
            return copy
        copy = _copy(at, layouts)
    return copy._replace(is_torn=True)


def _copy(at: At, layouts: Sequence[RegionLayout]) -> _Copy:
    procs, slot = layouts[0].procs, layouts[0].slot
    tail = _tail(at, layouts[0])
    first, second = (at(procs, tail[0] * slot.size) for _ in range(2))
    rows = list(slot.words.iter_unpack(second))
    layout = _layout_of_slots(layouts, rows)
    is_torn = False
    for index in _suspects(layout, first, second, rows):
        rows[index], is_settled = _settle(at, layout, index, _slice(second, index * slot.size, slot.size))
        is_torn |= not is_settled
    return _Copy(layout, tail, rows, is_torn)


def _tail(at: At, layout: RegionLayout) -> tuple[int, ...]:
    tail = TAIL.unpack(at(layout.proc_num, TAIL.size))
    if not 0 <= tail[0] <= MAX_PROCESSES:
        raise RegionError("corrupt")
    return tail


def _layout_of_slots(layouts: Sequence[RegionLayout], rows: Sequence[_Row]) -> RegionLayout:
    """C and D have the same size and version; in each, the place of the other's status is always 0."""
    if len(layouts) == 1:
        return layouts[0]
    return next((layout for row in rows for layout in layouts if _status(layout, row)), layouts[0])


def _suspects(layout: RegionLayout, first: bytes, second: bytes, rows: Sequence[_Row]) -> list[int]:
    """Living slots that were being written: the two copies differ, or the seqlock is odd."""
    size = layout.slot.size
    starts = range(0, len(second), size) if first != second else ()
    changed = {start // size for start in starts if _slice(first, start, size) != _slice(second, start, size)}
    living = [index for index, row in enumerate(rows) if _is_alive(layout, row)]
    return [index for index in living if index in changed or _is_odd(layout, second, index * size)]


def _settle(at: At, layout: RegionLayout, index: int, copy: bytes) -> tuple[_Row, bool]:
    """The slot as two copies in a row show it, or else as it was last seen; and which of the two."""
    slot, is_settled = layout.slot, False
    for _ in range(_RETRIES):
        before, copy = copy, at(layout.procs + index * slot.size, slot.size)
        is_settled = copy == before and not _is_odd(layout, copy)
        if is_settled:
            break
    return slot.words.unpack(copy), is_settled


def _is_odd(layout: RegionLayout, data: bytes, start: int = 0) -> bool:
    seqlock = layout.slot.seqlock
    return seqlock is not None and data[start + seqlock] % 2 == 1


def _is_alive(layout: RegionLayout, row: _Row) -> bool:
    return _status(layout, row) != 0 and _i32(row[0]) > 0


def _status(layout: RegionLayout, row: _Row) -> int:
    return _i32(row[layout.slot.status // WORD])


# From words to facts.


def _device(layout: RegionLayout, head: bytes, rows: Sequence[_Row], index: int, uuid: GpuUuid) -> RegionDevice:
    slot = layout.slot
    used = _word(slot.used, slot.used_stride, index)
    util = None if slot.util is None else _word(slot.util, slot.util_stride, index)

    def memory(word: int) -> Bytes | None:
        total = _sum(rows, word)
        return None if total is None else Bytes(total)

    return RegionDevice(
        index=index,
        uuid=uuid,
        limit=Bytes(_plausible(_u64(head, layout.limits + index * WORD)) or 0),  # a limit above 2^63 limits nothing
        sm_limit=_plausible(_u64(head, layout.sm_limits + index * WORD)),
        used=memory(used + TOTAL),
        context=memory(used + CONTEXT),
        module=memory(used + MODULE),
        buffer=memory(used + BUFFER),
        offset=memory(used + OFFSET),
        monitor_used=memory(_word(slot.monitor_used, WORD, index)),
        sm_percent=None if util is None else _sum(rows, util + SM),
        encoder_percent=None if util is None else _sum(rows, util + ENCODER),
        decoder_percent=None if util is None else _sum(rows, util + DECODER),
    )


def _processes(layout: RegionLayout, rows: Sequence[_Row], devices: Sequence[int]) -> tuple[RegionProcess, ...]:
    totals = [_word(layout.slot.used, layout.slot.used_stride, index) + TOTAL for index in devices]
    return tuple(_process(layout, row, totals) for row in rows)


def _process(layout: RegionLayout, row: _Row, totals: Sequence[int]) -> RegionProcess:
    host_pid = _i32(row[0] >> 32)
    return RegionProcess(
        container_pid=ContainerPid(_i32(row[0])),
        host_pid=HostPid(host_pid) if host_pid > 0 else None,
        status=_status(layout, row),
        used=tuple([None if row[word] >= _UNDERFLOW else Bytes(row[word]) for word in totals]),
    )


def _last_kernel(at: At, layout: RegionLayout) -> float | None:
    if layout.last_kernel is None:
        return None
    seconds = _plausible(_u64(at(layout.last_kernel, WORD), 0))
    return float(seconds) if seconds else None


def _word(start: int, stride: int, index: int) -> int:
    return (start + stride * index) // WORD


def _sum(rows: Sequence[_Row], word: int) -> int | None:
    return _plausible(sum([row[word] for row in rows]))


def _plausible(value: int) -> int | None:
    """A counter of libvgpu's sometimes goes below 0 and wraps around: then it is no number of anything."""
    return value if value < _UNDERFLOW else None


def _u64(data: bytes, offset: int) -> int:
    return int(U64.unpack_from(data, offset)[0])


def _i32(word: int) -> int:
    """The low half of a word, signed."""
    return ((word & 0xFFFF_FFFF) ^ 0x8000_0000) - 0x8000_0000
