"""The children, one in use at a time: when one starts, how one is ended, and that there are never more than three."""

import logging
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gpusight.model.time import Clock
from gpusight.sources.nvml.process import ChildProcess

_log = logging.getLogger("gpusight.sources.nvml")

_MOST: Final = 3
_MOST_ABANDONED: Final = 2


class Deadlines(NamedTuple):
    """Seconds."""

    read: float = 2.0
    """For a whole read, unless it says otherwise."""
    hang: float = 5.0
    """A child that has not answered for so long is given up."""
    opening: float = 60.0
    """So is one that has not begun to answer, or whose NVML has not opened, for so long."""
    retry: float = 30.0
    """Between attempts while there is no library or driver."""
    first_restart: float = 1.0
    """After the second failure in a row (the first costs nothing), doubled with each that follows."""
    last_restart: float = 30.0
    recovered: float = 60.0
    """A child that lived so long begins a new row."""
    goodbye: float = 2.0
    """For a child to end after its socket closed, before SIGTERM; at the very end also between SIGTERM and SIGKILL."""
    terminate: float = 10.0
    """Between SIGTERM and SIGKILL: a client that is killed inside a call is said to hurt the device."""
    kill: float = 5.0
    """After SIGKILL, before the child counts as abandoned."""
    between_kills: float = 600.0
    probe: float = 60.0
    """Between starts while two children are abandoned."""
    recycle: float = 86_400.0
    """The age at which a child is replaced, against leaks in the driver's library."""
    forget: float = 600.0
    """How long a device that is not there any more is told as lost."""


@dataclass(slots=True)
class Health:
    """What became of the children since the beginning, and how many there are now."""

    started: int = 0
    crashed: int = 0
    hung: int = 0
    killed: int = 0
    abandoned: int = 0
    alive: int = 0


@dataclass(slots=True)
class _Leaving:
    """A child that is not asked any more, on its way out."""

    child: ChildProcess
    terminate_at: float
    terminated_at: float | None = None
    is_killed: bool = False
    is_abandoned: bool = False


class Children:
    """Not safe for threads: its owner has the lock."""

    def __init__(self, command: Sequence[str], clock: Clock, deadlines: Deadlines) -> None:
        self._command = command
        self._clock = clock
        self._deadlines = deadlines
        self._current: ChildProcess | None = None
        self._leaving: list[_Leaving] = []
        self._failures = 0
        self._next_start = self._last_start = self._last_kill = float("-inf")
        self._health = Health()

    @property
    def has_current(self) -> bool:
        return self._current is not None

    def current(self) -> ChildProcess | None:
        """The child to ask, started if there is none; None while none may be started."""
        if self._current is None and self._may_start():
            self._last_start = self._clock.monotonic()
            self._health.started += 1
            self._current = ChildProcess(self._command, self._clock)
        return self._current

    def health(self) -> Health:
        self.tend()
        self._health.alive = len(self._leaving) + (self._current is not None)
        return self._health

    def crashed(self) -> None:
        """It is gone: the next one may start at once, the one after that has to wait."""
        self._health.crashed += 1
        self._dismiss(self._backoff(), terminate_in=0.0)

    def hung(self) -> None:
        """It will not answer: end it, without waiting for that."""
        self._health.hung += 1
        self._dismiss(self._backoff(), terminate_in=0.0)

    def retire(self, pause: float) -> None:
        """It has done its work: let it end by itself, and start the next one after a pause."""
        self._dismiss(pause, terminate_in=self._deadlines.goodbye)

    def tend(self) -> None:
        """See to those on their way out."""
        for leaving in self._leaving:
            if not leaving.child.has_ended:
                self._push(leaving)
        self._leaving = [leaving for leaving in self._leaving if not leaving.child.has_ended]

    def close(self) -> None:
        """End all, within a few seconds; what cannot be ended is left to the kernel."""
        self.retire(float("inf"))
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            until = self._clock.monotonic() + self._deadlines.goodbye
            for leaving in self._leaving:
                if number:
                    leaving.child.send_signal(number)
            for leaving in self._leaving:
                leaving.child.wait(max(0.0, until - self._clock.monotonic()))
            self._leaving = [leaving for leaving in self._leaving if not leaving.child.has_ended]

    def _may_start(self) -> bool:
        now = self._clock.monotonic()
        abandoned = sum(leaving.is_abandoned for leaving in self._leaving)
        is_probe_due = abandoned < _MOST_ABANDONED or now - self._last_start >= self._deadlines.probe
        return now >= self._next_start and len(self._leaving) < _MOST and is_probe_due

    def _backoff(self) -> float:
        now = self._clock.monotonic()
        if now - self._last_start >= self._deadlines.recovered:
            self._failures = 0
        self._failures += 1
        doublings = min(self._failures - 2, 16)
        delay = self._deadlines.first_restart * 2.0**doublings if doublings >= 0 else 0.0
        return min(delay, self._deadlines.last_restart)

    def _dismiss(self, pause: float, terminate_in: float) -> None:
        child, self._current = self._current, None
        now = self._clock.monotonic()
        self._next_start = now + pause
        if child:
            child.hang_up()
            self._leaving.append(_Leaving(child, now + terminate_in))
            self.tend()

    def _push(self, leaving: _Leaving) -> None:
        now = self._clock.monotonic()
        if leaving.terminated_at is None:
            if now >= leaving.terminate_at:
                leaving.terminated_at = now
                leaving.child.send_signal(signal.SIGTERM)
            return
        since = now - leaving.terminated_at
        if since >= self._deadlines.terminate and not leaving.is_killed:
            self._kill(leaving, now)
        if since >= self._deadlines.terminate + self._deadlines.kill and not leaving.is_abandoned:
            leaving.is_abandoned = True
            self._health.abandoned += 1
            _log.warning("the NVML child %s cannot be ended and is left alone", leaving.child.pid)

    def _kill(self, leaving: _Leaving, now: float) -> None:
        """Seldom: each kill may leave the device worse than it was."""
        if now - self._last_kill >= self._deadlines.between_kills:
            self._last_kill = now
            leaving.is_killed = True
            self._health.killed += 1
            leaving.child.send_signal(signal.SIGKILL)
