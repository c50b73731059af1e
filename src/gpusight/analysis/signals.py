"""Activity signals: what each family that samples activity says of a part, kept apart from every other family."""

from collections.abc import Sequence
from itertools import starmap

from gpusight.analysis.criteria import Criteria
from gpusight.analysis.doubts import SILENCE, Activity, Signal, contradict, doubt_in
from gpusight.model.series import Aggregate, Span

COLUMNS: tuple[Aggregate, ...] = ("last_seen", "count", "mean", "max", "active_count", "last_active")
"""Once per family: half of one family's answer never completes half of another's."""

Columns = Sequence[Sequence[float | None]]
"""Those of one family, each with one value per part."""


class SignalReader:
    """Reads signals out of columns, for one span."""

    def __init__(self, span: Span, criteria: Criteria) -> None:
        self._start = span.start
        self._now = span.end
        self._expected = span.expected
        self._most = span.expected * 1.25 + 1
        self._above = criteria.active_above
        self._criteria = criteria

    def signals(self, families: Sequence[Columns], count: int, nameless: Sequence[Columns] = ()) -> list[Signal]:
        """One per part: of the families, in order of trust, then of the living ones of the nameless series."""
        found = [self._family(columns) for columns in families]
        found += [_living(columns, self._family(columns)) for columns in nameless]
        if len(found) > 1:
            return list(map(self._joined, zip(*found, strict=True)))
        return found[0] if found else [SILENCE] * count

    def _joined(self, said: Sequence[Signal]) -> Signal:
        found = [each.activity for each in said if each.activity is not None]
        return Signal(
            self._best(found),
            any(each.is_active for each in said),
            any(contradict(found[0].mean, each.mean) for each in found[1:]),
        )

    def _best(self, found: Sequence[Activity]) -> Activity | None:
        usable = (each for each in found if not doubt_in(each, self._now, self._criteria))
        return next(usable, found[0] if found else None)

    def _family(self, columns: Columns) -> list[Signal]:
        return list(starmap(self._signal, zip(*columns, strict=True)))

    def _signal(
        self,
        seen: float | None,
        count: float | None,
        mean: float | None,
        peak: float | None,
        active: float | None,
        last_active: float | None,
    ) -> Signal:
        """One family's activity, and whether it saw any: even half an answer can tell that."""
        if last_active is not None:
            last_active = None if last_active < self._start else min(last_active, self._now)
        is_active = (
            last_active is not None
            or bool(active)
            or (peak is not None and peak > self._above)
            or (mean is not None and mean > self._above)
        )
        if seen is None or mean is None or not count or (peak is None and not is_active):
            return _HALF_ACTIVE if is_active else SILENCE
        activity = Activity(
            mean,
            mean if peak is None else peak,
            min(1.0, count / self._expected),
            count > self._most,
            is_active,
            _active_share(active, count, mean) if is_active else 0.0,
            last_active,
            seen,
        )
        return Signal(activity, is_active, False)


_HALF_ACTIVE = Signal(None, is_active=True, is_disputed=False)


def _living(columns: Columns, said: Sequence[Signal]) -> list[Signal]:
    """Only what has a newest sample."""
    return [SILENCE if seen is None else each for seen, each in zip(columns[0], said, strict=True)]


def _active_share(active: float | None, count: float, mean: float) -> float | None:
    """Looks can miss what happens between them: the mean of a ratio is a share in which it surely was active."""
    return None if active is None else min(1.0, max(active / count, mean))
