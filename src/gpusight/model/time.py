"""The clock that everything is handed: nothing below runtime asks the machine for the time."""

import math
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for timestamps, monotonic time for durations and deadlines."""

    def now(self) -> float:
        """Seconds since the Unix epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...


class SystemClock:
    """The machine's own clocks."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


class ManualClock:
    """A clock that stands still until it is told to move: for tests and replays."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now
        self._monotonic = 0.0

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        self._now += seconds
        self._monotonic += seconds


class ScaledClock:
    """The machine's clock run at another speed from one moment on: for simulations.

    Processes that are given the same moment (`wall`, `start`: what time.time and time.monotonic said then) agree.
    """

    def __init__(self, speed: float, wall: float, start: float) -> None:
        self.speed = speed
        self.wall = wall
        """What time it was at that moment."""
        self._start = start

    @classmethod
    def from_text(cls, text: str) -> "ScaledClock":
        """`speed,wall,start`, as `str` writes it; ValueError for anything else."""
        speed, wall, start = map(float, text.split(","))
        if not (math.isfinite(speed + wall + start) and speed > 0):
            raise ValueError(f"no such clock: {text!r}")
        return cls(speed, wall, start)

    def __str__(self) -> str:
        return f"{self.speed!r},{self.wall!r},{self._start!r}"

    @property
    def triple(self) -> tuple[float, float, float]:
        return self.speed, self.wall, self._start

    def now(self) -> float:
        return self.wall + self._elapsed()

    def monotonic(self) -> float:
        return self._start + self._elapsed()

    def _elapsed(self) -> float:
        return (time.monotonic() - self._start) * self.speed
