"""Runs rounds: reads the store, has the reading judged, journals what changed."""

import gc
import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from gpusight.analysis.accounts import account, loans_of
from gpusight.analysis.criteria import Criteria, asks
from gpusight.analysis.memory import Memory, MemoryLost, dump, load
from gpusight.analysis.outage import forget_idleness, unknown_results, unknown_verdicts
from gpusight.analysis.records import GpuResult, Loan, Round, Verdict
from gpusight.analysis.results import stats_of
from gpusight.analysis.rounds import Conclusion, judge_round
from gpusight.analysis.tenancy import PriceList, Tenancy
from gpusight.analysis.transitions import IDLE
from gpusight.model.history import Episode, HourUse, Journal, JournalError, VerdictChange
from gpusight.model.series import Reading, SeriesStore, Span, StoreError
from gpusight.model.time import Clock

_log = logging.getLogger("gpusight.analyze")
_HOURS_EVERY = 900.0
"""Seconds between two writings of the running hour's rows; what came since is in the state, which every round keeps."""


class Terms(NamedTuple):
    """By what a round is held: taken anew from the settings for each."""

    criteria: Criteria
    span: Span
    tenancy: Tenancy
    prices: PriceList


class Outcome(NamedTuple):
    """A round, and whether the store answered."""

    round: Round
    is_ok: bool


class Analyst:
    """Holds one round at a time; what it remembers is in the journal, too."""

    def __init__(self, journal: Journal, clock: Clock, is_leader: Callable[[], bool]) -> None:
        """`clock` tells how long rounds take; their moments are in their terms."""
        self._journal = journal
        self._clock = clock
        self._is_leader = is_leader
        self._last: Round | None = None
        self._rounds = 0
        self.memory = _remembered(journal)
        self._open = {episode.subject: episode for episode in journal.episodes(open_only=True, limit=1_000_000)}

    def hold(self, store: SeriesStore, terms: Terms) -> Outcome:
        """One round. A store that does not answer makes everybody unknown, and nobody idle."""
        began = self._clock.monotonic()
        self._rounds += 1
        with _collector_at_rest():
            try:
                reading = store.read(tuple(asks(terms.criteria)), terms.span)
            except StoreError as error:
                return Outcome(self._failed(store, terms, str(error), began), is_ok=False)
            return Outcome(self._concluded(store, terms, reading, began), is_ok=True)

    def _concluded(self, store: SeriesStore, terms: Terms, reading: Reading, began: float) -> Round:
        before = self.memory
        conclusion = judge_round(reading, before, terms.criteria, terms.tenancy)
        hours = account(conclusion, before, terms.span.length, terms.tenancy, terms.prices, _HOURS_EVERY)
        self.memory = conclusion.memory
        verdicts = tuple(each.verdict for each in conclusion.judged)
        problems = [*conclusion.problems, *self._journaled(_changes_of(conclusion), hours, verdicts, terms.span.end)]
        finished = self._round(
            store, terms, began, conclusion.results, verdicts, loans_of(conclusion), reading.queries, problems
        )
        self._last = finished
        return finished

    def _failed(self, store: SeriesStore, terms: Terms, reason: str, began: float) -> Round:
        """What the last round knew of, with nothing known of it."""
        now, last = terms.span.end, self._last
        changes = (
            [_lost(verdict, now, reason) for verdict in last.verdicts if verdict.state != "unknown"] if last else []
        )
        self.memory = forget_idleness(self.memory, now)
        verdicts = unknown_verdicts(last.verdicts, self.memory, reason) if last else ()
        results = unknown_results(last.results, reason) if last else ()
        problems = [reason, *self._journaled(changes, (), verdicts, now)]
        finished = self._round(store, terms, began, results, verdicts, (), 0, problems)
        self._last = finished
        return finished

    def _round(
        self,
        store: SeriesStore,
        terms: Terms,
        began: float,
        results: tuple[GpuResult, ...],
        verdicts: tuple[Verdict, ...],
        loans: Sequence[Loan],
        queries: int,
        problems: Sequence[str],
    ) -> Round:
        return Round(
            number=self._rounds,
            at=datetime.fromtimestamp(terms.span.end, UTC),
            duration_seconds=self._clock.monotonic() - began,
            window_seconds=terms.span.length,
            threshold=terms.criteria.low_below,
            store=store.name,
            queries=queries,
            results=results,
            verdicts=verdicts,
            stats=stats_of(results, terms.criteria.low_below),
            loans=tuple(loans),
            problems=tuple(problems),
        )

    def _journaled(
        self, changes: Sequence[VerdictChange], hours: Sequence[HourUse], verdicts: Sequence[Verdict], now: float
    ) -> list[str]:
        """Keep the round, if this replica is the one that does; the sentence why not, when it cannot be kept."""
        episodes, still_open = _episodes_of(self._open, verdicts, now)
        if not self._is_leader():
            self._open = still_open
            return []
        try:
            self._journal.record_round(changes, hours, episodes, dump(self.memory), at=now)
        except JournalError as error:
            _log.error("the round is not in the journal: %s", error)
            return [f"the round is not in the journal: {error}"]
        self._open = still_open
        return []


def _remembered(journal: Journal) -> Memory:
    state = journal.state()
    if state is None:
        return Memory()
    try:
        return load(state)
    except MemoryLost as error:
        _log.warning("%s", error)
        return Memory()


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """A round makes many objects that all live on: looking for garbage among them doubles its cost."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _changes_of(conclusion: Conclusion) -> list[VerdictChange]:
    now = conclusion.memory.at or 0.0
    return [
        _change(each.verdict, each.previous or "", now)
        for each in conclusion.judged
        if each.previous != each.verdict.state
    ]


def _change(verdict: Verdict, previous: str, now: float) -> VerdictChange:
    return VerdictChange(
        at=now,
        cluster=verdict.subject.cluster,
        namespace=verdict.subject.namespace,
        subject=verdict.subject.id,
        state=verdict.state,
        previous=previous,
        confidence=verdict.confidence,
        reason=verdict.reason,
        detail=msgspec.json.encode(verdict).decode(),
    )


def _lost(verdict: Verdict, now: float, reason: str) -> VerdictChange:
    gone = _change(verdict, verdict.state, now)
    return gone._replace(state="unknown", confidence=0.0, reason=f"Nothing can be concluded: {reason}.", detail="{}")


def _episodes_of(
    known: dict[str, Episode], verdicts: Sequence[Verdict], now: float
) -> tuple[list[Episode], dict[str, Episode]]:
    """Episodes that open or close with this round, and those that are open after it."""
    idle = {verdict.subject.id: verdict for verdict in verdicts if verdict.state in IDLE}
    closed = [episode._replace(closed=now) for subject, episode in known.items() if subject not in idle]
    opened = [_episode(verdict, now) for subject, verdict in idle.items() if subject not in known]
    still = {subject: episode for subject, episode in known.items() if subject in idle}
    return [*closed, *opened], still | {episode.subject: episode for episode in opened}


def _episode(verdict: Verdict, now: float) -> Episode:
    subject = verdict.subject
    name = hashlib.blake2s(f"{subject.id}\0{now}".encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
    return Episode(
        id=name,
        cluster=subject.cluster,
        namespace=subject.namespace,
        subject=subject.id,
        state=verdict.state,
        opened=now,
        closed=None,
        reason=verdict.reason,
    )
