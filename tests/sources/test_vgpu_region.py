"""From bytes to a region: every layout there and back, the known traps, and arbitrary bytes."""

import re
import struct
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpusight.sources.vgpu
from gpusight.model.identity import ContainerPid, GpuUuid, HostPid
from gpusight.model.units import Bytes
from gpusight.model.vgpu import Layout, Region, RegionDevice, RegionProblem, RegionProcess
from gpusight.simulate.regions import SimDevice, SimProcess, SimRegion, SimUse, encode_region
from gpusight.sources.vgpu.layouts import LAYOUTS, LAYOUTS_BY_SIZE
from gpusight.sources.vgpu.region import RegionError, RegionMemory, decode_region, parse_region
from tests.fuzz import fuzz_region

ALL: tuple[Layout, ...] = get_args(Layout)
WITH_SEQLOCK: tuple[Layout, ...] = ("D", "E", "F")
UUID = "GPU-03cd1cf6-11f6-5ecc-feb0-af07406e1838"
USE = SimUse(context=100, module=20, buffer=3)
ONE = SimRegion(devices=[SimDevice(UUID, 1 << 34)], processes=[SimProcess(17, 4242, uses=[USE])])

small = st.integers(0, 2**40)
percents = st.integers(0, 100)
uses = st.builds(SimUse, small, small, small, small, st.none() | small, small, percents, percents, percents)
devices = st.builds(SimDevice, st.from_regex(r"\A(GPU|MIG)-[0-9a-f-]{1,36}\Z"), small, st.integers(0, 200))
i32 = st.integers(-(2**31), 2**31 - 1)


@st.composite
def regions(draw: st.DrawFn, layouts: Sequence[Layout] = ALL) -> SimRegion:
    present = draw(st.lists(devices, max_size=16))
    processes = st.builds(
        SimProcess,
        st.integers(1, 2**31 - 1),
        st.integers(0, 2**31 - 1),
        st.integers(0, 2),
        st.lists(uses, min_size=len(present), max_size=len(present)),
    )
    return SimRegion(
        draw(st.sampled_from(layouts)),
        present,
        draw(st.lists(processes, max_size=4)),
        draw(st.integers(0, 2**62)),
        draw(i32),
        draw(i32),
        draw(i32),
    )


def meaning(region: SimRegion) -> Region:
    """What the simulator was asked for, in the reader's words."""
    living = [process for process in region.processes if process.status]
    return Region(
        layout="C" if region.layout == "D" and not living else region.layout,
        devices=tuple(summed(region, living, index, device) for index, device in enumerate(region.devices)),
        processes=tuple(
            RegionProcess(
                ContainerPid(process.pid),
                HostPid(process.host_pid) if process.host_pid else None,
                process.status,
                tuple(Bytes(total(use)) for use in process.uses),
            )
            for process in living
        ),
        last_kernel_at=float(region.last_kernel_at) or None if region.layout not in "AB" else None,
        priority=region.priority,
        recent_kernel=region.recent_kernel,
        utilization_switch=region.utilization_switch,
    )


def summed(region: SimRegion, living: Sequence[SimProcess], index: int, device: SimDevice) -> RegionDevice:
    mine = [process.uses[index] for process in living]
    has_util = region.layout != "A"
    return RegionDevice(
        index=index,
        uuid=GpuUuid(device.uuid),
        limit=Bytes(device.limit),
        sm_limit=device.sm_limit,
        used=Bytes(sum(map(total, mine))),
        context=Bytes(sum(use.context for use in mine)),
        module=Bytes(sum(use.module for use in mine)),
        buffer=Bytes(sum(use.buffer for use in mine)),
        offset=Bytes(sum(use.offset for use in mine)),
        monitor_used=Bytes(sum(use.monitor_used for use in mine)),
        sm_percent=sum(use.sm_percent for use in mine) if has_util else None,
        encoder_percent=sum(use.encoder_percent for use in mine) if has_util else None,
        decoder_percent=sum(use.decoder_percent for use in mine) if has_util else None,
    )


def total(use: SimUse) -> int:
    return use.context + use.module + use.buffer if use.total is None else use.total


def patched(data: bytes, offset: int, form: str, *values: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into("<" + form, changed, offset, *values)
    return bytes(changed)


def problem_of(data: bytes) -> RegionProblem:
    with pytest.raises(RegionError) as caught:
        parse_region(data)
    return caught.value.problem


@settings(deadline=None)
@given(regions())
def test_there_and_back(region: SimRegion) -> None:
    assert parse_region(encode_region(region)) == meaning(region)


@pytest.mark.parametrize("size", [1, 3, 11, 12, 4096, 804_679, 804_682, 2_008_986])
def test_an_unknown_size_is_refused(size: int) -> None:
    assert problem_of(struct.pack("<iII", 19920718, 1, 1).ljust(size, b"\0")[:size]) == "wrong_size"


@pytest.mark.parametrize("size", [0, *LAYOUTS_BY_SIZE])
def test_a_file_without_a_magic_number_is_not_ready(size: int) -> None:
    assert problem_of(bytes(size)) == "not_ready"


@pytest.mark.parametrize("magic", [1, -1, 19920719, 0x4EF72F01])
def test_a_wrong_magic_number(magic: int) -> None:
    assert problem_of(patched(encode_region(ONE), 0, "i", magic)) == "bad_magic"


@pytest.mark.parametrize("name", ["C", "D", "E", "F"])
@pytest.mark.parametrize("version", [(0, 0), (1, 0), (1, 3), (1, 99), (2, 1), (99, 99), (2**32 - 1, 2**32 - 1)])
def test_an_unknown_version(name: Layout, version: tuple[int, int]) -> None:
    assert problem_of(patched(encode_region(replace(ONE, layout=name)), 4, "II", *version)) == "unknown_version"


def test_version_1_2_has_one_size() -> None:
    assert problem_of(patched(encode_region(replace(ONE, layout="E")), 4, "II", 1, 2)) == "unknown_version"


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("count", [-1, -(2**31), 1025, 2**31 - 1])
def test_an_impossible_number_of_processes_withholds_the_region(name: Layout, count: int) -> None:
    data = encode_region(replace(ONE, layout=name))
    assert problem_of(patched(data, LAYOUTS[name].proc_num, "i", count)) == "corrupt"


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("count", [17, 2**32, 2**64 - 1])
def test_an_impossible_number_of_devices_withholds_the_region(name: Layout, count: int) -> None:
    data = encode_region(replace(ONE, layout=name))
    assert problem_of(patched(data, LAYOUTS[name].device_num, "Q", count)) == "corrupt"


def test_no_device_yet_is_a_region_without_devices() -> None:
    """The count is set when a program in the container first loads NVML."""
    region = parse_region(encode_region(SimRegion(processes=[SimProcess(5)])))
    assert (region.devices, [process.used for process in region.processes]) == ((), [()])


def test_devices_counted_but_not_named_yet_are_not_ready() -> None:
    assert problem_of(encode_region(SimRegion(devices=[SimDevice(""), SimDevice("")]))) == "not_ready"


@pytest.mark.parametrize("uuid", ["", "GPU-\udcff\udc80", "\x01", "GPU- 1", "GPU-1\n", "GPÜ-1", "\x7f"])
def test_a_device_without_a_proper_uuid_is_left_out(uuid: str) -> None:
    use, other = SimUse(buffer=5), SimUse(buffer=7)
    region = SimRegion(devices=[SimDevice(uuid), SimDevice(UUID)], processes=[SimProcess(1, uses=[use, other])])
    parsed = parse_region(encode_region(region))
    assert [(device.index, device.uuid, device.used) for device in parsed.devices] == [(1, UUID, 7)]
    assert parsed.processes[0].used == (7,)


def test_no_proper_uuid_at_all_is_corrupt() -> None:
    assert problem_of(encode_region(SimRegion(devices=[SimDevice("\udcff"), SimDevice("")]))) == "corrupt"


@pytest.mark.parametrize("length", [1, 39, 40, 41, 95, 96])
def test_a_uuid_ends_at_its_nul_or_after_40_bytes(length: int) -> None:
    device = parse_region(encode_region(SimRegion(devices=[SimDevice("G" * length), SimDevice(UUID)]))).devices[0]
    assert device.uuid == "G" * min(length, 40)


@pytest.mark.parametrize("name", ALL)
def test_dead_slots_do_not_count(name: Layout) -> None:
    """Their numbers stay in the file; HAMi up to 2.9 added them up (its issue 2310)."""
    huge = [SimUse(buffer=1 << 50, sm_percent=99)]
    dead = [SimProcess(0, 0, 0, huge), SimProcess(9, 9, 0, huge), SimProcess(-4, 9, 1, huge), SimProcess(0, 9, 1, huge)]
    region = parse_region(encode_region(replace(ONE, layout=name, processes=[*dead, *ONE.processes, *dead])))
    assert (region.layout, region.devices[0].used) == (name, 123)
    assert [process.container_pid for process in region.processes] == [17]


def test_slots_beyond_the_count_do_not_count() -> None:
    data = encode_region(replace(ONE, processes=[*ONE.processes, SimProcess(18, uses=[USE])]))
    assert parse_region(patched(data, LAYOUTS["F"].proc_num, "i", 1)) == parse_region(encode_region(ONE))


@pytest.mark.parametrize("wrong", [2**63, 2**64 - 1, 2**64 - (4 << 20)])
def test_a_count_below_zero_is_unknown_and_spares_the_rest(wrong: int) -> None:
    """HAMi shows such values as 17592186044134 MiB (its issue 1181)."""
    processes = [SimProcess(1, uses=[replace(USE, total=wrong)]), SimProcess(2, uses=[USE])]
    region = parse_region(encode_region(replace(ONE, processes=processes)))
    device = region.devices[0]
    assert (device.used, device.context, device.module, device.buffer) == (None, 200, 40, 6)
    assert [process.used for process in region.processes] == [(None,), (123,)]


def test_a_sum_beyond_2_to_the_63_is_unknown() -> None:
    processes = [SimProcess(pid, uses=[SimUse(total=2**62)]) for pid in (1, 2)]
    assert parse_region(encode_region(replace(ONE, processes=processes))).devices[0].used is None


def test_limits_that_limit_nothing() -> None:
    region = SimRegion(devices=[SimDevice(UUID, limit=2**64 - 1, sm_limit=2**64 - 1)])
    device = parse_region(encode_region(region)).devices[0]
    assert (device.limit, device.sm_limit) == (0, None)


def test_percents_add_up_beyond_100() -> None:
    processes = [SimProcess(pid, uses=[SimUse(sm_percent=70)]) for pid in (1, 2, 3)]
    assert parse_region(encode_region(replace(ONE, processes=processes))).devices[0].sm_percent == 210


@pytest.mark.parametrize(("seconds", "at"), [(0, None), (1, 1.0), (2**40, 2.0**40), (2**63, None), (2**64 - 1, None)])
def test_the_last_kernel(seconds: int, at: float | None) -> None:
    """One in the future is passed on: only the collector knows the time."""
    assert parse_region(encode_region(replace(ONE, last_kernel_at=seconds))).last_kernel_at == at


def test_a_host_pid_that_was_never_found_out_is_none() -> None:
    pids = [process.host_pid for process in parse_region(encode_region(with_host_pids(0, -1, 7))).processes]
    assert pids == [None, None, 7]


def with_host_pids(*pids: int) -> SimRegion:
    return replace(ONE, processes=[SimProcess(i, pid, uses=[USE]) for i, pid in enumerate(pids, 1)])


def test_c_and_d_are_told_apart_by_the_first_slot_with_a_status() -> None:
    dead, living = SimProcess(0, 0, 0), SimProcess(3, uses=[USE])
    for name in ("C", "D"):
        region = parse_region(encode_region(SimRegion(name, ONE.devices, [dead, dead, living])))
        assert (region.layout, region.devices[0].used) == (name, 123)
    assert parse_region(encode_region(SimRegion("D", ONE.devices, [dead]))).layout == "C"


# Seqlocks.


@pytest.mark.parametrize("name", WITH_SEQLOCK)
@pytest.mark.parametrize(("seqlock", "is_torn"), [(0, False), (1, True), (2, False), (2**64 - 1, True)])
def test_an_odd_seqlock_is_a_slot_being_written(name: Layout, seqlock: int, is_torn: bool) -> None:
    region = replace(ONE, layout=name)
    offset = LAYOUTS[name].procs + (LAYOUTS[name].slot.seqlock or 0)
    data = patched(encode_region(region), offset, "Q", seqlock)
    assert parse_region(data) == replace(meaning(region), is_torn=is_torn)


def test_the_seqlock_of_a_dead_slot_does_not_matter() -> None:
    data = encode_region(replace(ONE, processes=[SimProcess(0, 0, 0), *ONE.processes]))
    odd = patched(data, LAYOUTS["F"].procs + 1936, "Q", 7)
    assert parse_region(odd) == parse_region(data)


class Changing:
    """A file whose first slot is given from a list, one copy per read, the last one for ever."""

    def __init__(self, *versions: bytes) -> None:
        self.versions = list(versions)
        self.reads: list[tuple[int, int]] = []

    def at(self, offset: int, size: int) -> bytes:
        self.reads.append((offset, size))
        data = self.versions[0]
        if offset == LAYOUTS["F"].procs and len(self.versions) > 1:
            self.versions.pop(0)
        return data[offset : offset + size]

    def region(self) -> Region:
        return decode_region(self.at, len(self.versions[0]))


def version(buffer: int, seqlock: int = 0, layout: Layout = "F") -> bytes:
    region = replace(ONE, layout=layout, processes=[SimProcess(1, uses=[SimUse(buffer=buffer)])])
    data = encode_region(region)
    place = LAYOUTS[layout].slot.seqlock
    return data if place is None else patched(data, LAYOUTS[layout].procs + place, "Q", seqlock)


@pytest.mark.parametrize(
    ("versions", "used", "is_torn"),
    [
        ([version(1)], 1, False),
        ([version(1, 0), version(2, 2)], 2, False),
        ([version(1, 0), version(9, 1), version(2, 2)], 2, False),
        ([version(1, 0), version(9, 1), version(9, 1), version(2, 2)], 2, False),
        ([version(1, 0), version(9, 1), version(9, 1), version(9, 1), version(2, 2)], 2, True),
        ([version(i, i * 2) for i in range(9)], 4, True),
        ([version(i, layout="C") for i in range(2)], 1, False),
        ([version(i, layout="C") for i in range(9)], 4, True),
    ],
)
def test_a_slot_that_changes_is_read_again(versions: list[bytes], used: int, is_torn: bool) -> None:
    region = Changing(*versions).region()
    assert (region.devices[0].used, region.is_torn) == (used, is_torn)


def test_a_process_that_ends_meanwhile_starts_the_copy_anew() -> None:
    """libvgpu moves the last slot into the gap: both or neither may be seen."""
    two = encode_region(replace(ONE, processes=[SimProcess(1, uses=[USE]), SimProcess(2, uses=[USE])]))
    gap = encode_region(replace(ONE, processes=[SimProcess(2, uses=[USE]), SimProcess(2, uses=[USE])]))
    after = encode_region(replace(ONE, processes=[SimProcess(2, uses=[USE])]))
    region = Changing(two, gap, gap, after).region()
    assert [process.container_pid for process in region.processes] in ([2], [1, 2])
    assert region.devices[0].used == 123 * len(region.processes)


def test_a_number_of_processes_that_never_rests_is_torn() -> None:
    counts = iter(range(1, 1000))

    def at(offset: int, size: int) -> bytes:
        data = encode_region(ONE)
        layout = LAYOUTS["F"]
        if offset == layout.proc_num:
            data = patched(data, offset, "i", next(counts))
        return data[offset : offset + size]

    assert decode_region(at, LAYOUTS["F"].size).is_torn


def test_only_the_slots_in_use_are_read() -> None:
    file = Changing(encode_region(ONE))
    file.region()
    assert sum(size for _, size in file.reads) < 3 * 1960


# Whatever the bytes.


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_arbitrary_bytes(data: bytes) -> None:
    assert problem_of(data) in ("wrong_size", "not_ready")


patches = st.lists(
    st.tuples(
        st.one_of(
            st.integers(0, 120),
            st.integers(0, 1888),
            st.integers(1848, 1888 + 4 * 1960),
            st.integers(-60, -1),
            st.sampled_from([at for layout in LAYOUTS.values() for at in (layout.proc_num, layout.device_num)]),
        ),
        st.binary(min_size=1, max_size=16) | st.sampled_from([b"\xff" * 8, bytes(8), b"\0\0\0\x80", b"\x10\0\0\0"]),
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=150)
@given(regions(), patches)
def test_any_damage_gives_a_region_or_a_region_error_in_time(
    region: SimRegion, damage: list[tuple[int, bytes]]
) -> None:
    data = bytearray(encode_region(region))
    for offset, piece in damage:
        start = offset % (len(data) - len(piece))
        data[start : start + len(piece)] = piece
    whole = bytes(data)
    started = time.thread_time()
    try:
        parsed = parse_region(whole)
    except RegionError:
        parsed = None
    assert time.thread_time() - started < 0.05
    if parsed:
        fuzz_region.check(parsed)


@pytest.mark.parametrize("name", ALL)
def test_the_most_work_that_a_file_can_make_stays_within_50_ms(name: Layout) -> None:
    """All slots alive, all devices there, all seqlocks odd."""
    uses = [SimUse(1, 2, 3, 4, None, 5, 6, 7, 8)] * 16
    processes = [SimProcess(pid, pid, 1, uses) for pid in range(1, 1025)]
    data = bytearray(encode_region(SimRegion(name, [SimDevice(UUID)] * 16, processes)))
    layout = LAYOUTS[name]
    if layout.slot.seqlock:
        for index in range(1024):
            data[layout.procs + index * layout.slot.size + layout.slot.seqlock] = 1
    whole = bytes(data)
    took = min(timed(whole) for _ in range(3))
    assert took < 0.05


def timed(data: bytes) -> float:
    started = time.thread_time()
    assert len(parse_region(data).processes) == 1024
    return time.thread_time() - started


@pytest.mark.parametrize("seed", list(fuzz_region.seeds()))
def test_the_seeds_of_the_fuzzer_are_regions(seed: bytes) -> None:
    file = fuzz_region.Sparse(seed)
    assert len(decode_region(file.at, file.size).devices) == 2
    fuzz_region.one_input(seed)


def test_nobody_maps_a_tenants_file() -> None:
    """A mapped file that is cut short kills the reader with SIGBUS."""
    package = Path(str(gpusight.sources.vgpu.__file__)).parent
    assert not [path for path in package.glob("*.py") if re.search(r"\bmmap\b", path.read_text())]


@given(st.lists(regions(), min_size=2, max_size=5))
def test_what_is_remembered_never_shows(states: list[SimRegion]) -> None:
    """One file that is one region after the other, of any size and layout, some of them twice."""
    memory = RegionMemory()
    for state in [*states, *states]:
        data = encode_region(state)
        at = partial(_piece, data)
        for _ in range(2):
            assert decode_region(at, len(data), memory) == parse_region(data)


def _piece(data: bytes, offset: int, size: int) -> bytes:
    return data[offset : offset + size]
