"""What blocks runs in threads, so many per kind and so long: a store that hangs costs its own lane only."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, TypeVar

T = TypeVar("T")
Lane = Literal["compute", "store", "journal", "change", "replay"]


class Busy(Exception):  # noqa: N818  (said of the program, not of a defect)
    """No room for one more."""


class TooSlow(Exception):  # noqa: N818
    """The deadline passed; the message says whose."""


class LaneLimits(NamedTuple):
    """Threads, callers that may wait for one of them, and seconds until a caller gives up."""

    threads: int
    waiting: int
    deadline: float
    whose: str


LANES: dict[Lane, LaneLimits] = {
    "compute": LaneLimits(2, 256, 30.0, "Preparing the answer"),
    "store": LaneLimits(4, 16, 15.0, "The store of samples"),
    "journal": LaneLimits(4, 64, 15.0, "The journal"),
    "change": LaneLimits(1, 8, 15.0, "Keeping the change"),
    "replay": LaneLimits(1, 2, 120.0, "The replay"),
}


class Workers:
    """Threads by lane. What ran out of time keeps its thread until it ends by itself."""

    def __init__(self, lanes: dict[Lane, LaneLimits] | None = None) -> None:
        self._lanes = {name: _Worker(name, limits) for name, limits in (lanes or LANES).items()}

    async def run(self, lane: Lane, work: Callable[[], T]) -> T:
        """Raises Busy and TooSlow, and what the work raises."""
        return await self._lanes[lane].run(work)

    def close(self) -> None:
        """Let go of the threads; whoever comes after gets new ones."""
        for worker in self._lanes.values():
            worker.close()


class _Worker:
    def __init__(self, name: str, limits: LaneLimits) -> None:
        self._name = name
        self._limits = limits
        self._pool: ThreadPoolExecutor | None = None
        self._under_way = 0
        self._lock = threading.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        if self._under_way >= self._limits.threads + self._limits.waiting:
            raise Busy
        job = self._submit(work)
        future = asyncio.wrap_future(job)
        future.add_done_callback(_look_at)
        try:
            async with asyncio.timeout(self._limits.deadline):
                return await asyncio.shield(future)
        except TimeoutError:
            if future.done() and not future.cancelled():
                raise  # the work's own
            job.cancel()  # if it has not begun
            raise TooSlow(f"{self._limits.whose} did not answer within {self._limits.deadline:g} seconds") from None

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._limits.threads, thread_name_prefix=f"gpusight-{self._name}")
        job = self._pool.submit(work)
        with self._lock:
            self._under_way += 1
        job.add_done_callback(self._count_down)
        return job

    def _count_down(self, _done: object) -> None:
        with self._lock:
            self._under_way -= 1


def _look_at(future: "asyncio.Future[Any]") -> None:
    """The caller may have left, and nobody else would ask what became of it."""
    if not future.cancelled():
        future.exception()
