"""The published analyzer's view: one score of 0 to 100 per part, and a status by thresholds."""

from msgspec import Struct

from gpusight.analysis.criteria import Criteria
from gpusight.analysis.hardware import power_range
from gpusight.analysis.parts import Part
from gpusight.analysis.records import Status


class Scored(Struct, frozen=True, gc=False):
    """`note` says which terms had no data, or why there is no score at all."""

    score: float | None
    status: Status
    note: str


def score_part(part: Part, criteria: Criteria, reading_doubt: str = "") -> Scored:
    """Terms without data are left out and the others weighted up; without utilization there is no score.

    Utilization alone is half the picture: memory or power has to be known beside it. What a doubtful reading makes
    look little used is not called so.
    """
    if not part.is_allocated:
        return Scored(None, "unknown", "no pod holds it")
    if part.doubt:
        return Scored(None, "unknown", part.doubt)
    known, missing = _terms(part, criteria)
    if missing and ("utilization" in missing or {"memory", "power"} <= set(missing)):
        return Scored(None, "unknown", f"no data on {' and '.join(missing)}")
    weight = sum([share for share, _ in known])
    if weight == 0:
        return Scored(None, "unknown", f"no data on {' and '.join(missing)}, and all other terms weigh nothing")
    score = round(100 * sum([share * value for share, value in known]) / weight, 1)
    if reading_doubt and score < criteria.low_below:
        return Scored(None, "unknown", reading_doubt)
    return Scored(score, status_of(score, criteria), f"without {' and '.join(missing)}" if missing else "")


def _terms(part: Part, criteria: Criteria) -> tuple[list[tuple[float, float]], list[str]]:
    """Weights with values, and the names of those without."""
    weights = criteria.weights
    traffic = part.memory_copy if not part.key.mig else part.dram_active
    terms = (
        (weights.gpu_util, part.utilization, "utilization"),
        (weights.mem_copy, traffic, "memory traffic"),
        (weights.mem_used, memory_share(part), "memory"),
        (weights.power, power_share(part), "power"),
    )
    known = [(weight, capped(value)) for weight, value, _ in terms if value is not None]
    return known, [name for _, value, name in terms if value is None] if len(known) < len(terms) else []


def status_of(score: float, criteria: Criteria) -> Status:
    if score < criteria.idle_below:
        return "idle"
    if score < criteria.low_below:
        return "low"
    return "normal" if score <= criteria.high_above else "high"


def memory_share(part: Part) -> float | None:
    return _ratio(part.memory_used, part.memory_total)


def power_share(part: Part) -> float | None:
    """Against the device's own limit, else its model's; a model that nobody knows has none."""
    return _ratio(part.power, power_limit(part))


def power_limit(part: Part) -> float | None:
    if part.power_limit:
        return part.power_limit
    known = power_range(part.place.model)
    return known.limit if known else None


def _ratio(value: float | None, whole: float | None) -> float | None:
    return None if value is None or not whole else capped(value / whole)


def capped(value: float) -> float:
    if 0.0 <= value <= 1.0:
        return value
    return 0.0 if value < 0.0 else 1.0
