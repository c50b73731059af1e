"""Clocks."""

import time

from gpusight.model.time import Clock, ManualClock, ScaledClock, SystemClock


def test_a_scaled_clock_runs_faster_and_two_of_them_agree() -> None:
    wall, start = time.time(), time.monotonic() - 10.0
    first, second = ScaledClock(60.0, wall, start), ScaledClock(60.0, wall, start)
    assert 600 <= first.now() - wall < 1200
    assert abs(first.monotonic() - second.monotonic()) < 60
    assert first.monotonic() >= start + 600


def test_a_manual_clock_moves_when_told() -> None:
    clock = ManualClock(now=5.0)
    clock.advance(2.5)
    assert (clock.now(), clock.monotonic()) == (7.5, 2.5)


def test_all_are_clocks() -> None:
    clocks: list[Clock] = [SystemClock(), ManualClock(), ScaledClock(1.0, 0.0, 0.0)]
    assert all(isinstance(clock.now(), float) and isinstance(clock.monotonic(), float) for clock in clocks)
