"""What generated traces are made of: kinds of workload, and the fleets they form. Lengths are minutes.

The fleets follow numbers published of production clusters: `acme` two clusters of A100 that train language models
(2023), `philly` a Microsoft cluster of many small teams (2017). How long pauses are is not in those numbers: it is our
assumption, one line per kind, and the reason to replay a recording of one's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp
from statistics import NormalDist

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Length:
    """Log-normal: half are longer than `median`, `sigma` is how heavy the tail is, none is longer than `longest`."""

    median: float
    sigma: float
    longest: float = 14 * 24 * 60.0

    def at(self, quantile: float) -> float:
        return min(self.longest, self.median * exp(self.sigma * _NORMAL.inv_cdf(min(max(quantile, 1e-9), 1 - 1e-9))))


@dataclass(frozen=True, slots=True)
class Curve:
    """A distribution by its quantiles, straight lines in between."""

    points: tuple[tuple[float, float], ...]

    def at(self, quantile: float) -> float:
        for (low, value), (high, other) in zip(self.points, self.points[1:], strict=False):
            if quantile <= high:
                return value + (other - value) * (quantile - low) / (high - low)
        return self.points[-1][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of workload: it starts up, works in stretches with pauses for its life, and may then be left lying."""

    name: str
    life: Length
    startup: Length
    """Idle before the first kernel: images, data, a queue inside the job."""
    busy: Length
    pauses: tuple[tuple[float, Length], ...]
    """(weight, length)"""
    left: float = 0.0
    """Probability that it keeps its GPU idle after its work."""
    lying: Length = field(default_factory=lambda: Length(600, 1.2))
    holding: float = 0.2
    """Probability that it then still holds memory."""
    util: Curve | None = None
    """Level of a busy stretch; none: the fleet's."""
    power: Curve | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """How samples get lost."""

    lost: float = 0.004
    """Share of single samples."""
    restart_every: float = 4 * 24 * 60.0
    restart: Length = field(default_factory=lambda: Length(4, 1.0, 120))
    """Exporter restarts, per subject."""
    outage_every: float = 7 * 24 * 60.0
    outage: Length = field(default_factory=lambda: Length(25, 0.5, 240))
    """All subjects at once."""
    blip: float = 0.0005
    """Share of idle samples that show 1 %: a monitoring tool, not work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A fleet: shares of subjects by kind, and the levels of what they measure."""

    name: str
    kinds: Mapping[str, float]
    util: Curve
    floor: Curve
    """Watts of an idle GPU."""
    power: Curve
    memory: Curve
    """Percent, of those who hold any."""
    table: Mapping[str, Kind]
    telemetry: Telemetry = field(default_factory=Telemetry)


_PARTLY = Curve(((0, 3), (0.5, 35), (1, 95)))
_COOL = Curve(((0, 68), (0.5, 110), (1, 300)))


def _table(*kinds: Kind) -> Mapping[str, Kind]:
    return {kind.name: kind for kind in kinds}


_ACME = _table(
    Kind(
        name="training",
        life=Length(160, 1.8),
        startup=Length(4, 1.0, 120),
        busy=Length(280, 1.0),
        pauses=((0.88, Length(3, 0.7)), (0.10, Length(18, 0.8)), (0.02, Length(75, 0.6))),
        left=0.065,
        holding=0.1,
    ),
    Kind(
        name="short",
        life=Length(3.4, 1.5, 120),
        startup=Length(1.5, 0.8, 30),
        busy=Length(10, 0.8),
        pauses=((1.0, Length(2, 0.5)),),
    ),
    Kind(
        name="notebook",
        life=Length(300, 1.0),
        startup=Length(8, 1.0, 240),
        busy=Length(6, 1.1),
        pauses=((0.80, Length(6, 1.0)), (0.155, Length(40, 0.6)), (0.045, Length(780, 0.25))),
        left=0.35,
        holding=0.5,
        util=_PARTLY,
        power=_COOL,
    ),
    Kind(
        name="inference",
        life=Length(1200, 1.0),
        startup=Length(6, 0.7, 120),
        busy=Length(25, 1.0),
        pauses=((0.97, Length(3, 1.0)), (0.03, Length(150, 0.6))),
        left=0.1,
        holding=0.9,
        util=Curve(((0, 3), (0.5, 40), (1, 100))),
        power=_COOL,
    ),
    Kind(
        name="forgotten",
        life=Length(20, 1.2, 600),
        startup=Length(10, 1.0, 300),
        busy=Length(15, 1.0),
        pauses=((1.0, Length(8, 1.0)),),
        left=1.0,
        lying=Length(780, 1.1),
        holding=0.05,
    ),
)

_PHILLY = _table(
    Kind(
        name="training",
        life=Length(150, 1.8),
        startup=Length(10, 1.0, 240),
        busy=Length(110, 1.0),
        pauses=((0.86, Length(4, 0.8)), (0.11, Length(18, 0.8)), (0.03, Length(80, 0.6))),
        left=0.15,
        lying=Length(90, 1.2),
    ),
    Kind(
        name="short",
        life=Length(12, 1.4, 240),
        startup=Length(6, 0.9, 120),
        busy=Length(8, 0.9),
        pauses=((1.0, Length(3, 0.6)),),
    ),
    _ACME["notebook"],
    _ACME["inference"],
    Kind(
        name="forgotten",
        life=Length(20, 1.2, 600),
        startup=Length(15, 1.0, 300),
        busy=Length(15, 1.0),
        pauses=((1.0, Length(8, 1.0)),),
        left=1.0,
        lying=Length(220, 1.0),
    ),
)

_FLOOR = Curve(((0, 60), (0.17, 62), (0.34, 63), (0.86, 66), (1, 68)))
_POWER = Curve(((0, 68), (0.29, 98), (0.55, 250), (0.86, 402), (0.985, 440), (1, 455)))
_MEMORY = Curve(((0, 3), (0.33, 57), (0.7, 85), (1, 97)))

PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            name="acme",
            kinds={"training": 0.50, "short": 0.42, "notebook": 0.014, "inference": 0.006, "forgotten": 0.06},
            util=Curve(((0, 5), (0.015, 90), (0.2, 98), (0.5, 99), (1, 100))),
            floor=_FLOOR,
            power=_POWER,
            memory=_MEMORY,
            table=_ACME,
        ),
        Profile(
            name="philly",
            kinds={"training": 0.56, "short": 0.20, "notebook": 0.036, "inference": 0.006, "forgotten": 0.198},
            util=Curve(((0, 2), (0.24, 48.6), (0.575, 90), (1, 100))),
            floor=_FLOOR,
            power=_POWER,
            memory=_MEMORY,
            table=_PHILLY,
        ),
    )
}
