"""Which side does a job, and what the metrics say about it: needs no GPU."""

from types import SimpleNamespace
from typing import Any

import pytest

from examples.gpu_ops.device import DeviceSlot, no_gpu
from examples.gpu_ops.failures import Reason
from examples.gpu_ops.jobs import Job
from examples.gpu_ops.runner import THRESHOLDS, Outcome, Runner
from gpusight.instrument import GpuMetrics
from tests.examples.conftest import Value


class StandIn:
    """A device that does what it is told."""

    adapter = SimpleNamespace(device="GPU-0:stand-in", backend="none", name="stand-in", driver="")

    def perform(self, work: Any, timeout: float | None = None) -> Any:
        return work(self)

    def close(self) -> None:
        pass


def quiet(_line: str) -> None:
    pass


def stand_in() -> Any:
    return StandIn()


def job(module: str, size: int, on_gpu: str = "right") -> Job:
    return Job(module, "a job", size, on_cpu=lambda: "right", on_gpu=lambda _gpu: on_gpu)


def runner(metrics: GpuMetrics, opener: Any = stand_in, **options: Any) -> Runner:
    return Runner(metrics, DeviceSlot(metrics, opener, say=quiet), say=quiet, **options)


@pytest.mark.parametrize(("module", "smallest"), [("crypto", 10), ("merkle", 1_024), ("zk", 10_000)])
def test_the_default_thresholds(metrics: GpuMetrics, value: Value, module: str, smallest: int) -> None:
    """The guide's sizes: from them on the GPU, below them the CPU, which is no failure but a fallback."""
    routed = [runner(metrics).run(job(module, size)).cpu_reason for size in (smallest - 1, smallest)]
    assert routed == [Reason.BELOW_THRESHOLD, None]
    assert value(f"gpu_{module}_executions_total") == 1
    assert value(f"gpu_{module}_failures_total") == 0
    assert value(f"gpu_{module}_cpu_fallback_total") == 1
    assert value("gpusight_ops_cpu_fallbacks_total", module=module, reason="below_threshold") == 1


def test_thresholds_can_be_set(metrics: GpuMetrics) -> None:
    own = runner(metrics, thresholds={**THRESHOLDS, "crypto": 3})
    assert [own.run(job("crypto", size)).cpu_reason for size in (2, 3)] == [Reason.BELOW_THRESHOLD, None]


def test_without_a_device_everything_falls_back(metrics: GpuMetrics, value: Value) -> None:
    own = runner(metrics, opener=no_gpu)
    outcomes = [own.run(job(module, 20_000)) for module in THRESHOLDS]
    assert outcomes == [Outcome("right", Reason.DEVICE_UNAVAILABLE)] * 3
    assert value("gpu_cpu_fallback_rate") == 1
    assert value("gpu_available", device="GPU-0") == 0
    assert value("gpu_total_executions") == 0


def test_every_nth_result_of_a_module_is_compared(metrics: GpuMetrics, value: Value) -> None:
    own = runner(metrics, check_every=3)
    for _ in range(7):
        own.run(job("crypto", 10))
    own.run(job("zk", 10_000))
    assert value("gpusight_ops_consistency_checks_total", module="crypto", result="matched") == 2
    assert value("gpusight_ops_consistency_checks_total", module="zk") == 0


def test_a_wrong_result_is_counted_and_not_used(metrics: GpuMetrics, value: Value) -> None:
    own = runner(metrics, check_every=1)
    assert own.run(job("crypto", 10, on_gpu="wrong")).result == "right"
    assert own.mismatches == 1
    assert value("gpusight_ops_consistency_checks_total", module="crypto", result="mismatched") == 1


def test_an_error_of_the_gpu_side_does_not_come_through(metrics: GpuMetrics, value: Value) -> None:
    """Not even one that nobody thought of."""
    broken = Job("zk", "a job", 10_000, on_cpu=lambda: "right", on_gpu=lambda _gpu: 1 / 0)
    assert runner(metrics).run(broken) == Outcome("right", Reason.OTHER)
    assert value("gpusight_ops_failures_total", module="zk", reason="other") == 1


def test_jobs_are_tallied_by_side(metrics: GpuMetrics) -> None:
    own = runner(metrics)
    for size in (1, 10, 11):
        own.run(job("crypto", size))
    assert own.done == {("crypto", Reason.BELOW_THRESHOLD): 1, ("crypto", None): 2}
