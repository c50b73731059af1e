"""Children that crash, hang and cannot be killed: replaced, and never more than three."""

import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import pytest

from gpusight.model.time import ManualClock
from gpusight.sources.nvml.process import ChildProcess
from gpusight.sources.nvml.supervisor import Deadlines, NvmlSource
from tests.sources.test_nvml_helpers import is_running, until

DEAF = ("sleep", "60")
STUBBORN = ("sh", "-c", "trap '' TERM; exec sleep 60")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


Make = Callable[..., NvmlSource]


@pytest.fixture
def make(clock: ManualClock) -> Iterator[Make]:
    """Sources that are closed in the end."""
    made: list[NvmlSource] = []

    def source(command: Sequence[str], **deadlines: float) -> NvmlSource:
        made.append(NvmlSource(command, clock, Deadlines(**{"goodbye": 0.02, "opening": 5.0, **deadlines})))
        return made[-1]

    yield source
    for one in made:
        one.close()


class Signals:
    """What was sent to whom and when, by the manual clock; nothing arrives until `free`."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.sent: list[tuple[float, int, signal.Signals]] = []
        self.pids: set[int] = set()

    def send(self, child: ChildProcess, number: signal.Signals) -> None:
        assert child.pid is not None
        self.sent.append((self.clock.monotonic(), child.pid, number))

    def free(self) -> None:
        for pid in self.pids:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not any(is_running(pid) for pid in self.pids))


@pytest.fixture
def signals(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Signals]:
    made = Signals(clock)

    def send(child: ChildProcess, number: signal.Signals) -> None:
        made.send(child, number)

    monkeypatch.setattr(ChildProcess, "send_signal", send)
    yield made
    made.free()


def _read_for(source: NvmlSource, clock: ManualClock, seconds: float, signals: Signals) -> None:
    """A read every 15 s."""
    for _ in range(int(seconds / 15)):
        snapshot = source.read(0.003)
        assert (snapshot.is_up, snapshot.gpus) == (False, ())
        if child := source._children._current:
            signals.pids.add(child.pid or 0)
        assert sum(is_running(pid) for pid in signals.pids) <= 3
        assert source.health().alive <= 3
        clock.advance(15)


def test_children_that_cannot_be_killed_are_three_at_most(make: Make, clock: ManualClock, signals: Signals) -> None:
    """An hour of a driver that swallows every client: two abandoned, a third as a probe, then no more."""
    source = make(DEAF)
    _read_for(source, clock, 3600, signals)
    health = source.health()
    assert (health.started, health.alive, health.abandoned) == (3, 3, 3)
    assert source.read(0.003).reason == "blocked"


def test_once_they_are_gone_a_new_one_is_started(make: Make, clock: ManualClock, signals: Signals) -> None:
    source = make(DEAF)
    _read_for(source, clock, 600, signals)
    signals.free()
    until(lambda: source.read(0.003) and source.health().started == 4)
    signals.pids.add(source._children._current.pid or 0)  # type: ignore[union-attr]


def test_probes_are_a_minute_apart_while_two_are_abandoned(make: Make, clock: ManualClock, signals: Signals) -> None:
    source = make(DEAF)
    _read_for(source, clock, 120, signals)
    abandoned = set(list(signals.pids)[:2])
    starts = set()
    for _ in range(24):
        for pid in signals.pids - abandoned:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
            until(lambda pid=pid: not is_running(pid))  # type: ignore[misc]
        _read_for(source, clock, 15, signals)
        starts.add(source._children._last_start)
    assert len(starts) >= 4
    assert all(later - earlier >= 60 for earlier, later in pairwise(sorted(starts)))


def test_a_hung_child_is_asked_to_end_before_it_is_killed(make: Make, clock: ManualClock, signals: Signals) -> None:
    source = make(DEAF)
    _read_for(source, clock, 120, signals)
    first = signals.sent[0][1]
    own = [(at, number) for at, pid, number in signals.sent if pid == first]
    assert [number for _, number in own] == [signal.SIGTERM, signal.SIGKILL]
    assert own[1][0] - own[0][0] >= 10


def test_kills_are_ten_minutes_apart(make: Make, clock: ManualClock, signals: Signals) -> None:
    source = make(DEAF)
    _read_for(source, clock, 1800, signals)
    kills = [at for at, _, number in signals.sent if number == signal.SIGKILL]
    assert len(kills) == 3
    assert all(later - earlier >= 600 for earlier, later in pairwise(kills))
    assert source.health().killed == 3


def test_a_child_that_ignores_sigterm_is_killed(make: Make, clock: ManualClock) -> None:
    source = make(STUBBORN)
    source.read(0.1)
    pid = source._children._current.pid or 0  # type: ignore[union-attr]
    for _ in range(4):
        clock.advance(11)
        source.read(0.003)
    until(lambda: not is_running(pid))
    assert source.health().killed == 1
    source.close()
    assert source.health().alive == 0


def test_crashes_are_followed_by_longer_and_longer_waits(make: Make, clock: ManualClock) -> None:
    """The first restart is free and its crash is seen by the next read; then 1, 2, 4, 8, 16, 30, 30, ... seconds."""
    source, starts = make(("false",)), []
    for _ in range(200):
        before = source.health().started
        snapshot = source.read(2.0)
        assert (snapshot.is_up, snapshot.reason) == (False, "crashed")
        if source.health().started > before:
            starts.append(clock.monotonic())
        clock.advance(1)
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert gaps[:6] == [1 + 1, 2, 4, 8, 16, 30]
    assert set(gaps[6:]) == {30}
    assert snapshot.detail == "the NVML child was ended with exit code 1"


def test_a_crash_after_a_long_life_is_a_first_one_again(make: Make, clock: ManualClock) -> None:
    source = make(DEAF, opening=1e9)
    for _ in range(3):
        source.read(0.003)
        pid = source._children._current.pid or 0  # type: ignore[union-attr]
        clock.advance(61)
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: not is_running(pid))  # type: ignore[misc]
        source.read(1.0)
        assert source._children._current is not None, "the next one started at once"
    source.close()


def test_a_program_that_cannot_be_started(make: Make, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    source = make(("/nowhere/python",))
    with caplog.at_level(logging.INFO, "gpusight.sources.nvml"):
        for _ in range(3):
            snapshot = source.read(0.5)
            assert (snapshot.is_up, snapshot.reason) == (False, "crashed")
    assert "cannot be started" in snapshot.detail
    assert len(caplog.records) == 1


def test_a_child_that_talks_rubbish_is_replaced(make: Make, clock: ManualClock) -> None:
    source = make(("sh", "-c", "printf 'hello, I am not yours' >&0; exec sleep 60"))
    snapshot = source.read(2.0)
    assert (snapshot.is_up, snapshot.reason) == (False, "error")
    assert source.health().hung == 1
    source.close()
    assert source.health().alive == 0


def test_a_source_that_is_closed_starts_nothing(make: Make, clock: ManualClock) -> None:
    source = make(DEAF)
    source.close()
    snapshot = source.read(0.1)
    assert (snapshot.is_up, snapshot.detail) == (False, "closed")
    assert source.health().started == 0


def test_without_the_binding_nothing_is_started(
    make: Make, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpusight.sources.nvml.supervisor.find_spec", lambda _: None)
    source = make(DEAF)
    snapshot = source.read(0.1)
    assert (snapshot.is_up, snapshot.reason) == (False, "no_library")
    assert "nvidia-ml-py is not installed" in snapshot.detail
    assert source.health().started == 0
