"""The devices of the node as remembered from one snapshot to the next, whatever became of the child between them."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpusight.model.hardware import DeviceDown, GpuReading
from gpusight.model.identity import GpuUuid
from gpusight.model.time import Clock

_log = logging.getLogger("gpusight.sources.nvml")


@dataclass(frozen=True, slots=True)
class _Seen:
    index: int
    name: str | None
    at: float


class Roster:
    """Gives lost devices their names, and tells of devices that the driver does not even mention any more.

    A device that vanished is told as lost for `forget` seconds after it was last seen: long enough to be noticed, and
    not for ever, since it may have been taken out on purpose.
    """

    def __init__(self, clock: Clock, forget: float) -> None:
        self._clock = clock
        self._forget = forget
        self._seen: dict[GpuUuid, _Seen] = {}
        self._down: dict[GpuUuid | int, DeviceDown] = {}

    def settle(
        self, gpus: Sequence[GpuReading], down: Sequence[DeviceDown], at: float | None = None
    ) -> tuple[DeviceDown, ...]:
        """All devices that are down, named and dated; `at` is when this was found, now unless told."""
        told: list[DeviceDown] = []
        present = {gpu.uuid for gpu in gpus} | {one.uuid for one in down if one.uuid}
        for one in down:
            named = self._named(one, present)
            present |= {named.uuid} if named.uuid else set()
            told.append(named)
        self._remember(gpus, told)
        told.extend(self._vanished(present, self._clock.now() if at is None else at))
        return self._dated(told)

    def _named(self, one: DeviceDown, present: set[GpuUuid]) -> DeviceDown:
        """One that cannot say who it is must be who stood at its index before, if that one is nowhere else."""
        if one.uuid:
            return one
        for uuid, seen in self._seen.items():
            if seen.index == one.index and uuid not in present:
                return replace(one, uuid=uuid, name=one.name or seen.name)
        return one

    def _remember(self, gpus: Iterable[GpuReading], down: Iterable[DeviceDown]) -> None:
        now = self._clock.monotonic()
        for gpu in gpus:
            self._seen[gpu.uuid] = _Seen(gpu.index, gpu.name, now)
        for one in down:
            if one.uuid:
                before = self._seen.get(one.uuid, _Seen(one.index, None, now))
                self._seen[one.uuid] = _Seen(one.index, one.name or before.name, now)

    def _vanished(self, present: set[GpuUuid], at: float) -> list[DeviceDown]:
        now = self._clock.monotonic()
        self._seen = {u: seen for u, seen in self._seen.items() if u in present or now - seen.at < self._forget}
        gone = ((uuid, seen) for uuid, seen in self._seen.items() if uuid not in present)
        return [DeviceDown(seen.index, "lost", at, uuid, seen.name) for uuid, seen in gone]

    def _dated(self, told: Iterable[DeviceDown]) -> tuple[DeviceDown, ...]:
        """One that is down for the same reason as before has been so since then."""
        before, self._down = self._down, {}
        for one in told:
            key = one.uuid or one.index
            same = before.get(key)
            is_old = same is not None and same.reason == one.reason
            self._down[key] = replace(one, since=same.since) if same and is_old else one
            if not is_old:
                _log.warning("GPU %d (%s) cannot be read: %s", one.index, one.uuid or "unknown", one.reason)
        for key in before.keys() - self._down.keys():
            _log.info("GPU %d (%s) is not down any more", before[key].index, before[key].uuid or "unknown")
        return tuple(self._down.values())
