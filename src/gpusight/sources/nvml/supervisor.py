"""NVML as the agent sees it: snapshots on demand, whatever the driver does to the child that takes them."""

import logging
import sys
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from threading import Lock
from typing import Final

from gpusight.model.hardware import BackendReason, HardwareSnapshot, XidEvent
from gpusight.model.identity import GpuUuid
from gpusight.model.time import Clock
from gpusight.sources.nvml.children import Children, Deadlines, Health
from gpusight.sources.nvml.process import ChildGone, ChildProcess
from gpusight.sources.nvml.roster import Roster
from gpusight.sources.nvml.wire import Answer, Garbled, Part, Sweep

__all__ = ["Deadlines", "Health", "NvmlPart", "NvmlSource", "Part", "child_command"]

_log = logging.getLogger("gpusight.sources.nvml")

_CHILDS_SHARE: Final = 0.75
"""Of the time for a read; the rest is for the answer to come back on a busy machine."""


def child_command(
    simulate: str | None = None,
    node: str | None = None,
    control: str | None = None,
    started_at: float | None = None,
    clock: tuple[float, float, float] | None = None,
) -> tuple[str, ...]:
    """How to start the child, beside a real driver or as a node (`*`: all nodes) of a simulated fleet.

    `clock` is what a ScaledClock is made of. The source itself keeps real time, else its deadlines would scale too.
    """
    scaled = ",".join(map(repr, clock)) if clock else None
    options = {
        "--simulate": simulate, "--node": node, "--control": control, "--started-at": started_at, "--clock": scaled,
    }  # fmt: skip
    given = (part for name, value in options.items() if value is not None for part in (name, str(value)))
    # -P: a module in the working directory must not be taken for one of ours.
    return (sys.executable, "-P", "-m", "gpusight.sources.nvml.child", *given)


@dataclass(slots=True)
class _Machine:
    """What is remembered of the devices, or of a part of them."""

    roster: Roster
    said: BackendReason | None = None


class NvmlSource:
    """Reads all devices through a child that it starts, replaces and ends. Threads may share it."""

    def __init__(self, command: Sequence[str] | None, clock: Clock, deadlines: Deadlines | None = None) -> None:
        self._clock = clock
        self._deadlines = deadlines or Deadlines()
        self._children = Children(tuple(command or child_command()), clock, self._deadlines)
        self._machines: dict[Part | None, _Machine] = {}
        self._lock = Lock()
        self._number = 0
        self._asked_at: float | None = None
        """When the oldest request without an answer was made."""
        self._down = Answer(0, "down", "blocked", "not asked yet")
        self._xids: list[XidEvent] = []
        self._implausible: dict[str, int] = {}

    def read(self, timeout: float | None = None, part: Part | None = None) -> HardwareSnapshot:
        """What there is to say within the time given. Never raises for what a driver does."""
        with self._lock:
            self._children.tend()
            machine = self._machines.setdefault(part, _Machine(Roster(self._clock, self._deadlines.forget)))
            answer = self._ask(self._deadlines.read if timeout is None else timeout, part, machine)
            self._children.tend()
            return self._snapshot(answer, part, machine)

    def health(self) -> Health:
        with self._lock:
            return replace(self._children.health())

    def implausible(self) -> Mapping[str, int]:
        """How many values of each field were not believed so far."""
        with self._lock:
            return dict(self._implausible)

    def close(self) -> None:
        """End the child, politely at first; a read after this says so."""
        with self._lock:
            self._children.close()
            self._down = Answer(0, "down", "error", "closed")

    def _ask(self, within: float, part: Part | None, machine: _Machine) -> Answer:
        if not self._children.has_current and not _has_binding():
            return _NO_BINDING
        child = self._children.current()
        if child is None:
            return self._down
        try:
            answer = self._sweep(child, within, part, machine)
        except ChildGone as error:
            self._children.crashed()
            answer = self._give_up("crashed", f"the NVML child was {error}")
        except Garbled as error:
            self._children.hung()
            answer = self._give_up("error", str(error))
        if answer.state == "up":
            self._heed_age(child)
        return answer

    def _sweep(self, child: ChildProcess, within: float, part: Part | None, machine: _Machine) -> Answer:
        """Ask, and wait for this very answer; of older ones that come late only the events count."""
        deadline = self._clock.monotonic() + within
        while late := child.answer(0):
            self._keep(late)
        if self._is_hung(child):
            return self._hang()
        self._number += 1
        self._asked_at = self._asked_at or self._clock.monotonic()
        child.ask(Sweep(self._number, within * _CHILDS_SHARE, part))
        while answer := child.answer(deadline - self._clock.monotonic()):
            self._keep(answer)
            if answer.number == self._number:
                return self._heed(child, answer, part)
        if self._is_hung(child):
            return self._hang()
        return self._no_news(child, machine)

    def _no_news(self, child: ChildProcess, machine: _Machine) -> Answer:
        """What was wrong before a new child came is taken to be wrong until it says something else."""
        if machine.said and not child.has_answered:
            return self._down
        return Answer(self._number, "down", "blocked", "the NVML child has not answered in time")

    def _keep(self, answer: Answer) -> None:
        self._asked_at = None if answer.number == self._number else self._clock.monotonic()
        self._xids.extend(answer.xids)
        for field, count in answer.implausible.items():
            self._implausible[field] = self._implausible.get(field, 0) + count

    def _heed(self, child: ChildProcess, answer: Answer, part: Part | None) -> Answer:
        """A child whose NVML is down is of no more use: a new one finds a new library or driver, an old one may not.

        Where only a part is down, the others still need it.
        """
        if answer.state == "down" and part is None:
            self._down = answer
            self._children.retire(self._deadlines.retry)
        elif answer.state == "starting" and self._age(child) >= self._deadlines.opening:
            self._children.hung()
            return self._give_up("blocked", answer.detail)
        return answer

    def _heed_age(self, child: ChildProcess) -> None:
        """The next child opens NVML until the next read."""
        if self._age(child) >= self._deadlines.recycle:
            self._children.retire(0.0)
            self._asked_at = None
            self._children.current()

    def _is_hung(self, child: ChildProcess) -> bool:
        """A child that has not said anything yet may still be loading, which takes long on a busy machine."""
        limit = self._deadlines.hang if child.has_answered else self._deadlines.opening
        return self._asked_at is not None and self._clock.monotonic() - self._asked_at >= limit

    def _hang(self) -> Answer:
        self._children.hung()
        waited = self._clock.monotonic() - (self._asked_at or 0.0)
        return self._give_up("blocked", f"the NVML child has not answered for {waited:.0f} s")

    def _give_up(self, reason: BackendReason, detail: str) -> Answer:
        """The child is not asked any more; the next one opens NVML until the next read, if it may start at once."""
        self._asked_at = None
        self._down = Answer(self._number, "down", reason, detail)
        self._children.current()
        return self._down

    def _age(self, child: ChildProcess) -> float:
        return self._clock.monotonic() - child.started_at

    def _snapshot(self, answer: Answer, part: Part | None, machine: _Machine) -> HardwareSnapshot:
        is_up = answer.state == "up"
        _say(answer, machine, part)
        down = machine.roster.settle(answer.gpus, answer.down, answer.taken_at) if is_up else ()
        known = {*(gpu.uuid for gpu in answer.gpus), *(device.uuid for device in down)}
        xids = self._take_xids(known if part else None)
        return HardwareSnapshot(
            taken_at=self._clock.now() if answer.taken_at is None else answer.taken_at,
            is_up=is_up,
            reason=answer.reason,
            detail=answer.detail,
            driver_version=answer.driver_version,
            nvml_version=answer.nvml_version,
            cuda_version=answer.cuda_version,
            gpus=answer.gpus,
            down=down,
            xids=xids,
            is_simulated=answer.is_simulated,
        )

    def _take_xids(self, of: Container[GpuUuid | None] | None) -> tuple[XidEvent, ...]:
        """Those of some devices, or all; the others stay for whoever asks for their devices."""
        taken = tuple(event for event in self._xids if of is None or event.uuid in of)
        self._xids = [event for event in self._xids if event not in taken] if of is not None and self._xids else []
        return taken


class NvmlPart:
    """Some of the devices of a source, as a machine of their own."""

    def __init__(self, source: NvmlSource, part: Part) -> None:
        self._source = source
        self._part = part
        self.health = source.health
        self.implausible = source.implausible

    def read(self, timeout: float | None = None) -> HardwareSnapshot:
        return self._source.read(timeout, self._part)


def _say(answer: Answer, machine: _Machine, part: Part | None) -> None:
    """Each change once; of the many parts of a fleet only what is not as it should be."""
    if answer.reason == machine.said:
        return
    before, machine.said = machine.said, answer.reason
    who = "NVML" if part is None else f"NVML of GPUs {part.first} to {sum(part) - 1}"
    if answer.reason:
        _log.warning("%s gives no readings (%s): %s", who, answer.reason, answer.detail)
    elif part is None or before is not None:
        _log.info("%s gives readings: driver %s, %d GPUs", who, answer.driver_version, len(answer.gpus))


def _has_binding() -> bool:
    return find_spec("pynvml") is not None


_NO_BINDING: Final = Answer(0, "down", "no_library", "nvidia-ml-py is not installed (`pip install gpusight[node]`)")
