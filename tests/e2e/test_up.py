"""`gpusight up` as a user starts it: one command, a whole stack, and all of it gone again."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.net import free_port
from tests.support.process import running

FLEET = """
seed: 3
nodes:
  - {name: alpha, cluster: east, gpus: [{model: h100}, {model: h100}]}
  - {name: beta, cluster: west, gpus: [{model: t4}]}
workloads:
  - {namespace: llm, pod: train-0, container: main, kind: training, node: alpha, gpus: [0]}
  - {namespace: llm, pod: forgotten-0, container: main, kind: forgotten, node: alpha, gpus: [1], starts: -172800}
  - {namespace: lab, pod: spin-0, container: main, kind: spinner, node: beta, gpus: [0], starts: -172800}
"""


class Up:
    def __init__(self, url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.url = url
        self.process = process
        self.log = log

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=10) as answer:
            return json.load(answer)

    def states(self) -> dict[str, str]:
        return {each["subject"]["id"]: each["state"] for each in self.get("/api/v1/verdicts")["items"]}

    def role(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(role for role in self.get("/api/v1/roles") if role["name"] == name)
        return found

    def wait_until(self, holds: Callable[[], bool], within: float = 40.0) -> None:
        deadline = time.monotonic() + within
        while True:
            try:
                if holds():
                    return
            except (OSError, urllib.error.URLError, StopIteration):
                pass
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, f"in vain; the log: {self.log.read_text()[-4000:]}"
            time.sleep(0.1)


@contextmanager
def up(tmp_path: Path, *flags: str) -> Iterator[Up]:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET)
    address = f"127.0.0.1:{free_port()}"
    command = [
        *(sys.executable, "-m", "gpusight", "up", "--simulate", str(fleet)),
        *("--web.listen-address", address, "--data.dir", str(tmp_path / "data"), *flags),
    ]
    with running(command, tmp_path / "up.log", cwd=tmp_path) as process:
        started = Up(f"http://{address}", process, tmp_path / "up.log")
        started.wait_until(lambda: started.get("/health")["last_analysis"] is not None)
        yield started


def children_of(pid: int) -> list[int]:
    lists = (task / "children" for task in Path(f"/proc/{pid}/task").iterdir())
    return [int(child) for each in lists for child in each.read_text().split()]


def test_one_command_shows_verdicts_on_a_simulated_fleet_at_once(tmp_path: Path) -> None:
    with up(tmp_path) as started:
        assert started.states() == {
            "east/llm/StatefulSet/train": "productive",
            "east/llm/StatefulSet/forgotten": "idle-held",
            "west/lab/StatefulSet/spin": "hollow-busy",
        }
        idle = next(each for each in started.get("/api/v1/verdicts")["items"] if each["state"] == "idle-held")
        assert idle["activity"]["idle_seconds"] > 3600  # it was back-filled, and rounds were held over the past
        assert {role["name"]: role["state"] for role in started.get("/api/v1/roles")} == {
            "node": "running",
            "analyze": "running",
        }

        os.kill(children_of_role(started, "node"), signal.SIGKILL)
        started.wait_until(lambda: started.role("node")["restarts"] == 1 and started.role("node")["state"] == "running")

        family = children_of(started.process.pid)
        started.process.send_signal(signal.SIGINT)
        assert started.process.wait(20) == 0
        assert not [pid for pid in family if Path(f"/proc/{pid}").exists()]


def children_of_role(started: Up, role: str) -> int:
    for pid in children_of(started.process.pid):
        if role in Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
            return pid
    raise AssertionError(f"no child runs {role}")


def test_without_a_gpu_it_says_so_and_tells_both_ways_on(tmp_path: Path) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has an NVIDIA driver")
    command = [sys.executable, "-m", "gpusight", "up", "--data.dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    assert done.returncode == 1
    assert done.stderr == (
        "gpusight: there is no NVIDIA driver on this machine: `gpusight up --simulate` shows simulated GPUs,"
        " and on a machine with a GPU `gpusight up` shows its own\n"
    )


def test_a_fleet_that_makes_no_sense_is_refused_before_anything_starts(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("nodes: 3\n")
    command = [sys.executable, "-m", "gpusight", "up", "--simulate", str(fleet), "--data.dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    assert done.returncode == 2
    assert "setting simulate" in done.stderr


def test_a_port_that_is_taken_and_a_directory_in_use_are_said_at_once(tmp_path: Path) -> None:
    with up(tmp_path) as started:
        address = started.url.removeprefix("http://")
        base = [sys.executable, "-m", "gpusight", "up", "--simulate", str(tmp_path / "fleet.yaml")]
        other = [*base, "--web.listen-address", address, "--data.dir", str(tmp_path / "other")]
        same = [*base, "--web.listen-address", "127.0.0.1:0", "--data.dir", str(tmp_path / "data")]
        taken, in_use = (
            subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
            for command in (other, same)
        )
        assert (taken.returncode, in_use.returncode) == (1, 1)
        assert "in use" in taken.stderr
        assert "another `gpusight up` uses" in in_use.stderr
        assert started.process.poll() is None
