"""The jobs that come, and the queue that they wait in."""

import threading
from collections.abc import Iterator
from itertools import islice, repeat
from random import Random
from typing import Any

import pytest

from examples.gpu_ops.failures import Reason
from examples.gpu_ops.faults import FAULTS
from examples.gpu_ops.jobs import Job
from examples.gpu_ops.runner import THRESHOLDS
from examples.gpu_ops.workload import Line, random_gaps, random_jobs, run_fixed, run_paced
from gpusight.instrument import GpuMetrics
from tests.examples.conftest import Value


class Recorder:
    """A runner that only remembers."""

    def __init__(self, stop_after: int = 0, stop: threading.Event | None = None) -> None:
        self.seen: list[Job] = []
        self._stop_after = stop_after
        self._stop = stop

    def run(self, job: Job) -> None:
        self.seen.append(job)
        if self._stop is not None and len(self.seen) >= self._stop_after:
            self._stop.set()


def some_jobs(seed: int, count: int, fault_every: int = 0) -> list[Job]:
    return list(islice(random_jobs(Random(seed), tuple(FAULTS), fault_every), count))


def endless() -> Iterator[Job]:
    return repeat(Job("crypto", "a job", 10, on_cpu=lambda: 1, on_gpu=lambda _gpu: 1))


def key(job: Job) -> tuple[str, int, object]:
    return job.title, job.size, job.on_cpu()


def test_a_seed_gives_the_same_jobs_again() -> None:
    assert list(map(key, some_jobs(5, 4))) == list(map(key, some_jobs(5, 4)))
    assert list(map(key, some_jobs(5, 4))) != list(map(key, some_jobs(6, 4)))


def test_all_modules_come_on_both_sides_of_their_threshold() -> None:
    sides = {(job.module, job.size >= THRESHOLDS[job.module]) for job in some_jobs(1, 250)}
    assert sides == {(module, side) for module in THRESHOLDS for side in (True, False)}


def test_each_nth_job_meets_a_fault_that_reaches_the_gpu() -> None:
    jobs = some_jobs(1, 12, fault_every=3)
    faulty = [number for number, job in enumerate(jobs, 1) if getattr(job.on_gpu, "func", None) in FAULTS.values()]
    assert faulty == [3, 6, 9, 12]
    assert all(jobs[number - 1].size >= THRESHOLDS[jobs[number - 1].module] for number in faulty)


def test_faults_come_in_turn() -> None:
    met = [job.on_gpu.func for job in some_jobs(1, 4, fault_every=1)]  # type: ignore[attr-defined]
    assert met == list(FAULTS.values())
    assert FAULTS.keys() == {Reason.SHADER_COMPILE, Reason.BUFFER_ALLOCATION, Reason.DEVICE_LOST, Reason.TIMEOUT}


def test_gaps_have_the_rate() -> None:
    gaps = list(islice(random_gaps(Random(1), rate=20), 4000))
    assert sum(gaps) / len(gaps) == pytest.approx(1 / 20, rel=0.1)


def test_the_queue_depth_is_what_waits(metrics: GpuMetrics, value: Value) -> None:
    line = Line(metrics)
    for job in islice(endless(), 3):
        line.put(job, threading.Event())
    assert value("gpu_queue_depth", device="GPU-0") == 3
    line.take()
    assert value("gpu_queue_depth", device="GPU-0") == 2


def test_a_full_queue_lets_go_when_told_to_stop(metrics: GpuMetrics) -> None:
    line = Line(metrics, limit=1)
    stop = threading.Event()
    stop.set()
    line.put(next(endless()), threading.Event())
    line.put(next(endless()), stop)
    assert len(line) == 1


def test_a_fixed_run_does_all_work(metrics: GpuMetrics) -> None:
    recorder: Any = Recorder()
    run_fixed(recorder, Line(metrics), list(islice(endless(), 30)))
    assert len(recorder.seen) == 30


def test_a_paced_run_ends_when_told(metrics: GpuMetrics) -> None:
    stop = threading.Event()
    recorder: Any = Recorder(5, stop)
    run_paced(recorder, Line(metrics), endless(), repeat(0.001), 0, stop)
    assert len(recorder.seen) == 5


def test_a_paced_run_ends_in_time(metrics: GpuMetrics) -> None:
    recorder: Any = Recorder()
    line = Line(metrics)
    run_paced(recorder, line, endless(), repeat(0.01), 0.1, threading.Event())
    assert 0 < len(recorder.seen) + len(line) <= 10


def test_an_unforeseen_error_ends_the_run_and_shows(metrics: GpuMetrics) -> None:
    class Broken:
        def run(self, job: Job) -> None:
            raise ZeroDivisionError

    broken: Any = Broken()
    with pytest.raises(ZeroDivisionError):
        run_paced(broken, Line(metrics), endless(), repeat(0.001), 0, threading.Event())
