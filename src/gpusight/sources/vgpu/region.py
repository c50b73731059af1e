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
    I32,
    LAYOUTS_BY_SIZE,
    MAGIC,
    MAX_DEVICES,
    MAX_PROCESSES,
    TAIL,
    TAIL_AND_LAST_KERNEL,
    U64,
    UUID_SIZE,
    VERSION,
    WORD,
    RegionLayout,
)
from gpusight.sources.vgpu.slots import DEVICE_WORDS, Row, SlotReading, slot_reading

At = Callable[[int, int], bytes]
"""`at(offset, size)`: exactly that many bytes, fresh on each call; RegionError("truncated") where there are fewer."""

_RETRIES = 3
_MOST_REMEMBERED = 8192
"""Bytes of a file's slots: four processes. What more processes say is worked out each time."""
_UNDERFLOW = 1 << 63
_UUID = re.compile(rb"[!-~]{1,40}")
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_PROBLEMS: Mapping[int | None, RegionProblem] = {errno.ELOOP: "link", errno.ENXIO: "not_a_file"}


class RegionError(Exception):
    """There is no region to be had here, and why."""

    def __init__(self, problem: RegionProblem) -> None:
        super().__init__(problem)
        self.problem = problem


_DeviceHead = tuple[int, GpuUuid, Bytes, int | None]
"""What of a device is written once, as RegionDevice begins: index, UUID and limits."""


class _Header(NamedTuple):
    """What is written once."""

    layouts: tuple[RegionLayout, ...]
    """Those that the file may have."""
    devices: tuple[_DeviceHead, ...]


class RegionMemory:
    """The bytes last read of one file, and what they say: equal bytes are read again, but not taken apart again."""

    __slots__ = ("head", "slots")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.head: tuple[tuple[RegionLayout, ...], bytes, _Header] | None = None
        self.slots: tuple[bytes, _Content] | None = None


def parse_region(data: bytes) -> Region:
    """The region in a copy of a whole file."""
    return decode_region(partial(_slice, data), len(data))


def read_region(
    path: str | os.PathLike[str],
    dir_fd: int | None = None,
    memory: RegionMemory | None = None,
    *,
    is_known_file: bool = False,
) -> Region:
    """The region in a file that nobody vouches for; `path` is relative to `dir_fd` if given. Reads what is in use.

    `is_known_file`: nothing in its directory has been put in its place since it was last opened.
    """
    try:
        if not is_known_file:
            # Looked at before it is opened: opening a device node alone can have effects.
            _require_own_file(os.stat(path, dir_fd=dir_fd, follow_symlinks=False))
        fd = os.open(path, _FLAGS, dir_fd=dir_fd)
        try:
            status = os.fstat(fd)
            _require_own_file(status)
            return decode_region(partial(_pread, fd), status.st_size, memory)
        finally:
            os.close(fd)
    except OSError as error:
        raise RegionError(_PROBLEMS.get(error.errno, "unreadable")) from error


def decode_region(at: At, size: int, memory: RegionMemory | None = None) -> Region:
    """The region of which `at` gives pieces, in a file of `size` bytes; `memory` is that of the same file."""
    memory = memory or RegionMemory()
    layouts = _layouts_of_size(size)
    head = at(0, layouts[0].procs)
    if memory.head is None or memory.head[:2] != (layouts, head):
        memory.forget()
        memory.head = (layouts, head, _header(layouts, head))
    copy = _steady_copy(at, memory.head[2], memory)
    content = copy.content
    _, utilization_switch, recent_kernel, priority, last_kernel = copy.tail
    return Region(
        layout=content.layout.name,
        devices=content.devices,
        processes=content.processes,
        last_kernel_at=float(last_kernel) if 0 < last_kernel < _UNDERFLOW else None,
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


def _header(layouts: Sequence[RegionLayout], head: bytes) -> _Header:
    fitting = _layouts_of_header(layouts, head)
    layout, uuids = fitting[0], _uuids(fitting[0], head)
    limits = [_u64(head, layout.limits + index * WORD) for index in uuids]
    sm_limits = [_u64(head, layout.sm_limits + index * WORD) for index in uuids]
    devices = tuple(
        # A limit above 2^63 limits nothing.
        (index, uuid, Bytes(_plausible(limit) or 0), _plausible(sm_limit))
        for (index, uuid), limit, sm_limit in zip(uuids.items(), limits, sm_limits, strict=True)
    )
    return _Header(fitting, devices)


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


class _Content(NamedTuple):
    """What the slots say."""

    layout: RegionLayout
    devices: tuple[RegionDevice, ...]
    processes: tuple[RegionProcess, ...]


class _Copy(NamedTuple):
    tail: tuple[int, ...]
    content: _Content
    is_torn: bool


def _steady_copy(at: At, header: _Header, memory: RegionMemory) -> _Copy:
    """Slots move when a process ends, and then one may be copied twice or not at all: so the count must stay."""
    layout, is_steady = header.layouts[0], False
    tail = _tail(at, layout)
    for _ in range(_RETRIES + 1):
        count = tail[0]
        content, is_torn = _copy(at, header, count, memory)
        tail = _tail(at, layout)
        is_steady = tail[0] == count
        if is_steady:
            break
    return _Copy(tail, content, is_torn or not is_steady)


def _copy(at: At, header: _Header, count: int, memory: RegionMemory) -> tuple[_Content, bool]:
    """What the slots say, and whether they were being written all the time."""
    procs, size = header.layouts[0].procs, header.layouts[0].slot.size
    first, second = at(procs, count * size), at(procs, count * size)
    if first == second and memory.slots is not None and memory.slots[0] == second:
        return memory.slots[1], False
    layout = _layout_of_slots(header.layouts, second)
    reading = slot_reading(layout.name, tuple([device[0] for device in header.devices]))
    rows = list(reading.words.iter_unpack(second))
    suspects = _suspects(layout, reading, first, second, rows)
    is_torn = False
    for index in suspects:
        rows[index], is_settled = _settle(at, layout, reading, index, second[index * size : (index + 1) * size])
        is_torn |= not is_settled
    content = _content(layout, header, reading, [row for row in rows if reading.is_alive(row)])
    if not suspects and len(second) <= _MOST_REMEMBERED:
        memory.slots = (second, content)
    return content, is_torn


def _tail(at: At, layout: RegionLayout) -> tuple[int, ...]:
    """The number of processes, three words, and the time of the last kernel: 0 where the layout has none."""
    if layout.last_kernel is None:
        tail = (*TAIL.unpack(at(layout.proc_num, TAIL.size)), 0)
    else:
        tail = TAIL_AND_LAST_KERNEL.unpack(at(layout.proc_num, TAIL_AND_LAST_KERNEL.size))
    if not 0 <= tail[0] <= MAX_PROCESSES:
        raise RegionError("corrupt")
    return tail


def _layout_of_slots(layouts: Sequence[RegionLayout], slots: bytes) -> RegionLayout:
    """C and D have the same size and version; in each, the place of the other's status is always 0."""
    if len(layouts) == 1:
        return layouts[0]
    starts = range(0, len(slots), layouts[0].slot.size)
    found = (layout for start in starts for layout in layouts if I32.unpack_from(slots, start + layout.slot.status)[0])
    return next(found, layouts[0])


def _suspects(
    layout: RegionLayout, reading: SlotReading, first: bytes, second: bytes, rows: Sequence[Row]
) -> list[int]:
    """Living slots that were being written: the two copies differ, or the seqlock is odd."""
    if first == second and layout.slot.seqlock is None:
        return []
    size = layout.slot.size
    starts = range(0, len(second), size) if first != second else ()
    changed = {start // size for start in starts if first[start : start + size] != second[start : start + size]}
    living = [index for index, row in enumerate(rows) if reading.is_alive(row)]
    return [index for index in living if index in changed or _is_odd(layout, second, index * size)]


def _settle(at: At, layout: RegionLayout, reading: SlotReading, index: int, copy: bytes) -> tuple[Row, bool]:
    """The slot as two copies in a row show it, or else as it was last seen; and which of the two."""
    slot, is_settled = layout.slot, False
    for _ in range(_RETRIES):
        before, copy = copy, at(layout.procs + index * slot.size, slot.size)
        is_settled = copy == before and not _is_odd(layout, copy)
        if is_settled:
            break
    return reading.words.unpack(copy), is_settled


def _is_odd(layout: RegionLayout, data: bytes, start: int = 0) -> bool:
    seqlock = layout.slot.seqlock
    return seqlock is not None and data[start + seqlock] % 2 == 1


# From words to facts.


def _content(layout: RegionLayout, header: _Header, reading: SlotReading, living: Sequence[Row]) -> _Content:
    devices = tuple(
        _device(head, _sums([numbers(row) for row in living], reading.width))
        for head, numbers in zip(header.devices, reading.of_device, strict=True)
    )
    return _Content(layout, devices, tuple([_process(reading, row) for row in living]))


def _sums(parts: Sequence[tuple[int, ...]], width: int) -> Sequence[int | None]:
    sums = parts[0] if len(parts) == 1 else [*map(sum, zip(*parts, strict=True))] or [0] * width
    return sums if max(sums) < _UNDERFLOW else [_plausible(value) for value in sums]


def _device(head: _DeviceHead, sums: Sequence[int | None]) -> RegionDevice:
    """A layout without utilization has none of the last three."""
    return RegionDevice(*head, *sums, *[None] * (len(DEVICE_WORDS) - len(sums)))  # type: ignore[arg-type]


def _process(reading: SlotReading, row: Row) -> RegionProcess:
    container_pid, host_pid = row[:2]
    return RegionProcess(
        container_pid=ContainerPid(container_pid),
        host_pid=HostPid(host_pid) if host_pid > 0 else None,
        status=row[reading.status],
        used=tuple([None if row[at] >= _UNDERFLOW else Bytes(row[at]) for at in reading.totals]),
    )


def _plausible(value: int) -> int | None:
    """A counter of libvgpu's sometimes goes below 0 and wraps around: then it is no number of anything."""
    return value if value < _UNDERFLOW else None


def _u64(data: bytes, offset: int) -> int:
    return int(U64.unpack_from(data, offset)[0])
