"""Several processes, one page."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.exposition.text import encode
from gpusight.instrument import GpuMetrics, MetricsConfig, page, workers
from gpusight.instrument.workers import parse as parse_file
from gpusight.instrument.workers import read_directory
from tests.instrument.reading import Samples, parse, samples, value


def worker(directory: Path) -> GpuMetrics:
    return GpuMetrics(MetricsConfig(export_interval=0, workers_dir=directory))


def read(directory: Path) -> Samples:
    return parse(encode(page.blocks(read_directory(directory, time.monotonic()))).decode())


def start(directory: Path, code: str) -> "subprocess.Popen[str]":
    setup = (
        "import sys, time\nfrom gpusight.instrument import *\n"
        f"m = GpuMetrics(MetricsConfig(export_interval=0, workers_dir={str(directory)!r}))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", setup + code], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    process.stdout.readline()
    return process


def finish(process: "subprocess.Popen[str]", how: signal.Signals = signal.SIGKILL) -> None:
    process.send_signal(how)
    process.wait()
    if process.stdout:
        process.stdout.close()


BUSY = """
m.set_queue_depth(5); m.set_memory_used(100, total=1000, device="GPU-0"); m.set_device_available(True, "GPU-0:A")
for i in range({n}):
    m.record_crypto_gpu(10, 0.001 * (i + 1), failed=i == 0, reason="timeout")
    m.record_crypto_cpu_fallback(1, "below")
print("ready", flush=True); time.sleep(60)
"""


COUNTING = """
print("ready", flush=True)
n = 0
while True:
    m.record_zk_gpu(1, 0.001)
    n += 1
    print(n, flush=True)
"""


def test_living_workers_add_up_and_killed_ones_leave_their_counts(tmp_path: Path) -> None:
    first, second = start(tmp_path, BUSY.format(n=3)), start(tmp_path, BUSY.format(n=5))
    both = read(tmp_path)
    assert both["gpu_crypto_executions_total", frozenset()] == 8
    assert both["gpu_crypto_latency_max_ms", frozenset()] == pytest.approx(5)
    assert both["gpu_queue_depth", frozenset()] == 10
    assert both["gpu_memory_used_bytes", frozenset({("device", "GPU-0")})] == 200
    assert both["gpu_memory_total_bytes", frozenset({("device", "GPU-0")})] == 1000
    assert both["gpusight_instrument_workers", frozenset({("state", "live")})] == 2

    finish(first)
    one = read(tmp_path)
    assert one["gpu_crypto_executions_total", frozenset()] == 8
    assert one["gpu_crypto_failures_total", frozenset()] == 2
    assert one["gpu_crypto_cpu_fallback_total", frozenset()] == 8
    assert one["gpu_queue_depth", frozenset()] == 5
    assert one["gpusight_ops_window_executions", frozenset({("module", "crypto")})] == 5
    assert one["gpusight_instrument_workers", frozenset({("state", "dead")})] == 1

    finish(second)
    none = read(tmp_path)
    assert none["gpu_total_executions", frozenset()] == 8
    assert ("gpu_queue_depth", frozenset()) not in none
    assert not [name for name, _ in none if name == "gpu_available"]


def test_kill_at_any_moment_loses_nothing_that_was_recorded(tmp_path: Path) -> None:
    process = start(tmp_path, COUNTING)
    assert process.stdout
    told = 0
    while told < 500:
        told = int(process.stdout.readline())
    process.kill()
    rest = process.stdout.read().split()
    process.wait()
    process.stdout.close()
    told = int(rest[-1]) if rest else told
    assert read(tmp_path)["gpu_zk_executions_total", frozenset()] in (told, told + 1)


def test_forked_workers_have_files_of_their_own(tmp_path: Path) -> None:
    metrics = worker(tmp_path)
    metrics.record_crypto_gpu(1, 0.1)
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            for _ in range(7):
                metrics.record_crypto_gpu(1, 0.1)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    assert value(metrics, "gpu_total_executions") == 1 + 3 * 7
    assert value(metrics, "gpusight_instrument_workers", state="live") == 1
    assert value(metrics, "gpusight_instrument_workers", state="dead") == 3


def test_the_dead_are_added_up_into_one_file_and_totals_never_go_back(tmp_path: Path) -> None:
    for i in range(1, 41):
        metrics = worker(tmp_path)
        metrics.record_crypto_gpu(1, 0.1)
        assert value(metrics, "gpu_total_executions") == i
        del metrics
    assert len(list(tmp_path.glob("*.ops"))) <= workers._DEAD_AT_ONCE + 2
    assert read(tmp_path)["gpusight_instrument_workers", frozenset({("state", "dead")})] == 40


def test_a_crash_while_adding_up_the_dead_doubles_nothing(tmp_path: Path) -> None:
    for _ in range(3):
        worker(tmp_path).record_crypto_gpu(1, 0.1)
    files = {path: path.read_bytes() for path in tmp_path.glob("*.ops")}
    workers._bury(tmp_path, time.monotonic())
    for path, content in files.items():  # as if it had died before removing them
        path.write_bytes(content)
    assert read(tmp_path)["gpu_total_executions", frozenset()] == 3
    worker(tmp_path).record_crypto_gpu(1, 0.1)
    workers._bury(tmp_path, time.monotonic())
    assert read(tmp_path)["gpu_total_executions", frozenset()] == 4
    assert not list(tmp_path.glob("*.ops"))


def test_many_cells_go_on_in_further_segments(tmp_path: Path) -> None:
    metrics = worker(tmp_path)
    for i in range(1000):
        metrics.record_gpu("m", 1, 0.1, device=f"GPU-{i}")
    assert value(metrics, "gpu_total_executions") == 1000
    assert next(tmp_path.glob("*.ops")).stat().st_size > workers._SEGMENT


def test_files_of_an_earlier_boot_count_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(workers, "_boot_id", lambda: b"x" * 36)
        worker(tmp_path).record_crypto_gpu(1, 0.1)
    assert read(tmp_path)["gpu_total_executions", frozenset()] == 0


def test_rubbish_files_are_counted_and_cost_only_themselves(tmp_path: Path) -> None:
    metrics = worker(tmp_path)
    metrics.record_crypto_gpu(1, 0.1)
    good = next(tmp_path.glob("*.ops")).read_bytes()
    (tmp_path / "1-empty.ops").write_bytes(b"")
    (tmp_path / "2-cut.ops").write_bytes(good[:200])
    (tmp_path / "3-garbage.ops").write_bytes(os.urandom(5000))
    (tmp_path / "4-link.ops").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "5-fifo.ops")
    (tmp_path / "6-dir.ops").mkdir()
    (tmp_path / workers._GRAVEYARD).write_text("{")
    assert value(metrics, "gpu_total_executions") == 1
    assert value(metrics, "gpusight_instrument_workers", state="unreadable") == 6


@given(st.binary(max_size=400), st.integers(0, 300))
def test_a_damaged_file_is_refused_or_read_but_never_crashes(noise: bytes, at: int) -> None:
    key = json.dumps(["run", "crypto", "", ""]).encode()
    head = workers._HEADER.pack(workers._MAGIC, workers._boot_id(), 5.0, 300)
    data = bytearray((head + workers._ENTRY.pack(len(key), 1) + key).ljust(600, b"\0"))
    data[at : at + len(noise)] = noise
    with suppress(*workers._DAMAGED):
        parse_file(bytes(data), 1.0)


def test_a_directory_that_cannot_be_made_leaves_one_process_counting(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    metrics = worker(blocker / "sub")
    metrics.record_crypto_gpu(1, 0.1)
    assert value(metrics, "gpu_total_executions") == 1
    assert value(metrics, "gpusight_instrument_errors_total", reason="internal") == 1


def test_a_page_of_many_workers_equals_the_sum_of_theirs(tmp_path: Path) -> None:
    metrics = [worker(tmp_path / str(i)) for i in range(3)]
    alone = [{k: v for k, v in samples(m).items() if k[0].endswith("_total")} for m in metrics]
    shared = [worker(tmp_path / "shared") for _ in range(3)]
    for m in (*metrics, *shared):
        m.record_gpu("a", 3, 0.25, True, "r", "GPU-0", "cuda")
        m.record_consistency("a", True)
    alone = [{k: v for k, v in samples(m).items() if k[0].endswith("_total")} for m in metrics]
    together = samples(shared[0])
    for key in alone[0]:
        assert together[key] == sum(page[key] for page in alone), key


def test_a_directory_that_went_away_is_told_and_no_counter_goes_back(tmp_path: Path) -> None:
    metrics = worker(tmp_path / "workers")
    metrics.record_crypto_gpu(1, 0.1)
    shutil.rmtree(tmp_path / "workers")
    assert {name for name, _ in samples(metrics)} == {"gpusight_instrument_errors_total"}
    assert [block.spec.name for block in metrics.blocks()] == ["gpusight_instrument_errors_total"]


def test_two_workers_pages_agree_at_any_moment(tmp_path: Path) -> None:
    first, second = (GpuMetrics(MetricsConfig(workers_dir=tmp_path)) for _ in range(2))
    for count in range(1, 4):
        first.record_crypto_gpu(1, 0.1)
        assert value(first, "gpu_total_executions") == value(second, "gpu_total_executions") == count


@pytest.mark.parametrize("odd", [b"bytes", 5, "nul\0", object()])
def test_a_directory_that_is_none_does_not_stop_the_program(odd: Any) -> None:
    metrics = GpuMetrics(MetricsConfig(export_interval=0, workers_dir=odd))
    metrics.record_crypto_gpu(1, 0.1)
    assert value(metrics, "gpu_total_executions") == 1
