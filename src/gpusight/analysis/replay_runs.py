"""When would a policy have taken a subject's GPU back? Samples become runs first: many policies are cheap then."""

import math
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from gpusight.analysis.policies import Policy
from gpusight.analysis.replay_trace import SubjectTrace

IDLE, ACTIVE, MISSING = 0, 1, 2
_RUN = re.compile(rb"\x00+|\x01+|\x02+")


class Spans:
    """Stretches of time in order, and how much of them lies before a moment."""

    def __init__(self, starts: Sequence[float], ends: Sequence[float]) -> None:
        self.starts = starts
        self.ends = ends
        lengths = (end - start for start, end in zip(starts, ends, strict=True))
        self._before = list(accumulate(lengths, initial=0.0))

    def before(self, moment: float) -> float:
        index = bisect_right(self.starts, moment)
        return self._before[index] - (max(0.0, self.ends[index - 1] - moment) if index else 0.0)

    def within(self, start: float, end: float) -> float:
        return self.before(end) - self.before(start)

    @property
    def total(self) -> float:
        return self._before[-1]

    def next(self, moment: float) -> float | None:
        """The moment itself if it lies in a stretch, else the next start."""
        index = bisect_right(self.starts, moment)
        if index and moment < self.ends[index - 1]:
            return moment
        return self.starts[index] if index < len(self.starts) else None

    def last_end(self, moment: float) -> float | None:
        """When the last stretch that began before the moment ended: the moment itself if it has not."""
        index = bisect_left(self.starts, moment)
        return min(self.ends[index - 1], moment) if index else None


@dataclass(frozen=True, slots=True)
class Runs:
    """A subject's time cut into runs of one kind, each beginning where the last one ends."""

    kinds: Sequence[int]
    starts: Sequence[float]
    ends: Sequence[float]

    def spans(self, kind: int) -> Spans:
        chosen = [index for index, each in enumerate(self.kinds) if each == kind]
        return Spans([self.starts[index] for index in chosen], [self.ends[index] for index in chosen])


def runs_of(trace: SubjectTrace, above: float, power: float | None = None) -> Runs:
    flags = _flags(trace, above, power)
    firsts = [match.start() for match in _RUN.finditer(flags)]
    starts = [trace.times[first] for first in firsts]
    return Runs([flags[first] for first in firsts], starts, [*starts[1:], trace.end])


def _flags(trace: SubjectTrace, above: float, power: float | None) -> bytes:
    if power is None or trace.power is None:
        return bytes([MISSING if util != util else util > above for util in trace.util])  # noqa: PLR0124 - NaN
    pairs = zip(trace.util, trace.power, strict=True)
    return bytes([MISSING if util != util else util > above or watts > power for util, watts in pairs])  # noqa: PLR0124


class Stretch(NamedTuple):
    """Time in which the idle clock runs: it is set back at `end`."""

    start: float
    end: float
    holes: bool


def stretches(runs: Runs, policy: Policy) -> Iterator[Stretch]:
    strict = policy.missing == "unknown"
    start: float | None = None
    holes = False
    for kind, begin, end in zip(runs.kinds, runs.starts, runs.ends, strict=True):
        if kind == ACTIVE or (kind == MISSING and strict and end - begin > policy.gap):
            if start is not None:
                yield Stretch(start, begin, holes)
            start, holes = None, False
        elif kind == IDLE:
            start = begin if start is None else start
        elif start is not None or not strict:
            start, holes = begin if start is None else start, True
    if start is not None:
        yield Stretch(start, runs.ends[-1], holes)


def reclaim_when_idle(trace: SubjectTrace, runs: Runs, policy: Policy) -> float | None:
    """The rule `idle`: the first moment at which the policy would have acted."""
    ripe = trace.start + policy.grace
    missing: Spans | None = None
    for stretch in stretches(runs, policy):
        first = _next_check(max(stretch.start, ripe) + policy.window, policy.every)
        if stretch.holes and first < stretch.end:
            missing = missing or runs.spans(MISSING)
            moment = _with_holes(first, stretch.end, missing, policy)
        else:
            moment = first + (policy.rounds - 1) * policy.every
        if moment is not None and moment < stretch.end:
            return moment
    return None


def _with_holes(first: float, end: float, missing: Spans, policy: Policy) -> float | None:
    agreed, strict = 0, policy.missing == "unknown"
    for check in _checks(first, end, policy.every):
        blind = strict and missing.next(check) == check
        known = 1 - missing.within(check - policy.window, check) / policy.window
        agreed = agreed + 1 if not blind and _enough(known, policy) else 0
        if agreed == policy.rounds:
            return check
    return None


def _enough(known: float, policy: Policy) -> bool:
    if policy.missing == "unknown":
        return known >= policy.coverage - 1e-9
    return policy.missing == "zero" or known > 0


class Sums:
    """Prefix sums of a subject's known samples."""

    def __init__(self, trace: SubjectTrace) -> None:
        known = [util == util for util in trace.util]  # noqa: PLR0124 - NaN
        self.counts = array("q", accumulate(known, initial=0))
        values = (util if fine else 0.0 for util, fine in zip(trace.util, known, strict=True))
        self.totals = array("d", accumulate(values, initial=0.0))


def reclaim_when_mean_low(trace: SubjectTrace, sums: Sums, policy: Policy) -> float | None:
    """The rule `mean`: the first moment at which so many checks in a row had a low mean."""
    expected = max(1.0, policy.window / trace.step) if trace.step else 1.0
    times, agreed, low, high = trace.times, 0, 0, 0
    first = _next_check(trace.start + policy.grace + policy.window, policy.every)
    for check in _checks(first, trace.end, policy.every):
        low = bisect_right(times, check - policy.window, low)
        high = bisect_right(times, check, high)
        count = sums.counts[high] - sums.counts[low]
        mean = (sums.totals[high] - sums.totals[low]) / count if count else 0.0
        agreed = agreed + 1 if mean <= policy.above and _enough(count / expected, policy) else 0
        if agreed == policy.rounds:
            return check
    return None


def _next_check(moment: float, every: float) -> float:
    return math.ceil(moment / every) * every


def _checks(first: float, end: float, every: float) -> Iterator[float]:
    number = 0
    while (check := first + number * every) < end:
        yield check
        number += 1
