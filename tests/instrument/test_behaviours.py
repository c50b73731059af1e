"""The ten behaviours that the SuperVM report pins, and what the issue adds to them."""

import asyncio
import math
import threading
from datetime import timedelta

import pytest

from gpusight.catalog import ops
from gpusight.instrument import GpuMetrics, MetricsConfig
from gpusight.model.time import ManualClock
from tests.instrument.reading import samples, value


def fresh() -> GpuMetrics:
    return GpuMetrics(MetricsConfig(export_interval=0))


def test_end_to_end_all_32_seed_families_with_exact_names() -> None:
    metrics = fresh()
    metrics.set_device_available(True, "GPU-0:NVIDIA-RTX-4090")
    metrics.set_queue_depth(3)
    metrics.set_memory_used(2**31)
    for record in (metrics.record_crypto_gpu, metrics.record_merkle_gpu, metrics.record_zk_gpu):
        record(1000, 0.0028)

    shown = {name for name, _ in samples(metrics)}
    assert len(ops.SEED_FAMILIES) == 32
    assert {spec.name for spec in ops.SEED_FAMILIES} <= shown
    assert value(metrics, "gpu_available", device="GPU-0", gpu_device_name="NVIDIA-RTX-4090") == 1


def test_three_threads_and_180_operations_lose_nothing() -> None:
    metrics = fresh()
    records = (metrics.record_crypto_gpu, metrics.record_merkle_gpu, metrics.record_zk_gpu)
    threads = [threading.Thread(target=lambda r=r: [r(8, 0.001) for _ in range(60)]) for r in records]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert value(metrics, "gpu_total_executions") == 180
    assert value(metrics, "gpu_merkle_executions_total") == 60


def test_threads_that_fold_and_export_at_once_lose_nothing() -> None:
    metrics = fresh()
    each = 25_000

    def work() -> None:
        for _ in range(each):
            metrics.record_gpu("mine", 1, 0.001, device="GPU-0")
            metrics.record_crypto_gpu(1, 0.001, True)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        metrics.export_prometheus()
    assert value(metrics, "gpu_total_executions") == 8 * each
    assert value(metrics, "gpu_total_failures") == 4 * each
    assert value(metrics, "gpusight_ops_duration_seconds_count", module="mine", device="GPU-0") == 4 * each


def test_failure_rate_20_percent_and_fallback_rate_30_percent() -> None:
    metrics = fresh()
    for i in range(70):
        metrics.record_crypto_gpu(10, 0.001, failed=i < 14)
    for _ in range(30):
        metrics.record_crypto_cpu_fallback(10)

    assert value(metrics, "gpu_failure_rate") == pytest.approx(0.2)
    assert value(metrics, "gpu_cpu_fallback_rate") == pytest.approx(0.3)


def test_min_max_avg_and_last_in_milliseconds() -> None:
    metrics = fresh()
    for latency in (0.002, 0.010, 0.006):
        metrics.record_merkle_gpu(1024, latency)

    assert value(metrics, "gpu_merkle_latency_min_ms") == pytest.approx(2)
    assert value(metrics, "gpu_merkle_latency_max_ms") == pytest.approx(10)
    assert value(metrics, "gpu_merkle_latency_avg_ms") == pytest.approx(6)
    assert value(metrics, "gpu_merkle_last_latency_ms") == pytest.approx(6)
    assert value(metrics, "gpu_total_exec_time_seconds") == pytest.approx(0.018)


def test_device_unavailable_means_100_percent_fallback() -> None:
    metrics = fresh()
    metrics.set_device_available(False, "NVIDIA RTX 4090")
    for _ in range(5):
        metrics.record_zk_cpu_fallback(10_000)

    assert value(metrics, "gpu_available", device="GPU-0", gpu_device_name="NVIDIA RTX 4090") == 0
    assert value(metrics, "gpu_cpu_fallback_rate") == 1.0


def test_high_load_1000_operations_queue_150_memory_2_gib() -> None:
    metrics = fresh()
    for _ in range(1000):
        metrics.record_crypto_gpu(512, 0.0005)
    metrics.set_queue_depth(150)
    metrics.set_memory_used(2 * 2**30)

    text = metrics.export_prometheus()
    assert "\ngpu_crypto_executions_total 1000\n" in text
    assert "\ngpu_queue_depth 150\n" in text
    assert "\ngpu_memory_used_bytes 2147483648\n" in text


def test_counters_accumulate_and_gauges_replace() -> None:
    metrics = fresh()
    for depth in (5, 2):
        metrics.set_queue_depth(depth)
        metrics.record_zk_gpu(depth, 0.1)

    assert value(metrics, "gpu_queue_depth") == 2
    assert value(metrics, "gpu_zk_executions_total") == 2
    assert value(metrics, "gpu_zk_last_constraints") == 2


def test_zero_operations_are_all_finite_and_nothing_is_invented() -> None:
    metrics = fresh()
    shown = samples(metrics)

    assert all(math.isfinite(v) for v in shown.values())
    assert value(metrics, "gpu_total_executions") == 0
    assert value(metrics, "gpu_failure_rate") == 0
    assert not {name for name, _ in shown} & {"gpu_available", "gpu_queue_depth", "gpu_crypto_latency_min_ms"}
    assert "# TYPE gpu_crypto_latency_min_ms gauge" in metrics.export_prometheus()


def test_modules_do_not_touch_each_other() -> None:
    metrics = fresh()
    metrics.record_crypto_gpu(1, 0.1, failed=True)

    for module in ("merkle", "zk"):
        assert value(metrics, f"gpu_{module}_executions_total") == 0
        assert value(metrics, f"gpu_{module}_failures_total") == 0
    assert value(metrics, "gpu_crypto_failures_total") == 1


def test_a_fallback_counts_the_same_way_in_every_module() -> None:
    metrics = fresh()
    for module in ("crypto", "merkle", "zk"):
        with metrics.operation(module, size=4) as op:
            op.fall_back("timeout")
        assert value(metrics, f"gpu_{module}_executions_total") == 1
        assert value(metrics, f"gpu_{module}_failures_total") == 1
        assert value(metrics, f"gpu_{module}_cpu_fallback_total") == 1
        assert value(metrics, "gpusight_ops_failures_total", module=module, reason="timeout") == 1
        assert value(metrics, "gpusight_ops_cpu_fallbacks_total", module=module, reason="timeout") == 1


def test_an_exception_in_an_operation_is_counted_and_goes_on() -> None:
    metrics = fresh()
    with pytest.raises(MemoryError), metrics.operation("merkle", size=9, device="GPU-1", backend="metal"):
        raise MemoryError
    assert value(metrics, "gpusight_ops_failures_total", module="merkle", reason="MemoryError") == 1
    assert value(metrics, "gpusight_ops_executions_total", module="merkle", device="GPU-1", backend="metal") == 1
    assert value(metrics, "gpu_merkle_last_tree_size") == 9


def test_an_operation_is_timed_up_to_its_fall_back() -> None:
    clock = ManualClock()
    metrics = GpuMetrics(MetricsConfig(export_interval=0), clock=clock)
    with metrics.operation("zk") as op:
        clock.advance(2.0)
        op.fall_back("device_lost")
        clock.advance(60.0)  # the CPU does the work
    assert value(metrics, "gpu_zk_last_latency_ms") == 2000


def test_the_window_forgets_and_the_lifetime_does_not() -> None:
    clock = ManualClock()
    metrics = GpuMetrics(MetricsConfig(export_interval=0, aggregation_window=60), clock=clock)
    metrics.record_crypto_gpu(1, 0.5, failed=True)
    clock.advance(30)
    metrics.record_crypto_gpu(1, 0.1)
    assert value(metrics, "gpusight_ops_window_executions", module="crypto") == 2
    assert value(metrics, "gpusight_ops_window_latency_avg_seconds", module="crypto") == pytest.approx(0.3)
    clock.advance(40)
    assert value(metrics, "gpusight_ops_window_executions", module="crypto") == 1
    assert value(metrics, "gpusight_ops_window_failures", module="crypto") == 0
    assert value(metrics, "gpusight_ops_window_latency_max_seconds", module="crypto") == pytest.approx(0.1)
    clock.advance(60)
    assert value(metrics, "gpusight_ops_window_executions", module="crypto") is None
    assert value(metrics, "gpu_crypto_latency_max_ms") == 500
    assert value(metrics, "gpusight_ops_window_seconds") == 60


def test_a_buffer_that_spans_slots_lands_in_each_of_them() -> None:
    clock = ManualClock()
    metrics = GpuMetrics(MetricsConfig(export_interval=0, aggregation_window=12), clock=clock)
    for _ in range(24):
        metrics.record_zk_gpu(1, 0.1)
        clock.advance(0.5)
    assert value(metrics, "gpu_zk_executions_total") == 24
    assert value(metrics, "gpusight_ops_window_executions", module="zk") == 22  # the oldest twelfth is gone


def test_a_page_is_reused_for_the_export_interval() -> None:
    clock = ManualClock()
    metrics = GpuMetrics(MetricsConfig(export_interval=timedelta(seconds=15)), clock=clock)
    first = metrics.export_prometheus()
    metrics.record_crypto_gpu(1, 0.1)
    clock.advance(14)
    assert metrics.export_prometheus() is first
    clock.advance(1)
    assert value(metrics, "gpu_total_executions") == 1


def test_histogram_buckets_hold_their_upper_bound() -> None:
    metrics = fresh()
    for latency in (0.001, 0.0011, 50.0):
        metrics.record_crypto_gpu(1, latency)
    assert value(metrics, "gpusight_ops_duration_seconds_bucket", module="crypto", le="0.001") == 1
    assert value(metrics, "gpusight_ops_duration_seconds_bucket", module="crypto", le="0.0025") == 2
    assert value(metrics, "gpusight_ops_duration_seconds_bucket", module="crypto", le="10") == 2
    assert value(metrics, "gpusight_ops_duration_seconds_bucket", module="crypto", le="+Inf") == 3


def test_many_and_few_records_fill_the_same_buckets() -> None:
    latencies = [i * 0.00003 for i in range(999)]
    few, many = fresh(), fresh()
    for latency in latencies:
        few.record_zk_gpu(1, latency)
        few.export_prometheus()
        many.record_zk_gpu(1, latency)
    few_shown, many_shown = samples(few), samples(many)
    assert few_shown.keys() == many_shown.keys()
    for key, shown in few_shown.items():
        if "window" not in key[0]:
            assert shown == pytest.approx(many_shown[key]), key


class TestDevices:
    def test_several_devices_and_none_overwrites_another(self) -> None:
        metrics = fresh()
        metrics.set_device_available(True, "GPU-0:NVIDIA-RTX-4090", backend="vulkan")
        metrics.set_device_available(False, "GPU-1:NVIDIA-RTX-3090")
        metrics.set_device_available(True, "Apple M3")
        assert value(metrics, "gpu_available", device="GPU-0", gpu_device_name="NVIDIA-RTX-4090") == 1
        assert value(metrics, "gpu_available", device="GPU-1", gpu_device_name="NVIDIA-RTX-3090") == 0
        assert value(metrics, "gpu_available", device="GPU-2", gpu_device_name="Apple M3") == 1

    def test_a_device_that_changes_its_state_has_one_series(self) -> None:
        metrics = fresh()
        for available, name in ((True, "GPU-0:A"), (False, "GPU-0:A"), (True, "GPU-0:B")):
            metrics.set_device_available(available, name)
        shown = {k: v for k, v in samples(metrics).items() if k[0] == "gpu_available"}
        assert list(shown.values()) == [1]
        assert value(metrics, "gpu_available", device="GPU-0", gpu_device_name="B") == 1

    def test_work_queue_and_memory_per_device(self) -> None:
        clock = ManualClock()
        metrics = GpuMetrics(MetricsConfig(export_interval=0, aggregation_window=60), clock=clock)
        metrics.set_device_available(True, "GPU-0:A")
        metrics.set_device_available(True, "GPU-1:B")
        for _ in range(3):
            metrics.record_crypto_gpu(1, 1.0, device="GPU-0")
        metrics.record_zk_gpu(1, 1.0, device=1, backend="cuda")
        metrics.set_queue_depth(7, device="GPU-1")
        metrics.set_memory_used(10, total=100, device="GPU-1")
        assert value(metrics, "gpusight_ops_device_executions_total", device="GPU-0") == 3
        assert value(metrics, "gpusight_ops_device_busy_seconds_total", device="GPU-1") == 1
        assert value(metrics, "gpusight_ops_device_busy_ratio", device="GPU-0") == pytest.approx(0.05)
        assert value(metrics, "gpusight_ops_load_imbalance_ratio") == pytest.approx(1.5)
        assert value(metrics, "gpu_queue_depth", device="GPU-1") == 7
        assert value(metrics, "gpu_memory_total_bytes", device="GPU-1") == 100

    def test_a_bare_name_and_its_id_are_one_device(self) -> None:
        metrics = fresh()
        metrics.record_gpu("x", 1, 0.1, device="NVIDIA RTX 4090")
        metrics.set_device_available(True, "NVIDIA RTX 4090")
        metrics.record_gpu("x", 1, 0.1, device="NVIDIA RTX 4090")
        metrics.record_gpu("x", 1, 0.1, device="GPU-0:NVIDIA RTX 4090")
        assert value(metrics, "gpusight_ops_device_executions_total", device="GPU-0") == 3

    def test_consistency_of_cpu_and_gpu(self) -> None:
        metrics = fresh()
        metrics.record_consistency("merkle", True)
        metrics.record_consistency("merkle", 0)  # type: ignore[arg-type]  # numpy's own booleans, say
        assert value(metrics, "gpusight_ops_consistency_checks_total", module="merkle", result="matched") == 1
        assert value(metrics, "gpusight_ops_consistency_checks_total", module="merkle", result="mismatched") == 1


def test_operations_of_many_tasks_at_once() -> None:
    metrics = fresh()

    async def work(number: int) -> None:
        with metrics.operation("render", size=number, device="GPU-0") as op:
            await asyncio.sleep(0.001)
            if number % 4 == 0:
                op.fall_back("timeout")

    async def main() -> None:
        tasks = [asyncio.create_task(work(number)) for number in range(200)]
        forever = asyncio.create_task(work(1))
        forever.cancel()
        await asyncio.gather(*tasks, forever, return_exceptions=True)

    asyncio.run(main())
    assert value(metrics, "gpusight_ops_executions_total", module="render", device="GPU-0") == 200
    assert value(metrics, "gpusight_ops_cpu_fallbacks_total", module="render", reason="timeout") == 50
