"""Readings drawn by hypothesis: of a world that is known and honestly measured, and of no world at all."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from gpusight.model.series import Aggregate, Owner, Place, PodKey, Quantity, Reading, Scope, SeriesKey, Windows

from .building import GIB, H100, LOOKS, NOW, SPAN, means, reading_of, signal

SIGNALS: tuple[Quantity, ...] = ("utilization", "engine_active")
DESCRIBED: tuple[Quantity, ...] = (
    "memory_copy",
    "memory_free",
    "memory_reserved",
    "memory_total",
    "power",
    "power_limit",
    "sm_clock",
    "sm_active",
    "tensor_active",
    "dram_active",
    "pcie_transmit",
    "pcie_receive",
)
RATIOS = {"utilization", "engine_active", "memory_copy", "sm_active", "tensor_active", "dram_active"}

ratios = st.sampled_from([0.0, 5e-324, 0.004, 0.005, 0.0051, 0.05, 0.06, 0.3, 0.6, 0.99, 1.0])
amounts = st.sampled_from([0.0, 5e-324, 1.0, 60.0, 120.0, 650.0, 1e9, GIB, 40 * GIB, 80 * GIB, 1e18, 1e308])
counts = st.sampled_from([0.0, 1.0, 15.0, 16.0, float(LOOKS), LOOKS + 1.0, 3.0 * LOOKS])
active_counts = st.sampled_from([0.0, 1.0, 10.0, float(LOOKS), 1e6])
times = st.sampled_from([0.0, -1e12, NOW - 5, NOW - 151, NOW - 300, NOW - 650, NOW + 30, 1e308])


def values_of(quantity: Quantity, aggregate: Aggregate) -> st.SearchStrategy[float]:
    match aggregate:
        case "last_seen" | "last_active":
            return times
        case "count":
            return counts
        case "active_count":
            return active_counts
        case _:
            return ratios if quantity in RATIOS else amounts


keys = st.builds(
    SeriesKey,
    cluster=st.sampled_from(["", "east"]),
    gpu=st.sampled_from(["GPU-1", "GPU-2"]),
    mig=st.sampled_from(["", "", "1"]),
    slot=st.sampled_from(["", "", "0"]),
    namespace=st.sampled_from(["team"]),
    pod=st.sampled_from(["", "a", "a", "b", "c"]),
    container=st.sampled_from(["", "main"]),
)
owners = st.dictionaries(
    st.builds(PodKey, st.sampled_from(["", "east"]), st.just("team"), st.sampled_from("abc")),
    st.just(Owner("Deployment", "llm", "kube_pod_owner")),
    max_size=4,
)
started = st.dictionaries(
    st.builds(PodKey, st.sampled_from(["", "east"]), st.just("team"), st.sampled_from("abc")),
    st.sampled_from([NOW - 90_000, NOW - 60, NOW + 60, -1e308, 1e308]),
    max_size=2,
)
ACTIVITY: tuple[Aggregate, ...] = ("last_seen", "count", "mean", "max", "active_count", "last_active")
DESCRIPTION: tuple[Aggregate, ...] = ("last_seen", "mean", "last")


@st.composite
def windows(draw: st.DrawFn, number: int, among: tuple[SeriesKey, ...]) -> Windows:
    quantity = draw(st.sampled_from((*SIGNALS * 3, "memory_used", "memory_used", *DESCRIBED)))
    chosen = draw(st.sets(st.sampled_from(ACTIVITY if quantity in SIGNALS else DESCRIPTION), min_size=1))
    columns = {
        aggregate: draw(st.dictionaries(st.sampled_from(among), values_of(quantity, aggregate), max_size=4))
        for aggregate in sorted(chosen)
    }
    return Windows(quantity, draw(st.sampled_from(("device", "device", "holder"))), f"family-{number}", columns)


@st.composite
def any_readings(draw: st.DrawFn) -> Reading:
    """Whatever a store may hand over within its contract, sensible or not."""
    among = tuple(draw(st.lists(keys, min_size=1, max_size=4, unique=True)))
    found = [draw(windows(number, among)) for number in range(draw(st.integers(0, 9)))]
    places = dict.fromkeys([key[:2] for key in among], Place("n", draw(st.sampled_from([H100, "", "0GB", "T4"]))))
    return Reading(SPAN, found, places, draw(owners), draw(started))


_IDLE: dict[Aggregate, float] = {"last_seen": NOW - 5, "count": float(LOOKS), "mean": 0.0, "max": 0.0}
_SHAPES: Sequence[dict[Aggregate, float]] = [
    *(_IDLE,) * 8,
    _IDLE | {"active_count": 0.0},
    _IDLE | {"mean": 0.004, "max": 0.005},
    _IDLE | {"mean": 0.004, "max": 0.08, "active_count": 1.0, "last_active": NOW - 30},
    _IDLE | {"mean": 0.004, "max": 0.08},
    _IDLE | {"active_count": 1.0},
    _IDLE | {"last_active": NOW - 30},
    _IDLE | {"last_active": NOW - 650},
    _IDLE | {"mean": 0.9, "max": 1.0, "active_count": float(LOOKS), "last_active": NOW},
    _IDLE | {"count": 10.0},
    _IDLE | {"count": 3.0 * LOOKS},
    _IDLE | {"last_seen": NOW - 200},
    {"last_seen": NOW - 5},
    {"count": float(LOOKS), "mean": 0.0, "max": 0.0},
    {"count": float(LOOKS), "mean": 0.5, "max": 1.0},
    {"last_seen": NOW - 5, "count": float(LOOKS), "mean": 0.0},
    {"last_seen": NOW - 5, "count": float(LOOKS), "mean": 0.004},
    {"last_seen": NOW - 5, "mean": 0.0, "max": 0.0},
    {"last_seen": NOW - 5, "count": float(LOOKS), "max": 0.0},
    {"max": 1.0},
    {"active_count": 1.0},
    {},
]


@st.composite
def plausible_readings(draw: st.DrawFn) -> Reading:
    """Mostly idle and mostly complete, with something odd here and there."""
    among = draw(st.lists(keys, min_size=1, max_size=4, unique=True))
    found: list[Windows] = []
    signals: list[tuple[Quantity, Scope]] = [
        ("utilization", "device"),
        *draw(st.lists(st.sampled_from(_KINDS), max_size=3)),
    ]
    for number, (quantity, scope) in enumerate(signals):
        columns: dict[Aggregate, dict[SeriesKey, float]] = {}
        for key in among:
            for aggregate, value in draw(st.sampled_from(_SHAPES)).items():
                columns.setdefault(aggregate, {})[key] = value
        found.append(Windows(quantity, scope, f"family-{number}", columns))
    for quantity, values in _DESCRIBED.items():
        drawn = {key: draw(st.sampled_from(values)) for key in among}
        known = {key: amount for key, amount in drawn.items() if amount is not None}
        found.append(means(quantity, known))
        if quantity == "memory_used" and draw(st.booleans()):
            found.append(means(quantity, known, scope="holder"))
    return reading_of(found, owners=draw(owners))


_KINDS: tuple[tuple[Quantity, Scope], ...] = (
    ("utilization", "device"),
    ("engine_active", "device"),
    ("utilization", "holder"),
)
_DESCRIBED: dict[Quantity, tuple[float | None, ...]] = {
    "memory_used": (0.0, GIB, 70 * GIB, 70 * GIB, None),
    "memory_total": (80 * GIB, 80 * GIB, None),
    "power": (100.0, 100.0, 600.0, None),
    "power_limit": (700.0, 150.0, None),
    "sm_active": (0.0, 0.0, 0.04, 0.3, None),
    "tensor_active": (0.0, 0.0, None),
    "dram_active": (0.0, 0.0, None),
}


class Holder(NamedTuple):
    """A container with a GPU, and what it really did at each look."""

    key: SeriesKey
    did: tuple[float, ...]

    @property
    def is_active(self) -> bool:
        return any(each > 0 for each in self.did)


_doings = st.one_of(
    st.just((0.0,) * LOOKS),
    st.lists(st.sampled_from([0.0, 0.0, 0.01, 0.08, 0.5, 1.0]), min_size=LOOKS, max_size=LOOKS).map(tuple),
    st.integers(0, LOOKS - 1).map(lambda at: tuple(0.06 if at == look else 0.0 for look in range(LOOKS))),
)
_holders = st.builds(Holder, keys.filter(lambda key: bool(key.pod)), _doings)


@st.composite
def honest_worlds(draw: st.DrawFn) -> tuple[list[Holder], Reading]:
    """Holders, and a reading in which every series tells the truth (but for the driver's 0 in MIG mode)."""
    drawn = draw(
        st.lists(_holders, min_size=1, max_size=5, unique_by=lambda holder: (*holder.key[:3], *holder.key[4:]))
    )
    split = {holder.key[:2] for holder in drawn if holder.key.mig}
    holders = [each for each in drawn if each.key.mig or each.key[:2] not in split]
    naming = draw(st.sampled_from(["each", "nobody", "each and nobody"]))
    device = {key: total for holder in holders for key, total in _named(holder, _total(holder, holders), naming)}
    driver = {key: (0.0,) * LOOKS if key.mig else total for key, total in device.items()}
    own = {holder.key: holder.did for holder in holders}
    found = [
        signal("utilization", driver, family="dcgm_util"),
        signal("utilization", driver, family="nvidia_util"),
        signal("engine_active", device, family="dcgm_engine"),
        signal("utilization", own, family="hami_util", scope="holder"),
        *_descriptions(draw, device, "device"),
        *_descriptions(draw, own, "holder"),
    ]
    order = draw(st.permutations(found))
    reading = reading_of(order, owners=draw(owners))
    return holders, reading


def _total(holder: Holder, holders: Iterable[Holder]) -> tuple[float, ...]:
    sharers = [each.did for each in holders if each.key[:3] == holder.key[:3]]
    return tuple(min(1.0, sum(look)) for look in zip(*sharers, strict=True))


def _named(holder: Holder, total: tuple[float, ...], naming: str) -> Iterable[tuple[SeriesKey, tuple[float, ...]]]:
    if "each" in naming:
        yield holder.key, total
    if "nobody" in naming:
        yield SeriesKey(*holder.key[:3], "", "", "", ""), total


def _descriptions(draw: st.DrawFn, about: Mapping[SeriesKey, object], scope: Scope) -> Iterable[Windows]:
    amounts_of: dict[Quantity, st.SearchStrategy[float]] = {
        "memory_used": st.sampled_from([0.0, GIB, 70 * GIB]),
        "memory_total": st.just(80 * GIB),
        "power": st.sampled_from([60.0, 120.0, 400.0]),
        "sm_active": st.sampled_from([0.0, 0.3]),
        "dram_active": st.sampled_from([0.0, 0.3]),
        "tensor_active": st.sampled_from([0.0, 0.3]),
    }
    for quantity, drawn in amounts_of.items():
        if scope == "device" or quantity.startswith("memory"):
            yield means(quantity, {key: draw(drawn) for key in about}, scope=scope)
