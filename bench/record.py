"""What one recorded operation costs."""

import tempfile
import threading
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from bench.figures import Figure, best, side_by_side
from gpusight.catalog.ops import OPS_DURATION
from gpusight.instrument import GpuMetrics, MetricsConfig

_CALLS = 200_000
_OPERATION = 100e-6
_PEER = "prometheus_client"


class PrometheusClientRecorder:
    """Every family that one record_crypto_gpu call changes, as prometheus_client would keep it, children cached."""

    def __init__(self) -> None:
        registry = CollectorRegistry()

        def gauge(name: str) -> Gauge:
            return Gauge(name, name, registry=registry)

        self._total = Counter("gpu_total_executions", "x", registry=registry)
        self._time = Counter("gpu_total_exec_time_seconds", "x", registry=registry)
        self._module = Counter("gpu_crypto_executions", "x", registry=registry)
        self._generic = Counter("ops_executions", "x", ["module"], registry=registry).labels("crypto")
        self._histogram = Histogram("ops_seconds", "x", ["module"], buckets=OPS_DURATION.buckets, registry=registry)
        self._seconds = self._histogram.labels("crypto")
        self._size, self._last, self._avg = gauge("last_size"), gauge("last_ms"), gauge("avg_ms")
        self._min, self._max, self._rate = gauge("min_ms"), gauge("max_ms"), gauge("failure_rate")
        self._count = self._failed = 0
        self._sum = self._highest = 0.0
        self._lowest = float("inf")
        self._lock = threading.Lock()

    def record(self, batch: int, latency: float, failed: bool = False) -> None:
        self._total.inc()
        self._time.inc(latency)
        self._module.inc()
        self._generic.inc()
        self._seconds.observe(latency)
        self._size.set(batch)
        self._last.set(latency * 1000)
        with self._lock:
            self._count += 1
            self._failed += failed
            self._sum += latency
            self._lowest = min(self._lowest, latency)
            self._highest = max(self._highest, latency)
        self._avg.set(self._sum / self._count * 1000)
        self._min.set(self._lowest * 1000)
        self._max.set(self._highest * 1000)
        self._rate.set(self._failed / self._count)


def figures() -> Iterator[Figure]:
    """The fold of the buffer is inside the loop, so it counts."""
    latencies = [0.0001 * (1 + i % 97) for i in range(1000)]
    ours, peer = GpuMetrics(), PrometheusClientRecorder()

    def run_ours() -> None:
        record = ours.record_crypto_gpu
        for _ in range(_CALLS // 1000):
            for latency in latencies:
                record(1000, latency)

    def run_peer() -> None:
        record = peer.record
        for _ in range(_CALLS // 10_000):
            for latency in latencies:
                record(1000, latency)

    mine, theirs = side_by_side(run_ours, run_peer, rounds=7)
    mine, theirs = mine / _CALLS * 1e6, theirs / (_CALLS / 10) * 1e6
    yield Figure("record", mine, "us/call", (">=", 10), _PEER, theirs)
    yield Figure("record_absolute", mine, "us/call", ("<=", 1))
    yield Figure("record_share_of_100us_operation", mine * 1e-6 / _OPERATION * 100, "%", ("<=", 1))
    yield _multiprocess(latencies)
    yield _lost_counts()
    yield _export()


def _multiprocess(latencies: list[float]) -> Figure:
    with tempfile.TemporaryDirectory() as directory:
        metrics = GpuMetrics(MetricsConfig(workers_dir=directory))

        def run() -> None:
            record = metrics.record_crypto_gpu
            for _ in range(20):
                for latency in latencies:
                    record(1000, latency)

        return Figure("record_multiprocess", best(run, 7) / 20_000 * 1e6, "us/call", ("<=", 3))


def _lost_counts() -> Figure:
    metrics = GpuMetrics(MetricsConfig(export_interval=0))
    each = 100_000

    def work() -> None:
        for _ in range(each):
            metrics.record_crypto_gpu(1, 0.001)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        metrics.export_prometheus()
        time.sleep(0.001)
    text = metrics.export_prometheus()
    counted = next(line for line in text.splitlines() if line.startswith("gpu_total_executions "))
    return Figure("record_lost_by_4_threads", 4 * each - int(counted.split()[1]), "counts", ("==", 0))


def _export() -> Figure:
    fresh = GpuMetrics(MetricsConfig(export_interval=0))
    fresh.record_crypto_gpu(1, 0.1)
    fresh.set_device_available(True, "GPU-0:A")
    return Figure("export_page", best(fresh.export_prometheus, 50) * 1000, "ms", ("<=", 1))
