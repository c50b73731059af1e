"""Run collectors off the event loop, isolated and timed.

One that raises, hangs or returns rubbish costs its own series only: the page says so and shows the others.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from gpusight.catalog.own import COLLECTOR_DURATION, COLLECTOR_LAST_SUCCESS, COLLECTOR_SUCCESS
from gpusight.catalog.spec import FamilySpec
from gpusight.exposition.blocks import FamilyBlock, LabelValues, Rubbish, Sample, check, group
from gpusight.exposition.endpoint import Scrape, ScrapeRequest, UnknownCollector
from gpusight.model.time import Clock

_log = logging.getLogger("gpusight.collectors")
_TURN = 0.02
"""Seconds after which the others no longer wait for a collector to end."""


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


_GoodKeys = dict[FamilySpec, tuple[LabelValues, ...]]
"""The keys that were found good at the last run: a collector that keeps them need not have them checked again."""


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
    good_keys: _GoodKeys = field(default_factory=dict)

    def begin(self) -> bool:
        """Get ready for a run, unless the last one has not ended yet."""
        if self.under_way is not None and not self.under_way.done():
            return False
        self.started, self.overdue = self.clock.monotonic(), False
        self.under_way = asyncio.get_running_loop().create_future()
        return True

    def outcome(self) -> Outcome:
        """Of the run that ended in time, or of one that is given up now; what comes later is old and not taken."""
        ended = self.under_way is not None and self.under_way.done() and not self.overdue
        outcome = self.under_way.result() if self.under_way is not None and ended else self._give_up()
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
        crew = _Crew([runner for runner in chosen if runner.begin()])
        await crew.work([r.under_way for r in chosen if r.under_way and not r.overdue], request.timeout)
        outcomes = [runner.outcome() for runner in chosen]
        blocks = [block for outcome in outcomes for block in outcome.blocks]
        return Scrape(group([*blocks, *_health(chosen, outcomes)]))

    def _chosen(self, names: frozenset[str]) -> list[_Runner]:
        unknown = sorted(names - self._runners.keys())
        if unknown:
            raise UnknownCollector(f"no collector is called {unknown[0]!r}; there are: {', '.join(self._runners)}")
        return [runner for name, runner in self._runners.items() if not names or name in names]


class _Crew:
    """Works through the collectors of one scrape in one thread, and in one more each time that the last seems stuck.

    Daemon threads, not a pool: a pool's hung thread would keep the process from ending. And as few as will do: threads
    that fight for the interpreter cost more than the work.
    """

    def __init__(self, runners: Iterable[_Runner]) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting = deque(runners)
        self._ended: deque[tuple[asyncio.Future[Outcome], Outcome]] = deque()

    async def work(self, runs: Iterable["asyncio.Future[Outcome]"], within: float) -> None:
        """Until all these runs have ended or the time is up."""
        until = self._loop.time() + within
        while pending := [run for run in runs if not run.done()]:
            left = until - self._loop.time()
            if left <= 0:
                return
            if self._waiting:
                threading.Thread(target=self._run, name="collectors", daemon=True).start()
            await asyncio.wait(pending, timeout=min(left, _TURN) if self._waiting else left)
            self._tell()

    def _run(self) -> None:
        while self._waiting:
            try:
                runner = self._waiting.popleft()
            except IndexError:  # another thread was faster
                break
            if runner.under_way is not None:
                self._ended.append((runner.under_way, _collect(runner)))
        with suppress(RuntimeError):  # the loop has ended meanwhile
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        while self._ended:
            future, outcome = self._ended.popleft()
            if not future.done():
                future.set_result(outcome)


def _collect(runner: _Runner) -> Outcome:
    started = runner.clock.monotonic()
    try:
        blocks, error = _checked(runner.collector.collect, runner.good_keys), ""
    except Exception as exception:
        blocks, error = [], f"{type(exception).__name__}: {exception}"
    return Outcome(blocks, runner.clock.monotonic() - started, error)


def _checked(collect: Callable[[], Iterable[Sample | FamilyBlock]], good: _GoodKeys) -> list[FamilyBlock]:
    items = list(collect())
    odd = set(map(type, items)) - {Sample, FamilyBlock}
    if odd:
        raise Rubbish(f"returned {', '.join(sorted(kind.__name__ for kind in odd))} where samples were due")
    blocks = group(items)
    for block in blocks:
        check(block, good.get(block.spec))
    good.clear()
    good.update((block.spec, block.keys) for block in blocks)
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
