"""The layout table against the numbers of the format notes, and against a hand-made file of each layout."""

import struct
from typing import Any, get_args

import pytest

from gpusight.model.vgpu import Layout, Region, RegionDevice, RegionProcess
from gpusight.simulate.regions import SimDevice, SimProcess, SimRegion, SimUse, encode_region
from gpusight.sources.vgpu.layouts import LAYOUTS, LAYOUTS_BY_SIZE
from gpusight.sources.vgpu.region import parse_region

# Copied from the notes' two tables, on purpose a second time: what the code knows must not check itself.
NOTES: dict[Layout, dict[str, Any]] = {
    "A": {
        "size": 804680, "device_num": 48, "uuids": 56, "limit": 1592, "sm_limit": 1720, "procs": 1848,
        "proc_num": 804664, "last_kernel": None, "slot": 784, "used": 8, "used_stride": 40, "monitor": 648,
        "util": None, "util_stride": 0, "status": 776, "seqlock": None, "version": None,
    },
    "B": {
        "size": 1197896, "device_num": 48, "uuids": 56, "limit": 1592, "sm_limit": 1720, "procs": 1848,
        "proc_num": 1197880, "last_kernel": None, "slot": 1168, "used": 8, "used_stride": 40, "monitor": 648,
        "util": 776, "util_stride": 24, "status": 1160, "seqlock": None, "version": None,
    },
    "C": {
        "size": 2008952, "device_num": 56, "uuids": 64, "limit": 1600, "sm_limit": 1728, "procs": 1856,
        "proc_num": 2008896, "last_kernel": 2008912, "slot": 1960, "used": 8, "used_stride": 64, "monitor": 1032,
        "util": 1160, "util_stride": 48, "status": 1928, "seqlock": None, "version": (1, 1),
    },
    "D": {
        "size": 2008952, "device_num": 56, "uuids": 64, "limit": 1600, "sm_limit": 1728, "procs": 1856,
        "proc_num": 2008896, "last_kernel": 2008912, "slot": 1960, "used": 16, "used_stride": 64, "monitor": 1040,
        "util": 1168, "util_stride": 48, "status": 1936, "seqlock": 8, "version": (1, 1),
    },
    "E": {
        "size": 2008984, "device_num": 88, "uuids": 96, "limit": 1632, "sm_limit": 1760, "procs": 1888,
        "proc_num": 2008928, "last_kernel": 2008944, "slot": 1960, "used": 16, "used_stride": 64, "monitor": 1040,
        "util": 1168, "util_stride": 48, "status": 1936, "seqlock": 8, "version": (1, 1),
    },
    "F": {
        "size": 2008952, "device_num": 56, "uuids": 64, "limit": 1600, "sm_limit": 1728, "procs": 1856,
        "proc_num": 2008896, "last_kernel": 2008912, "slot": 1960, "used": 8, "used_stride": 64, "monitor": 1032,
        "util": 1160, "util_stride": 48, "status": 1928, "seqlock": 1936, "version": (1, 2),
    },
}  # fmt: skip
ALL: tuple[Layout, ...] = get_args(Layout)
UUIDS = ("GPU-03cd1cf6-11f6-5ecc-feb0-af07406e1838", "GPU-609c1cf6-11f6-5ecc-feb0-af07406e1838")


def hand_made(name: Layout) -> bytes:
    """Two devices, slot 0 dead, slot 1 alive with a number of its own in every field of device 1."""
    at = NOTES[name]
    data = bytearray(at["size"] + 1)

    def put(offset: int, form: str, *values: int) -> None:
        struct.pack_into("<" + form, data, offset, *values)

    put(0, "i", 19920718)
    if at["version"]:
        put(4, "II", *at["version"])
    put(at["device_num"], "Q", 2)
    for index, uuid in enumerate(UUIDS):
        put(at["limit"] + 8 * index, "Q", (index + 1) << 30)
        put(at["sm_limit"] + 8 * index, "Q", 50 + index)
        data[at["uuids"] + 96 * index : at["uuids"] + 96 * index + 40] = uuid.encode()
    dead, slot = at["procs"], at["procs"] + at["slot"]
    put(dead + at["used"] + 32, "Q", 999)
    put(slot, "ii", 17, 4242)
    put(slot + at["used"] + at["used_stride"], "QQQQQ", 100, 20, 3, 4, 123)
    put(slot + at["monitor"] + 8, "Q", 1234)
    if at["util"]:
        put(slot + at["util"] + at["util_stride"], "QQQ", 5, 6, 77)
    put(slot + at["status"], "i", 2)
    if at["seqlock"]:
        put(slot + at["seqlock"], "Q", 8)
    put(at["proc_num"], "iiii", 2, 1, -1, 3)
    if at["last_kernel"]:
        put(at["last_kernel"], "Q", 1_700_000_000)
    return bytes(data)


def meaning(name: Layout) -> Region:
    percents = (77, 6, 5) if NOTES[name]["util"] else (None, None, None)
    idle = (0, 0, 0) if NOTES[name]["util"] else (None, None, None)
    first, second = UUIDS
    return Region(
        layout=name,
        devices=(
            RegionDevice(0, first, 1 << 30, 50, 0, 0, 0, 0, 0, 0, *idle),  # type: ignore[arg-type]
            RegionDevice(1, second, 2 << 30, 51, 123, 100, 20, 3, 4, 1234, *percents),  # type: ignore[arg-type]
        ),
        processes=(RegionProcess(17, 4242, 2, (0, 123)),),  # type: ignore[arg-type]
        last_kernel_at=1_700_000_000.0 if NOTES[name]["last_kernel"] else None,
        priority=3,
        recent_kernel=-1,
        utilization_switch=1,
    )


@pytest.mark.parametrize("name", ALL)
def test_the_table_is_that_of_the_notes(name: Layout) -> None:
    layout, at = LAYOUTS[name], NOTES[name]
    slot = layout.slot
    assert at == {
        "size": layout.size, "device_num": layout.device_num, "uuids": layout.uuids, "limit": layout.limits,
        "sm_limit": layout.sm_limits, "procs": layout.procs, "proc_num": layout.proc_num,
        "last_kernel": layout.last_kernel, "slot": slot.size, "used": slot.used, "used_stride": slot.used_stride,
        "monitor": slot.monitor_used, "util": slot.util, "util_stride": slot.util_stride, "status": slot.status,
        "seqlock": slot.seqlock, "version": layout.version,
    }  # fmt: skip
    assert layout.procs + 1024 * slot.size == layout.proc_num


@pytest.mark.parametrize("name", ALL)
def test_a_hand_made_file_is_understood(name: Layout) -> None:
    assert parse_region(hand_made(name)) == meaning(name)


@pytest.mark.parametrize("name", ALL)
def test_the_byte_behind_the_struct_may_be_missing(name: Layout) -> None:
    assert parse_region(hand_made(name)[:-1]) == meaning(name)


@pytest.mark.parametrize("name", ALL)
def test_the_simulator_writes_where_the_notes_say(name: Layout) -> None:
    region = SimRegion(
        name,
        devices=[SimDevice(uuid, (index + 1) << 30, 50 + index) for index, uuid in enumerate(UUIDS)],
        processes=[
            SimProcess(0, 0, 0, [SimUse(total=999)]),
            SimProcess(17, 4242, 2, [SimUse(), SimUse(100, 20, 3, 4, 123, 1234, 77, 6, 5)]),
        ],
        last_kernel_at=1_700_000_000,
        priority=3,
        recent_kernel=-1,
    )
    simulated, hand = bytearray(encode_region(region)), bytearray(hand_made(name))
    for offset in LAYOUTS[name].semaphores:
        simulated[offset : offset + 32] = bytes(32)
    if seqlock := NOTES[name]["seqlock"]:
        offset = NOTES[name]["procs"] + NOTES[name]["slot"] + seqlock
        hand[offset : offset + 8] = bytes(8)
    assert simulated == hand


def test_sizes_seen_in_the_field_choose_the_layout() -> None:
    """Issue #318 of HAMi lists files of 804681 and 1197897 bytes."""
    names = {size: "".join(layout.name for layout in layouts) for size, layouts in LAYOUTS_BY_SIZE.items()}
    assert names == {
        804680: "A", 804681: "A", 1197896: "B", 1197897: "B", 2008952: "CDF", 2008953: "CDF", 2008984: "E", 2008985: "E"
    }  # fmt: skip


def test_layouts_of_one_size_agree_on_all_but_version_and_slots() -> None:
    """The reader counts on it: it takes head, count and slots before it knows which of them it is."""
    for layouts in LAYOUTS_BY_SIZE.values():
        shapes = {(at.procs, at.proc_num, at.slot.size, at.device_num, at.uuids, at.limits) for at in layouts}
        assert len(shapes) == 1


def test_layout_e_read_as_c_gives_the_label_of_issue_1811() -> None:
    """That HAMi's own monitor printed this is what tells layout E from C."""
    data = encode_region(SimRegion("E", [SimDevice(UUIDS[1])]))
    uuids_of_c = NOTES["C"]["uuids"]
    assert data[uuids_of_c : uuids_of_c + 40] == b"\x80" + bytes(23) + b"\x01" + bytes(7) + b"GPU-609c"
    assert parse_region(data).devices[0].uuid == UUIDS[1]
