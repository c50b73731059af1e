"""GPU-hours: what each subject held, used and left idle, hour by hour, with energy and cost.

A round accounts for the time since the round before it, as far as its window reaches back; what nobody looked at is
in nobody's account. Parts of a shared GPU count by their fraction, so a device's rows never sum up to more than the
device.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from gpusight.analysis.memory import HourMemory, Memory
from gpusight.analysis.records import Loan, TenantUse
from gpusight.analysis.rounds import Conclusion, Judged, moment
from gpusight.analysis.tenancy import PriceList, Tenancy
from gpusight.model.history import HourUse
from gpusight.model.series import SeriesKey

_HOUR = 3600
_IS_METERED = attrgetter("is_metered")


class Slice(NamedTuple):
    """Seconds of one hour that a round accounts for."""

    hour: int
    seconds: float


def slices(since: float | None, now: float, reach: float) -> list[Slice]:
    """The time from the last round to now, at most `reach` long, cut at full hours."""
    if since is None or now <= since:
        return []
    start, found = max(since, now - reach), []
    while start < now:
        hour = int(start // _HOUR) * _HOUR
        end = min(now, hour + _HOUR)
        found.append(Slice(hour, end - start))
        start = end
    return found


def account(
    conclusion: Conclusion,
    before: Memory,
    reach: float,
    tenancy: Tenancy,
    prices: PriceList,
    every: float = 0.0,
) -> list[HourUse]:
    """Add the round to the accounts of `conclusion.memory`; the rows to write.

    Hours that ended are among them at once, the running one every so many seconds: until then it is in the memory.
    """
    memory, rows = conclusion.memory, []
    now = memory.at or 0.0
    spans = slices(before.at, now, reach)
    for each in spans:
        if memory.hour != each.hour:
            if memory.hour is not None and memory.written < (before.at or 0.0):
                rows += _rows(memory.hour, memory.hours.values(), tenancy, prices)
            memory.hour, memory.hours = each.hour, {}
        for judged in conclusion.judged:
            _add(memory, judged, conclusion.fractions, each.seconds)
        if each is not spans[-1] or now - memory.written >= every:
            rows += _rows(each.hour, memory.hours.values(), tenancy, prices)
            memory.written = now
    return rows


def _add(memory: Memory, judged: Judged, fractions: Mapping[SeriesKey, float], seconds: float) -> None:
    subject = judged.verdict.subject
    if judged.verdict.state == "unallocated":
        return
    total = memory.subjects[subject.id]
    tenant = memory.tenants.setdefault(subject.cluster, {}).setdefault(subject.namespace, [0.0, 0.0, 0.0])
    for part in judged.parts:
        if not part.is_allocated:
            continue
        name = f"{subject.id}\0{part.place.model}"
        hour = memory.hours.get(name)
        if hour is None:
            hour = memory.hours[name] = HourMemory(
                cluster=subject.cluster, namespace=subject.namespace, subject=subject.id, model=part.place.model
            )
        held = fractions[part.key] * seconds
        share = part.activity.active_share if part.activity is not None and not part.doubt else None
        used, idle, unknown = (0.0, 0.0, held) if share is None else (held * share, held * (1 - share), 0.0)
        for book in (hour, total):
            book.used += used
            book.idle += idle
            book.unknown += unknown
        tenant[0] += used
        tenant[1] += idle
        tenant[2] += unknown
        if part.power is None:
            hour.is_metered = False
        else:
            hour.joules += part.power * seconds


def _rows(hour: int, uses: Iterable[HourMemory], tenancy: Tenancy, prices: PriceList) -> list[HourUse]:
    """One row per subject, whatever models it holds."""
    subjects: dict[str, list[HourMemory]] = {}
    for use in uses:
        subjects.setdefault(use.subject, []).append(use)
    return [_row(hour, members, tenancy, prices) for members in subjects.values()]


def _row(hour: int, uses: Sequence[HourMemory], tenancy: Tenancy, prices: PriceList) -> HourUse:
    first = uses[0]
    tenant = tenancy.of(first.cluster, first.namespace)
    used = sum([use.used for use in uses]) / _HOUR
    idle = sum([use.idle for use in uses]) / _HOUR
    unknown = sum([use.unknown for use in uses]) / _HOUR
    costs = [_cost(use, prices) for use in uses]
    cost = None if None in costs else _sum(costs)
    return HourUse(
        hour=hour,
        cluster=first.cluster,
        namespace=first.namespace,
        subject=first.subject,
        model=", ".join(sorted([use.model for use in uses])),
        held_gpu_hours=used + idle + unknown,
        used_gpu_hours=used,
        idle_gpu_hours=idle,
        unknown_gpu_hours=unknown,
        energy_joules=sum([use.joules for use in uses]) if all(map(_IS_METERED, uses)) else None,
        cost=cost,
        currency=prices.currency if cost is not None else "",
        owner=tenant.owner,
        team=tenant.team,
    )


def _cost(use: HourMemory, prices: PriceList) -> float | None:
    price = prices.per_gpu_hour(use.model)
    return None if price is None else (use.used + use.idle + use.unknown) / _HOUR * price


def loans_of(conclusion: Conclusion) -> list[Loan]:
    """The lending report: who holds what since when, and what came of it; the most idle hours first."""
    loans = []
    for judged in conclusion.judged:
        verdict = judged.verdict
        memory = conclusion.memory.subjects[verdict.subject.id]
        if verdict.state == "unallocated":
            continue
        loans.append(
            Loan(
                cluster=verdict.subject.cluster,
                namespace=verdict.subject.namespace,
                owner=verdict.owner,
                team=verdict.team,
                subject=verdict.subject.id,
                state=verdict.state,
                gpus=verdict.holding.gpus,
                models=verdict.models,
                since=moment(memory.first_seen),
                used_gpu_hours=round(memory.used / _HOUR, 4),
                idle_gpu_hours=round(memory.idle / _HOUR, 4),
                unknown_gpu_hours=round(memory.unknown / _HOUR, 4),
            )
        )
    return sorted(loans, key=lambda loan: (-loan.idle_gpu_hours, loan.subject))


def tenants_of(hours: Iterable[HourUse]) -> list[TenantUse]:
    """Hourly rows summed up per namespace and currency; the most idle hours first."""
    groups: dict[tuple[str, str, str], list[HourUse]] = {}
    for row in hours:
        groups.setdefault((row.cluster, row.namespace, row.currency), []).append(row)
    return sorted(map(_tenant, groups.values()), key=lambda use: (-use.idle_gpu_hours, use.cluster, use.namespace))


def _tenant(rows: Sequence[HourUse]) -> TenantUse:
    latest = max(rows, key=lambda row: row.hour)
    return TenantUse(
        cluster=latest.cluster,
        namespace=latest.namespace,
        owner=latest.owner,
        team=latest.team,
        held_gpu_hours=sum(row.held_gpu_hours for row in rows),
        used_gpu_hours=sum(row.used_gpu_hours for row in rows),
        idle_gpu_hours=sum(row.idle_gpu_hours for row in rows),
        unknown_gpu_hours=sum(row.unknown_gpu_hours for row in rows),
        energy_joules=_sum(row.energy_joules for row in rows),
        cost=_sum(row.cost for row in rows),
        idle_cost=_sum(_idle_cost(row) for row in rows),
        currency=latest.currency,
    )


def _idle_cost(row: HourUse) -> float | None:
    if row.cost is None or not row.held_gpu_hours:
        return row.cost
    return row.cost * row.idle_gpu_hours / row.held_gpu_hours


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
