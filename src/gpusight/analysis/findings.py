"""From one subject's features to the state that this window alone shows, and the sentence why.

The numbers of the classes follow published practice: engine busy with few multiprocessors at work (hollow), memory
interface half busy (memory-bound), transfers with idle multiprocessors or a utilization that swings (starved).
"""

from msgspec import Struct

from gpusight.analysis.criteria import Criteria
from gpusight.analysis.features import Features
from gpusight.analysis.parts import Part
from gpusight.analysis.records import Evidence, State
from gpusight.analysis.score import memory_share
from gpusight.analysis.wording import gib, percent, span, watts

_CERTAINTY: dict[Evidence, float] = {
    "profiling": 0.95,
    "profiling-default": 0.9,
    "container": 0.9,
    "utilization-power": 0.75,
    "utilization": 0.4,
    "none": 0.0,
}
_GIGABYTE = 1e9


class Circumstances(Struct, frozen=True, gc=False):
    """What else is known of the subject when its window is judged."""

    age: float | None
    """Seconds since it started; None when nobody says."""
    idle_seconds: float | None
    """How long it has been inactive, this window included."""
    reading_doubt: str
    """Why this round's reading, or what it says of the subject, may be incomplete."""
    window: float


class Finding(Struct, frozen=True, gc=False):
    state: State
    confidence: float
    reason: str


def find(features: Features, about: Circumstances, criteria: Criteria) -> Finding:
    """The state that the window shows. Doubt never makes anybody idle."""
    if features.is_active:
        return _busy(features, about, criteria)
    if not features.parts[0].is_allocated and not any(part.is_allocated for part in features.parts):
        return Finding("unallocated", 0.9, "No pod holds it.")
    if about.age is not None and about.age < criteria.grace:
        return Finding("warming", 0.9, f"Started {span(about.age)} ago; up to {span(criteria.grace)} it may warm up.")
    doubt = _doubt(features, about)
    if doubt:
        return Finding("unknown", 0.0, doubt)
    return _idle(features, about, criteria)


def _doubt(features: Features, about: Circumstances) -> str:
    if features.doubts:
        others = len(features.doubts) - 1
        more = f" (and {others} more of its {len(features.parts)} parts)" if others else ""
        return f"Nothing can be concluded: {features.doubts[0]}{more}."
    if about.reading_doubt:
        return f"Nothing can be concluded: {about.reading_doubt}."
    if features.evidence in ("utilization", "none"):
        return (
            "Nothing can be concluded: utilization alone is known, neither power nor profiling nor the container's own."
        )
    if features.memory_bytes is None:
        return "It computes nothing, and no series says what memory it holds."
    return ""


def _idle(features: Features, about: Circumstances, criteria: Criteria) -> Finding:
    idle = about.idle_seconds or 0.0
    patience = criteria.idle_rounds * criteria.interval
    confidence = _confidence(features) * (0.5 + 0.5 * min(1.0, idle / patience))
    held, share = features.memory_bytes or 0.0, features.memory_share
    if any(_holds(part, criteria) for part in features.parts):
        of_all = "" if share is None else f" ({percent(share)})"
        return Finding(
            "idle-held", confidence, f"No activity for {span(idle)} while it holds {gib(held)} of memory{of_all}."
        )
    return Finding(
        "idle-empty", confidence, f"No activity for {span(idle)}, and next to no memory in use ({gib(held)})."
    )


def _holds(part: Part, criteria: Criteria) -> bool:
    """More than a bare context takes."""
    share = memory_share(part)
    return (part.memory_used or 0.0) >= _GIGABYTE if share is None else share >= criteria.held_share


def _busy(features: Features, about: Circumstances, criteria: Criteria) -> Finding:
    share = features.active_share if features.active_share is not None else features.utilization or 0.0
    if features.evidence == "utilization":
        reason = f"Utilization is {percent(features.utilization)}, but without power or profiling it says too little."
        return Finding("unknown", 0.0, reason)
    if share < criteria.busy_share:
        reason = (
            f"Active in {percent(share)} of the last {span(about.window)}, in bursts up to {percent(features.peak)}."
        )
        return Finding("bursty", _confidence(features), reason)
    for rule in (_memory_bound, _starved, _hollow):
        found = rule(features)
        if found:
            return found
    return Finding("productive", _confidence(features), f"{_load(features)}.")


def _memory_bound(features: Features) -> Finding | None:
    dram, sm = features.dram, features.sm
    if dram is None or sm is None or dram < 0.5 or sm >= 0.5:
        return None
    reason = (
        f"The memory interface is busy {percent(dram)} of the time, the multiprocessors {percent(sm)}: memory-bound."
    )
    return Finding("memory-bound", _confidence(features), reason)


def _starved(features: Features) -> Finding | None:
    sm, pcie, copy = features.sm, features.pcie or 0.0, features.memory_copy or 0.0
    if sm is not None and sm < 0.3 and (pcie >= _GIGABYTE or copy >= 0.4):
        moved = f"{pcie / _GIGABYTE:.1f} GB/s over PCIe" if pcie >= _GIGABYTE else f"memory traffic {percent(copy)}"
        reason = f"The multiprocessors work {percent(sm)} of the time beside {moved}: it waits for data."
        return Finding("starved", _confidence(features), reason)
    mean, peak = features.utilization, features.peak
    if mean is not None and peak is not None and peak >= 0.7 and mean < 0.35:
        reason = (
            f"Utilization swings up to {percent(peak)} with a mean of {percent(mean)}: it waits between bursts of work."
        )
        return Finding("starved", 0.8 * _confidence(features), reason)
    return None


def _hollow(features: Features) -> Finding | None:
    busy = max(features.utilization or 0.0, features.engine or 0.0)
    if busy < 0.4:
        return None
    signs = _hollow_signs(features)
    if signs is None:
        return None
    return Finding(
        "hollow-busy", _confidence(features), f"Looks {percent(busy)} busy, but {signs}: little is computed."
    )


def _hollow_signs(features: Features) -> str | None:
    """Every signal of real work that is measured has to be low, and at least one of weight must be measured."""
    above = features.power_above_floor
    if features.sm is not None:
        low = features.sm < 0.25 and (features.tensor or 0) < 0.05 and (features.dram or 0) < 0.1
        calm = above is None or above < 0.2
        return f"the multiprocessors work {percent(features.sm)} of the time" if low and calm else None
    if features.tensor is not None and features.dram is not None and above is not None:
        low = features.tensor < 0.02 and features.dram < 0.05 and above < 0.15
        return f"tensor cores are at {percent(features.tensor)} and memory at {percent(features.dram)}" if low else None
    if above is None or above >= 0.1 or (features.memory_copy or 0) >= 0.05:
        return None
    return f"draws {watts(features.power)} of {watts(features.power_limit)}, {percent(above)} above its idle power"


def _load(features: Features) -> str:
    named = (
        ("Utilization", features.utilization),
        ("multiprocessors", features.sm),
        ("tensor cores", features.tensor),
        ("memory interface", features.dram),
        ("power above idle", features.power_above_floor),
    )
    text = ", ".join([f"{name} {percent(value)}" for name, value in named if value is not None])
    return text[:1].upper() + text[1:]


def _confidence(features: Features) -> float:
    coverage = 1.0 if features.coverage is None else features.coverage
    return _CERTAINTY[features.evidence] * coverage
