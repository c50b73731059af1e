"""The six layouts of libvgpu's shared region as data: byte offsets, as a compiler lays the C structs out.

A file has one byte more than the struct, because libvgpu makes it by writing a NUL behind it. Everything is little
endian. Where the layouts agree, the numbers below do not repeat: 16 devices, 1024 process slots, UUIDs of 96 bytes,
and after `proc_num` the 32-bit `utilization_switch`, `recent_kernel` and `priority`.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gpusight.model.vgpu import Layout

MAGIC = 19920718
MAX_DEVICES = 16
MAX_PROCESSES = 1024
UUID_SIZE = 96
WORD = 8

VERSION = struct.Struct("<iII")
"""Magic, major, minor at offset 0; in layouts without a version the last two are something else."""
TAIL = struct.Struct("<4i")
"""At `proc_num`: proc_num, utilization_switch, recent_kernel, priority."""
TAIL_AND_LAST_KERNEL = struct.Struct("<4iQ")
"""The same with the time of the last kernel, which follows where a layout has it."""
I32 = struct.Struct("<i")
U64 = struct.Struct("<Q")

CONTEXT, MODULE, BUFFER, OFFSET, TOTAL = range(5)
"""The words of an element of `used`."""
DECODER, ENCODER, SM = range(3)
"""The words of an element of `util`."""


@dataclass(frozen=True, slots=True)
class SlotLayout:
    """One process slot: pid and host pid in its first word, then per-device arrays, a status, perhaps a seqlock."""

    size: int
    used: int
    used_stride: int
    monitor_used: int
    status: int
    util: int | None = None
    util_stride: int = 0
    seqlock: int | None = None


@dataclass(frozen=True, slots=True)
class RegionLayout:
    """One layout; `version` is None where the header has none."""

    name: Layout
    size: int
    version: tuple[int, int] | None
    semaphores: tuple[int, ...]
    device_num: int
    uuids: int
    limits: int
    sm_limits: int
    procs: int
    proc_num: int
    last_kernel: int | None
    slot: SlotLayout


_SLOT_A = SlotLayout(size=784, used=8, used_stride=40, monitor_used=648, status=776)
_SLOT_B = SlotLayout(size=1168, used=8, used_stride=40, monitor_used=648, util=776, util_stride=24, status=1160)
_SLOT_C = SlotLayout(size=1960, used=8, used_stride=64, monitor_used=1032, util=1160, util_stride=48, status=1928)
_SLOT_DE = SlotLayout(
    size=1960, seqlock=8, used=16, used_stride=64, monitor_used=1040, util=1168, util_stride=48, status=1936
)
_SLOT_F = SlotLayout(
    size=1960, used=8, used_stride=64, monitor_used=1032, util=1160, util_stride=48, status=1928, seqlock=1936
)

A = RegionLayout(
    name="A", size=804_680, version=None, semaphores=(16,), device_num=48, uuids=56, limits=1592, sm_limits=1720,
    procs=1848, proc_num=804_664, last_kernel=None, slot=_SLOT_A,
)  # fmt: skip
B = RegionLayout(
    name="B", size=1_197_896, version=None, semaphores=(16,), device_num=48, uuids=56, limits=1592, sm_limits=1720,
    procs=1848, proc_num=1_197_880, last_kernel=None, slot=_SLOT_B,
)  # fmt: skip
C = RegionLayout(
    name="C", size=2_008_952, version=(1, 1), semaphores=(24,), device_num=56, uuids=64, limits=1600, sm_limits=1728,
    procs=1856, proc_num=2_008_896, last_kernel=2_008_912, slot=_SLOT_C,
)  # fmt: skip
D = RegionLayout(
    name="D", size=2_008_952, version=(1, 1), semaphores=(24,), device_num=56, uuids=64, limits=1600, sm_limits=1728,
    procs=1856, proc_num=2_008_896, last_kernel=2_008_912, slot=_SLOT_DE,
)  # fmt: skip
E = RegionLayout(
    name="E", size=2_008_984, version=(1, 1), semaphores=(24, 56), device_num=88, uuids=96, limits=1632, sm_limits=1760,
    procs=1888, proc_num=2_008_928, last_kernel=2_008_944, slot=_SLOT_DE,
)  # fmt: skip
F = RegionLayout(
    name="F", size=2_008_952, version=(1, 2), semaphores=(24, 2_008_920), device_num=56, uuids=64, limits=1600,
    sm_limits=1728, procs=1856, proc_num=2_008_896, last_kernel=2_008_912, slot=_SLOT_F,
)  # fmt: skip

LAYOUTS: Mapping[Layout, RegionLayout] = MappingProxyType({layout.name: layout for layout in (A, B, C, D, E, F)})

LAYOUTS_BY_SIZE: Mapping[int, tuple[RegionLayout, ...]] = MappingProxyType(
    {
        layout.size + extra: tuple(other for other in LAYOUTS.values() if other.size == layout.size)
        for layout in LAYOUTS.values()
        for extra in (0, 1)
    }
)
"""File size to the layouts it may have. They differ in their version and their slots only."""
