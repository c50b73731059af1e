"""The bridge into prometheus_client."""

from prometheus_client import CollectorRegistry, generate_latest

from gpusight.instrument import GpuMetrics, MetricsConfig
from gpusight.instrument.bridge import register
from tests.instrument.reading import parse, samples


def test_a_registry_shows_what_the_page_shows() -> None:
    metrics = GpuMetrics(MetricsConfig(export_interval=0))
    registry = CollectorRegistry()
    register(metrics, registry)
    metrics.set_device_available(True, "GPU-0:A")
    metrics.record_crypto_gpu(10, 0.01, failed=True, reason="timeout", device="GPU-0")
    metrics.record_merkle_cpu_fallback(3)

    assert parse(generate_latest(registry).decode()) == samples(metrics)


def test_counters_keep_their_names() -> None:
    metrics = GpuMetrics(MetricsConfig(export_interval=0))
    registry = CollectorRegistry()
    register(metrics, registry)
    text = generate_latest(registry).decode()
    assert "# TYPE gpu_total_executions untyped\ngpu_total_executions 0.0\n" in text
    assert "# TYPE gpu_crypto_executions_total counter\n" in text
