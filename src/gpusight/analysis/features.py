"""What one subject's parts say together, before anything is concluded."""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from msgspec import Struct

from gpusight.analysis.hardware import power_range
from gpusight.analysis.parts import Part
from gpusight.analysis.records import Evidence
from gpusight.analysis.score import memory_share, power_limit

RUNGS: tuple[Evidence, ...] = (
    "profiling",
    "profiling-default",
    "container",
    "utilization-power",
    "utilization",
    "none",
)


class Features(Struct, frozen=True, gc=False):
    """Means are over the active parts if any is active, else over all; None is unknown.

    Efficiency (`sm` to `power_above_floor`) is while active: the mean of the window, divided by the share of it in
    which something ran.
    """

    parts: Sequence[Part]
    doubts: tuple[str, ...]
    """One per part of which nothing may be concluded."""
    is_active: bool
    active_share: float | None
    last_active: float | None
    coverage: float | None
    evidence: Evidence
    memory_bytes: float | None
    memory_share: float | None
    utilization: float | None
    peak: float | None
    memory_copy: float | None
    engine: float | None
    sm: float | None
    tensor: float | None
    dram: float | None
    pcie: float | None
    power: float | None
    power_limit: float | None
    power_above_floor: float | None


_MEASURED = attrgetter(
    "utilization", "memory_copy", "pcie", "power", "engine_active", "sm_active", "tensor_active", "dram_active"
)


def features_of(parts: Sequence[Part], floors: Mapping[str, float]) -> Features:
    known = [part for part in parts if not part.doubt]
    active = [part for part in known if is_active(part)]
    judged = active or known
    signals = [part.activity for part in judged if part.activity is not None]
    share = max([signal.active_share for signal in signals if signal.active_share is not None], default=None)
    while_active = share if active and share else 1.0
    utilization, copy, pcie, power, engine, sm, tensor, dram = _means([_MEASURED(part) for part in judged], 8)
    limit, above = _means([(power_limit(part), power_above_floor(part, floors)) for part in judged], 2)
    (held_share,) = _means([(memory_share(part),) for part in parts], 1)
    return Features(
        parts=parts,
        doubts=tuple([part.doubt for part in parts if part.doubt]) if len(known) < len(parts) else (),
        is_active=bool(active),
        active_share=share,
        last_active=_newest(parts),
        coverage=min([part.activity.coverage for part in parts if part.activity is not None], default=None),
        evidence=max(map(evidence_of, judged), key=RUNGS.index, default="none"),
        memory_bytes=_sum_of_all(part.memory_used for part in parts),
        memory_share=held_share,
        utilization=utilization,
        peak=max([signal.peak for signal in signals], default=None),
        memory_copy=copy,
        engine=_per(engine, while_active),
        sm=_per(sm, while_active),
        tensor=_per(tensor, while_active),
        dram=_per(dram, while_active),
        pcie=pcie,
        power=power,
        power_limit=limit,
        power_above_floor=_per(above, while_active),
    )


def is_active(part: Part) -> bool:
    return part.activity is not None and part.activity.is_active


def evidence_of(part: Part) -> Evidence:
    """The best rung of the ladder that this part stands on."""
    if part.activity is None:
        return "none"
    if None not in (part.sm_active, part.tensor_active, part.dram_active):
        return "profiling"
    if part.engine_active is not None:
        return "profiling-default"
    if part.from_container:
        return "container"
    return "utilization" if part.power is None else "utilization-power"


def floor_name(part: Part) -> str:
    return f"{part.key.cluster}\0{part.key.gpu}"


def power_above_floor(part: Part, floors: Mapping[str, float]) -> float | None:
    """0 at the device's learnt idle power (its model's, until one is learnt), 1 at its limit."""
    limit = power_limit(part)
    floor = floors.get(floor_name(part))
    if floor is None:
        known = power_range(part.place.model)
        floor = known.idle if known else None
    if part.power is None or limit is None or floor is None or limit <= floor:
        return None
    return min(max((part.power - floor) / (limit - floor), 0.0), 1.0)


def learn_floors(parts: Iterable[Part], floors: Mapping[str, float]) -> dict[str, float]:
    """The lowest power that each device drew over a whole window without activity."""
    learnt: dict[str, float] = {}
    for part in parts:
        name = floor_name(part)
        known = floors.get(name)
        if part.power and not part.doubt and not is_active(part):
            known = part.power if known is None else min(known, part.power)
        if known is not None:
            learnt[name] = known
    return learnt


def _newest(parts: Iterable[Part]) -> float | None:
    return max([part.activity.last_active or 0.0 for part in parts if part.activity is not None], default=0.0) or None


def _means(rows: Sequence[Sequence[float | None]], width: int) -> Sequence[float | None]:
    """Column by column, over what is known there."""
    if len(rows) == 1:
        return rows[0]
    return [_mean(column) for column in zip(*rows, strict=True)] if rows else [None] * width


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _sum_of_all(values: Iterable[float | None]) -> float | None:
    """Unknown as soon as one of them is."""
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def _per(value: float | None, share: float) -> float | None:
    return value if value is None or share == 1.0 else min(value / share, 1.0)
