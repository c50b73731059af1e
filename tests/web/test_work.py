"""Lanes: bounded, with a deadline, and none holds up another."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from gpusight.web.work import Busy, Lane, LaneLimits, TooSlow, Workers

NOTHING: dict[str, int] = {}


def run(scenario: Callable[[Workers], Awaitable[None]], **limits: float) -> None:
    given = {"threads": 1, "waiting": 1, "deadline": 5.0, "whose": "The test"} | limits
    lanes: dict[Lane, LaneLimits] = {name: LaneLimits(**given) for name in ("store", "journal")}  # type: ignore[arg-type]

    async def main() -> None:
        workers = Workers(lanes)
        try:
            async with asyncio.timeout(10):
                await scenario(workers)
        finally:
            workers.close()

    asyncio.run(main())


def test_what_the_work_answers_and_raises_comes_back() -> None:
    async def scenario(workers: Workers) -> None:
        assert await workers.run("store", lambda: 5) == 5
        with pytest.raises(KeyError):
            await workers.run("store", lambda: NOTHING["x"])
        with pytest.raises(TimeoutError):
            await workers.run("store", _time_out)

    run(scenario)


def _time_out() -> None:
    raise TimeoutError("the work's own")


def test_a_full_lane_refuses_and_the_other_goes_on() -> None:
    release = threading.Event()

    async def scenario(workers: Workers) -> None:
        held = [asyncio.create_task(workers.run("store", release.wait)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await workers.run("store", lambda: 1)
        assert await workers.run("journal", lambda: 1) == 1
        release.set()
        assert await asyncio.gather(*held) == [True, True]
        assert await workers.run("store", lambda: 2) == 2

    run(scenario)


def test_a_deadline_frees_the_caller_and_what_had_not_begun() -> None:
    release = threading.Event()
    begun: list[int] = []

    async def scenario(workers: Workers) -> None:
        slow = asyncio.create_task(workers.run("store", release.wait))
        waiting = asyncio.create_task(workers.run("store", lambda: begun.append(1)))
        for task in (slow, waiting):
            with pytest.raises(TooSlow, match=r"The test did not answer within 0\.1 seconds"):
                await task
        release.set()
        while True:  # until the thread is free again
            with suppress(Busy, TooSlow):
                assert await workers.run("store", lambda: 3) == 3
                break

    run(scenario, deadline=0.1)
    assert begun == []


def test_a_closed_lane_opens_again() -> None:
    async def scenario(workers: Workers) -> None:
        assert await workers.run("store", lambda: 1) == 1
        workers.close()
        assert await workers.run("store", lambda: 2) == 2

    run(scenario)
