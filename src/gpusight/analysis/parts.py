"""Windows joined into parts: one GPU or MIG instance in the hands of one container, with all that is known of it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, starmap
from operator import itemgetter

from msgspec import Struct

from gpusight.analysis import signals
from gpusight.analysis.criteria import Criteria
from gpusight.analysis.doubts import SILENCE, Activity, Sight, Signal, judge
from gpusight.analysis.hardware import power_range
from gpusight.model.series import Aggregate, Place, Quantity, Reading, Scope, SeriesKey, Windows

_NOWHERE = Place("", "")
ANCHORS: tuple[Quantity, ...] = ("utilization", "engine_active", "memory_used")
"""A part exists if one of these has a living series for it."""

Container = tuple[str, ...]
"""Cluster, GPU, namespace, pod, container."""
Device = tuple[str, str, str]
"""Cluster, GPU, MIG instance."""
Values = Mapping[SeriesKey, float]
Column = list[float | None]
"""One value per part."""


class Part(Struct, frozen=True, gc=False):
    """One part and its means over the window; None is unknown."""

    key: SeriesKey
    place: Place
    sharers: int
    """Pods on this GPU or MIG instance, this one included."""
    activity: Activity | None
    from_container: bool
    """The container's own series is known: it is what the activity is of, or it confirms it."""
    doubt: str
    """Why nothing may be concluded from the activity; empty when there is no such reason."""
    utilization: float | None
    memory_copy: float | None
    memory_used: float | None
    memory_total: float | None
    device_memory: float | None
    power: float | None
    power_limit: float | None
    sm_clock: float | None
    engine_active: float | None
    sm_active: float | None
    tensor_active: float | None
    dram_active: float | None
    pcie: float | None

    @property
    def is_allocated(self) -> bool:
        return bool(self.key.pod)


def build_parts(reading: Reading, criteria: Criteria) -> list[Part]:
    """Every part that lives now. What ended within the window is gone, and nothing is said of it."""
    device, holder = _Table(reading.windows, "device"), _Table(reading.windows, "holder")
    living = _living(device, holder)
    names = list(living)
    own_names = _own_names(names, holder)
    nameless = [_nameless(name) for name in names] if device.has_nameless else None
    read = signals.SignalReader(reading.span, criteria).signals
    own = read(holder.families("utilization", own_names), len(names))
    whole, engine = (
        read(device.families(each, names), len(names), device.families(each, nameless) if nameless else ())
        for each in _SIGNALS
    )
    part = _Describer(reading, criteria, living.values()).part
    used, limits = holder.column("memory_used", own_names), holder.column("memory_total", own_names)
    seen = zip(living.values(), device.means(names, nameless), used, limits, own, whole, engine, strict=True)
    return list(starmap(part, seen))


def _living(device: "_Table", holder: "_Table") -> dict[SeriesKey, SeriesKey]:
    """One key per part, by the key without its slot.

    A container's own series and the device's series with its name are the same part. So are a container's series that
    do not say which MIG instance they are of. What no pod holds counts only as long as nobody holds it or, in MIG
    mode, an instance of it.
    """
    found = _without_slots(device.living)
    cut = {_container(key) for key in found if key.mig}
    for name, key in _without_slots(holder.living).items():
        if key.mig or not cut or _container(key) not in cut:
            found.setdefault(name, key)
    if all(map(_POD, found)):
        return found
    taken = {key[:3] for key in found if key.pod}
    taken.update([(key.cluster, key.gpu, "") for key in found if key.mig])
    return {name: key for name, key in found.items() if key.pod or key[:3] not in taken}


def _without_slots(keys: Mapping[SeriesKey, None]) -> dict[SeriesKey, SeriesKey]:
    """Each container's first key, by the key without its slot."""
    if not any(map(_SLOT, keys)):
        return dict(zip(keys, keys, strict=True))
    found: dict[SeriesKey, SeriesKey] = {}
    for key in keys:
        found.setdefault(key._replace(slot=""), key)
    return found


def _container(key: SeriesKey) -> Container:
    return key[:2] + key[4:]


def _own_names(names: Sequence[SeriesKey], holder: "_Table") -> Sequence[SeriesKey]:
    """Of the containers' series; those of a MIG instance may not say so, which does no harm where it has but one."""
    instances = Counter([_container(name) for name in names if name.mig])
    if not instances:
        return names
    known = holder.names()
    return [
        name._replace(mig="") if name.mig and instances[_container(name)] == 1 and name not in known else name
        for name in names
    ]


_NOWHERE_FOUND = SeriesKey("", "", "", "-", "", "", "")
"""No column has it: slots are left out there."""


def _nameless(name: SeriesKey) -> SeriesKey:
    """The key of the device as such, for a part that a pod holds."""
    return SeriesKey(name.cluster, name.gpu, name.mig, "", "", "", "") if name.pod else _NOWHERE_FOUND


_SIGNALS: tuple[Quantity, ...] = ("utilization", "engine_active")


class _Means(Struct, frozen=True, gc=False):
    """What is known of a part beside its signals; each field is the quantity of its name."""

    memory_used: float | None = None
    memory_free: float | None = None
    memory_reserved: float | None = None
    memory_total: float | None = None
    memory_copy: float | None = None
    power: float | None = None
    power_limit: float | None = None
    sm_clock: float | None = None
    sm_active: float | None = None
    tensor_active: float | None = None
    dram_active: float | None = None
    pcie_transmit: float | None = None
    pcie_receive: float | None = None


_UNKNOWN = _Means()
_AGGREGATES: Mapping[str, Aggregate] = {
    name: "last" if name == "power_limit" else "mean" for name in _Means.__struct_fields__
}


class _Table:
    """The windows of one scope by column; the most trusted family that knows a mean wins."""

    def __init__(self, windows: Sequence[Windows], scope: Scope) -> None:
        self._means: dict[str, list[Values]] = {name: [] for name in _AGGREGATES}
        self._signals: dict[Quantity, list[Mapping[Aggregate, Values]]] = {quantity: [] for quantity in _SIGNALS}
        self.living: dict[SeriesKey, None] = {}
        self.has_nameless = False
        """Whether there are series of devices as such."""
        for each in windows:
            if each.scope == scope:
                self._add(each)

    def _add(self, windows: Windows) -> None:
        quantity, columns = windows.quantity, windows.columns
        if quantity in ANCHORS:
            self.living.update(dict.fromkeys(columns.get("last_seen", ())))
        if quantity in _SIGNALS:
            self._signals[quantity].append({name: self._bare(values) for name, values in columns.items()})
        elif _AGGREGATES.get(quantity) in columns:
            self._means[quantity].append(self._bare(columns[_AGGREGATES[quantity]]))

    def _bare(self, values: Values) -> Values:
        self.has_nameless = self.has_nameless or not all(map(_POD, values))
        return _bare(values)

    def names(self) -> frozenset[SeriesKey]:
        """Of all series, without slots."""
        signal_columns = [values for family in self._signals.values() for each in family for values in each.values()]
        return frozenset(_without_slots(self.living)).union(*signal_columns, *chain(*self._means.values()))

    def means(self, names: Sequence[SeriesKey], nameless: Sequence[SeriesKey] | None) -> Iterable[_Means]:
        """Of the device's series that carry the pod's name, filled up from those that carry none."""
        columns = [self.column(each, names) for each in _AGGREGATES]
        if nameless:
            others = [self.column(each, nameless) for each in _AGGREGATES]
            columns = [_filled_up(column, other) for column, other in zip(columns, others, strict=True)]
        return starmap(_Means, zip(*columns, strict=True))

    def column(self, quantity: str, names: Sequence[SeriesKey]) -> Column:
        families = self._means[quantity]
        if not families:
            return [None] * len(names)
        column = _look_up(families[0], names)
        for each in families[1:]:
            column = _filled_up(column, _look_up(each, names))
        return column

    def families(self, quantity: Quantity, names: Sequence[SeriesKey]) -> list[list[Column]]:
        """The columns of each family that has the signal."""
        return [_signal_columns(each, names) for each in self._signals[quantity]]


def _signal_columns(family: Mapping[Aggregate, Values], names: Sequence[SeriesKey]) -> list[Column]:
    columns = {each: _look_up(family.get(each, {}), names) for each in signals.COLUMNS}
    if "active_count" in family:
        # An engine that counts has no row for what was never active.
        counted = zip(columns["active_count"], columns["count"], strict=True)
        columns["active_count"] = [0.0 if active is None and count is not None else active for active, count in counted]
    return list(columns.values())


def _look_up(values: Values, names: Sequence[SeriesKey]) -> Column:
    return list(map(values.get, names))


def _filled_up(column: Column, other: Column) -> Column:
    return [spare if value is None else value for value, spare in zip(column, other, strict=True)]


_SLOT = itemgetter(SeriesKey._fields.index("slot"))
_POD = itemgetter(SeriesKey._fields.index("pod"))


def _bare(values: Values) -> Values:
    """Without slots: a container has one of a device, and not every family numbers it.

    Of several slots of one container the highest value stands: activity on one of them is the container's.
    """
    if not any(map(_SLOT, values)):
        return values
    bare: dict[SeriesKey, float] = {}
    for key, value in values.items():
        name = key._replace(slot="") if key.slot else key
        bare[name] = max(value, bare.get(name, value))
    return bare


class _Describer:
    """Makes one part out of what its series say."""

    def __init__(self, reading: Reading, criteria: Criteria, keys: Iterable[SeriesKey]) -> None:
        self._places = reading.places
        self._now = reading.span.end
        self._criteria = criteria
        self._sharers = _sharers(keys)
        self._split = frozenset([(key.cluster, key.gpu, "") for key in keys if key.mig])

    def part(
        self,
        key: SeriesKey,
        means: _Means,
        used: float | None,
        limit: float | None,
        own: Signal,
        whole: Signal,
        engine: Signal,
    ) -> Part:
        """`used` and `limit` are of the container's own memory."""
        sharers = self._sharers.get(key[:3], 1) if self._sharers else 1
        alone, is_mig = sharers == 1, bool(key.mig)
        if is_mig or (self._split and key[:3] in self._split):
            # A GPU in MIG mode has no utilization: what the driver says there is of nobody.
            whole = SILENCE
        total = _total_memory(means)
        place = self._places.get(key[:2], _NOWHERE)
        # Power and memory traffic are of the whole board: neither a sharer's nor a MIG instance's.
        mine = means if alone else _UNKNOWN
        board = mine if not is_mig else _UNKNOWN
        copy, sm, tensor, dram = board.memory_copy, mine.sm_active, mine.tensor_active, mine.dram_active
        power, power_limit = board.power, board.power_limit
        sight = Sight(
            is_mig, sharers, own, whole, engine, (copy, sm, tensor, dram), _power_share(power, power_limit, place.model)
        )
        activity, doubt = judge(sight, self._now, self._criteria)
        return Part(
            key,
            place,
            sharers,
            activity,
            own.activity is not None,
            doubt,
            activity.mean if activity is not None else None,
            copy,
            mine.memory_used if used is None else used,
            limit if limit is not None else total if alone else None,
            total,
            power,
            power_limit,
            means.sm_clock,
            engine.activity.mean if alone and engine.activity is not None else None,
            sm,
            tensor,
            dram,
            _sum(mine.pcie_transmit, mine.pcie_receive),
        )


def _sharers(keys: Iterable[SeriesKey]) -> Mapping[Device, int]:
    """Pods by GPU or MIG instance; empty when nobody shares one."""
    held = [key[:3] for key in keys if key.pod]
    if len(set(held)) == len(held):
        return {}
    return Counter([pod[:3] for pod in {key[:3] + key[4:6] for key in keys if key.pod}])


def _power_share(power: float | None, limit: float | None, model: str) -> float | None:
    if power is None:
        return None
    if not limit:
        known = power_range(model)
        limit = known.limit if known else None
    return power / limit if limit else None


def _total_memory(means: _Means) -> float | None:
    """Memory of the whole device or instance: said, or the sum of its parts."""
    if means.memory_total is not None:
        return means.memory_total
    if means.memory_used is None or means.memory_free is None:
        return None
    return means.memory_used + means.memory_free + (means.memory_reserved or 0.0)


def _sum(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other
