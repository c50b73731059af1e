"""Fills the embedded store: scrapes every target at an interval, and lets no target harm another."""

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Protocol

from gpusight.exposition.parser import Limits
from gpusight.model.series import StoreError
from gpusight.model.time import Clock, SystemClock
from gpusight.store.embedded import Batch
from gpusight.store.embedded_series import SeriesRef, Target
from gpusight.store.scrape_target import Scraped, ScrapeTarget, TargetState, keeper

_log = logging.getLogger("gpusight.scrape")

_GATHER = 0.25
"""Seconds for which finished scrapes wait for others, to be written together."""


class Sink(Protocol):
    """What the scraper fills: the embedded store."""

    def ref(self, target: Target, family: str, labels: Mapping[str, str]) -> SeriesRef: ...

    def append(self, batches: Sequence[Batch]) -> Mapping[Target, str]: ...


class Scraper:
    """Scrapes from `start` to `close`, or once by `scrape_once`.

    Targets that failed last time are tried by threads of their own, so that those which hang, however many, never keep
    the others waiting. `interval` is in the clock's seconds, of which `speed` pass in one real second; a target's
    deadline (`HttpConfig.timeout`) is in real ones.
    """

    def __init__(
        self,
        targets: Sequence[ScrapeTarget],
        clock: Clock,
        interval: float,
        sink: Sink,
        *,
        keep: Iterable[str] = (),
        workers: int = 8,
        limits: Limits = Limits(),  # noqa: B008  (immutable)
        speed: float = 1.0,
        wire_clock: Clock = SystemClock(),  # noqa: B008  (has no state)
    ) -> None:
        wanted = keeper(tuple(keep))
        unique = {target.name: target for target in targets}
        if len(unique) < len(targets):
            raise ValueError("two scrape targets have the same job and instance: give one of them another name")
        self._clock = clock
        self._interval = interval
        self._speed = speed
        self._sink = sink
        self._targets = {name: Scraped(each, sink, wanted, limits, wire_clock) for name, each in unique.items()}
        self._healthy = ThreadPoolExecutor(workers, "scrape")
        self._suspect = ThreadPoolExecutor(max(2, workers // 2), "scrape-suspect")
        self._busy: dict[Future[Batch], Target] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._store_error = ""

    @property
    def targets(self) -> list[TargetState]:
        return [target.state for target in self._targets.values()]

    @property
    def store_error(self) -> str:
        """Why the last batch could not be written; empty if it was."""
        return self._store_error

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="scraper", daemon=True)
        self._thread.start()

    def scrape_once(self) -> None:
        """One round, until every target has answered or failed."""
        self._begin()
        while self._busy:
            self._collect(None)

    def close(self) -> None:
        """Stop; scrapes under way end within their deadline, and are not written."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        for pool in (self._healthy, self._suspect):
            pool.shutdown(cancel_futures=True)
        for target in self._targets.values():
            target.close()

    def _run(self) -> None:
        due = self._clock.monotonic()
        while not self._stopping.is_set():
            left = (due - self._clock.monotonic()) / self._speed
            if left <= 0:
                self._begin()
                due = max(due + self._interval, self._clock.monotonic())
            elif self._busy:
                self._collect(left)
            else:
                self._stopping.wait(left)

    def _begin(self) -> None:
        """Send out for every target that is not under way still."""
        under_way = set(self._busy.values())
        for name, target in self._targets.items():
            if name not in under_way:
                pool = self._suspect if target.state.up is False else self._healthy
                self._busy[pool.submit(self._scrape, target)] = name

    def _scrape(self, target: Scraped) -> Batch:
        return target.scrape(self._clock.now())

    def _collect(self, within: float | None) -> None:
        """Write what has come in; what comes shortly after goes along."""
        done, _ = wait(self._busy, within, FIRST_COMPLETED)
        if done:
            done, _ = wait(self._busy, _GATHER if within is None else min(_GATHER, within))
        batches = [self._result(future) for future in done]
        if batches and not self._stopping.is_set():
            self._write(batches)

    def _result(self, future: Future[Batch]) -> Batch:
        name = self._busy.pop(future)
        error = future.exception()
        if error is None:
            return future.result()
        _log.error("scraping %s failed in an unforeseen way", name.instance, exc_info=error)
        self._targets[name].refuse(f"the scrape failed in an unforeseen way: {type(error).__name__}")
        return Batch(name, self._clock.now(), up=False)

    def _write(self, batches: Sequence[Batch]) -> None:
        try:
            refused = self._sink.append(batches)
        except StoreError as error:
            if str(error) != self._store_error:
                _log.error("samples are lost: %s", error)
            self._store_error = str(error)
            return
        if self._store_error:
            _log.info("samples are written again")
        self._store_error = ""
        for name, why in refused.items():
            self._targets[name].refuse(why)
