"""Rounds, their triggers, what is kept of them, and changes of settings: the analyzer without its web."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpusight.analysis.tenancy import PriceList, Tenancy, Tenant
from gpusight.errors import SettingsError
from gpusight.journal.leader import leadership
from gpusight.journal.open import open_journal
from gpusight.journal.retention import Retention
from gpusight.journal.sql import SqlJournal
from gpusight.model.series import Ask, Newest, Place, Point, Quantity, Reading, SeriesKey, Span, StoreError, Windows
from gpusight.model.time import ManualClock
from gpusight.runtime.analyze_service import AnalyzerService
from gpusight.runtime.roles import role_named
from gpusight.settings import Settings, resolve

BUSY = SeriesKey("", "GPU-1", "", "", "team", "busy", "main")
IDLE = SeriesKey("", "GPU-2", "", "", "team", "idle", "main")


class Store:
    """Answers with what the test says, or not at all."""

    name = "a store"

    def __init__(self) -> None:
        self.utilization: Mapping[SeriesKey, float] = {BUSY: 0.9, IDLE: 0.0}
        self.error = ""
        self.rounds = 0
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.closed = 0

    def families(self) -> frozenset[str]:
        return frozenset()

    def latest(self, families: Iterable[str]) -> list[Newest]:
        return [Newest("gpusight_simulated", {}, 1.0)] if "gpusight_simulated" in families else []

    def check(self) -> None: ...

    def close(self) -> None:
        self.closed += 1

    def range(self, key: SeriesKey, quantity: Quantity, span: Span) -> Sequence[Point]:
        return [Point(span.end, self.utilization[key])]

    def read(self, asks: Sequence[Ask], span: Span) -> Reading:
        self.rounds += 1
        assert self.may_answer.wait(10)
        if self.error:
            raise StoreError(self.error)
        keys = self.utilization
        count = {key: float(span.expected) for key in keys}
        active = {key: value * span.expected for key, value in keys.items() if value}
        columns: dict[Any, Any] = {
            "last_seen": dict.fromkeys(keys, span.end - 5),
            "count": count,
            "mean": keys,
            "max": keys,
            "active_count": active,
            "last_active": dict.fromkeys(active, span.end - 5),
        }
        windows = [
            Windows("utilization", "device", "U", columns),
            Windows("memory_used", "device", "M", {"mean": dict.fromkeys(keys, 4e9)}),
            Windows("memory_free", "device", "F", {"mean": dict.fromkeys(keys, 4e9)}),
            Windows("power", "device", "P", {"mean": {key: 30.0 + 200 * value for key, value in keys.items()}}),
        ]
        places = {key[:2]: Place("node", "Tesla V100S-PCIE-32GB") for key in keys}
        return Reading(span, windows, places, queries=9)


class Bench:
    """An analyzer whose clock stands still until a round is wanted."""

    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock(1_700_000_000.0)
        self.store = Store()
        self.directory = directory
        self.made: list[Settings] = []

    def journal(self) -> SqlJournal:
        return open_journal(self.directory / "journal.sqlite3", retention=Retention(), clock=self.clock)

    def service(self, **flags: str) -> AnalyzerService:
        role = role_named("analyze")
        given = {name.replace("_", "-"): value for name, value in flags.items()}
        settings = resolve(given, {}, ("analyze",), role.defaults)
        journal = self.journal()
        return AnalyzerService(
            settings,
            self._make_store,
            journal,
            leadership(self.directory / "journal.sqlite3"),
            self.clock,
            lambda: Tenancy({("", "team"): Tenant("li@example.com", "CV")}),
            PriceList("CNY", (("V100S", 10.0),)),
        )

    def _make_store(self, settings: Settings) -> Store:
        self.made.append(settings)
        return self.store


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def running(bench: Bench) -> Iterator[AnalyzerService]:
    service = bench.service()
    service.start()
    wait_for(lambda: service.round() is not None)
    yield service
    bench.store.may_answer.set()
    service.stop()
    service._journal.close()


def wait_for(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(1000):
        if holds():
            return
        pause.wait(0.01)
    raise AssertionError("in vain")


def next_round(bench: Bench, service: AnalyzerService, after: float = 300.0) -> None:
    """Time passes until the interval is over."""
    before = bench.store.rounds
    bench.clock.advance(after)
    wait_for(lambda: bench.store.rounds > before and not service._running)


def states(service: AnalyzerService) -> dict[str, str]:
    found = service.round()
    assert found is not None
    return {verdict.subject.name: verdict.state for verdict in found.verdicts}


def test_a_round_is_published_with_its_verdicts(running: AnalyzerService) -> None:
    assert states(running) == {"busy": "productive", "idle": "idle-held"}
    found = running.round()
    assert found is not None
    assert [row.pod for row in found.results] == ["idle", "busy"]
    assert found.queries == 9
    assert found.loans[0].owner == "li@example.com"
    assert running.health().status == "healthy"
    assert running.ready()
    wait_for(lambda: running.simulated() is True)
    assert [role.name for role in running.roles()] == ["analyze"]
    assert running.floor(found.results[0].id) == 30.0
    assert running.floor("nobody") is None


def test_a_store_that_fails_makes_everybody_unknown_and_nobody_idle(bench: Bench, running: AnalyzerService) -> None:
    bench.store.error = "the server at http://prometheus:9090 answered 503"
    next_round(bench, running)

    assert states(running) == {"busy": "unknown", "idle": "unknown"}
    found = running.round()
    assert found is not None
    assert [row.score for row in found.results] == [None, None]
    assert found.stats.by_status["unknown"] == 2
    health = running.health()
    assert health.status == "degraded"
    assert "503" in health.reason
    assert running.work().errors == 1

    bench.store.error = ""
    next_round(bench, running)
    verdict = next(each for each in (running.round() or pytest.fail("none")).verdicts if each.subject.name == "idle")
    assert verdict.state == "idle-held"
    assert verdict.activity.idle_seconds == 600  # the outage started the clock anew: no more than the window


def test_idle_time_outlives_a_restart(bench: Bench) -> None:
    first = bench.service()
    first.start()
    wait_for(lambda: first.round() is not None)
    next_round(bench, first)
    first.stop()
    first._journal.close()

    bench.clock.advance(300)
    second = bench.service()
    second.start()
    wait_for(lambda: second.round() is not None)
    idle = next(each for each in (second.round() or pytest.fail("none")).verdicts if each.subject.name == "idle")
    second.stop()
    second._journal.close()
    assert idle.activity.idle_seconds == 1200


def test_what_changed_is_in_the_journal(bench: Bench, running: AnalyzerService) -> None:
    bench.store.utilization = {BUSY: 0.9, IDLE: 0.8}
    next_round(bench, running)

    changes = running.changes(start=0, end=2e9, subject=None, namespaces=None, limit=10)
    assert [(each.subject, each.previous, each.state) for each in changes if each.previous] == [
        ("/team/Pod/idle", "idle-held", "productive")
    ]
    assert [each.closed is None for each in running.episodes(open_only=False, namespaces=None)] == [False]
    [tenant] = running.tenants(start=0, end=2e9, namespaces=None)
    assert tenant.team == "CV"
    assert tenant.held_gpu_hours == pytest.approx(600 / 3600)
    assert tenant.cost == pytest.approx(600 / 3600 * 10)


def test_a_trigger_starts_a_round_and_further_ones_join_it(bench: Bench, running: AnalyzerService) -> None:
    bench.clock.advance(60)
    bench.store.may_answer.clear()
    rounds = bench.store.rounds
    assert running.trigger().outcome == "scheduled"
    wait_for(lambda: bench.store.rounds == rounds + 1)
    assert running.trigger().outcome == "joined"
    bench.store.may_answer.set()
    wait_for(lambda: not running._running)

    limited = running.trigger()
    assert limited.outcome == "limited"
    assert 0 < limited.retry_after <= 10


def test_changes_are_checked_as_a_whole_before_any_is_made(running: AnalyzerService) -> None:
    with pytest.raises(SettingsError, match="thresholds must rise"):
        running.update_config({"interval": "60", "threshold": "5"}, "ops")
    with pytest.raises(SettingsError, match="sum up to 1"):
        running.update_config({"gpu-util-weight": "0.9"}, "ops")
    with pytest.raises(SettingsError, match=r"prom\.url cannot be changed"):
        running.update_config({"prom.url": "http://elsewhere:9090"}, "ops")

    assert running.health().interval == 300
    assert running.config_changes(10) == []


def test_a_change_is_kept_and_audited_and_outlives_a_restart(bench: Bench, running: AnalyzerService) -> None:
    assert running.update_config({"THRESHOLD": "30", "interval": "60"}, "ops") == {"threshold": 30, "interval": 60.0}
    assert running.health().interval == 60
    assert {(each.actor, each.name, each.old, each.new) for each in running.config_changes(10)} == {
        ("ops", "threshold", "20", "30"),
        ("ops", "interval", "300.0", "60.0"),
    }
    running.stop()
    again = bench.service()
    shown = {each.name: (each.value, each.origin) for each in again.config()}
    again._journal.close()
    assert shown["threshold"] == (30, "a change at run time")


def test_a_shorter_interval_holds_at_once(bench: Bench, running: AnalyzerService) -> None:
    running.update_config({"interval": "10"}, "ops")
    next_round(bench, running, after=11)


def test_a_new_condition_makes_a_new_store(bench: Bench, running: AnalyzerService) -> None:
    running.update_config({"query-condition": '{namespace="team"}'}, "ops")
    next_round(bench, running)

    assert bench.made[-1].get("query-condition") == '{namespace="team"}'
    assert len(bench.made) == 2


def test_only_the_leader_journals(bench: Bench, running: AnalyzerService) -> None:
    follower = bench.service()
    follower.start()
    wait_for(lambda: follower.round() is not None)
    assert running.health().leader
    assert not follower.health().leader
    assert states(follower) == states(running)
    follower.stop()
    follower._journal.close()


def test_health_warns_when_rounds_stop(bench: Bench, running: AnalyzerService) -> None:
    bench.store.may_answer.clear()
    bench.clock.advance(301)
    wait_for(lambda: running._running)
    bench.clock.advance(1000)

    health = running.health()
    assert health.status == "warning"
    assert health.analysis_timeout


def test_a_window_is_read_for_a_row(running: AnalyzerService) -> None:
    found = running.round()
    assert found is not None
    assert [point.value for point in running.window(found.results[0].id, "utilization")] == [0.0]
    with pytest.raises(KeyError):
        running.window("nobody", "utilization")
