"""A node's container directories, friendly and hostile."""

import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from gpusight.model.time import ManualClock, SystemClock
from gpusight.model.vgpu import ContainerRegion, RegionProblem, VgpuSnapshot
from gpusight.simulate.regions import SimDevice, SimRegion, encode_region, write_region
from gpusight.sources.vgpu import scan
from gpusight.sources.vgpu.region import parse_region
from gpusight.sources.vgpu.scan import ScanLimits, VgpuSource
from tests.sources.test_vgpu_region import ONE, UUID

POD = "6f1b0a54-8d5f-4b1c-9c1c-0d7a5b0f3c11"
GOOD = f"{POD}_main"
REGION = parse_region(encode_region(ONE))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node with one good container."""
    root = tmp_path / "containers"
    add(root, GOOD)
    return root


def add(root: Path, name: str, *files: str, region: SimRegion = ONE) -> Path:
    directory = root / name
    directory.mkdir(parents=True)
    for file in files or ("a.cache",):
        write_region(directory / file, region)
    return directory


def read(root: Path, limits: ScanLimits = scan.DEFAULT_LIMITS) -> VgpuSnapshot:
    return VgpuSource(root, ManualClock(), limits).read()


def found(snapshot: VgpuSnapshot) -> dict[str, ContainerRegion]:
    return {f"{one.pod_uid}_{one.container}": one for one in snapshot.containers}


def problems(snapshot: VgpuSnapshot) -> dict[RegionProblem, int]:
    return dict(snapshot.problems)


def assert_only(root: Path, **expected: int) -> None:
    """The good container is there, and these problems."""
    snapshot = read(root)
    assert found(snapshot)[GOOD].region == REGION
    assert problems(snapshot) == expected


def test_without_the_directory_hami_is_not_here(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == VgpuSnapshot(taken_at=ManualClock().now(), is_present=False)


def test_an_empty_directory_is_present(tmp_path: Path) -> None:
    assert read(tmp_path) == VgpuSnapshot(taken_at=ManualClock().now(), is_present=True)


def test_containers_come_in_order(root: Path) -> None:
    for name in ("b_2", "a_9", "b_1"):
        add(root, name)
    assert [(one.pod_uid, one.container) for one in read(root).containers] == [
        (POD, "main"), ("a", "9"), ("b", "1"), ("b", "2"),
    ]  # fmt: skip


def test_the_first_underscore_splits(root: Path) -> None:
    add(root, "uid_with_more")
    assert found(read(root))["uid_with_more"].container == "with_more"


def test_a_container_that_has_not_used_cuda_yet(root: Path) -> None:
    (root / "uid_idle").mkdir()
    snapshot = read(root)
    assert found(snapshot)["uid_idle"] == ContainerRegion("uid", "idle", None)
    assert problems(snapshot) == {}


@pytest.mark.parametrize("name", ["nounderscore", "_c", "uid_", "_", "uid_a b", 'uid_"', "uid_x\ny", "uid_ü", "ü_c"])
def test_names_that_are_none(root: Path, name: str) -> None:
    (root / name).mkdir()
    assert_only(root, bad_directory_name=1)


def test_hostile_names_of_full_length(root: Path) -> None:
    for name in (b"uid_\xff\xfe" + b"a" * 249, b'uid_\n"\\' + b"a" * 248, b"\x80" * 255, b"uid_" + b"\n" * 251):
        os.mkdir(os.path.join(os.fsencode(root), name))  # noqa: PTH102, PTH118 - Path knows no bytes
    assert_only(root, bad_directory_name=4)


def test_hostile_file_names_are_read_as_well_as_any(root: Path) -> None:
    for index, name in enumerate((b"\xff" * 200 + b".cache", b'\n"\\.cache', b"a" * 249 + b".cache")):
        directory = root / f"uid_{index}"
        directory.mkdir()
        Path(os.fsdecode(os.path.join(os.fsencode(directory), name))).write_bytes(encode_region(ONE))  # noqa: PTH118
    snapshot = read(root)
    assert [one.region for one in snapshot.containers] == [REGION] * 4
    assert problems(snapshot) == {}


def test_files_beside_the_directories_are_ignored(root: Path) -> None:
    (root / "uid_file").write_bytes(encode_region(ONE))
    assert_only(root)
    assert len(read(root).containers) == 1


def test_a_link_to_a_directory_is_not_followed(root: Path) -> None:
    (root / "uid_link").symlink_to(root / GOOD)
    (root / "uid_broken").symlink_to("nowhere")
    assert_only(root, link=2)


def test_a_root_that_is_a_link_or_a_file(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    (tmp_path / "file").touch()
    for name, problem in (("link", "link"), ("file", "not_a_file")):
        snapshot = read(tmp_path / name)
        assert (snapshot.is_present, snapshot.containers, snapshot.problems) == (True, (), ((problem, 1),))


BAD_FILES: dict[RegionProblem, Callable[[Path], object]] = {
    "not_a_file": os.mkfifo,
    "link": lambda path: path.symlink_to("/etc/shadow"),
    "wrong_size": lambda path: path.write_bytes(b"tiny"),
    "not_ready": lambda path: path.touch(),
    "bad_magic": lambda path: path.write_bytes(b"\1" * 804_681),
}


@pytest.mark.parametrize("problem", BAD_FILES)
def test_a_bad_file_costs_only_itself(root: Path, problem: RegionProblem) -> None:
    (root / "uid_bad").mkdir()
    BAD_FILES[problem](root / "uid_bad" / "x.cache")
    assert_only(root, **{problem: 1})
    assert found(read(root))["uid_bad"] == ContainerRegion("uid", "bad", None, problem)


def test_a_hard_link_to_another_tenants_file(root: Path) -> None:
    (root / "uid_thief").mkdir()
    (root / "uid_thief" / "x.cache").hardlink_to(root / GOOD / "a.cache")
    assert [one.problem for one in read(root).containers] == ["link", "link"]


def test_of_several_files_the_first_by_name_counts(root: Path) -> None:
    """HAMi does not see the container at all then."""
    directory = add(root, "uid_many", "b.cache", "c.cache", "d.cache", "libvgpu.so.1", "x.cache.bak")
    write_region(directory / "a.cache", SimRegion(devices=[SimDevice("GPU-first")]))
    region = found(read(root))["uid_many"].region
    assert region is not None
    assert region.devices[0].uuid == "GPU-first"


def test_what_is_no_file_does_not_hide_the_region(root: Path) -> None:
    directory = add(root, "uid_hider", "z.cache")
    os.mkfifo(directory / "a.cache")
    (directory / "b.cache").mkdir()
    (directory / "c.cache").symlink_to("z.cache")
    assert found(read(root))["uid_hider"].region == REGION


def test_a_directory_full_of_files_is_over_the_limit(root: Path) -> None:
    directory = add(root, "uid_full")
    for index in range(63):
        (directory / f"{index}").touch()
    assert_only(root)
    (directory / "one more").touch()
    assert_only(root, over_limit=1)
    assert found(read(root))["uid_full"] == ContainerRegion("uid", "full", None, "over_limit")


def test_ten_thousand_directories(tmp_path: Path) -> None:
    for index in range(10_000):
        (tmp_path / f"{index}_c").mkdir()
    snapshot = read(tmp_path)
    assert len(snapshot.containers) == 4096
    assert problems(snapshot) == {"over_limit": 10_000 - 4096}


def test_a_scan_ends_in_time(root: Path) -> None:
    """Each look at this clock takes a second; what is left over is named, not read."""
    for index in range(10):
        add(root, f"uid_{index}")
    clock, ticks = ManualClock(), count()
    clock.monotonic = lambda: float(next(ticks))  # type: ignore[method-assign]
    snapshot = VgpuSource(root, clock, ScanLimits(seconds=4)).read()
    assert len(snapshot.containers) == 11
    assert sum(one.region is not None for one in snapshot.containers) == 4
    assert problems(snapshot) == {"over_limit": 7}


@pytest.mark.parametrize("fails", ["scandir", "open"])
def test_a_directory_that_cannot_be_read_costs_only_itself(
    root: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    (root / "uid_bad").mkdir()
    bad = (root / "uid_bad").stat().st_ino
    genuine = getattr(os, fails)

    def refuse(path: int | str | Path, *args: int, **kwargs: int) -> object:
        if path == "uid_bad" or (isinstance(path, int) and os.fstat(path).st_ino == bad):
            raise PermissionError(13, "Permission denied")
        return genuine(path, *args, **kwargs)

    monkeypatch.setattr(os, fails, refuse)
    assert_only(root, unreadable=1)
    assert found(read(root))["uid_bad"] == ContainerRegion("uid", "bad", None, "unreadable")


def test_a_directory_that_is_removed_meanwhile_is_no_problem(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "uid_gone").mkdir()
    genuine = os.open

    def vanish(path: str | Path, *args: int, **kwargs: int) -> int:
        if path == "uid_gone":
            (root / "uid_gone").rmdir()
        return genuine(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", vanish)
    assert_only(root)


def test_an_unreadable_root(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    snapshot = read(root)
    assert (snapshot.is_present, snapshot.problems) == (True, (("unreadable", 1),))


_AS_NOBODY = """
import os, sys
from pathlib import Path
from gpusight.model.time import SystemClock
from gpusight.sources.vgpu.scan import VgpuSource
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
snapshot = VgpuSource(Path(sys.argv[1]), SystemClock()).read()
for one in snapshot.containers:
    print(one.container, one.problem, one.region.devices[0].uuid if one.region else None)
"""


@pytest.fixture
def open_root() -> Iterator[Path]:
    """Like `root`, where any user may look: pytest's own directories are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        add(Path(name), GOOD)
        yield Path(name)


def test_a_reader_without_rights_reads_what_may_be_read(open_root: Path) -> None:
    """Files 0444 in a directory 0555; one directory and one file are closed to it."""
    (open_root / GOOD / "a.cache").chmod(0o444)
    (open_root / GOOD).chmod(0o555)
    add(open_root, "uid_closed").chmod(0)
    (add(open_root, "uid_file") / "a.cache").chmod(0)
    command = [sys.executable, "-c", _AS_NOBODY, str(open_root)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert run.stdout.splitlines() == [f"main None {UUID}", "closed unreadable None", "file unreadable None"]


def test_nothing_is_left_open_written_or_removed(root: Path) -> None:
    add(root, "uid_other")
    (root / "uid_empty").mkdir()
    (root / "bad").mkdir()
    before, fds = state(root), open_files()
    source = VgpuSource(root, ManualClock())
    for _ in range(5):
        source.read()
    assert (state(root), open_files()) == (before, fds)


def state(root: Path) -> dict[str, tuple[int, int, int]]:
    return {
        str(path): (status.st_mtime_ns, status.st_ctime_ns, status.st_size)
        for path in [root, *root.rglob("*")]
        for status in [path.stat()]
    }


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count


# What is remembered from scan to scan.


def settled(root: Path) -> VgpuSource:
    """A source whose clock says that all directories have been as they are for long, and which has read them twice."""
    source = VgpuSource(root, ManualClock(now=time.time() + 3600))
    assert source.read().containers == source.read().containers
    return source


def test_a_change_through_a_mapping_is_seen_although_no_time_stamp_changes(root: Path) -> None:
    source = settled(root)
    file = root / GOOD / "a.cache"
    before = file.stat()
    changed = SimRegion(devices=[SimDevice(UUID, 99)], processes=ONE.processes)
    with file.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as memory:
        memory[:] = encode_region(changed)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found(source.read())[GOOD].region == parse_region(encode_region(changed))


def test_a_file_that_takes_the_place_of_another_is_read(root: Path) -> None:
    source = settled(root)
    other = SimRegion(devices=[SimDevice(UUID, 77)])
    write_region(root / GOOD / "new", other)
    (root / GOOD / "new").rename(root / GOOD / "a.cache")
    assert found(source.read())[GOOD].region == parse_region(encode_region(other))


def test_a_file_that_comes_before_the_one_known_is_read_instead(root: Path) -> None:
    source = settled(root)
    other = SimRegion(devices=[SimDevice(UUID, 77)])
    write_region(root / GOOD / "0.cache", other)
    assert found(source.read())[GOOD].region == parse_region(encode_region(other))


@pytest.mark.parametrize(
    ("replace", "problem"), [("fifo", "not_a_file"), ("link", "link"), ("directory", "not_a_file")]
)
def test_what_takes_the_place_of_a_known_file_is_looked_at(root: Path, replace: str, problem: RegionProblem) -> None:
    source = settled(root)
    file = root / GOOD / "a.cache"
    file.unlink()
    if replace == "fifo":
        os.mkfifo(file)
    elif replace == "link":
        file.symlink_to("/dev/zero")
    else:
        file.mkdir()
    assert found(source.read())[GOOD].problem == problem


def test_a_second_name_of_a_known_file_is_noticed(root: Path) -> None:
    """It is made in another directory, so that the file's own does not change."""
    source = settled(root)
    (root.parent / "other").hardlink_to(root / GOOD / "a.cache")
    assert found(source.read())[GOOD].problem == "link"


def test_a_file_that_is_cut_short_or_grows_is_refused(root: Path) -> None:
    source = settled(root)
    for size, problem in ((100, "wrong_size"), (0, "not_ready")):
        os.truncate(root / GOOD / "a.cache", size)
        assert found(source.read())[GOOD].problem == problem


def test_a_directory_made_anew_is_read_anew(root: Path) -> None:
    source = settled(root)
    shutil.rmtree(root / GOOD)
    assert source.read().containers == ()
    (root / GOOD).mkdir()
    assert found(source.read())[GOOD].region is None
    write_region(root / GOOD / "b.cache", ONE)
    assert found(source.read())[GOOD].region == REGION


def test_a_directory_that_has_just_changed_is_listed_again(root: Path) -> None:
    """Two changes within a tick of the kernel's clock have the same time."""
    source = VgpuSource(root, SystemClock())
    source.read()
    assert source._known == {}


def test_some_junk_is_named(root: Path) -> None:
    for name in ("lost+found", "z", "no underscore"):
        (root / name).mkdir()
    (root / "link_to").symlink_to("/etc")
    assert read(root).junk == ("link_to", "lost+found", "no underscore")
