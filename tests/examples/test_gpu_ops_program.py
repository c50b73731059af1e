"""The program as a user starts it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from examples.gpu_ops.gpu import Gpu
from tests.examples.conftest import Value

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-m", "examples.gpu_ops")
NO_DRIVER = {"WGPU_BACKEND_TYPE": "Vulkan", "VK_DRIVER_FILES": "/nonexistent", "VK_ICD_FILENAMES": "/nonexistent"}


def run(*arguments: str, command: Sequence[str] = PROGRAM, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([*PROGRAM, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_once_on_the_gpu(gpu: Gpu, sample_of: Value) -> None:
    """Tables on stderr, a page that parses on stdout, every kind of event in it."""
    done = run("--once")
    assert done.returncode == 0, done.stderr
    assert all(heading in done.stderr for heading in ("Crypto", "Merkle", "ZK", "GPU (1K batch)", "| 16K leaves"))
    assert list(text_string_to_metric_families(done.stdout))
    value = partial(sample_of, done.stdout)
    assert value("gpu_available", device="GPU-0") == 1
    assert value("gpu_total_executions") + value("gpusight_ops_cpu_fallbacks_total", reason="below_threshold") == 24
    assert value("gpusight_ops_failures_total", reason="shader_compile") == 2
    assert value("gpusight_ops_failures_total", reason="buffer_allocation") == 1
    assert value("gpu_total_failures") == 3
    assert value("gpusight_ops_cpu_fallbacks_total", reason="below_threshold") > 0
    assert value("gpusight_ops_consistency_checks_total", result="matched") >= 5
    assert value("gpusight_ops_consistency_checks_total", result="mismatched") == 0
    assert value("gpusight_instrument_errors_total") == 0


@pytest.mark.parametrize(
    ("arguments", "environment"), [(("--backend", "cpu"), {}), ((), NO_DRIVER)], ids=["told not to", "no adapter"]
)
def test_without_a_gpu_everything_falls_back(
    arguments: tuple[str, ...], environment: dict[str, str], sample_of: Value
) -> None:
    done = run("--once", "--table", "none", "--operations", "6", *arguments, **environment)
    assert done.returncode == 0, done.stderr
    assert "No GPU" in done.stderr
    assert sample_of(done.stdout, "gpu_cpu_fallback_rate") == 1
    assert sample_of(done.stdout, "gpu_available", device="GPU-0") == 0
    assert sample_of(done.stdout, "gpusight_ops_cpu_fallbacks_total") == 6
    assert sample_of(done.stdout, "gpu_total_executions") == 0


def test_without_the_optional_packages(sample_of: Value) -> None:
    """No wgpu, no numpy, no pycryptodome: the CPU does it with the standard library."""
    script = "import sys; sys.modules.update(dict.fromkeys(['wgpu', 'numpy', 'Crypto']));"
    script += "from examples.gpu_ops.__main__ import main; sys.exit(main(sys.argv[1:]))"
    done = run("--once", "--table", "none", "--operations", "4", command=(sys.executable, "-c", script))
    assert done.returncode == 0, done.stderr
    assert sample_of(done.stdout, "gpu_cpu_fallback_rate") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_told_to_stop(number: signal.Signals, sample_of: Value) -> None:
    with running("--backend", "cpu", "--table", "none", "--port", "0", "--rate", "50") as process:
        assert process.stdout is not None
        url = next(line for line in process.stdout if line.startswith("Metrics: ")).split()[1]
        with urlopen(url, timeout=10) as answer:
            page = answer.read().decode()
        process.send_signal(number)
        rest = process.stdout.read()
        assert process.wait(10) == 0
    assert sample_of(page, "gpu_available", device="GPU-0") == 0
    assert "operations in" in rest


def test_it_ends_after_its_duration() -> None:
    done = run("--backend", "cpu", "--table", "none", "--port", "0", "--duration", "0.3", "--rate", "50")
    assert done.returncode == 0, done.stderr
    assert "operations in 0." in done.stdout


def test_a_taken_port_is_said_and_not_served() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("--backend", "cpu", "--table", "none", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 1
    assert "--port" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("--rate", "0"), ("--rate", "nan"), ("--duration", "-1"), ("--min-leaves", "-1"), ("--faults", "below_threshold")],
)
def test_senseless_arguments_are_refused(arguments: tuple[str, ...]) -> None:
    done = run("--once", *arguments)
    assert done.returncode == 2
    assert arguments[0] in done.stderr


def test_thresholds_come_from_the_command_line(sample_of: Value) -> None:
    limits = ("--min-batch", "99999", "--min-leaves", "99999", "--min-constraints", "99999")
    done = run("--once", "--table", "none", "--backend", "cpu", "--operations", "4", *limits)
    assert done.returncode == 0, done.stderr
    assert sample_of(done.stdout, "gpusight_ops_cpu_fallbacks_total", reason="below_threshold") == 4
