"""Sends each job to the GPU or the CPU, and tells the metrics what happened."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from examples.gpu_ops.device import DEVICE, DeviceSlot
from examples.gpu_ops.failures import GpuFailure, Reason, failure_from
from examples.gpu_ops.gpu import Gpu
from examples.gpu_ops.jobs import Job
from gpusight.instrument import GpuMetrics

THRESHOLDS: Mapping[str, int] = {"crypto": 10, "merkle": 1024, "zk": 10_000}
"""The smallest size that goes to the GPU, by module."""


@dataclass(frozen=True)
class Outcome:
    """What came out, and why the CPU did it if it did."""

    result: object
    cpu_reason: Reason | None = None


class Runner:
    """Routes, falls back, and compares every `check_every`-th GPU result of a module with the CPU's (0: none)."""

    def __init__(
        self,
        metrics: GpuMetrics,
        slot: DeviceSlot,
        *,
        thresholds: Mapping[str, int] = THRESHOLDS,
        check_every: int = 5,
        say: Callable[[str], None] = print,
    ) -> None:
        self._metrics = metrics
        self._slot = slot
        self._thresholds = thresholds
        self._check_every = check_every
        self._say = say
        self._finished: Counter[str] = Counter()
        self.done: Counter[tuple[str, Reason | None]] = Counter()
        """Jobs by module and by why the CPU did them; None is the GPU's share."""
        self.mismatches = 0

    def run(self, job: Job) -> Outcome:
        outcome = self._route(job)
        self.done[job.module, outcome.cpu_reason] += 1
        return outcome

    def _route(self, job: Job) -> Outcome:
        if job.size < self._thresholds[job.module]:
            return self._without_gpu(job, Reason.BELOW_THRESHOLD)
        gpu = self._slot.current()
        if gpu is None:
            return self._without_gpu(job, Reason.DEVICE_UNAVAILABLE)
        return self._with_gpu(job, gpu)

    def _without_gpu(self, job: Job, reason: Reason) -> Outcome:
        self._metrics.record_cpu_fallback(job.module, job.size, reason=reason)
        return Outcome(job.on_cpu(), reason)

    def _with_gpu(self, job: Job, gpu: Gpu) -> Outcome:
        attempt = self._attempt(job, gpu)
        if isinstance(attempt, GpuFailure):
            return Outcome(job.on_cpu(), attempt.reason)
        return Outcome(self._checked(job, attempt))

    def _attempt(self, job: Job, gpu: Gpu) -> object:
        backend = gpu.adapter.backend
        with self._metrics.operation(job.module, size=job.size, device=DEVICE, backend=backend) as operation:
            try:
                return gpu.perform(job.on_gpu, job.patience)
            except Exception as error:
                failure = failure_from(error, Reason.OTHER)
                operation.fall_back(failure.reason)
        self._note(job, failure)
        return failure

    def _note(self, job: Job, failure: GpuFailure) -> None:
        self._say(f"{job.title} of {job.size}: {failure.reason} ({failure}); the CPU does it.")
        if failure.reason is Reason.DEVICE_LOST:
            self._slot.lost()

    def _checked(self, job: Job, result: object) -> object:
        """The result; where it was compared and wrong, the CPU's instead."""
        self._finished[job.module] += 1
        if not self._check_every or self._finished[job.module] % self._check_every:
            return result
        expected = job.on_cpu()
        matched = result == expected
        self._metrics.record_consistency(job.module, matched)
        if not matched:
            self.mismatches += 1
            self._say(f"{job.title} of {job.size}: the GPU's result is wrong; the CPU's is used.")
        return expected
