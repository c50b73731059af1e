"""Files that somebody else owns: odd kinds, links, sizes, and changes while they are read."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpusight.model.vgpu import Layout, Region, RegionProblem
from gpusight.simulate.regions import SimDevice, SimProcess, SimRegion, SimUse, encode_region, write_region
from gpusight.sources.vgpu.layouts import LAYOUTS
from gpusight.sources.vgpu.region import RegionError, parse_region, read_region
from tests.sources.test_vgpu_region import ALL, ONE, UUID, WITH_SEQLOCK, regions

SIZE = 2_008_953


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    path = tmp_path / "a.cache"
    path.write_bytes(encode_region(ONE))
    return path


def problem_of(path: Path) -> RegionProblem:
    with pytest.raises(RegionError) as caught:
        read_region(path)
    return caught.value.problem


def outcome_of(path: Path) -> Region | RegionProblem:
    try:
        return read_region(path)
    except RegionError as error:
        return error.problem


@contextmanager
def meanwhile(step: Callable[[], object]) -> Iterator[None]:
    """`step` again and again in a thread of its own."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            step()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("name", ALL)
def test_a_file_reads_as_its_bytes_parse(tmp_path: Path, name: Layout) -> None:
    path = tmp_path / "a.cache"
    path.write_bytes(encode_region(replace(ONE, layout=name)))
    assert read_region(path) == parse_region(path.read_bytes())


def test_a_name_is_relative_to_a_directory(cache: Path) -> None:
    directory = os.open(cache.parent, os.O_RDONLY)
    try:
        assert read_region(cache.name, directory) == parse_region(encode_region(ONE))
    finally:
        os.close(directory)


def test_a_file_that_may_only_be_read_is_enough(cache: Path) -> None:
    cache.chmod(0o444)
    assert read_region(cache).layout == "F"


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def make_directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [make_fifo, make_socket, make_directory])
def test_what_is_no_file_is_not_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "x.cache")
    assert problem_of(tmp_path / "x.cache") == "not_a_file"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make device nodes")
def test_a_device_node_is_not_read(tmp_path: Path) -> None:
    try:
        os.mknod(tmp_path / "x.cache", 0o666 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this root may not make device nodes")
    assert problem_of(tmp_path / "x.cache") == "not_a_file"


def test_a_symbolic_link_is_not_followed(cache: Path) -> None:
    link = cache.with_name("b.cache")
    link.symlink_to(cache)
    assert problem_of(link) == "link"


def test_a_hard_link_may_be_anothers_file(cache: Path) -> None:
    cache.with_name("b.cache").hardlink_to(cache)
    assert problem_of(cache) == "link"


def swap_for_fifo(path: Path, other: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def swap_for_link(path: Path, other: Path) -> None:
    path.unlink()
    path.symlink_to(other)


def swap_for_hard_link(path: Path, other: Path) -> None:
    path.unlink()
    path.hardlink_to(other)


@pytest.mark.parametrize(
    ("swap", "problem"),
    [(swap_for_fifo, "not_a_file"), (swap_for_link, "link"), (swap_for_hard_link, "link")],
)
def test_a_file_swapped_after_it_was_looked_at_is_still_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch, swap: Callable[[Path, Path], None], problem: RegionProblem
) -> None:
    other = cache.with_name("others.cache")
    other.write_bytes(encode_region(ONE))
    genuine = os.open

    def late(path: Path, *args: int, **kwargs: int) -> int:
        swap(cache, other)
        return genuine(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", late)
    assert problem_of(cache) == problem


def test_what_is_no_file_is_not_even_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To open a device node can be to start a watchdog."""
    os.mkfifo(tmp_path / "x.cache")
    monkeypatch.setattr(os, "open", lambda *args, **kwargs: pytest.fail("opened"))
    assert problem_of(tmp_path / "x.cache") == "not_a_file"


def test_a_missing_file_is_unreadable(tmp_path: Path) -> None:
    assert problem_of(tmp_path / "none.cache") == "unreadable"


@pytest.mark.parametrize(
    ("size", "problem"), [(0, "not_ready"), (1, "wrong_size"), (12, "wrong_size"), (1 << 40, "wrong_size")]
)
def test_sizes_that_no_layout_has(cache: Path, size: int, problem: RegionProblem) -> None:
    os.truncate(cache, size)
    assert problem_of(cache) == problem


def test_a_file_cut_between_two_reads_is_truncated(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pread = os.pread

    def cut(fd: int, size: int, offset: int) -> bytes:
        data = pread(fd, size, offset)
        os.truncate(cache, 2000)
        return data

    monkeypatch.setattr(os, "pread", cut)
    assert problem_of(cache) == "truncated"


def test_an_input_output_error_is_unreadable(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int, size: int, offset: int) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "pread", fail)
    assert problem_of(cache) == "unreadable"


def test_a_file_that_is_cut_and_grown_all_the_time_never_hurts(cache: Path) -> None:
    data = encode_region(ONE)
    sizes = cycle([0, 100, 1900, SIZE, 2_008_900, SIZE])

    def shake() -> None:
        os.truncate(cache, next(sizes))
        with cache.open("r+b") as file:
            file.write(data[:4000])

    with meanwhile(shake):
        seen = [outcome_of(cache) for _ in range(10_000)]
    problems = {outcome for outcome in seen if isinstance(outcome, str)}
    assert problems <= {"truncated", "wrong_size", "not_ready", "corrupt", "unknown_version", "bad_magic"}
    assert problems & {"truncated", "wrong_size", "not_ready"}


def test_a_file_swapped_for_links_and_fifos_never_shows_anothers_region(tmp_path: Path) -> None:
    secret, mine, fifo, link, name = (tmp_path / part for part in ("secret", "mine", "fifo", "link", "x.cache"))
    secret.write_bytes(encode_region(SimRegion(devices=[SimDevice("GPU-secret")])))
    data = encode_region(ONE)

    def swap() -> None:
        mine.write_bytes(data)
        mine.replace(name)
        link.symlink_to(secret)
        link.replace(name)
        os.mkfifo(fifo)
        fifo.replace(name)

    swap()
    with meanwhile(swap):
        seen = [outcome_of(name) for _ in range(3000)]
    assert {region.devices[0].uuid for region in seen if isinstance(region, Region)} <= {UUID}
    assert {outcome for outcome in seen if isinstance(outcome, str)} <= {
        "link",
        "not_a_file",
        "not_ready",
        "unreadable",
    }


@pytest.mark.parametrize("name", WITH_SEQLOCK)
def test_a_slot_written_all_the_time_is_never_mixed_unnoticed(tmp_path: Path, name: Layout) -> None:
    """Two states in which every number differs; a mixture would add up to something else."""
    path = tmp_path / "a.cache"
    states = cycle([flat(name, 1), flat(name, 1000)])
    write_region(path, next(states))
    with meanwhile(lambda: write_region(path, next(states))):
        seen = [read_region(path) for _ in range(1500)]
    for region in seen:
        numbers = {number for device in region.devices for number in (device.context, device.module, device.buffer)}
        assert region.is_torn or numbers in ({1}, {1000})
    assert not all(region.is_torn for region in seen)


def flat(name: Layout, number: int) -> SimRegion:
    devices = [SimDevice(f"GPU-{index}") for index in range(16)]
    return SimRegion(name, devices, [SimProcess(1, uses=[SimUse(number, number, number)] * 16)])


# The simulator's writer.


def test_the_writer_makes_what_the_encoder_makes(tmp_path: Path) -> None:
    for name in ALL:
        region = replace(ONE, layout=name)
        write_region(tmp_path / name, region)
        written = (tmp_path / name).read_bytes()
        if (seqlock := LAYOUTS[name].slot.seqlock) is not None:
            offset = LAYOUTS[name].procs + seqlock
            assert written[offset] == 2
            written = written[:offset] + b"\0" + written[offset + 1 :]
        assert written == encode_region(region)
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o666


def test_the_writer_leaves_holes(tmp_path: Path) -> None:
    write_region(tmp_path / "a.cache", ONE)
    status = (tmp_path / "a.cache").stat()
    assert (status.st_size, status.st_blocks * 512 < 100_000) == (SIZE, True)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(states=st.lists(regions(), min_size=2, max_size=4))
def test_the_writer_brings_any_file_to_any_state(tmp_path: Path, states: list[SimRegion]) -> None:
    for state in states:
        write_region(tmp_path / "a.cache", state)
        assert read_region(tmp_path / "a.cache") == parse_region(encode_region(state))


@pytest.mark.parametrize("name", ALL)
def test_the_writer_clears_the_slots_of_ended_processes(tmp_path: Path, name: Layout) -> None:
    path, layout = tmp_path / "a.cache", LAYOUTS[name]
    write_region(path, replace(ONE, layout=name, processes=[*ONE.processes, *ONE.processes]))
    write_region(path, replace(ONE, layout=name, processes=[]))
    assert not any(path.read_bytes()[layout.procs : layout.proc_num])


def test_the_writer_touches_only_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.cache"
    write_region(path, ONE)
    writes: list[tuple[int, int]] = []
    pwrite = os.pwrite

    def spy(fd: int, data: bytes, offset: int) -> int:
        writes.append((offset, len(data)))
        return pwrite(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", spy)
    write_region(path, ONE)
    assert writes == []
    write_region(path, replace(ONE, processes=[SimProcess(17, 4242, uses=[SimUse(buffer=7)])]))
    assert writes == [(1856 + 1936, 8), (1856, 1960), (1856 + 1936, 8)]
