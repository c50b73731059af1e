"""The analyzer as its API sees it: rounds in a thread of their own, everything else answered from memory."""

import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from gpusight.analysis.accounts import tenants_of
from gpusight.analysis.records import Round, TenantUse
from gpusight.analysis.tenancy import PriceList, Tenancy
from gpusight.catalog.utilization import DURATION
from gpusight.collectors.utilization import Work
from gpusight.collectors.verdicts import Standing
from gpusight.errors import SettingsError
from gpusight.exposition.blocks import Histogram
from gpusight.exposition.endpoint import Endpoint
from gpusight.journal.leader import Leadership
from gpusight.model.history import ConfigChange, Episode, HourUse, Journal, VerdictChange
from gpusight.model.series import Point, Quantity, SeriesKey, SeriesStore, Span, StoreError
from gpusight.model.time import Clock, SystemClock
from gpusight.runtime.analyst import Analyst, Outcome, Terms
from gpusight.runtime.analyze_config import criteria_of, span_of
from gpusight.runtime.analyze_log import log_round, shown_progress
from gpusight.runtime.operations import Operations
from gpusight.runtime.supervise import ChildStatus, read_status
from gpusight.settings import Settings, setting_named
from gpusight.store.promql import ConditionError, condition
from gpusight.web.service import ConfigValue, Health, OperationSample, RoleStatus, Trigger

_log = logging.getLogger("gpusight.analyze")
_OVERDUE = 3
"""Intervals without a round from which on health warns."""
_PRUNE_EVERY = 3600.0
_REAL = SystemClock()
_STORE_SETTINGS = ("query-condition", "max-workers")
"""Settings that a store is made from and that may change while it is used."""

StoreMaker = Callable[[Settings], SeriesStore]


class AnalyzerService:
    """One analyzer. `start` begins its rounds, `stop` ends them; the API may ask from any thread."""

    def __init__(
        self,
        settings: Settings,
        make_store: StoreMaker,
        journal: Journal,
        leadership: Leadership,
        clock: Clock,
        tenancy: Callable[[], Tenancy],
        prices: PriceList,
        stopwatch: Clock = _REAL,
    ) -> None:
        """Rounds come by `clock`, which may be that of a simulated world; what they take is told by `stopwatch`."""
        self._base = settings
        self._overrides = dict(journal.config())
        self._settings = _still_valid(settings, self._overrides)
        self._make_store = make_store
        self._store = make_store(self._settings)
        self._made_from = _store_settings(self._settings)
        self._journal = journal
        self._leadership = leadership
        self._clock = clock
        self._tenancy = tenancy
        self._prices = prices
        self._operations = Operations(clock)
        self._is_simulated: bool | None = None
        self._stopwatch = stopwatch
        self._analyst = Analyst(journal, stopwatch, lambda: leadership.held)
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._wanted = False
        self._running = False
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._started = clock.monotonic()
        self._last: Round | None = None
        self._last_ended: float | None = None
        self._last_success: float | None = None
        self._last_asked = -math.inf
        self._is_connected = False
        self._reason = "no round has ended yet"
        self._rounds = self._errors = 0
        self._durations = [0] * (len(DURATION.buckets) + 1)
        self._seconds = 0.0
        self._pruned = -math.inf
        self.endpoint_of: Endpoint | None = None

    # The life of the rounds.

    def start(self) -> None:
        self._thread = threading.Thread(target=self._hold_rounds, name="rounds", daemon=True)
        self._thread.start()

    def rehearse(self, moments: Iterable[float]) -> None:
        """Rounds over the past, for a store whose history is older than the analyzer; before `start`."""
        if self._analyst.memory.at is not None:
            return
        self._leadership.acquire()
        for moment in moments:
            self._analyst.hold(self._store, self._terms(moment))

    def stop(self) -> None:
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=15)
        self._leadership.release()
        self._store.close()

    def _hold_rounds(self) -> None:
        last = -math.inf
        while self._wait_after(last):
            try:
                self._hold_round()
            except Exception:
                _log.exception("a round of analysis failed for a reason that nobody foresaw")
                self._note_error("the last round failed: the log says why")
            finally:
                with self._wake:
                    self._running = False
            last = self._clock.monotonic()

    def _wait_after(self, last: float) -> bool:
        """Until the next round is due or wanted, whatever the interval is by then; False when it is time to stop."""
        with self._wake:
            while not self._stopping and not self._wanted:
                left = last + self._settings.get("interval") - self._clock.monotonic()
                if left <= 0:
                    break
                self._wake.wait(min(left, 1.0))
            self._wanted, self._running = False, not self._stopping
            return not self._stopping

    def _hold_round(self) -> None:
        self._leadership.acquire()
        self._adopt_changes()
        began = self._stopwatch.monotonic()
        self._renew_store(self._settings)
        with shown_progress():
            outcome = self._analyst.hold(self._store, self._terms(self._clock.now()))
        self._publish(outcome, self._stopwatch.monotonic() - began)
        self._look_around(outcome.is_ok)
        log_round(outcome.round)
        self._prune()

    def _terms(self, now: float) -> Terms:
        settings = self._settings
        return Terms(criteria_of(settings), span_of(settings, now), self._tenancy(), self._prices)

    def _adopt_changes(self) -> None:
        """What another replica's API changed holds here, too."""
        overrides = dict(self._journal.config())
        with self._lock:
            if overrides != self._overrides:
                self._overrides, self._settings = overrides, _still_valid(self._base, overrides)

    def _renew_store(self, settings: Settings) -> None:
        """Between rounds, when a setting that the store was made from has changed."""
        made_from = _store_settings(settings)
        if made_from != self._made_from:
            old, self._store, self._made_from = self._store, self._make_store(settings), made_from
            if old is not self._store:
                old.close()

    def _publish(self, outcome: Outcome, took: float) -> None:
        with self._lock:
            self._last = outcome.round
            self._last_ended = self._clock.monotonic()
            self._rounds += 1
            self._is_connected = outcome.is_ok
            self._durations[next((i for i, bound in enumerate(DURATION.buckets) if took <= bound), -1)] += 1
            self._seconds += took
            if outcome.is_ok:
                self._last_success = self._clock.now()
                self._reason = ""
            else:
                self._errors += 1
                self._reason = outcome.round.problems[0]

    def _look_around(self, is_ok: bool) -> None:
        """What is asked once per round, beside the verdicts; that it cannot be had costs nobody anything."""
        if not is_ok:
            return
        with suppress(StoreError):
            marks = self._store.latest(("gpusight_simulated",))
            self._is_simulated = any(mark.value > 0 for mark in marks) if marks else None
            self._operations.read(self._store)

    def _note_error(self, reason: str) -> None:
        with self._lock:
            self._rounds += 1
            self._errors += 1
            self._is_connected = False
            self._reason = reason

    def _prune(self) -> None:
        now = self._clock.monotonic()
        if self._leadership.held and now - self._pruned > _PRUNE_EVERY:
            self._pruned = now
            self._journal.prune(self._clock.now())

    # What the collectors ask.

    def work(self) -> Work:
        with self._lock:
            return Work(self._rounds, self._errors, Histogram(tuple(self._durations), self._seconds))

    def standing(self) -> Standing:
        tenants = {
            (cluster, namespace): (use[0], use[1], use[2])
            for cluster, namespaces in self._analyst.memory.tenants.items()
            for namespace, use in namespaces.items()
        }
        return Standing(self._leadership.held, self._last_success, tenants, self._is_simulated)

    # What the API asks.

    @property
    def endpoint(self) -> Endpoint:
        if self.endpoint_of is None:
            raise RuntimeError("the endpoint is set by the composition root")
        return self.endpoint_of

    def round(self) -> Round | None:
        return self._last

    def ready(self) -> bool:
        return self._last is not None

    def trigger(self) -> Trigger:
        with self._wake:
            if self._running or self._wanted:
                return Trigger(outcome="joined")
            left = self._last_asked + self._settings.get("trigger-interval") - self._clock.monotonic()
            if left > 0:
                return Trigger(outcome="limited", retry_after=left)
            self._last_asked = self._clock.monotonic()
            self._wanted = True
            self._wake.notify_all()
            return Trigger(outcome="scheduled")

    def health(self) -> Health:
        with self._lock:
            interval = self._settings.get("interval")
            since = self._clock.monotonic() - (self._started if self._last_ended is None else self._last_ended)
            overdue = since > _OVERDUE * interval
            return Health(
                status="warning" if overdue else "healthy" if self._is_connected else "degraded",
                prometheus_connected=self._is_connected,
                last_analysis=self._last.at if self._last else None,
                analysis_timeout=overdue,
                ai_enabled=False,
                interval=interval,
                reason=f"no round for {since:.0f} s" if overdue else self._reason,
                leader=self._leadership.held,
            )

    def config(self) -> Sequence[ConfigValue]:
        return [
            ConfigValue(
                name=each.setting.name,
                value=each.shown,
                origin=each.origin,
                changeable=each.setting.changeable,
                help=each.setting.help,
            )
            for each in self._settings
        ]

    def update_config(self, changes: Mapping[str, str], actor: str) -> Mapping[str, Any]:
        named = {setting_named(name, "change").name: text for name, text in changes.items()}
        with self._lock:
            overrides = {**self._journal.config(), **named}  # another replica may have changed some
            settings = _checked(self._base.with_changes(overrides))
            old = {name: _shown(self._settings, name) for name in named}
            new = {name: _shown(settings, name) for name in named}
            now = self._clock.now()
            rows = [ConfigChange(now, actor, name, str(old[name]), str(new[name])) for name in named]
            self._journal.change_config(overrides, rows)
            self._overrides, self._settings = overrides, settings
            self._wake.notify_all()
        _log.info("%s changed %s", actor, ", ".join(f"{name} to {value}" for name, value in new.items()))
        return new

    def window(self, result_id: str, quantity: Quantity) -> Sequence[Point]:
        last = self._last
        row = next((row for row in last.results if row.id == result_id), None) if last else None
        if row is None:
            raise KeyError(result_id)
        key = SeriesKey(row.cluster, row.gpu_id, row.mig_instance, row.slot, row.namespace, row.pod, row.container)
        span: Span = span_of(self._settings, self._clock.now())
        return self._store.range(key, quantity, span)

    def changes(
        self, *, start: float, end: float, subject: str | None, namespaces: Sequence[str] | None, limit: int
    ) -> Sequence[VerdictChange]:
        return self._journal.changes(start=start, end=end, subject=subject, namespaces=namespaces, limit=limit)

    def hours(self, *, start: float, end: float, namespaces: Sequence[str] | None) -> Sequence[HourUse]:
        return self._journal.hours(start=start, end=end, namespaces=namespaces)

    def tenants(self, *, start: float, end: float, namespaces: Sequence[str] | None) -> Sequence[TenantUse]:
        return tenants_of(self._journal.totals(start=start, end=end, namespaces=namespaces))

    def episodes(self, *, open_only: bool, namespaces: Sequence[str] | None) -> Sequence[Episode]:
        return self._journal.episodes(open_only=open_only, namespaces=namespaces)

    def config_changes(self, limit: int) -> Sequence[ConfigChange]:
        return self._journal.config_changes(limit)

    def floor(self, result_id: str) -> float | None:
        last = self._last
        row = next((row for row in last.results if row.id == result_id), None) if last else None
        return self._analyst.memory.floors.get(f"{row.cluster}\0{row.gpu_id}") if row else None

    def operations(self) -> Sequence[OperationSample]:
        return self._operations.read(self._store)

    def roles(self) -> Sequence[RoleStatus]:
        path = self._settings.get("up.status-file")
        family = [_role(each) for each in read_status(path)] if path is not None else []
        return family or [self._own_status()]

    def _own_status(self) -> RoleStatus:
        since = datetime.fromtimestamp(self._clock.now() - self._clock.monotonic() + self._started, UTC)
        return RoleStatus(name="analyze", url="", page="/", state="running", restarts=0, since=since, last_exit="")

    def simulated(self) -> bool | None:
        return self._is_simulated


def _role(status: ChildStatus) -> RoleStatus:
    return RoleStatus(
        name=status.name,
        url=status.url,
        page=status.page,
        state=status.state,
        restarts=status.restarts,
        since=datetime.fromtimestamp(status.since, UTC),
        last_exit=status.last_exit,
    )


def _store_settings(settings: Settings) -> tuple[Any, ...]:
    return tuple(settings.get(name) for name in _STORE_SETTINGS)


def _still_valid(settings: Settings, overrides: Mapping[str, str]) -> Settings:
    """What was changed in an earlier run, unless it no longer makes sense beside what the user wrote since."""
    if not overrides:
        return _checked(settings)
    try:
        return _checked(settings.with_changes(overrides))
    except SettingsError as error:
        _log.warning("changes made at run time are left aside: %s", error)
        return _checked(settings)


def _checked(settings: Settings) -> Settings:
    criteria_of(settings)
    span_of(settings, 0.0)
    try:
        condition(settings.get("query-condition"))
    except ConditionError as error:
        raise SettingsError(f"setting query-condition: {error}") from error
    return settings


def _shown(settings: Settings, name: str) -> Any:
    return next(each.shown for each in settings if each.setting.name == name)
