"""How much of its GPU each part may use, so that the parts of a device never sum up to more than the device."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from gpusight.analysis.parts import Part
from gpusight.model.series import SeriesKey


def fractions_of(parts: Iterable[Part]) -> Mapping[SeriesKey, float]:
    """By part key. A whole GPU is 1; sharers count by their memory limits, or alike where one has none."""
    boards: dict[tuple[str, str], list[Part]] = {}
    for part in parts:
        boards.setdefault(part.key[:2], []).append(part)
    found: dict[SeriesKey, float] = {}
    for members in boards.values():
        if len(members) == 1:
            found[members[0].key] = _weight(members[0], 1)
            continue
        found.update(zip((part.key for part in members), _split(members), strict=True))
    return found


def _split(members: Sequence[Part]) -> list[float]:
    """Shares of one board."""
    instances = {part.key.mig for part in members}
    weights = [_weight(part, len(instances)) for part in members]
    total = sum(weights)
    return [weight / total for weight in weights] if total > 1 else weights


def _weight(part: Part, instances: int) -> float:
    within = 1.0 / part.sharers
    if part.sharers > 1 and part.memory_total and part.device_memory:
        within = min(part.memory_total / part.device_memory, 1.0)
    if not part.key.mig:
        return within
    return within * (_instance_share(part) or 1.0 / instances)


def _instance_share(part: Part) -> float | None:
    """A MIG instance's memory against the board's, which the model's name tells."""
    board = _board_memory(part.place.model)
    return min(part.device_memory / board, 1.0) if part.device_memory and board else None


@lru_cache(maxsize=512)
def _board_memory(model: str) -> float | None:
    named = re.search(r"\b(\d{1,4}) ?GB", model[:128])
    return int(named[1]) * 2.0**30 if named else None
