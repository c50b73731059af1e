"""Real errors of wgpu: each gets its reason, the CPU does the work, the program goes on."""

import sys
from functools import partial
from random import Random

import pytest

from examples.gpu_ops import kernels
from examples.gpu_ops.device import DeviceSlot, gpu_opener
from examples.gpu_ops.failures import GpuFailure, Reason, failure_from
from examples.gpu_ops.faults import FAULTS, with_fault
from examples.gpu_ops.gpu import Gpu
from examples.gpu_ops.jobs import Job, merkle
from examples.gpu_ops.runner import Runner
from examples.gpu_ops.workload import random_leaves
from gpusight.instrument import GpuMetrics
from tests.examples.conftest import Value

HARMLESS = (Reason.SHADER_COMPILE, Reason.BUFFER_ALLOCATION, Reason.TIMEOUT)


def quiet(_line: str) -> None:
    pass


def tree(leaves: int = 1024) -> Job:
    return merkle(random_leaves(Random(1), leaves))


def runner_on(gpu: Gpu, metrics: GpuMetrics) -> Runner:
    return Runner(metrics, DeviceSlot(metrics, lambda: gpu, say=quiet), check_every=0, say=quiet)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError("late"), Reason.TIMEOUT),
        (MemoryError("full"), Reason.BUFFER_ALLOCATION),
        (RuntimeError("Caused by:\n  Parent device is lost"), Reason.DEVICE_LOST),
        (RuntimeError("anything else"), Reason.OTHER),
        (GpuFailure(Reason.SHADER_COMPILE, "known already"), Reason.SHADER_COMPILE),
    ],
)
def test_errors_have_reasons(error: Exception, reason: Reason) -> None:
    assert failure_from(error, Reason.OTHER).reason is reason


def test_an_error_without_a_message_has_one() -> None:
    assert str(failure_from(AssertionError(), Reason.OTHER)) == "AssertionError: no message"


@pytest.mark.parametrize("fault", HARMLESS)
def test_wgpu_really_fails(gpu: Gpu, fault: Reason) -> None:
    broken = with_fault(tree(), fault)
    with pytest.raises(GpuFailure) as caught:
        gpu.perform(broken.on_gpu, broken.patience)
    assert caught.value.reason is fault


def test_the_message_says_what_was_wrong(gpu: Gpu) -> None:
    with pytest.raises(GpuFailure, match="the type of `whole` is expected to be `u32`"):
        gpu.perform(with_fault(tree(), Reason.SHADER_COMPILE).on_gpu)


def test_an_unexpected_error_is_a_failure_too(gpu: Gpu) -> None:
    with pytest.raises(GpuFailure) as caught:
        gpu.perform(lambda gpu: gpu.run([], result=None))  # type: ignore[arg-type]
    assert caught.value.reason is Reason.OTHER


@pytest.mark.parametrize("fault", HARMLESS)
def test_the_device_works_after_a_fault(gpu: Gpu, fault: Reason) -> None:
    broken = with_fault(tree(), fault)
    with pytest.raises(GpuFailure):
        gpu.perform(broken.on_gpu, broken.patience)
    assert gpu.perform(tree().on_gpu) == tree().on_cpu()


@pytest.mark.parametrize("fault", FAULTS)
def test_the_cpu_does_what_the_gpu_cannot(spare_gpu: Gpu, metrics: GpuMetrics, value: Value, fault: Reason) -> None:
    """One failed execution and one fallback, both with the reason; the result is right."""
    outcome = runner_on(spare_gpu, metrics).run(with_fault(tree(), fault))
    assert (outcome.result, outcome.cpu_reason) == (tree().on_cpu(), fault)
    assert value("gpu_merkle_executions_total") == 1
    assert value("gpu_merkle_failures_total") == 1
    assert value("gpusight_ops_failures_total", module="merkle", reason=fault) == 1
    assert value("gpusight_ops_cpu_fallbacks_total", module="merkle", reason=fault) == 1


def test_a_lost_device_is_opened_again(metrics: GpuMetrics, value: Value, gpu: Gpu) -> None:
    now = [0.0]
    slot = DeviceSlot(metrics, gpu_opener(metrics, 30), say=quiet, reopen_after=5, clock=lambda: now[0])
    runner = Runner(metrics, slot, check_every=1, say=quiet)
    reasons = [runner.run(with_fault(tree(), Reason.DEVICE_LOST)).cpu_reason, runner.run(tree()).cpu_reason]
    assert reasons == [Reason.DEVICE_LOST, Reason.DEVICE_UNAVAILABLE]
    assert value("gpu_available", device="GPU-0") == 0
    now[0] = 5.0
    assert runner.run(tree()).cpu_reason is None
    assert value("gpu_available", device="GPU-0") == 1
    assert value("gpusight_ops_consistency_checks_total", module="merkle", result="matched") == 1
    slot.close()


def test_buffers_are_counted_and_given_back(metrics: GpuMetrics, value: Value, gpu: Gpu) -> None:
    seen: list[int] = []
    spare = Gpu.open(30, seen.append)
    spare.perform(partial(kernels.merkle_nodes, leaves=random_leaves(Random(1), 64)))
    assert max(seen) >= 2 * 127 * 32  # all nodes, and their way back
    assert seen[-1] == 0
    spare.close()


def test_without_wgpu_there_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wgpu", None)
    with pytest.raises(GpuFailure) as caught:
        Gpu.open()
    assert caught.value.reason is Reason.DEVICE_UNAVAILABLE
