"""What one subject's parts say together, before anything is concluded."""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from msgspec import Struct

from gpusight.analysis.doubts import Activity
from gpusight.analysis.hardware import power_range
from gpusight.analysis.parts import Part
from gpusight.analysis.records import Evidence
from gpusight.analysis.score import capped, memory_share, power_limit

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
    utilization: float | None = None
    peak: float | None = None
    memory_copy: float | None = None
    engine: float | None = None
    sm: float | None = None
    tensor: float | None = None
    dram: float | None = None
    pcie: float | None = None
    power: float | None = None
    power_limit: float | None = None
    power_above_floor: float | None = None


_MEASURED = attrgetter(
    "utilization", "memory_copy", "pcie", "power", "engine_active", "sm_active", "tensor_active", "dram_active"
)


def features_of(parts: Sequence[Part], floors: Mapping[str, float]) -> Features:
    if len(parts) == 1 and parts[0].activity is not None:  # most workloads have one part
        return _of_one(parts, parts[0], parts[0].activity, floors)
    return _of_many(parts, floors)


def _of_one(parts: Sequence[Part], part: Part, activity: Activity, floors: Mapping[str, float]) -> Features:
    """The same as of many, without the means over them."""
    held, held_share = part.memory_used, memory_share(part)
    last_active = activity.last_active or None
    if part.doubt:
        return Features(parts, (part.doubt,), False, None, last_active, activity.coverage, "none", held, held_share)
    share = activity.active_share
    while_active = share if activity.is_active and share else 1.0
    limit = power_limit(part)
    return Features(
        parts,
        (),
        activity.is_active,
        share,
        last_active,
        activity.coverage,
        evidence_of(part),
        held,
        held_share,
        part.utilization,
        activity.peak,
        part.memory_copy,
        _per(part.engine_active, while_active),
        _per(part.sm_active, while_active),
        _per(part.tensor_active, while_active),
        _per(part.dram_active, while_active),
        part.pcie,
        part.power,
        limit,
        _per(_above_floor(part, limit, floors), while_active),
    )


def _of_many(parts: Sequence[Part], floors: Mapping[str, float]) -> Features:
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
    if part.sm_active is not None and part.tensor_active is not None and part.dram_active is not None:
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
    return _above_floor(part, power_limit(part), floors)


def _above_floor(part: Part, limit: float | None, floors: Mapping[str, float]) -> float | None:
    if part.power is None or limit is None:
        return None
    floor = floors.get(floor_name(part))
    if floor is None:
        known = power_range(part.place.model)
        floor = known.idle if known else None
    if floor is None or limit <= floor:
        return None
    return capped((part.power - floor) / (limit - floor))


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
