"""The node agent: one reading of 8 simulated GPUs with 40 containers, and its page."""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from bench.figures import Figure, seconds
from gpusight.model.time import SystemClock
from gpusight.simulate.faults import inject
from gpusight.simulate.regions import write_region
from gpusight.sources.vgpu.scan import VgpuSource

_FLEET = "eight-gpus-40-containers"
_PEER = "nvitop-exporter"
_ROUNDS = 100
_PAUSE = 0.11
"""Seconds between two rounds, ours and the peer's: both work with cold caches, as they would in a cluster."""
_TICKS = os.sysconf("SC_CLK_TCK")


def figures() -> Iterator[Figure]:
    with _agent("--collect.max-age", "100ms") as agent:
        ours, walls = _scrape_afresh(agent, _ROUNDS)
        yield Figure("node_cpu_per_reading", ours, "ms", (">=", 3), _PEER, _peer())
        yield Figure("node_scrape_p99", _p99(walls), "ms", ("<=", 100))
        yield from _memory(agent)
    yield _scan()
    yield _blocked()


class Agent:
    """A running `gpusight node` and its child."""

    def __init__(self, process: "subprocess.Popen[str]", port: int) -> None:
        self.port = port
        self._process = process

    def pids(self) -> list[int]:
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        children = (pid for task in tasks for pid in (task / "children").read_text().split())
        return [self._process.pid, *map(int, children)]

    def cpu_seconds(self) -> float:
        """User and system time of all our processes."""
        total = 0
        for pid in self.pids():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / _TICKS

    def pss_mib(self) -> float:
        """Proportional memory of all our processes."""
        rollups = (Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in self.pids())
        return (
            sum(int(match[1]) for text in rollups if (match := re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE))) / 1024
        )

    def scrape(self) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            return bytes(answer.read())


@contextmanager
def _agent(*flags: str) -> Iterator[Agent]:
    """Without a file of faults unless asked for: the simulator looks for it in every call, and the peer's has none."""
    command = [sys.executable, "-m", "gpusight", "node", "--simulate", _FLEET]
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


def _scrape_afresh(agent: Agent, rounds: int) -> tuple[float, list[float]]:
    """CPU milliseconds per reading with its scrape, and the scrapes' times: far enough apart that none is reused.

    What the simulator itself costs (it rewrites files and plays the driver's event queue all the time) is measured
    while nobody scrapes, and taken off.
    """
    agent.scrape()
    time.sleep(1.2)
    upkeep = _cpu_share(agent, 10.0)
    before, start, walls = agent.cpu_seconds(), time.monotonic(), []
    for _ in range(rounds):
        walls.append(seconds(agent.scrape) * 1000)
        time.sleep(_PAUSE)
    spent = agent.cpu_seconds() - before - upkeep * (time.monotonic() - start)
    return spent / rounds * 1000, walls


def _cpu_share(agent: Agent, span: float) -> float:
    before = agent.cpu_seconds()
    time.sleep(span)
    return (agent.cpu_seconds() - before) / span


def _peer() -> float:
    """CPU milliseconds of the same work by nvitop-exporter over the same simulated NVML, at the same pace."""
    code = f"""
import time
from prometheus_client import CollectorRegistry, generate_latest
from gpusight.model.time import SystemClock
from gpusight.simulate.nvml import SimulatedNode, install
install(SimulatedNode({_FLEET!r}, None, SystemClock()))
from nvitop import Device
from nvitop_exporter import PrometheusExporter
registry = CollectorRegistry()
exporter = PrometheusExporter(Device.all(), registry=registry)
def work():
    exporter.update_host()
    for device in exporter.devices:
        exporter.update_device(device)
    generate_latest(registry)
work()
start = time.process_time()
for _ in range({_ROUNDS}):
    work()
    time.sleep({_PAUSE})
print((time.process_time() - start) / {_ROUNDS} * 1000)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def _memory(agent: Agent) -> Iterator[Figure]:
    """Growth is counted from the first quarter on: before, the interpreter's own pools fill up."""
    scrapes = int(os.environ.get("BENCH_SCRAPES", "4000"))
    _scrape_often(agent, scrapes // 4)
    early = agent.pss_mib()
    _scrape_often(agent, scrapes - scrapes // 4)
    late = agent.pss_mib()
    yield Figure("node_pss_parent_and_child", late, "MiB", ("<=", 80))
    yield Figure(f"node_pss_growth_{scrapes}_scrapes", late - early, "MiB", ("<=", 2))


def _scrape_often(agent: Agent, scrapes: int) -> None:
    connection = HTTPConnection("127.0.0.1", agent.port, timeout=30)
    for _ in range(scrapes):
        connection.request("GET", "/metrics")
        connection.getresponse().read()
    connection.close()


def _scan() -> Figure:
    """1,000 containers' cache files."""
    from gpusight.simulate.regions import SimDevice, SimProcess, SimRegion

    with tempfile.TemporaryDirectory() as directory:
        for i in range(1000):
            folder = Path(directory) / f"{i:08x}-0000-4000-8000-000000000000_main"
            folder.mkdir()
            device = SimDevice(f"GPU-{i:08x}-0000-4000-8000-000000000000", 2**30, 100)
            processes = [SimProcess(p, 1000 + p) for p in range(1, 3)]
            write_region(folder / "a.cache", SimRegion(layout="F", devices=[device], processes=processes))
        source = VgpuSource(Path(directory), SystemClock())
        return Figure("vgpu_scan_1000_containers", min(seconds(source.read) for _ in range(5)), "s", ("<=", 1))


def _blocked() -> Figure:
    """One of 8 devices does not answer: the other seven's page."""
    with tempfile.TemporaryDirectory() as directory, _agent("--simulate.control", f"{directory}/faults.yaml") as agent:
        agent.scrape()
        inject(Path(directory) / "faults.yaml", [{"gpu": 3, "kind": "block", "for": 60}])
        walls = []
        for _ in range(30):
            walls.append(seconds(agent.scrape) * 1000)
            time.sleep(1.02)
        page = agent.scrape().decode()
        assert 'reason="blocked"} 0' in page, "the blocked device was not flagged"
    return Figure("node_scrape_p99_one_blocked", _p99(walls), "ms", ("<=", 500))


def _p99(walls: list[float]) -> float:
    return statistics.quantiles(walls, n=100, method="inclusive")[98]
