"""What adds up from reading to reading: XID errors, throttled time, energy by who used it. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from gpusight.collectors.shares import Shares, find_shares
from gpusight.collectors.view import ContainerName, NodeView, Spent, Totals, XidTotal
from gpusight.model.hardware import GpuReading, XidEvent
from gpusight.model.identity import GpuUuid

THROTTLE_REASONS = (
    "gpu_idle", "applications_clocks", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal",
    "hw_power_brake", "display_clocks",
)  # fmt: skip
"""The reasons that are told even while they do not hold."""

MAX_GAP = 300.0
"""Seconds. Of a longer time without readings nothing is known but the energy counter's rise."""

FORGET_AFTER = 600.0
"""Seconds after which the energy of a container that is gone is forgotten; one that flickers keeps its counter."""

_Key = TypeVar("_Key")


class _Step(NamedTuple):
    """One device from one reading to the next; `before` is None at the first."""

    before: GpuReading | None
    after: GpuReading

    @property
    def seconds(self) -> float:
        return max(self.after.taken_at - self.before.taken_at, 0.0) if self.before else 0.0

    @property
    def is_continuous(self) -> bool:
        return self.seconds <= MAX_GAP


def accumulate(totals: Totals, previous: NodeView | None, view: NodeView) -> Totals:
    """The totals after the view's reading; the same if it has no reading other than the previous view's."""
    if view.hardware is None or (previous and previous.hardware is view.hardware):
        return totals
    before = {gpu.uuid: gpu for gpu in previous.gpus} if previous else {}
    steps = [_Step(before.get(gpu.uuid), gpu) for gpu in view.gpus]
    charges = list(_charges(view, steps))
    return Totals(
        xids=_count_xids(totals.xids, view.hardware.xids),
        throttle_seconds=_add(totals.throttle_seconds, _throttled(steps)),
        container_energy=_spend(totals.container_energy, charges, view.now),
        idle_energy=_add(totals.idle_energy, ((charge.uuid, charge.idle) for charge in charges)),
        unattributed_energy=_add(totals.unattributed_energy, ((charge.uuid, charge.unknown) for charge in charges)),
    )


def _add(sums: Mapping[_Key, float], parts: Iterable[tuple[_Key, float]]) -> dict[_Key, float]:
    result = dict(sums)
    for key, part in parts:
        result[key] = result.get(key, 0.0) + part
    return result


# XID errors.


def _count_xids(
    totals: Mapping[tuple[GpuUuid, int], XidTotal], events: Iterable[XidEvent]
) -> dict[tuple[GpuUuid, int], XidTotal]:
    result = dict(totals)
    for event in events:
        seen = result.get((event.uuid, event.xid), XidTotal(0, event.at))
        result[event.uuid, event.xid] = XidTotal(seen.errors + 1, max(seen.last_at, event.at))
    return result


# Throttled time.


def _throttled(steps: Iterable[_Step]) -> Iterator[tuple[tuple[GpuUuid, str], float]]:
    """A reason that holds at both ends counts for the whole step, at one end for half of it."""
    for step in steps:
        if step.after.throttle_reasons is None:
            continue
        ends = (*step.after.throttle_reasons, *((step.before and step.before.throttle_reasons) or ()))
        half = step.seconds / 2 if step.is_continuous else 0.0
        for reason in dict.fromkeys((*THROTTLE_REASONS, *ends)):
            yield (step.after.uuid, reason), ends.count(reason) * half


# Energy.


class _Charge(NamedTuple):
    """One device's energy of one step, divided."""

    uuid: GpuUuid
    containers: Mapping[ContainerName, float]
    unknown: float
    idle: float


_NOBODY_KNOWN = Shares({}, 1.0, 0.0)


def _charges(view: NodeView, steps: Iterable[_Step]) -> Iterator[_Charge]:
    found = find_shares(view)
    for step in steps:
        joules = _joules(step)
        if joules is None:
            continue
        shares = found[step.after.uuid] or _NOBODY_KNOWN
        if not step.is_continuous:
            shares = Shares(dict.fromkeys(shares.containers, 0.0), 1.0, 0.0)
        parts = {name: share * joules for name, share in shares.containers.items()}
        yield _Charge(step.after.uuid, parts, shares.unattributed * joules, shares.idle * joules)


def _joules(step: _Step) -> float | None:
    """By the energy counter, else by the power at both ends; None for a device that has neither."""
    before, after = step
    if after.energy_joules is None and after.power_watts is None:
        return None
    if before is None:
        return 0.0
    if after.energy_joules is not None and before.energy_joules is not None:
        rise = after.energy_joules - before.energy_joules
        return rise if rise >= 0 else after.energy_joules  # the driver was loaded anew
    if after.power_watts is not None and before.power_watts is not None and step.is_continuous:
        return (after.power_watts + before.power_watts) / 2 * step.seconds
    return 0.0


def _spend(
    totals: Mapping[tuple[GpuUuid, ContainerName], Spent], charges: Iterable[_Charge], now: float
) -> dict[tuple[GpuUuid, ContainerName], Spent]:
    result = {key: spent for key, spent in totals.items() if now - spent.seen_at <= FORGET_AFTER}
    for charge in charges:
        for name, joules in charge.containers.items():
            key = charge.uuid, name
            result[key] = Spent(result[key].joules + joules if key in result else joules, now)
    return result
