"""Activity signals: what each family that samples activity says of a part, kept apart from every other family."""

from collections.abc import Sequence

from gpusight.analysis.criteria import Criteria
from gpusight.analysis.doubts import SILENCE, Activity, Signal, contradict, doubt_in
from gpusight.model.series import Aggregate, Span

COLUMNS: tuple[Aggregate, ...] = ("last_seen", "count", "mean", "max", "active_count", "last_active")
"""Side by side in a row, once per family: half of one family's answer never completes half of another's."""
WIDTH = len(COLUMNS)

Row = Sequence[float | None]


class SignalReader:
    """Reads signals out of rows, for one span."""

    def __init__(self, span: Span, criteria: Criteria) -> None:
        self._start = span.start
        self._now = span.end
        self._expected = span.expected
        self._above = criteria.active_above
        self._criteria = criteria

    def signal(self, row: Row, starts: Sequence[int], nameless: Row | None = None) -> Signal:
        """Of the row's blocks at `starts`, in order of trust, then of the living ones of the nameless row."""
        if not starts:
            return SILENCE
        blocks = [self._block(row, start) for start in starts]
        if nameless is not None:
            blocks += [self._block(nameless, start) for start in starts if nameless[start] is not None]
        if len(blocks) == 1:
            return Signal(*blocks[0], is_disputed=False)
        found = [activity for activity, _ in blocks if activity is not None]
        return Signal(
            self._best(found),
            any(is_active for _, is_active in blocks),
            any(contradict(found[0].mean, each.mean) for each in found[1:]),
        )

    def _best(self, found: Sequence[Activity]) -> Activity | None:
        usable = (each for each in found if not doubt_in(each, self._now, self._criteria))
        return next(usable, found[0] if found else None)

    def _block(self, row: Row, start: int) -> tuple[Activity | None, bool]:
        """One family's activity, and whether it saw any: even half an answer can tell that."""
        seen, count, mean, peak, active, last_active = row[start : start + WIDTH]
        if last_active is not None:
            last_active = None if last_active < self._start else min(last_active, self._now)
        is_active = (
            last_active is not None
            or bool(active)
            or (peak is not None and peak > self._above)
            or (mean is not None and mean > self._above)
        )
        if seen is None or mean is None or not count or (peak is None and not is_active):
            return None, is_active
        return (
            Activity(
                mean,
                mean if peak is None else peak,
                min(1.0, count / self._expected),
                count > self._expected * 1.25 + 1,
                is_active,
                _active_share(active, count, mean, is_active),
                last_active,
                seen,
            ),
            is_active,
        )


def _active_share(active: float | None, count: float, mean: float, is_active: bool) -> float | None:
    """Looks can miss what happens between them: the mean of a ratio is a share in which it surely was active."""
    if not is_active:
        return 0.0
    return None if active is None else min(1.0, max(active / count, mean))
