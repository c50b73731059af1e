"""Clocks."""

import time

import pytest

from gpusight.model.time import Clock, ManualClock, ScaledClock, SystemClock


def test_a_scaled_clock_runs_faster_and_two_of_them_agree() -> None:
    wall, start = time.time(), time.monotonic() - 10.0
    first, second = ScaledClock(60.0, wall, start), ScaledClock(60.0, wall, start)
    assert 600 <= first.now() - wall < 1200
    assert abs(first.monotonic() - second.monotonic()) < 60
    assert first.monotonic() >= start + 600


def test_a_scaled_clock_can_be_handed_on_as_text() -> None:
    clock = ScaledClock(60.0, 1_700_000_000.25, 12.5)
    assert str(clock) == "60.0,1700000000.25,12.5"
    assert ScaledClock.from_text(str(clock)).triple == clock.triple == (60.0, 1_700_000_000.25, 12.5)


@pytest.mark.parametrize("text", ["", "1", "1,2", "1,2,3,4", "0,1,1", "-1,1,1", "nan,1,1", "inf,1,1", "1,x,1"])
def test_what_is_no_clock_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        ScaledClock.from_text(text)


def test_a_manual_clock_moves_when_told() -> None:
    clock = ManualClock(now=5.0)
    clock.advance(2.5)
    assert (clock.now(), clock.monotonic()) == (7.5, 2.5)


def test_all_are_clocks() -> None:
    clocks: list[Clock] = [SystemClock(), ManualClock(), ScaledClock(1.0, 0.0, 0.0)]
    assert all(isinstance(clock.now(), float) and isinstance(clock.monotonic(), float) for clock in clocks)
