"""Run collectors side by side, each in a thread of its own, isolated and timed.

One that raises, hangs or returns rubbish costs its own series only: the page says so and shows the others.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gpusight.catalog.own import COLLECTOR_DURATION, COLLECTOR_LAST_SUCCESS, COLLECTOR_SUCCESS
from gpusight.exposition.blocks import FamilyBlock, Rubbish, Sample, check, group
from gpusight.exposition.endpoint import Scrape, ScrapeRequest, UnknownCollector
from gpusight.model.time import Clock

_log = logging.getLogger("gpusight.collectors")


class Collector(Protocol):
    """Something that knows some families."""

    @property
    def name(self) -> str:
        """What `collect[]` and the label `collector` call it."""
        ...

    def collect(self) -> Iterable[Sample | FamilyBlock]:
        """Fresh samples. May block; is given up on after the scrape's deadline."""
        ...


class Outcome(NamedTuple):
    """How one run went; `error` is a sentence when it failed."""

    blocks: Sequence[FamilyBlock]
    took: float
    error: str = ""


@dataclass
class _Runner:
    """One collector and its run under way: never two at once."""

    collector: Collector
    clock: Clock
    under_way: "asyncio.Future[Outcome] | None" = None
    started: float = 0.0
    overdue: bool = False
    last_success: float | None = None
    last_error: str = ""

    async def run(self, within: float) -> Outcome:
        """The outcome of a run that starts now, or of the one under way; one already given up on is not waited for."""
        if self.under_way is None or self.under_way.done():
            self.started, self.overdue = self.clock.monotonic(), False
            self.under_way = _in_thread(self.collector, self.clock)
        if not self.overdue:
            await asyncio.wait([self.under_way], timeout=within)
        outcome = self.under_way.result() if self.under_way.done() else self._give_up()
        self._remember(outcome)
        return outcome

    def _give_up(self) -> Outcome:
        self.overdue = True
        took = self.clock.monotonic() - self.started
        return Outcome((), took, "no answer within the scrape's deadline")

    def _remember(self, outcome: Outcome) -> None:
        if outcome.error and outcome.error != self.last_error:
            _log.warning("collector %s failed: %s", self.collector.name, outcome.error)
        if not outcome.error:
            self.last_success = self.clock.now()
            if self.last_error:
                _log.info("collector %s works again", self.collector.name)
        self.last_error = outcome.error


class CollectorSet:
    """The collectors of one role."""

    def __init__(self, collectors: Iterable[Collector], clock: Clock) -> None:
        self._runners = {c.name: _Runner(c, clock) for c in collectors}

    async def gather(self, request: ScrapeRequest) -> Scrape:
        """One scrape: what the asked collectors have to say, and how each of them did."""
        chosen = self._chosen(request.collectors)
        outcomes = await asyncio.gather(*(runner.run(request.timeout) for runner in chosen))
        blocks = [block for outcome in outcomes for block in outcome.blocks]
        return Scrape(group([*blocks, *_health(chosen, outcomes)]))

    def _chosen(self, names: frozenset[str]) -> list[_Runner]:
        unknown = sorted(names - self._runners.keys())
        if unknown:
            raise UnknownCollector(f"no collector is called {unknown[0]!r}; there are: {', '.join(self._runners)}")
        return [runner for name, runner in self._runners.items() if not names or name in names]


def _in_thread(collector: Collector, clock: Clock) -> "asyncio.Future[Outcome]":
    """A daemon thread per run, not a pool: a pool's hung thread would keep the process from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Outcome] = loop.create_future()

    def run() -> None:
        outcome = _collect(collector, clock)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(_settle, future, outcome)

    threading.Thread(target=run, name=f"collector-{collector.name}", daemon=True).start()
    return future


def _settle(future: "asyncio.Future[Outcome]", outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


def _collect(collector: Collector, clock: Clock) -> Outcome:
    started = clock.monotonic()
    try:
        blocks, error = _checked(collector.collect), ""
    except Exception as exception:
        blocks, error = [], f"{type(exception).__name__}: {exception}"
    return Outcome(blocks, clock.monotonic() - started, error)


def _checked(collect: Callable[[], Iterable[Sample | FamilyBlock]]) -> list[FamilyBlock]:
    items = list(collect())
    if odd := next((item for item in items if not isinstance(item, Sample | FamilyBlock)), None):
        raise Rubbish(f"returned a {type(odd).__name__} where samples were due")
    blocks = group(items)
    for block in blocks:
        check(block)
    return blocks


def _health(runners: Sequence[_Runner], outcomes: Sequence[Outcome]) -> list[FamilyBlock]:
    names = tuple((runner.collector.name,) for runner in runners)
    seen = [runner for runner in runners if runner.last_success is not None]
    return [
        FamilyBlock(COLLECTOR_SUCCESS, names, [int(not outcome.error) for outcome in outcomes]),
        FamilyBlock(COLLECTOR_DURATION, names, [outcome.took for outcome in outcomes]),
        FamilyBlock(
            COLLECTOR_LAST_SUCCESS,
            [(runner.collector.name,) for runner in seen],
            [runner.last_success for runner in seen if runner.last_success is not None],
        ),
    ]
