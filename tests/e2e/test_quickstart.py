"""Every command that the README and the quick start show is run, as shown but for addresses and directories.

What cannot be run in a test stands in `NOT_RUN` with the reason. A command that is shown and stands nowhere here fails.
"""

import fcntl
import hashlib
import json
import os
import pty
import re
import select
import shlex
import shutil
import struct
import subprocess
import sys
import termios
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusight.instrument import GpuMetrics, MetricsConfig
from gpusight.runtime.up import _has_driver
from tests.support.markdown import ROOT, blocks, commands
from tests.support.net import free_port
from tests.support.process import running, wait_for_http
from tests.support.prometheus import Prometheus, temporary_prometheus

PAGES = (ROOT / "README.md", ROOT / "docs" / "quickstart.md")
SHOWN = {command.removeprefix(".venv/bin/"): output for page in PAGES for command, output in commands(page)}

NODE = "gpusight node --simulate --web.listen-address 127.0.0.1:9394"
OPS = "gpusight ops --ops.dir gpu-metrics --web.listen-address 127.0.0.1:9400"
PROGRAM = "python -m examples.gpu_ops"
DEMO = "make demo"
ANALYZE = "gpusight analyze --prom.url http://prometheus:9090"

HAS_PROMETHEUS = shutil.which("prometheus") is not None
_LISTEN = re.compile(r" --web\.listen-address (\S+)")


class World:
    """The servers that shown commands speak of, each started when first needed, by the command that is shown for it."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory = directory
        self._stack = stack
        (directory / "tenants.yaml").write_text(_guide("namespaces:"))
        (directory / "prices.yaml").write_text(_guide("currency:"))
        workers = directory / "gpu-metrics"
        GpuMetrics(MetricsConfig(workers_dir=str(workers))).record_gpu("matmul", 1024, 0.01)

    # --- servers ---

    @cached_property
    def node(self) -> str:
        return self._stack.enter_context(self.serving(NODE, "/-/ready"))

    @cached_property
    def ops(self) -> str:
        return self._stack.enter_context(self.serving(OPS, "/-/ready"))

    @cached_property
    def demo(self) -> str:
        return self._stack.enter_context(self.serving(made(DEMO), "/readyz", ROOT))

    @cached_property
    def started_prometheus(self) -> Prometheus:
        """It begins to scrape after five seconds: start it early."""
        address = self.node.removeprefix("http://")
        often = {"scrape_interval": "1s", "scrape_timeout": "1s"}
        jobs = [{"job_name": "node", "honor_labels": True, "static_configs": [{"targets": [address]}], **often}]
        directory = self.directory / "prometheus"
        directory.mkdir()
        return self._stack.enter_context(temporary_prometheus(directory, jobs))

    @property
    def prometheus(self) -> str:
        if not HAS_PROMETHEUS:
            pytest.skip("the `prometheus` program is not installed (apt install prometheus)")
        self.started_prometheus.wait_until(lambda it: bool(it.query("DCGM_FI_DEV_GPU_UTIL")))
        return self.started_prometheus.url

    # --- commands ---

    def here(self, command: str) -> str:
        """The command with the addresses of this world."""
        for shown, server in _PLACES.items():
            if shown in command:
                command = command.replace(shown, server(self))
        return command

    def run(self, command: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.here(command),
            shell=True,
            executable="/bin/bash",
            cwd=directory or self.directory,
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    @contextmanager
    def running(self, command: str, url: str, directory: Path | None = None) -> Iterator[str]:
        """A server, from the moment that `url` answers; its address."""
        words, log = shlex.split(self.here(command)), self.directory / f"log-{free_port()}"
        words[0] = _program(words[0])
        with running(words, log, cwd=directory or self.directory, env=self.environ()) as process:
            try:
                wait_for_http(url, process, within=40)
            except AssertionError as error:
                raise AssertionError(f"{error}; the log: {log.read_text()[-3000:]}") from error
            yield re.match(r"http://[^/]+", url)[0]  # type: ignore[index]

    def serving(self, command: str, path: str, directory: Path | None = None) -> AbstractContextManager[str]:
        """The same on a free port, whichever port the command names."""
        address = f"127.0.0.1:{free_port()}"
        command = f"{_LISTEN.sub('', command)} --web.listen-address {address}"
        return self.running(command, f"http://{address}{path}", directory)

    def environ(self) -> dict[str, str]:
        """Of a user who has set nothing, with a home of his own for each command."""
        home = self.directory / f"home-{free_port()}"
        home.mkdir()
        kept = {name: os.environ[name] for name in ("LANG", "LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**kept, "PATH": path, "HOME": str(home), "TERM": "xterm-256color"}


_PLACES: Mapping[str, Callable[[World], str]] = {
    "http://prometheus:9090": lambda world: world.prometheus,
    "http://gpu-node-1:9394": lambda world: world.node,
    "http://localhost:9394": lambda world: world.node,
    "http://127.0.0.1:9394": lambda world: world.node,
    "http://127.0.0.1:9400": lambda world: world.ops,
    "http://localhost:8080": lambda world: world.demo,
    "/run/myapp/gpu": lambda world: str(world.directory / "gpu-metrics"),
}


def _program(name: str) -> str:
    return sys.executable if name == "python" else str(Path(sys.executable).with_name(name))


def _guide(begin: str) -> str:
    """A file that the guide shows, by its first line but for comments."""
    found = (block.text for block in blocks(ROOT / "docs" / "analyze.md", "yaml"))
    return next(text for text in found if re.sub(r"^#.*\n", "", text).startswith(begin))


def made(command: str) -> str:
    """What `make demo` runs in the end, from its own mouth; packages and .venv are there already."""
    told = subprocess.run(
        [*shlex.split(command), "--dry-run"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    [line] = [line for line in told.stdout.splitlines() if "-m gpusight up" in line]
    return line.strip().removeprefix(".venv/bin/")


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


# --- how each is run ---


def demonstrates(world: World, command: str, _: list[str]) -> None:
    """The page that every `up --simulate` makes, whatever its port; other flags get a run of their own."""
    line = made(command) if command.startswith("make") else command
    port = re.search(r"PORT=(\d+)", command)
    if command.startswith("make"):
        assert _LISTEN.findall(line) == [f"127.0.0.1:{port[1] if port else 8080}"]
    if _LISTEN.sub("", line).split("gpusight")[-1].split() == ["up", "--simulate"]:
        assert get(f"{world.demo}/api/v1/verdicts?state=idle-held")["total"] > 0
        assert {role["name"] for role in get(f"{world.demo}/api/v1/roles")} == {"node", "program", "analyze"}
    else:
        with world.serving(line, "/readyz") as url:  # not in the clone, so without the sample program: that is slow
            assert get(f"{url}/api/v1/verdicts")["total"] > 0


def needs_a_gpu(world: World, command: str, _: list[str]) -> None:
    if _has_driver():
        with world.serving(command, "/readyz") as url:
            assert get(f"{url}/results") is not None
    else:
        done = world.run(command)
        assert (done.returncode, done.stdout) == (1, "")
        assert "`gpusight up --simulate` shows simulated GPUs" in done.stderr


def exports(world: World, command: str, _: list[str]) -> None:
    with world.serving(command, "/-/ready") as url, urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        assert b"\ngpusight_build_info{" in answer.read()


def analyzes(world: World, command: str, _: list[str]) -> None:
    with world.serving(command, "/readyz") as url:
        assert get(f"{url}/health")["status"] == "healthy"
        assert get(f"{url}/api/v1/results")["total"] > 0


def examines(world: World, command: str, output: list[str]) -> None:
    done = world.run(command)
    *findings, last = done.stdout.splitlines()
    count = re.fullmatch(r"\d+ ok, (\d+) warnings, (\d+) failures, \d+ skipped", last)

    assert count, done
    assert done.returncode == (2 if int(count[2]) else 1 if int(count[1]) else 0)
    assert findings[0].split()[:2] == (output[0].split()[:2] if output else ["ok", "python.version"])
    if "--prom.url" in command:
        assert re.search(r"^ok +prom\.reachable ", done.stdout, re.MULTILINE)


def prints(*parts: str, directory: Path | None = None) -> "Run":
    def run(world: World, command: str, _: list[str]) -> None:
        done = world.run(command, directory)
        assert done.returncode == 0, done.stderr
        for part in parts:
            assert part in done.stdout

    return run


def prints_the_same_series(world: World, command: str, output: list[str]) -> None:
    done = world.run(command)

    assert done.stdout
    if output:
        assert [line.split()[0] for line in done.stdout.splitlines()] == [line.split()[0] for line in output]


def prints_the_same_titles(world: World, command: str, output: list[str]) -> None:
    done = world.run(command)
    titles = next(line for line in output if line.startswith("NAME"))

    assert done.returncode == 0, done.stderr
    assert titles.split() in [line.split() for line in done.stdout.splitlines()]


def draws_a_figure(world: World, command: str, _: list[str]) -> None:
    made = world.run("gpusight replay generated:3,subjects=40,days=2 --policy default --save-trace trace.csv")
    done = world.run(command)

    assert (made.returncode, done.returncode) == (0, 0), done.stderr
    assert "idle:" in done.stdout
    assert "plotly" in (world.directory / "replay.html").read_text("utf-8").lower()


def makes_a_token(world: World, command: str, _: list[str]) -> None:
    printed = world.run(command).stdout
    [entry] = yaml.safe_load(next(line for line in printed.splitlines() if line.startswith("- ")))
    token = re.search(r"gst_\S+", printed)

    assert token
    assert entry == {"name": "ops", "sha256": hashlib.sha256(token[0].encode()).hexdigest(), "role": "admin"}


def makes_rules(world: World, command: str, _: list[str]) -> None:
    groups = yaml.safe_load(world.run(command).stdout)["groups"]

    assert all(rule["record"].startswith("gpusight:") for group in groups for rule in group["rules"])


def fills_a_terminal(world: World, command: str, _: list[str]) -> None:
    """A terminal that sees a page with rows, and a `q`."""
    words = shlex.split(world.here(command))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
    with os.fdopen(ours, "r+b", buffering=0) as terminal:
        process = subprocess.Popen(
            [_program(words[0]), *words[1:]], stdin=theirs, stdout=theirs, stderr=theirs, env=world.environ()
        )
        os.close(theirs)
        try:
            _read_until(terminal.fileno(), b"llm-serving")
            terminal.write(b"q")
            _read_until(terminal.fileno(), None)
            assert process.wait(10) == 0
        finally:
            process.kill()
            process.wait()


def _read_until(terminal: int, word: bytes | None) -> None:
    """Until the word is there; without one, until the other side has gone."""
    seen, deadline = b"", time.monotonic() + 20
    while word is None or word not in seen:
        left = deadline - time.monotonic()
        assert left > 0, f"in vain: {seen[-2000:]!r}"
        if select.select([terminal], [], [], left)[0]:
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # how Linux says that nobody has the other side open
                piece = b""
            if not piece:
                assert word is None, f"it ended: {seen[-2000:]!r}"
                return
            seen += piece


@contextmanager
def sample_program(world: World) -> Iterator[str]:
    """Not kept running for others: a software GPU takes a whole core."""
    url = f"http://127.0.0.1:{free_port()}"
    with world.running(f"{PROGRAM} --port {url.rpartition(':')[2]}", f"{url}/metrics", ROOT):
        yield url


def works(world: World, _command: str, _output: list[str]) -> None:
    with sample_program(world) as url, urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        assert b"\ngpu_total_executions " in answer.read()


def asks_the_program(world: World, command: str, output: list[str]) -> None:
    with sample_program(world) as url:
        prints_the_same_series(world, command.replace("http://localhost:9090", url), output)


Run = Callable[[World, str, list[str]], None]

RUN: Mapping[str, Run] = {
    DEMO: demonstrates,
    "make demo PORT=8081": demonstrates,
    "make demo ARGS='--simulate.speed 60'": demonstrates,
    "gpusight up --simulate": demonstrates,
    "gpusight up": needs_a_gpu,
    NODE: exports,
    "gpusight node": exports,
    "gpusight node --simulate faulty --web.listen-address 127.0.0.1:9395": exports,
    OPS: exports,
    "gpusight ops --ops.dir /run/myapp/gpu --web.listen-address :9090": exports,
    ANALYZE: analyzes,
    "gpusight analyze --store embedded --scrape.target http://gpu-node-1:9394/metrics": analyzes,
    f"{ANALYZE} --tenants.file tenants.yaml --prices.file prices.yaml": analyzes,
    "gpusight doctor": examines,
    "gpusight doctor --only prom.reachable": examines,
    "gpusight doctor --role analyze --prom.url http://prometheus:9090": examines,
    "gpusight top --node http://localhost:9394 --once": prints_the_same_titles,
    "gpusight top --url http://localhost:8080": fills_a_terminal,
    "gpusight replay generated:1,subjects=300 --policy default --policy gpu-pruner": prints("\ngpu-pruner "),
    "gpusight replay trace.csv --policy idle:120m,grace=30m --figure replay.html": draws_a_figure,
    "gpusight settings --role analyze": prints("\nprom.url ", "http://prometheus:9090"),
    "gpusight token new ops --role admin": makes_a_token,
    "gpusight rules render": makes_rules,
    PROGRAM: works,
    "python -m examples.gpu_ops --once --table none": prints("\ngpu_total_executions ", directory=ROOT),
    "curl -s http://localhost:9090/metrics | grep '^gpu_total'": asks_the_program,
    "curl -s http://127.0.0.1:9394/metrics | grep '^gpusight_container_gpu_utilization_ratio'": prints_the_same_series,
    "curl -s http://127.0.0.1:9400/metrics | grep '^gpusight_ops_executions'": prints_the_same_series,
}

_PACKAGES = "downloads packages and changes the environment; tests/test_readme.py knows the extras"
NOT_RUN = {
    "make test": "is what runs this",
    "pip install .": _PACKAGES,
    "pip install '.[node]'": _PACKAGES,
    "pip install '.[analyze]'": _PACKAGES,
    "pip install '.[all]'": _PACKAGES,
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as stack:
        made_world = World(tmp_path_factory.mktemp("world"), stack)
        if HAS_PROMETHEUS:
            assert made_world.started_prometheus
        yield made_world


def test_every_command_that_is_shown_is_run_or_excused() -> None:
    assert SHOWN.keys() == RUN.keys() | NOT_RUN.keys()
    assert not RUN.keys() & NOT_RUN.keys()


@pytest.mark.parametrize("command", RUN, ids=str)
def test_a_shown_command_does_what_the_page_says(command: str, world: World) -> None:
    if command.startswith("curl") and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    RUN[command](world, command, SHOWN[command])
