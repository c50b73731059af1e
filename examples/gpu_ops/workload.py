"""Random jobs, and a queue that brings them to the runner at a steady rate."""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count, cycle
from random import Random

from examples.gpu_ops import jobs
from examples.gpu_ops.device import DEVICE
from examples.gpu_ops.failures import Reason
from examples.gpu_ops.faults import with_fault
from examples.gpu_ops.field import ELEMENT_BYTES, MODULUS
from examples.gpu_ops.jobs import Job
from examples.gpu_ops.runner import Runner
from gpusight.instrument import GpuMetrics

QUEUE_LIMIT = 200
"""Jobs that wait at most; then the producer waits too."""

_PATIENCE = 0.2
"""Seconds after which a waiting thread looks whether it should stop."""


def seeded(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - the same work in each run is wanted


def random_messages(rng: Random, number: int) -> list[bytes]:
    return [rng.randbytes(rng.randrange(300)) for _ in range(number)]


def random_leaves(rng: Random, number: int) -> list[bytes]:
    return [rng.randbytes(32) for _ in range(number)]


def random_elements(rng: Random, number: int) -> list[int]:
    return [int.from_bytes(rng.randbytes(ELEMENT_BYTES), "little") % MODULUS for _ in range(number)]


@dataclass(frozen=True)
class Kind:
    """A kind of job and the sizes it comes in: from `small`, some of them below the default threshold, to `large`."""

    make: Callable[[Random, int], Job]
    small: int
    large: int


KINDS: Sequence[Kind] = (
    Kind(lambda rng, size: jobs.sha256(random_messages(rng, size)), 6, 2_048),
    Kind(lambda rng, size: jobs.keccak256(random_messages(rng, size)), 6, 2_048),
    Kind(lambda rng, size: jobs.merkle(random_leaves(rng, size)), 900, 16_384),
    Kind(lambda rng, size: jobs.transform(random_elements(rng, size)), 9_500, 30_000),
)


def random_jobs(rng: Random, faults: Sequence[Reason], fault_every: int) -> Iterator[Job]:
    """Jobs for ever; each `fault_every`-th meets the next of the faults (0: none does)."""
    coming = cycle(faults)
    for number in count(1):
        kind = rng.choice(KINDS)
        if faults and fault_every and number % fault_every == 0:
            yield with_fault(kind.make(rng, kind.large), next(coming))
        else:
            yield kind.make(rng, _size(rng, kind))


def _size(rng: Random, kind: Kind) -> int:
    """Small sizes are as frequent as large ones, octave by octave."""
    return int(kind.small * (kind.large / kind.small) ** rng.random())


class Line:
    """The jobs that wait for the device; its length is the queue depth in the metrics."""

    def __init__(self, metrics: GpuMetrics, limit: int = QUEUE_LIMIT) -> None:
        self._metrics = metrics
        self._waiting: queue.Queue[Job] = queue.Queue(limit)

    def __len__(self) -> int:
        return self._waiting.qsize()

    def put(self, job: Job, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self._waiting.put(job, timeout=_PATIENCE)
                break
            except queue.Full:
                continue
        self._report()

    def take(self) -> Job | None:
        """The next job; None if there was none for a moment."""
        try:
            job = self._waiting.get(timeout=_PATIENCE)
        except queue.Empty:
            return None
        self._report()
        return job

    def _report(self) -> None:
        self._metrics.set_queue_depth(len(self), device=DEVICE)


def run_fixed(runner: Runner, line: Line, work: Sequence[Job]) -> None:
    """Queue all of the work, for which the line must be long enough, then do it."""
    for job in work:
        line.put(job, threading.Event())
    while (waiting := line.take()) is not None:
        runner.run(waiting)


def run_paced(
    runner: Runner, line: Line, work: Iterator[Job], gaps: Iterator[float], duration: float, stop: threading.Event
) -> None:
    """Queue one job after each gap, while another thread does them, for `duration` seconds (0: until `stop`)."""
    with ThreadPoolExecutor(1, thread_name_prefix="gpu-worker") as pool:
        working = pool.submit(_consume, runner, line, stop)
        _produce(line, work, gaps, time.monotonic() + duration if duration else None, stop)
        stop.set()
        working.result()


def random_gaps(rng: Random, rate: float) -> Iterator[float]:
    """Seconds between arrivals that come `rate` per second on average, independent of each other."""
    while True:
        yield rng.expovariate(rate)


def _produce(line: Line, work: Iterator[Job], gaps: Iterator[float], end: float | None, stop: threading.Event) -> None:
    due = time.monotonic()
    for gap in gaps:
        due += gap
        wake = due if end is None else min(due, end)
        if stop.wait(max(0.0, wake - time.monotonic())) or wake == end:
            return
        line.put(next(work), stop)


def _consume(runner: Runner, line: Line, stop: threading.Event) -> None:
    try:
        while not stop.is_set():
            job = line.take()
            if job is not None:
                runner.run(job)
    finally:
        stop.set()  # an unforeseen error ends the producer too
