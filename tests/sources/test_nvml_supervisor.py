"""A simulated node behind a real child: devices that block, children that die, drivers that come and go."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from gpusight.model.hardware import HardwareSnapshot
from gpusight.model.time import SystemClock
from gpusight.sources.nvml.supervisor import Deadlines, NvmlSource, child_command
from tests.sources.test_nvml_helpers import QUICK, is_running, rig, until

SPARE = [{"pod": f"p{i}", "gpus": [i % 8]} for i in range(40)]


def test_a_snapshot_of_a_whole_node(tmp_path: Path) -> None:
    with rig(tmp_path, *["h100"] * 8, workloads=SPARE) as made:
        snapshot = made.source.read(5)
        assert (snapshot.is_up, snapshot.reason, snapshot.detail) == (True, "", "")
        assert snapshot.is_simulated
        assert snapshot.driver_version
        assert snapshot.nvml_version
        assert snapshot.cuda_version == "13.0"
        assert [gpu.index for gpu in snapshot.gpus] == list(range(8))
        assert len({gpu.uuid for gpu in snapshot.gpus}) == 8
        assert sum(len(gpu.processes or ()) for gpu in snapshot.gpus) == 40
        assert (snapshot.down, snapshot.xids) == ((), ())
        assert made.source.health().started == 1
    assert made.source.health().alive == 0


def test_one_of_eight_devices_blocks_for_a_minute(tmp_path: Path) -> None:
    """The others stay fresh, no read waits for it twice, and it is back with the first read after it returned."""
    with rig(tmp_path, *["h100"] * 8) as made:
        before = made.source.read(5)
        made.faults({"kind": "block", "gpu": 3, "seconds": 60})
        taken = []
        for _ in range(4):
            started = time.monotonic()
            snapshot = made.source.read()
            taken.append(time.monotonic() - started)
            assert [gpu.index for gpu in snapshot.gpus] == [0, 1, 2, 4, 5, 6, 7]
            assert all(gpu.taken_at > time.time() - 1.5 for gpu in snapshot.gpus)
            [down] = snapshot.down
            assert (down.index, down.reason, down.uuid) == (3, "blocked", before.gpus[3].uuid)
        assert taken[0] < QUICK.read
        assert all(seconds < 0.5 for seconds in taken[1:])
        made.faults()
        until(lambda: len(made.source.read().gpus) == 8, within=3)
        assert made.source.health().started == 1


def test_a_device_that_blocks_before_it_ever_said_who_it_is(tmp_path: Path) -> None:
    fault = {"kind": "block", "gpu": 1, "function": "nvmlDeviceGetHandleByIndex_v2"}
    with rig(tmp_path, "t4", "t4", faults=[fault]) as made:
        snapshot = until(lambda: _up(made.source))
        assert [gpu.index for gpu in snapshot.gpus] == [0]
        assert [(down.index, down.reason, down.uuid) for down in snapshot.down] == [(1, "blocked", None)]


def test_a_lost_device_keeps_its_name(tmp_path: Path) -> None:
    with rig(tmp_path, "t4", "t4") as made:
        uuids = [gpu.uuid for gpu in made.source.read(5).gpus]
        made.faults({"kind": "gpu_lost", "gpu": 0})
        snapshot = made.source.read()
        [down] = snapshot.down
        assert (down.index, down.reason, down.uuid, down.code, down.name) == (0, "lost", uuids[0], 15, "Tesla T4")
        assert [gpu.uuid for gpu in snapshot.gpus] == uuids[1:]
        again = made.source.read().down[0]
        assert again.since == down.since
        os.kill(made.pid, signal.SIGKILL)
        made.source.read()
        remembered = until(lambda: made.source.read(5).down)
        assert remembered[0].uuid == uuids[0], "a new child has never seen it"


def test_a_device_that_is_pulled_out_is_told_as_lost_for_a_while(tmp_path: Path) -> None:
    with rig(tmp_path, "t4", "h100", "t4", deadlines=QUICK._replace(forget=0.5)) as made:
        uuids = [gpu.uuid for gpu in made.source.read(5).gpus]
        made.faults({"kind": "unplugged", "gpu": 1})
        snapshot = made.source.read()
        assert [(gpu.index, gpu.uuid) for gpu in snapshot.gpus] == [(0, uuids[0]), (1, uuids[2])]
        assert [(down.reason, down.uuid) for down in snapshot.down] == [("lost", uuids[1])]
        until(lambda: not made.source.read().down, within=3)
        made.faults()
        assert [gpu.uuid for gpu in until(lambda: _all(made.source, 3))] == uuids


def _up(source: NvmlSource) -> HardwareSnapshot | None:
    snapshot = source.read(0.5)
    return snapshot if snapshot.is_up else None


def _all(source: NvmlSource, count: int) -> object:
    gpus = source.read().gpus
    return gpus if len(gpus) == count else None


def test_a_killed_child_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with rig(tmp_path, "t4", "t4") as made, caplog.at_level(logging.INFO, "gpusight.sources.nvml"):
        assert made.source.read(5).is_up
        os.kill(made.pid, signal.SIGKILL)
        snapshot = made.source.read(5)
        assert (snapshot.is_up, snapshot.reason, snapshot.gpus) == (False, "crashed", ())
        assert snapshot.detail == "the NVML child was killed by SIGKILL"
        assert made.source.read(5).is_up
        assert (made.source.health().crashed, made.source.health().alive) == (1, 1)
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "INFO"]


def test_a_library_that_aborts(tmp_path: Path) -> None:
    """Each child dies of it, each a little later; once it stops the readings are back."""
    with rig(tmp_path, "t4", deadlines=QUICK._replace(last_restart=0.1)) as made:
        assert made.source.read(5).is_up
        made.faults({"kind": "crash", "function": "nvmlDeviceGetPowerUsage"})
        snapshot = made.source.read(5)
        assert (snapshot.reason, snapshot.detail) == ("crashed", "the NVML child was killed by SIGABRT")
        until(lambda: made.source.read(5).reason == "crashed" and made.source.health().crashed >= 2)
        assert made.source.health().alive <= 1
        made.faults()
        until(lambda: made.source.read(5).is_up)


def test_a_stopped_child_is_replaced_and_killed(tmp_path: Path) -> None:
    with rig(tmp_path, "t4", deadlines=QUICK._replace(read=0.2, hang=0.3)) as made:
        assert made.source.read(5).is_up
        stopped = made.pid
        os.kill(stopped, signal.SIGSTOP)
        assert made.source.read().reason == "blocked"
        until(lambda: made.source.read().is_up)
        assert made.pid != stopped
        until(lambda: made.source.read() and not is_running(stopped))
        until(lambda: made.source.health().alive == 1)
        assert (made.source.health().hung, made.source.health().killed) == (1, 1)


def test_an_answer_that_comes_late_is_not_taken_for_news(tmp_path: Path) -> None:
    """A child that was held up for a moment is not replaced, and what it saw of XIDs is not lost."""
    with rig(tmp_path, "t4", deadlines=QUICK._replace(hang=30)) as made:
        assert made.source.read(5).is_up
        made.faults(*made.listen(), {"kind": "xid", "gpu": 0, "code": 62})
        time.sleep(0.2)
        os.kill(made.pid, signal.SIGSTOP)
        assert made.source.read(0.1).reason == "blocked"
        os.kill(made.pid, signal.SIGCONT)
        time.sleep(0.2)
        snapshot = made.source.read(5)
        assert snapshot.gpus[0].taken_at > time.time() - 1
        assert [event.xid for event in snapshot.xids] == [62]
        assert made.source.health().started == 1


def test_no_driver_is_said_once_and_found_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with rig(tmp_path, "t4", faults=[]) as made, caplog.at_level(logging.INFO, "gpusight.sources.nvml"):
        made.faults({"kind": "init_failure"})
        for _ in range(6):
            snapshot = made.source.read(5)
            assert (snapshot.is_up, snapshot.reason, snapshot.gpus) == (False, "no_driver", ())
            assert "Driver Not Loaded" in snapshot.detail
            time.sleep(0.06)
        assert made.source.health().started >= 3, "it is looked for again and again"
        made.faults()
        until(lambda: made.source.read(5).is_up)
        assert [record.message for record in caplog.records] == [
            "NVML gives no readings (no_driver): nvmlInit: Driver Not Loaded",
            f"NVML gives readings: driver {made.source.read(5).driver_version}, 1 GPUs",
        ]


def test_a_driver_that_is_reloaded_under_a_running_child(tmp_path: Path) -> None:
    with rig(tmp_path, "t4", "t4") as made:
        uuids = [gpu.uuid for gpu in made.source.read(5).gpus]
        made.faults({"kind": "error", "code": 9}, {"kind": "version_mismatch"})
        assert made.source.read(5).reason == "no_driver"
        until(lambda: made.source.read(5).reason == "version_mismatch")
        made.faults()
        assert [gpu.uuid for gpu in until(lambda: made.source.read(5).gpus)] == uuids
        assert made.source.read(5).down == ()


def test_one_device_that_says_the_driver_is_gone_is_down_alone(tmp_path: Path) -> None:
    with rig(tmp_path, "t4", "t4") as made:
        assert made.source.read(5).is_up
        made.faults({"kind": "error", "gpu": 1, "code": 9})
        snapshot = made.source.read(5)
        assert [gpu.index for gpu in snapshot.gpus] == [0]
        assert [(down.index, down.reason, down.code) for down in snapshot.down] == [(1, "error", 9)]


def test_nvml_that_does_not_open(tmp_path: Path) -> None:
    fault = {"kind": "block", "function": "nvmlInitWithFlags"}
    with rig(tmp_path, "t4", faults=[fault], deadlines=QUICK._replace(opening=1.5)) as made:
        snapshot = until(lambda: "opening" in (seen := made.source.read(0.3)).detail and seen)
        assert (snapshot.is_up, snapshot.reason) == (False, "blocked")
        until(lambda: made.source.read(0.3) and made.source.health().hung)
        assert made.source.health().alive <= 3


def test_xids_come_once_each_and_exactly(tmp_path: Path) -> None:
    with rig(tmp_path, "t4", "t4") as made:
        uuids = [gpu.uuid for gpu in made.source.read(5).gpus]
        before = made.listen()
        storm = [{"kind": "xid", "gpu": gpu, "code": code} for gpu, code in [(0, 31)] * 40 + [(1, 79)] * 5 + [(1, 62)]]
        made.faults(*before, *storm)
        found = Counter[tuple[str, int]]()
        until(lambda: found.update((e.uuid, e.xid) for e in made.source.read().xids) or found.total() >= 46)
        time.sleep(0.1)
        found.update((event.uuid, event.xid) for event in made.source.read().xids)
        assert found == {(uuids[0], 31): 40, (uuids[1], 79): 5, (uuids[1], 62): 1}


def test_a_child_is_replaced_when_it_is_old(tmp_path: Path) -> None:
    with rig(tmp_path, "t4", deadlines=QUICK._replace(recycle=0.3)) as made:
        assert made.source.read(5).is_up
        first = made.pid
        until(lambda: made.source.read(5).is_up and made.pid != first)
        assert made.source.read(5).is_up
        until(lambda: not is_running(first))
        assert made.source.health().crashed == 0


def test_implausible_values_are_counted_by_field(tmp_path: Path) -> None:
    with rig(tmp_path, "t4") as made:
        made.source.read(5)
        made.source._keep(made.source._down._replace(implausible={"power_watts": 2}))
        made.source._keep(made.source._down._replace(implausible={"power_watts": 1, "utilization": 1}))
        assert made.source.implausible() == {"power_watts": 3, "utilization": 1}


def test_a_child_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    """Linux ties a child's death signal to the thread that forked it, and collectors' threads live for one scrape."""
    with rig(tmp_path, "t4") as made:
        thread = threading.Thread(target=made.source.read, args=(5,))
        thread.start()
        thread.join()
        time.sleep(0.05)
        assert made.source.read(5).is_up
        assert made.source.health().started == 1


_PARENT = """
import sys, time
from gpusight.model.hardware import HardwareSnapshot
from gpusight.model.time import SystemClock
from gpusight.sources.nvml.supervisor import NvmlSource, child_command
source = NvmlSource(child_command(sys.argv[1], "n"), SystemClock())
assert source.read(5).is_up
assert "pynvml" not in sys.modules
print(source._children.current().pid, flush=True)
time.sleep(60)
"""


def test_the_child_ends_with_its_parent(tmp_path: Path) -> None:
    with rig(tmp_path, "t4") as made:
        command = [sys.executable, "-c", _PARENT, str(made.spec)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            assert is_running(child)
            parent.kill()
        until(lambda: not is_running(child), within=5)


def test_closing_ends_the_child_politely_and_at_once(tmp_path: Path) -> None:
    with rig(tmp_path, "t4") as made:
        made.source.read(5)
        child = made.source._children.current()
        started = time.monotonic()
        made.source.close()
        assert time.monotonic() - started < 1.5
        assert child is not None
        assert child.how_it_ended() == "ended with exit code 0"


def test_many_threads_may_read(tmp_path: Path) -> None:
    with rig(tmp_path, "t4", "t4") as made:
        assert made.source.read(5).is_up
        snapshots = []
        threads = [threading.Thread(target=lambda: snapshots.append(made.source.read(5))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [snapshot.is_up for snapshot in snapshots] == [True] * 8
        assert made.source.health().started == 1


def test_the_command_carries_the_simulation() -> None:
    assert child_command()[1:] == ("-P", "-m", "gpusight.sources.nvml.child")
    assert child_command(clock=(60.0, 1.5, 0.25))[4:] == ("--clock", "60.0,1.5,0.25")
    assert child_command("default", "n1", "/c", 5.0)[4:] == (
        "--simulate", "default", "--node", "n1", "--control", "/c", "--started-at", "5.0",
    )  # fmt: skip


def test_a_simulation_may_run_faster_than_time(tmp_path: Path) -> None:
    with rig(tmp_path, "t4") as made:
        wall = 1_600_000_000.0
        command = child_command(str(made.spec), "n", clock=(1000.0, wall, time.monotonic()))
        source = NvmlSource(command, SystemClock())
        first, second = source.read(5), source.read(5)
        source.close()
    assert wall < first.taken_at < second.taken_at < wall + 10_000
    assert wall < second.gpus[0].taken_at <= second.taken_at


def test_a_spec_that_is_wrong_is_a_crash_that_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = NvmlSource(child_command(str(tmp_path / "none.yaml")), SystemClock(), Deadlines())
    assert source.read(5).reason == "crashed"
    source.close()
    assert "none.yaml" in capfd.readouterr().err
