"""CPU and GPU times of this machine, measured now, in the form of the guide's tables."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from examples.gpu_ops import cpu, jobs
from examples.gpu_ops.failures import Reason, failure_from
from examples.gpu_ops.gpu import Gpu
from examples.gpu_ops.jobs import Job
from examples.gpu_ops.workload import random_elements, random_leaves, random_messages

RUNS = 3
ENOUGH = 1.0
"""Seconds after which a slow operation is not repeated."""


@dataclass(frozen=True)
class Row:
    label: str
    make: Callable[[Random], Job]


@dataclass(frozen=True)
class Section:
    """One of the tables; the headings are those of its first and third column."""

    title: str
    subject: str
    gpu_heading: str
    rows: Sequence[Row]


@dataclass(frozen=True)
class Timing:
    """Seconds; on the GPU from data in Python to result in Python, `failure` instead where it failed."""

    module: str
    cpu: float
    gpu: float | None = None
    failure: Reason | None = None
    matched: bool | None = None


def sections(*, full: bool) -> list[Section]:
    """The guide's rows; those that take more than a moment only if `full`."""
    leaves = [(1 << 10, "1K"), (1 << 14, "16K"), (1 << 18, "256K")]
    constraints = [(10_000, "10K"), (100_000, "100K"), (1_000_000, "1M")]
    return [
        Section("Crypto", "operation", "GPU (1K batch)", [Row("SHA-256", _sha256), Row("Keccak-256", _keccak256)]),
        Section("Merkle", "tree size", "GPU", [Row(f"{s} leaves", _merkle(n)) for n, s in leaves[: 3 if full else 2]]),
        Section("ZK", "constraints", "GPU", [Row(s, _transform(n)) for n, s in constraints[: 3 if full else 1]]),
    ]


def measured(section: Section, gpu: Gpu | None, rng: Random, stop: threading.Event) -> Iterator[tuple[str, Timing]]:
    for row in section.rows:
        if stop.is_set():
            return
        yield row.label, measure(row.make(rng), gpu)


def measure(job: Job, gpu: Gpu | None) -> Timing:
    """Both sides' best time, and whether they agree; the first run on each side warms up and is not timed."""
    expected = job.on_cpu()
    on_cpu = _best(job.on_cpu)
    if gpu is None:
        return Timing(job.module, on_cpu)
    try:
        matched = gpu.perform(job.on_gpu) == expected
        return Timing(job.module, on_cpu, gpu=_best(lambda: gpu.perform(job.on_gpu)), matched=matched)
    except Exception as error:
        return Timing(job.module, on_cpu, failure=failure_from(error, Reason.OTHER).reason)


def render(section: Section, timings: Sequence[tuple[str, Timing]]) -> str:
    heading = (section.subject, "CPU baseline", section.gpu_heading, "ratio")
    cells = [heading, *[(label, *_cells(timing)) for label, timing in timings]]
    widths = [max(len(row[column]) for row in cells) for column in range(4)]
    lines = [f"| {row[0]:<{widths[0]}} | " + " | ".join(map(str.rjust, row[1:], widths[1:])) + " |" for row in cells]
    rule = f"|-{'-' * widths[0]}-|" + "".join(f"-{'-' * width}:|" for width in widths[1:])
    return "\n".join([section.title, "", lines[0], rule, *lines[1:]])


def notes(gpu: Gpu | None) -> list[str]:
    """What the numbers are, and what they are not."""
    lines = [
        f"Measured in this run, best of up to {RUNS} runs after a warm-up.",
        f"CPU: one thread; hashlib, Keccak by {cpu.KECCAK_WITH}, transforms with Python integers.",
        "ZK: one forward NTT over the scalar field of BLS12-381, padded to a power of two.",
    ]
    if gpu is not None:
        lines.append(f"GPU: {gpu.adapter.name} ({gpu.adapter.backend}), transfers included, compiling not.")
    if gpu is not None and gpu.adapter.is_cpu:
        lines.append('This "GPU" is a CPU that runs the shaders: no claim about speed follows from these ratios.')
    return lines


def _sha256(rng: Random) -> Job:
    return jobs.sha256(random_messages(rng, 1_000))


def _keccak256(rng: Random) -> Job:
    return jobs.keccak256(random_messages(rng, 1_000))


def _merkle(leaves: int) -> Callable[[Random], Job]:
    return lambda rng: jobs.merkle(random_leaves(rng, leaves))


def _transform(constraints: int) -> Callable[[Random], Job]:
    return lambda rng: jobs.transform(random_elements(rng, constraints))


def _best(work: Callable[[], object]) -> float:
    times: list[float] = []
    while len(times) < RUNS and sum(times) < ENOUGH:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def _cells(timing: Timing) -> tuple[str, str, str]:
    if timing.gpu is None:
        return _milliseconds(timing.cpu), timing.failure or "none", "-"
    return _milliseconds(timing.cpu), _milliseconds(timing.gpu), f"{timing.cpu / timing.gpu:.2f}x"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds * 1e3:.0f} ms"
