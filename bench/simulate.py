"""A simulated fleet in one agent process with one NVML child, scraped as `gpusight up --simulate` does."""

import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from bench.figures import Figure
from bench.node import Agent
from gpusight.model.time import ScaledClock
from gpusight.runtime.backfill import affordable, backfill, look
from gpusight.runtime.fleet_targets import fleet_targets
from gpusight.simulate.spec import load_spec
from gpusight.store.embedded import EmbeddedStore

_GPUS = 1000
_INTERVAL = 15.0
_ROUNDS = 4


def figures() -> Iterator[Figure]:
    began = time.monotonic()
    with _fleet(f"generated:{_GPUS}") as fleet:
        paths = _paths(fleet)
        _wait_until_ready(fleet)
        yield Figure("simulate_1000_gpus_ready_after", time.monotonic() - began, "s", ("<=", 10))
        _round(fleet, paths)
        before, start = fleet.cpu_seconds(), time.monotonic()
        for number in range(1, _ROUNDS + 1):
            _round(fleet, paths)
            time.sleep(max(0.0, start + number * _INTERVAL - time.monotonic()))
        cores = (fleet.cpu_seconds() - before) / (time.monotonic() - start)
        yield Figure("simulate_1000_gpus_cpu", cores, "cores", ("<=", 0.6))
        yield Figure("simulate_1000_gpus_memory", fleet.pss_mib(), "MiB", ("<=", 250))
    yield _backfill()


def _backfill() -> Figure:
    """CPU seconds to write the last day of the demo into an embedded store."""
    clock = ScaledClock(1.0, time.time(), time.monotonic())
    with _fleet("demo", "--simulate.clock", str(clock)) as fleet, tempfile.TemporaryDirectory() as folder:
        _wait_until_ready(fleet)
        time.sleep(1.1)  # rates need a second reading
        store = EmbeddedStore(Path(folder) / "samples.duckdb", clock)
        looks = look(fleet_targets(load_spec("demo"), f"http://127.0.0.1:{fleet.port}"), store, clock)
        grid = affordable(looks, clock.now() - 86_400, clock.now())
        start = time.process_time()
        backfill(store, looks, load_spec("demo"), grid, started_at=clock.wall)
        spent = time.process_time() - start
        store.close()
    return Figure("simulate_backfill_of_64_gpus_and_24_h", spent, "s", ("<=", 6))


@contextmanager
def _fleet(spec: str, *flags: str) -> Iterator[Agent]:
    command = [sys.executable, "-m", "gpusight", "node", "--simulate", spec]
    command += ["--web.listen-address", "127.0.0.1:0", *flags]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield Agent(process, _port(process))
    finally:
        process.terminate()
        process.communicate()


def _port(process: "subprocess.Popen[str]") -> int:
    assert process.stderr
    for line in process.stderr:
        if found := re.search(r"listens on 127\.0\.0\.1:(\d+)", line):
            return int(found[1])
    raise RuntimeError("the agent did not start")


def _get(fleet: Agent, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{fleet.port}{path}", timeout=30) as answer:
        return bytes(answer.read())


def _paths(fleet: Agent) -> list[str]:
    return re.findall(r'href="(/[^"]+/metrics)"', _get(fleet, "/").decode())


def _wait_until_ready(fleet: Agent) -> None:
    while True:
        try:
            _get(fleet, "/-/ready")
        except OSError:
            time.sleep(0.1)
        else:
            return


def _round(fleet: Agent, paths: list[str]) -> None:
    """All pages, spread over half of the interval, by as many threads as the scraper has."""
    pause = _INTERVAL / 2 / len(paths)
    with ThreadPoolExecutor(8) as pool:
        for path in paths:
            pool.submit(_get, fleet, path)
            time.sleep(pause)
