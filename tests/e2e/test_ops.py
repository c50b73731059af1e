"""`gpusight ops` beside a program with worker processes, and a real Prometheus."""

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from gpusight.instrument import GpuMetrics, MetricsConfig
from tests.instrument.reading import parse
from tests.support.prometheus import needs_prometheus, temporary_prometheus
from tests.support.role import running_role


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def worker(directory: Path) -> GpuMetrics:
    return GpuMetrics(MetricsConfig(workers_dir=directory))


def test_workers_that_come_and_go(tmp_path: Path) -> None:
    workers = tmp_path / "workers"
    with running_role(tmp_path, "ops", "--ops.dir", str(workers)) as role:
        before = parse(get(f"{role.url}/metrics"))
        assert before["gpusight_collector_success", frozenset({("collector", "workers")})] == 0
        assert "gpu_total_executions" not in {name for name, _ in before}  # no directory yet: unknown, not 0

        alive = worker(workers)
        alive.record_crypto_gpu(10, 0.01)
        worker(workers).record_zk_gpu(10, 0.02)  # gone at once
        page = parse(get(f"{role.url}/metrics"))
        assert page["gpu_total_executions", frozenset()] == 2
        assert page["gpusight_instrument_workers", frozenset({("state", "live")})] == 1
        assert page["gpusight_collector_success", frozenset({("collector", "workers")})] == 1
        assert get(f"{role.url}/-/ready") == "ready\n"

        role.process.send_signal(signal.SIGTERM)
        assert role.process.wait(10) == 0


@needs_prometheus
@pytest.mark.parametrize("openmetrics", [False, True])
def test_a_real_prometheus_reads_the_seed_families(tmp_path: Path, openmetrics: bool) -> None:
    workers = tmp_path / "workers"
    metrics = worker(workers)
    metrics.set_device_available(True, 'GPU-0:NVIDIA "RTX" 4090\\n')
    metrics.record_merkle_gpu(1024, 0.25, failed=True, reason="device_lost", device="GPU-0", backend="vulkan")
    flags = ["--ops.dir", str(workers), *(["--web.openmetrics"] if openmetrics else [])]
    # By default Prometheus, though it prefers OpenMetrics, sees the seed's own names.
    counter = "gpu_total_executions_total" if openmetrics else "gpu_total_executions"
    with (
        running_role(tmp_path, "ops", *flags) as role,
        temporary_prometheus(
            tmp_path, [{"job_name": "supervm-gpu", "static_configs": [{"targets": [role.address]}]}]
        ) as prometheus,
    ):
        prometheus.wait_until(lambda p: bool(p.query(counter)))
        [available] = prometheus.query('gpu_available{device=~"GPU-.*"}')
        assert available["metric"]["gpu_device_name"] == 'NVIDIA "RTX" 4090\\n'
        assert prometheus.query("gpu_merkle_latency_avg_ms")[0]["value"][1] == "250"
        assert prometheus.targets()["supervm-gpu"]["lastError"] == ""


def test_a_busy_port_is_one_sentence_and_exit_1(tmp_path: Path) -> None:
    with running_role(tmp_path, "ops", "--ops.dir", str(tmp_path)) as role:
        flags = ["--ops.dir", str(tmp_path), "--web.listen-address", role.address]
        second = subprocess.run(
            [sys.executable, "-m", "gpusight", "ops", *flags], capture_output=True, text=True, check=False, timeout=20
        )
    assert second.returncode == 1
    assert f"cannot listen on {role.address}: address already in use" in second.stderr.lower()
    assert "Traceback" not in second.stderr


def test_a_bad_web_config_is_one_sentence_and_exit_1(tmp_path: Path) -> None:
    config = tmp_path / "web.yml"
    config.write_text("tls_server_config:\n  cert_file: missing.pem\n  key_file: missing.key\n")
    flags = ["--ops.dir", str(tmp_path), "--web.listen-address", "127.0.0.1:0", "--web.config.file", str(config)]
    done = subprocess.run(
        [sys.executable, "-m", "gpusight", "ops", *flags], capture_output=True, text=True, check=False, timeout=20
    )
    assert done.returncode == 1
    assert "missing.pem" in done.stderr
    assert "Traceback" not in done.stderr
