"""The back-test: what policies would have given back on a recording, and how often they would have been wrong."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from gpusight.analysis.policies import DEFAULT_POLICY, HOUR, MINUTE, Policy, policy_text, sweep
from gpusight.analysis.replay_report import PolicyOutcome, ReplayReport, TraceSummary, recommend, regret
from gpusight.analysis.replay_runs import (
    ACTIVE,
    IDLE,
    MISSING,
    Runs,
    Spans,
    Sums,
    reclaim_when_idle,
    reclaim_when_mean_low,
    runs_of,
)
from gpusight.analysis.replay_trace import SubjectTrace, Trace

Progress = Callable[[int, int], None]
"""Called with samples done and samples in all."""

ACTIVE_ABOVE = 1.0
REGRET_LIMIT = 0.05
_HOLE = 5 * MINUTE


class ReplayError(ValueError):
    """Nothing to replay; the message is one sentence."""


def run_replay(
    trace: Trace,
    policies: Sequence[Policy],
    *,
    progress: Progress | None = None,
    swept: Policy | None = DEFAULT_POLICY,
    active_above: float = ACTIVE_ABOVE,
    regret_limit: float = REGRET_LIMIT,
) -> ReplayReport:
    """Judge the policies, and the windows of `swept`, on the trace.

    `active_above` (percent) is the yardstick of activity for all of them.
    """
    if not trace.subjects:
        raise ReplayError(f"{trace.source} has no usable sample")
    variants = sweep(swept) if swept else ()
    tallies = [Tally(policy) for policy in (*policies, *variants)]
    hours = Hours()
    end, done, total = trace.end, 0, trace.samples
    for subject in trace.subjects:
        _replay_subject(subject, tallies, hours, end, active_above)
        done += len(subject.times) - subject.marks
        if progress:
            progress(done, total)
    outcomes = tuple(tally.outcome(len(trace.subjects), hours.idle) for tally in tallies)
    windows = outcomes[len(policies) :]
    return ReplayReport(
        trace=_summary(trace, hours, active_above),
        policies=outcomes[: len(policies)],
        sweep=windows,
        regret_limit=regret_limit,
        recommended=recommend(windows, regret_limit),
    )


@dataclass(slots=True)
class Hours:
    """GPU-hours of the recording."""

    active: float = 0.0
    idle: float = 0.0
    unknown: float = 0.0


class Truth(NamedTuple):
    """What a subject really did, by the yardstick, whatever a policy thinks of it."""

    trace: SubjectTrace
    active: Spans
    idle: Spans
    holes: Spans
    cut: bool
    """The recording ended before the subject did."""

    def decided(self, moment: float, horizon: float) -> bool | None:
        """Active again within the horizon? None when nobody can know."""
        again = self.active.next(moment)
        if again is not None and again - moment <= horizon:
            return True
        until = min(moment + horizon, self.trace.end)
        if self.holes.within(moment, until) > 0 or (self.cut and until < moment + horizon):
            return None
        return False


@dataclass(slots=True)
class Tally:
    """One policy's results so far."""

    policy: Policy
    reclaims: int = 0
    returned: float = 0.0
    waited: list[float] = field(default_factory=list)
    regrets: list[list[int]] = field(default_factory=lambda: [[0, 0], [0, 0]])
    ever: int = 0

    def add(self, truth: Truth, moment: float) -> None:
        again = truth.active.next(moment)
        until = truth.trace.end if again is None else again
        self.reclaims += 1
        self.returned += truth.idle.within(moment, until) * truth.trace.gpus
        self.ever += again is not None
        last = truth.active.last_end(moment)
        self.waited.append(moment - (truth.trace.start if last is None else last))
        for counts, horizon in zip(self.regrets, (30 * MINUTE, 60 * MINUTE), strict=True):
            decided = truth.decided(moment, horizon)
            if decided is not None:
                counts[0] += decided
                counts[1] += 1

    def outcome(self, subjects: int, idle_hours: float) -> PolicyOutcome:
        returned = self.returned / HOUR
        return PolicyOutcome(
            policy=self.policy,
            text=policy_text(self.policy),
            subjects=subjects,
            reclaims=self.reclaims,
            returned_gpu_hours=returned,
            recovered_share=min(1.0, returned / idle_hours) if idle_hours else None,
            regret_30=regret(*self.regrets[0]),
            regret_60=regret(*self.regrets[1]),
            regret_ever=regret(self.ever, self.reclaims),
            median_seconds_to_reclaim=median(self.waited) if self.waited else None,
        )


def _replay_subject(
    trace: SubjectTrace, tallies: Sequence[Tally], hours: Hours, end: float, active_above: float
) -> None:
    views: dict[tuple[float, float | None], Runs] = {}
    sums: Sums | None = None
    truth = _truth(trace, _view(views, trace, active_above, None), end)
    hours.active += truth.active.total / HOUR * trace.gpus
    hours.idle += truth.idle.total / HOUR * trace.gpus
    hours.unknown += (trace.end - trace.start - truth.active.total - truth.idle.total) / HOUR * trace.gpus
    for tally in tallies:
        policy = tally.policy
        if trace.end - trace.start < policy.window + policy.grace:
            continue
        if policy.rule == "mean":
            sums = sums or Sums(trace)
            moment = reclaim_when_mean_low(trace, sums, policy)
        else:
            moment = reclaim_when_idle(trace, _view(views, trace, policy.above, policy.power), policy)
        if moment is not None:
            tally.add(truth, moment)


def _view(
    views: dict[tuple[float, float | None], Runs], trace: SubjectTrace, above: float, power: float | None
) -> Runs:
    key = (above, power)
    if key not in views:
        views[key] = runs_of(trace, above, power)
    return views[key]


def _truth(trace: SubjectTrace, runs: Runs, end: float) -> Truth:
    missing = runs.spans(MISSING)
    long = [(start, stop) for start, stop in zip(missing.starts, missing.ends, strict=True) if stop - start > _HOLE]
    holes = Spans([start for start, _ in long], [stop for _, stop in long])
    cut = trace.end >= end - 2 * trace.step
    return Truth(trace, runs.spans(ACTIVE), runs.spans(IDLE), holes, cut)


def _summary(trace: Trace, hours: Hours, active_above: float) -> TraceSummary:
    total = hours.active + hours.idle + hours.unknown
    return TraceSummary(
        source=trace.source,
        subjects=len(trace.subjects),
        samples=trace.samples,
        start=trace.start,
        end=trace.end,
        step_seconds=median(subject.step for subject in trace.subjects),
        gpu_hours=total,
        active_gpu_hours=hours.active,
        idle_gpu_hours=hours.idle,
        unknown_gpu_hours=hours.unknown,
        unknown_share=min(1.0, max(0.0, hours.unknown / total)) if total else 0.0,
        active_above=active_above,
        problems=trace.problems,
        warnings=trace.warnings,
    )
