"""What a replay says, as it is printed and sent: the one definition, from which OpenAPI is made too."""

import math
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from gpusight.analysis.policies import Policy
from gpusight.analysis.replay_trace import Problem

Share = Annotated[float, Meta(ge=0, le=1)]

ASSUMPTIONS = (
    "A subject is reclaimed at most once and is then gone: what it did later only tells whether taking it was wrong.",
    "GPU-hours given back are known idle hours from the reclaim to the subject's next activity, or to its end.",
    "Regret is the share of reclaimed subjects that were active again within 30 or 60 min.",
    "A reclaim whose outcome a hole of more than 5 min or the recording's end hides counts in neither.",
    "Activity is the same for all policies: utilization above the yardstick, whatever a policy itself looks at.",
    "A subject is born with its first sample: one that ran before the recording began is older than that.",
    "Missing data is unknown and in no GPU-hours given back; only missing=ignore and missing=zero act on it, as peers.",
)


class Regret(Struct, frozen=True, kw_only=True):
    """How many reclaimed subjects were active again, with the 95 % Wilson interval of the share."""

    active: int
    decided: int
    share: Share | None
    low: Share | None
    high: Share | None


class TraceSummary(Struct, frozen=True, kw_only=True):
    """The recording itself, by the yardstick."""

    source: str
    subjects: int
    samples: int
    start: float
    end: float
    step_seconds: float
    gpu_hours: float
    active_gpu_hours: float
    idle_gpu_hours: float
    unknown_gpu_hours: float
    unknown_share: Share
    active_above: float
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]


class PolicyOutcome(Struct, frozen=True, kw_only=True):
    """What one policy would have done."""

    policy: Policy
    text: str
    """The policy as `--policy` takes it."""
    subjects: int
    reclaims: int
    returned_gpu_hours: float
    recovered_share: Share | None
    """Of the idle GPU-hours of the recording."""
    regret_30: Regret
    regret_60: Regret
    regret_ever: Regret
    """Active again at any time that the recording shows."""
    median_seconds_to_reclaim: float | None
    """From the last activity, or the first sample, to the reclaim."""


class ReplayReport(Struct, frozen=True, kw_only=True):
    """A back-test of policies on one recording."""

    trace: TraceSummary
    policies: tuple[PolicyOutcome, ...]
    sweep: tuple[PolicyOutcome, ...]
    """One policy with windows from 10 min to 8 h."""
    regret_limit: Share
    recommended: PolicyOutcome | None
    """The smallest window of the sweep whose 60 min regret is below the limit there and in all larger ones."""
    assumptions: tuple[str, ...] = ASSUMPTIONS


def regret(active: int, decided: int) -> Regret:
    if not decided:
        return Regret(active=0, decided=0, share=None, low=None, high=None)
    low, high = wilson(active, decided)
    return Regret(active=active, decided=decided, share=active / decided, low=low, high=high)


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a share, which stays sensible near 0 and with few trials."""
    z = 1.959963984540054
    share, square = hits / trials, z * z
    middle = (share + square / (2 * trials)) / (1 + square / trials)
    reach = z / (1 + square / trials) * math.sqrt(share * (1 - share) / trials + square / (4 * trials * trials))
    return max(0.0, middle - reach), min(1.0, middle + reach)


def recommend(swept: Sequence[PolicyOutcome], limit: float) -> PolicyOutcome | None:
    """Larger windows must hold the limit, too: a dip by chance is no advice."""
    best = None
    for outcome in sorted(swept, key=lambda each: each.policy.window, reverse=True):
        share = outcome.regret_60.share
        if share is None and best is None:
            continue
        if share is None or share >= limit:
            break
        best = outcome
    return best
