"""The file through crashes, full disks, rot and rivals."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from gpusight.model.series import Ask, Span, StoreError
from gpusight.model.time import ManualClock
from gpusight.store.embedded import EmbeddedStore
from gpusight.store.embedded_file import Limits
from tests.store.embedding import START, batch, embedded, key, window

ROOT = Path(__file__).parents[2]

APPENDING = """
import sys
from pathlib import Path
from gpusight.model.time import ManualClock
from gpusight.store.embedded import Batch, EmbeddedStore
from gpusight.store.embedded_file import Limits
from tests.store.embedding import NODE, START, gpu

first = int(sys.argv[2])
store = EmbeddedStore(Path(sys.argv[1]), ManualClock(START), limits=Limits(log=300_000))
refs = [store.ref(NODE, "DCGM_FI_DEV_GPU_UTIL", gpu(str(i))) for i in range(2000)]
for number in range(first, first + 100_000):
    store.append([Batch(NODE, START + number, refs, [(number * 7919 + i) % 1009 / 10.09 for i in range(2000)])])
    print(number, flush=True)
"""


def run_until_killed(path: Path, first: int, acknowledged: int) -> int:
    """The number of the last batch that the child said was written before it was killed."""
    command = [sys.executable, "-c", APPENDING, str(path), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as child:
        assert child.stdout
        for _ in range(acknowledged):
            last = child.stdout.readline()
        child.kill()
        rest = child.stdout.read().split()
    return int(rest[-1] if rest else last)


def test_no_acknowledged_batch_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "samples.duckdb"
    last = -1
    for acknowledged in (3, 8, 17, 30):
        last = run_until_killed(path, last + 1, acknowledged)
        with embedded(tmp_path) as store:
            rows = store._connected().execute("SELECT moment, count(*) FROM samples JOIN scrapes ON scrape = scrapes.id"
                                              " GROUP BY ALL ORDER BY ALL").fetchall()  # fmt: skip
        numbers = [round(moment - START) for moment, _ in rows]
        assert numbers[: last + 1] == list(range(last + 1))
        assert len(numbers) <= last + 2, "at most one more was written than the child could say"
        assert {count for _, count in rows} == {2000}, "a batch is there in full or not at all"
        last = numbers[-1]
    assert not list(tmp_path.glob("*.corrupt"))


FULL = """
import resource
import sys
from pathlib import Path
from gpusight.model.series import StoreError
from gpusight.model.time import ManualClock
from gpusight.store.embedded import Batch, EmbeddedStore
from tests.store.embedding import NODE, START, gpu

store = EmbeddedStore(Path(sys.argv[1]), ManualClock(START))
refs = [store.ref(NODE, "DCGM_FI_DEV_GPU_UTIL", gpu(str(i))) for i in range(5000)]

def append(number):
    store.append([Batch(NODE, START + number, refs, [(number * 7919 + i) % 10009 / 10009 for i in range(5000)])])

append(0)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, hard))
for number in range(1, 200):
    try:
        append(number)
    except StoreError as error:
        print(number, error)
        break
try:
    append(number)
except StoreError:
    pass
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
append(number + 1)
rows = store._connected().execute("SELECT scrape, count(*) FROM samples GROUP BY ALL").fetchall()
print(len(rows), {count for _, count in rows})
store.close()
"""


def test_a_full_disk_is_said_and_got_over(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path / "samples.duckdb")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    said, counted = done.stdout.splitlines()
    number, _, sentence = said.partition(" ")
    assert sentence.startswith("the disk is full: the embedded store ")
    batches, _, sizes = counted.partition(" ")
    assert int(batches) >= int(number) + 1, "all that was acknowledged, and what came after"
    assert sizes == "{5000}"


def test_a_second_process_is_told_who_has_the_file(tmp_path: Path) -> None:
    opening = (
        "import sys; from pathlib import Path; from gpusight.model.time import SystemClock;"
        " from gpusight.model.series import StoreError; from gpusight.store.embedded import EmbeddedStore\n"
        "try: EmbeddedStore(Path(sys.argv[1]), SystemClock())\n"
        "except StoreError as error: print(error)"
    )
    with embedded(tmp_path):
        path = tmp_path / "samples.duckdb"
        said = subprocess.run([sys.executable, "-c", opening, str(path)], capture_output=True, text=True, check=True)
    assert said.stdout == (
        f"the embedded store {path} is in use by another process (process {os.getpid()}): only one may open it\n"
    )


def filled(directory: Path) -> Path:
    """A file with a checkpointed part and a log."""
    with embedded(directory, limits=Limits(log=100 << 20)) as store:
        store.append([batch(store, START, {str(i): float(i % 100) for i in range(5000)})])
        store._connected().execute("CHECKPOINT")
        store.append([batch(store, START + 30, {str(i): float(i % 100) for i in range(5000)})])
        path = directory / "samples.duckdb"
        copy = directory / "copy"
        copy.mkdir()
        for each in directory.glob("samples*"):
            (copy / each.name).write_bytes(each.read_bytes())
    assert (copy / "samples.duckdb.wal").stat().st_size > 10_000
    return copy / path.name


def spoil(path: Path, start: int, length: int) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xa5" * length)


def samples_in(path: Path) -> int:
    store = EmbeddedStore(path, ManualClock(START))
    try:
        row = store._connected().execute("SELECT count(*) FROM samples").fetchone()
        store.append([batch(store, START + 60, {"a": 1.0})])
        return int(row[0]) if row else -1
    finally:
        store.close()


@pytest.mark.parametrize("damage", ["garbage", "empty", "cut", "header", "blocks"])
def test_a_corrupt_file_is_set_aside_and_a_new_one_begun(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = filled(tmp_path)
    path.with_name(f"{path.name}.wal").unlink()
    size = path.stat().st_size
    match damage:
        case "garbage":
            path.write_bytes(b"no database " * 5000)
        case "empty":
            path.write_bytes(b"")
        case "cut":
            os.truncate(path, size // 2)
        case "header":
            spoil(path, 4096, 8192)
        case "blocks":
            spoil(path, 12288 + 100, size - 12288 - 100)
    with caplog.at_level(logging.ERROR):
        assert samples_in(path) == 0
    assert path.with_name(f"{path.name}.corrupt").exists()
    assert f"{path} cannot be read and is set aside as {path.name}.corrupt" in caplog.text


def test_a_corrupt_log_costs_only_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = filled(tmp_path)
    log = path.with_name(f"{path.name}.wal")
    spoil(log, log.stat().st_size // 2, 200)
    with caplog.at_level(logging.ERROR):
        assert samples_in(path) == 5000
    assert log.with_name(f"{log.name}.corrupt").exists()
    assert not path.with_name(f"{path.name}.corrupt").exists()


def test_a_torn_end_of_the_log_is_what_a_crash_leaves(tmp_path: Path) -> None:
    path = filled(tmp_path)
    log = path.with_name(f"{path.name}.wal")
    os.truncate(log, log.stat().st_size - 10)
    assert samples_in(path) == 5000
    assert not list(path.parent.glob("*.corrupt"))


def test_rot_that_shows_while_running_costs_the_file_but_not_the_process(tmp_path: Path) -> None:
    path = tmp_path / "samples.duckdb"
    with embedded(tmp_path) as store:
        store.append([batch(store, START + step, {str(i): i * 0.001 for i in range(30_000)}) for step in range(9)])
    spoil(path, 12288 + 262144 * 2, path.stat().st_size - 12288 - 262144 * 3)
    failed = 0
    with embedded(tmp_path) as store:
        for attempt in range(3):
            try:
                store.append([batch(store, START + 300 + attempt, {"a": 1.0})])
                store.read([Ask("utilization", ("mean",))], Span(START + 310, 400, 30))
            except StoreError:
                failed += 1
        assert window(store, Span(START + 310, 30, 30)).columns["last"] == {key("a"): 0.01}
    assert failed <= 1
    assert path.with_name(f"{path.name}.corrupt").exists()


def test_set_aside_files_do_not_pile_up(tmp_path: Path) -> None:
    path = tmp_path / "samples.duckdb"
    for content in (b"one", b"two"):
        path.write_bytes(content * 1000)
        assert samples_in(path) == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["samples.duckdb", "samples.duckdb.corrupt"]
    assert path.with_name(f"{path.name}.corrupt").read_bytes().startswith(b"two")


def test_a_duckdb_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "samples.duckdb"
    with duckdb.connect(str(path)) as other:
        other.execute("CREATE TABLE accounts (id INTEGER)")
    with pytest.raises(StoreError, match="is a DuckDB file of something else"):
        EmbeddedStore(path, ManualClock(START))
    with duckdb.connect(str(path)) as other:
        assert other.execute("SELECT count(*) FROM accounts").fetchone() == (0,)


def test_a_newer_layout_is_left_alone(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        store._connected().execute("UPDATE meta SET text = '99' WHERE name = 'schema'")
    with pytest.raises(StoreError, match="has layout 99"), embedded(tmp_path):
        pass


def test_a_path_that_cannot_be_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "samples.duckdb", tmp_path):
        with pytest.raises(StoreError, match=r"^the embedded store .* fails: "):
            EmbeddedStore(path, ManualClock(START))
