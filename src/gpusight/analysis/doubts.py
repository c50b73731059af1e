"""Why nothing may be concluded of a part: unknown is a state, and it says why.

Inactivity needs a proof (one signal that is complete, fresh and covers the window) and no objection (no signal that
saw activity). So data that goes missing takes proofs away, and never makes anybody look idle.
"""

from collections.abc import Callable

from msgspec import Struct

from gpusight.analysis.criteria import Criteria
from gpusight.analysis.wording import percent

_DISAGREE = 0.5
_WORKING = 0.05
"""Mean of a counter of work above which somebody works, whatever utilization says."""
_STRAINED = 0.6
"""Share of the power limit that no inactive GPU draws: a context alone takes a small one up to 0.45."""


class Activity(Struct, frozen=True, gc=False):
    """What the samples of one activity signal say."""

    mean: float
    peak: float
    coverage: float
    overlap: bool
    """More samples than the window can hold: two exporters publish the same."""
    is_active: bool
    active_share: float | None
    """At least this share of the window; None if it was active and nobody counted how often."""
    last_active: float | None
    last_seen: float


class Signal(Struct, frozen=True, gc=False):
    """One kind of signal, from all families that have it."""

    activity: Activity | None
    """The most trusted one that is complete and of now; else one that is complete."""
    is_active: bool
    """Whether any family saw activity, complete or not."""
    is_disputed: bool


SILENCE = Signal(None, is_active=False, is_disputed=False)


class Sight(Struct, frozen=True, gc=False):
    """What the sources say of one part's activity."""

    is_mig: bool
    sharers: int
    own: Signal
    """Of the container alone."""
    whole: Signal
    """Utilization of the device."""
    engine: Signal
    """By the profiling counters of the device or MIG instance."""
    work: tuple[float | None, ...]
    """Means of the counters that only work moves; None where they are of others, too."""
    power_share: float | None
    """Of the power limit; None likewise."""

    @property
    def signals(self) -> tuple[Signal, ...]:
        """Those that speak of this part and of nobody else."""
        return (self.whole, self.engine, self.own) if self.sharers == 1 else (self.own,)


Judgement = tuple[Activity | None, str]
"""The signal to judge by, and why nothing may be concluded from it; empty when there is no such reason."""


def judge(sight: Sight, now: float, criteria: Criteria) -> Judgement:
    activity, doubt = _first_usable(sight, now, criteria)
    if activity is None or doubt:
        return activity, doubt
    for check in _CHECKS:
        doubt = check(sight, activity)
        if doubt:
            break
    return activity, doubt


def _first_usable(sight: Sight, now: float, criteria: Criteria) -> Judgement:
    """Of the signals, in order of trust, the first whose samples are beyond doubt; else the first."""
    first: Judgement | None = None
    for each in _to_judge_by(sight):
        activity = each.activity
        if activity is not None:
            doubt = doubt_in(activity, now, criteria)
            if not doubt:
                return activity, ""
            first = first or (activity, doubt)
    needs = " (a MIG instance needs profiling metrics)" if sight.is_mig else ""
    return first or (None, f"no series says whether it computes{needs}")


def _to_judge_by(sight: Sight) -> tuple[Signal, ...]:
    if sight.sharers == 1:
        return sight.whole, sight.engine, sight.own
    return (sight.own,) if sight.own.activity is not None else (sight.whole, sight.engine)


def contradict(one: float, other: float) -> bool:
    return abs(one - other) > _DISAGREE


def doubt_in(activity: Activity, now: float, criteria: Criteria) -> str:
    """What is wrong with the samples of one signal, in words."""
    age = now - activity.last_seen
    if age > criteria.stale_after:
        return f"its newest sample is {age:.0f} s old"
    if activity.overlap:
        return "two exporters publish the same series"
    if activity.coverage < criteria.coverage:
        return f"only {percent(activity.coverage)} of the expected samples are there"
    return ""


def _disputed(sight: Sight, _: Activity) -> str:
    for each in sight.signals:
        if each.is_disputed:
            return "two sources disagree on its utilization"
    return ""


def _container_against_device(sight: Sight, _: Activity) -> str:
    own, whole = sight.own.activity, sight.whole.activity
    if own is None or whole is None or sight.sharers > 1 or not contradict(own.mean, whole.mean):
        return ""
    return f"the container's utilization ({percent(own.mean)}) contradicts the GPU's ({percent(whole.mean)})"


def _utilization_against_profiling(sight: Sight, _: Activity) -> str:
    whole, engine = sight.whole.activity, sight.engine.activity
    if whole is None or engine is None or whole.mean <= _DISAGREE or engine.peak > 0:
        return ""
    return f"utilization is {percent(whole.mean)} and the profiling counters stand at 0"


def _whose(sight: Sight, _: Activity) -> str:
    if sight.sharers == 1 or sight.own.activity is not None:
        return ""
    return f"{sight.sharers} pods share the GPU and only its total is known"


def _objection(sight: Sight, activity: Activity) -> str:
    """Somebody else saw it work."""
    if activity.is_active:
        return ""
    if any(each.is_active for each in sight.signals):
        return "one source saw activity and another none"
    work = max([mean for mean in sight.work if mean is not None], default=0.0)
    if work > _WORKING:
        return f"no activity is seen while its counters of work stand at {percent(work)}"
    if sight.power_share is not None and sight.power_share > _STRAINED:
        return f"no activity is seen while it draws {percent(sight.power_share)} of its power limit"
    return ""


_CHECKS: tuple[Callable[[Sight, Activity], str], ...] = (
    _disputed,
    _container_against_device,
    _utilization_against_profiling,
    _whose,
    _objection,
)
