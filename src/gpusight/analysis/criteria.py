"""What a round judges by: every number that a verdict rests on, validated once."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from gpusight.model.series import Aggregate, Ask, Quantity


class CriteriaError(ValueError):
    """Numbers that make no sense together; the message names them as a user wrote them."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Shares of the score."""

    gpu_util: float = 0.5
    mem_copy: float = 0.2
    mem_used: float = 0.2
    power: float = 0.1

    def __post_init__(self) -> None:
        values = [getattr(self, each.name) for each in fields(self)]
        if any(not 0 <= value <= 1 for value in values) or abs(sum(values) - 1) > 1e-6:
            shown = ", ".join(f"{each.name} {getattr(self, each.name):g}" for each in fields(self))
            raise CriteriaError(f"the weights of the score must be between 0 and 1 and sum up to 1, and are {shown}")


_BOUNDS = (
    ("interval", 1, 1e9),
    ("active_above", 0, 1),
    ("coverage", 0.1, 1),
    ("stale_after", 1, 1e9),
    ("grace", 0, 1e9),
    ("idle_rounds", 1, 1e6),
    ("other_rounds", 1, 1e6),
    ("held_share", 0, 1),
    ("busy_share", 0, 1),
)


@dataclass(frozen=True, slots=True)
class Criteria:
    """Thresholds of the score are in percent; shares are ratios; times are seconds."""

    weights: Weights = Weights()
    idle_below: float = 10
    low_below: float = 20
    high_above: float = 70

    interval: float = 300
    """Between two rounds."""
    active_above: float = 0.005
    """A sample with more utilization than this is activity: exporters round to whole percents."""
    coverage: float = 0.8
    """Share of the expected samples below which nothing is concluded."""
    stale_after: float = 150
    """Age of the newest sample from which on it says nothing of now."""
    grace: float = 1800
    """Age up to which an inactive workload is warming up."""
    idle_rounds: int = 5
    """Consecutive inactive rounds before a workload that was active counts as idle."""
    other_rounds: int = 2
    """Consecutive rounds before any other change, but for the return to activity, which counts at once."""
    held_share: float = 0.02
    """Memory share from which on an idle workload holds something."""
    busy_share: float = 0.5
    """Share of active samples from which on a workload is busy and not bursty."""

    def __post_init__(self) -> None:
        if not 0 <= self.idle_below < self.low_below < self.high_above <= 100:
            raise CriteriaError(
                f"the thresholds must rise from idle-threshold ({self.idle_below:g}) over threshold"
                f" ({self.low_below:g}) to high-threshold ({self.high_above:g}), all within 0 and 100"
            )
        for name, least, most in _BOUNDS:
            value = getattr(self, name)
            if not least <= value <= most:
                raise CriteriaError(f"{name} must be between {least:g} and {most:g}, and is {value:g}")


_ACTIVITY: tuple[Aggregate, ...] = ("last_seen", "count", "mean", "max", "active_count", "last_active")
"""In this order analysis reads them."""
_MEANS: tuple[Quantity, ...] = (
    "memory_copy",
    "memory_free",
    "memory_reserved",
    "memory_total",
    "power",
    "sm_clock",
    "sm_active",
    "tensor_active",
    "dram_active",
    "pcie_transmit",
    "pcie_receive",
)


def asks(criteria: Criteria) -> Iterator[Ask]:
    """What a round wants to know."""
    yield Ask("utilization", _ACTIVITY, criteria.active_above)
    yield Ask("engine_active", _ACTIVITY, criteria.active_above)
    yield Ask("memory_used", ("last_seen", "mean"))
    yield Ask("power_limit", ("last",))
    for quantity in _MEANS:
        yield Ask(quantity, ("mean",))
