"""Collectors run isolated and timed."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from gpusight.catalog.own import COLLECTOR_DURATION, COLLECTOR_LAST_SUCCESS, COLLECTOR_SUCCESS
from gpusight.collectors.run import CollectorSet
from gpusight.exposition.blocks import FamilyBlock, Sample
from gpusight.exposition.endpoint import Scrape, ScrapeRequest, UnknownCollector
from gpusight.model.time import ManualClock, SystemClock
from tests.exposition.test_text import spec

GAUGE = spec("a", labels=("x",))


class Fake:
    def __init__(self, name: str, collect: Callable[[], Any]) -> None:
        self.name = name
        self.collect = collect


def good() -> Iterable[Sample]:
    return [Sample(GAUGE, ("good",), 1)]


def boom() -> Iterable[Sample]:
    raise OSError("the driver is gone")


def broken_halfway() -> Iterable[Sample]:
    yield Sample(GAUGE, ("half",), 1)
    raise ValueError("then it broke")


def request(*collectors: str, timeout: float = 5.0) -> ScrapeRequest:
    return ScrapeRequest(names=frozenset(), collectors=frozenset(collectors), timeout=timeout)


def gather(*collectors: Fake, timeout: float = 5.0) -> dict[tuple[str, Any], Any]:
    return shown(asyncio.run(CollectorSet(collectors, SystemClock()).gather(request(timeout=timeout))))


def shown(scrape: Scrape) -> dict[tuple[str, Any], Any]:
    return {
        (block.spec.name, key): value
        for block in scrape.blocks
        for key, value in zip(block.keys, block.values, strict=True)
    }


@pytest.mark.parametrize(
    "bad",
    [
        boom,
        broken_halfway,
        lambda: None,
        lambda: [1, 2],
        lambda: ["# TYPE forged gauge"],
        lambda: [Sample(GAUGE, ("a", "b"), 1)],
        lambda: [Sample(GAUGE, ("a",), "12")],  # type: ignore[arg-type]
    ],
)
def test_a_bad_collector_costs_its_own_series_only(bad: Callable[[], Any], caplog: pytest.LogCaptureFixture) -> None:
    page = gather(Fake("good", good), Fake("bad", bad))
    assert page["a", ("good",)] == 1
    assert page[COLLECTOR_SUCCESS.name, ("good",)] == 1
    assert page[COLLECTOR_SUCCESS.name, ("bad",)] == 0
    assert (COLLECTOR_LAST_SUCCESS.name, ("bad",)) not in page
    assert len([key for key in page if key[0] == "a"]) == 1
    assert "collector bad failed" in caplog.text


def test_a_hanging_collector_is_given_up_on_and_never_started_twice() -> None:
    release, starts = threading.Event(), []

    def hang() -> Iterable[Sample]:
        starts.append(1)
        release.wait(10)
        return good()

    async def scenario() -> list[dict[tuple[str, Any], Any]]:
        collectors = CollectorSet([Fake("slow", hang), Fake("good", good)], SystemClock())
        pages = [shown(await collectors.gather(request(timeout=0.05))) for _ in range(3)]
        release.set()
        while not pages[-1][COLLECTOR_SUCCESS.name, ("slow",)]:
            pages.append(shown(await collectors.gather(request(timeout=1))))
        return pages

    pages = asyncio.run(scenario())
    assert [page[COLLECTOR_SUCCESS.name, ("slow",)] for page in pages[:3]] == [0, 0, 0]
    assert all(page[COLLECTOR_SUCCESS.name, ("good",)] == 1 for page in pages)
    assert pages[2][COLLECTOR_DURATION.name, ("slow",)] >= pages[0][COLLECTOR_DURATION.name, ("slow",)]
    assert len(starts) == 2  # the one that hung, and the one after it came back


def test_only_the_asked_collectors_run() -> None:
    async def scenario() -> Scrape:
        return await CollectorSet([Fake("good", good), Fake("bad", boom)], SystemClock()).gather(request("good"))

    assert (COLLECTOR_SUCCESS.name, ("bad",)) not in shown(asyncio.run(scenario()))


def test_an_unknown_collector_is_named() -> None:
    collectors = CollectorSet([Fake("good", good)], SystemClock())
    with pytest.raises(UnknownCollector, match="'nope'; there are: good"):
        asyncio.run(collectors.gather(request("nope")))


def test_success_and_recovery_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "gpusight.collectors")
    answers: list[Callable[[], Any]] = [boom, boom, good, good]
    clock = ManualClock(now=1000.0)

    def moody() -> Any:
        return answers.pop(0)()

    async def scenario() -> dict[tuple[str, Any], Any]:
        collectors = CollectorSet([Fake("moody", moody)], clock)
        for _ in range(3):
            await collectors.gather(request())
        return shown(await collectors.gather(request()))

    page = asyncio.run(scenario())
    assert page[COLLECTOR_LAST_SUCCESS.name, ("moody",)] == 1000.0
    assert [record.getMessage() for record in caplog.records] == [
        "collector moody failed: OSError: the driver is gone",
        "collector moody works again",
    ]


def test_keys_that_were_good_are_not_looked_at_again_but_values_and_other_keys_are() -> None:
    keys: Any = (("x",),)
    values: list[Any] = [1]
    collector = Fake("c", lambda: [FamilyBlock(GAUGE, keys, tuple(values))])
    collectors = CollectorSet([collector], SystemClock())
    success = (COLLECTOR_SUCCESS.name, ("c",))
    told = []
    for value, new_keys in ((1, keys), (2, keys), ("rubbish", keys), (3, ((7,),)), (4, keys)):
        values[:], keys = [value], new_keys
        told.append(shown(asyncio.run(collectors.gather(request())))[success])
    assert told == [1, 1, 0, 0, 1]
