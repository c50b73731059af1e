"""Windows joined into parts: one GPU or MIG instance in the hands of one container, with all that is known of it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import itemgetter

from msgspec import Struct

from gpusight.analysis import signals
from gpusight.analysis.criteria import Criteria, asks
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
Row = list[float | None]


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
    device, holder = _Rows(reading.windows, "device"), _Rows(reading.windows, "holder")
    keys = _living(device, holder)
    sharers = Counter(key[:3] for key in {key[:3] + key[4:6]: key for key in keys if key.pod}.values())
    split: frozenset[Device] = frozenset((key.cluster, key.gpu, "") for key in keys if key.mig)
    instances = Counter(_container(key) for key in keys if key.mig)
    reader = _PartReader(device, holder, reading, criteria, sharers, split, instances)
    return [reader.part(key) for key in keys]


def _living(device: "_Rows", holder: "_Rows") -> list[SeriesKey]:
    """One key per part: a container's own series and the device's series with its name are the same part.

    So are a container's series that do not say which MIG instance they are of. What no pod holds counts only as long
    as nobody holds it or, in MIG mode, an instance of it.
    """
    found: dict[tuple[str, ...], SeriesKey] = {}
    for key in device.living:
        found.setdefault(key[:3] + key[4:], key)
    cut = {_container(key) for key in device.living if key.mig}
    for key in holder.living:
        if key.mig or not cut or _container(key) not in cut:
            found.setdefault(key[:3] + key[4:], key)
    taken = {key[:3] for key in found.values() if key.pod}
    taken.update([(key.cluster, key.gpu, "") for key in found.values() if key.mig])
    return [key for key in found.values() if key.pod or key[:3] not in taken]


def _container(key: SeriesKey) -> Container:
    return key[:2] + key[4:]


_SIGNALS: tuple[Quantity, ...] = ("utilization", "engine_active")
_COLUMNS: Mapping[tuple[Quantity, Aggregate], int] = {
    column: number
    for number, column in enumerate(
        (ask.quantity, aggregate)
        for ask in asks(Criteria())
        for aggregate in ask.aggregates
        if ask.quantity not in _SIGNALS
    )
}
"""Where in a row each value of a round stands; behind them the columns of each signal of each family."""
_UNKNOWN: Row = [None] * len(_COLUMNS)


class _At:
    """The columns by name."""

    memory_used = _COLUMNS["memory_used", "mean"]
    memory_free = _COLUMNS["memory_free", "mean"]
    memory_reserved = _COLUMNS["memory_reserved", "mean"]
    memory_total = _COLUMNS["memory_total", "mean"]
    memory_copy = _COLUMNS["memory_copy", "mean"]
    power = _COLUMNS["power", "mean"]
    power_limit = _COLUMNS["power_limit", "last"]
    sm_clock = _COLUMNS["sm_clock", "mean"]
    sm_active = _COLUMNS["sm_active", "mean"]
    tensor_active = _COLUMNS["tensor_active", "mean"]
    dram_active = _COLUMNS["dram_active", "mean"]
    pcie_transmit = _COLUMNS["pcie_transmit", "mean"]
    pcie_receive = _COLUMNS["pcie_receive", "mean"]


class _Rows:
    """The windows of one scope turned into one row per series; the most trusted family that knows a mean wins."""

    def __init__(self, windows: Sequence[Windows], scope: Scope) -> None:
        mine = [each for each in windows if each.scope == scope]
        self._rows: dict[SeriesKey, Row] = {}
        families = sum(each.quantity in _SIGNALS for each in mine)
        self.blank: Row = [None] * (len(_COLUMNS) + signals.WIDTH * families)
        self.living: dict[SeriesKey, None] = {}
        self.starts: dict[Quantity, list[int]] = {quantity: [] for quantity in _SIGNALS}
        """Where in a row the columns of each signal's families begin."""
        start = len(_COLUMNS)
        for each in mine:
            if each.quantity in _SIGNALS:
                self.starts[each.quantity].append(start)
                self._fill_signal(each, start)
                start += signals.WIDTH
            else:
                self._fill_means(each)
            if each.quantity in ANCHORS:
                self.living.update(dict.fromkeys(each.columns.get("last_seen", ())))
        self.has_nameless = not all(map(_POD, self._rows))
        """Whether there are series of devices as such."""

    def _fill_means(self, windows: Windows) -> None:
        for aggregate, values in windows.columns.items():
            column = _COLUMNS.get((windows.quantity, aggregate))
            if column is not None:
                self._fill(column, values)

    def _fill_signal(self, windows: Windows, start: int) -> None:
        for offset, aggregate in enumerate(signals.COLUMNS):
            self._fill(start + offset, windows.columns.get(aggregate, {}))
        if "active_count" in windows.columns:
            # An engine that counts has no row for what was never active.
            self._fill(
                start + signals.COLUMNS.index("active_count"), dict.fromkeys(windows.columns.get("count", ()), 0.0)
            )

    def _fill(self, column: int, values: Mapping[SeriesKey, float]) -> None:
        rows, blank = self._rows, self.blank
        for key, value in _bare(values).items():
            row = rows.get(key)
            if row is None:
                row = rows[key] = blank.copy()
            if row[column] is None:
                row[column] = value

    def get(self, key: SeriesKey) -> Row:
        return self._rows.get(key, self.blank)

    def find(self, key: SeriesKey) -> Row | None:
        return self._rows.get(key)


_SLOT = itemgetter(SeriesKey._fields.index("slot"))
_POD = itemgetter(SeriesKey._fields.index("pod"))


def _bare(values: Mapping[SeriesKey, float]) -> Mapping[SeriesKey, float]:
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


class _PartReader:
    """Makes one part out of its rows."""

    def __init__(
        self,
        device: _Rows,
        holder: _Rows,
        reading: Reading,
        criteria: Criteria,
        sharers: Mapping[Device, int],
        split: AbstractSet[Device],
        instances: Mapping[Container, int],
    ) -> None:
        self._device = device
        self._holder = holder
        self._places = reading.places
        self._now = reading.span.end
        self._criteria = criteria
        self._sharers = sharers
        self._split = split
        self._instances = instances
        self._signal = signals.SignalReader(reading.span, criteria).signal

    def part(self, key: SeriesKey) -> Part:
        bare = key._replace(slot="") if key.slot else key
        row, own = self._device.get(bare), self._own(bare)
        nameless = None
        if key.pod and self._device.has_nameless:
            nameless = self._device.find(SeriesKey(key.cluster, key.gpu, key.mig, "", "", "", ""))
        starts = self._device.starts
        # A GPU in MIG mode has no utilization: what the driver says there is of nobody.
        in_mig_mode = bool(key.mig) or key[:3] in self._split
        own_signal = self._signal(own, self._holder.starts["utilization"])
        whole = SILENCE if in_mig_mode else self._signal(row, starts["utilization"], nameless)
        engine = self._signal(row, starts["engine_active"], nameless)
        return self._described(key, _filled_up(row, nameless), own, (own_signal, whole, engine))

    def _own(self, key: SeriesKey) -> Row:
        """The container's series; those of a MIG instance may not say so, which does no harm where it has but one."""
        if key.mig and self._holder.find(key) is None and self._instances[_container(key)] == 1:
            return self._holder.get(key._replace(mig=""))
        return self._holder.get(key)

    def _described(self, key: SeriesKey, row: Row, own: Row, seen: tuple[Signal, Signal, Signal]) -> Part:
        sharers = max(1, self._sharers.get(key[:3], 1))
        alone = sharers == 1
        total = _total_memory(row)
        place = self._places.get(key[:2], _NOWHERE)
        used, limit = own[_At.memory_used], own[_At.memory_total]
        # Power and memory traffic are of the whole board: neither a sharer's nor a MIG instance's.
        board = row if alone and not key.mig else _UNKNOWN
        engine = row if alone else _UNKNOWN
        work = (board[_At.memory_copy], engine[_At.sm_active], engine[_At.tensor_active], engine[_At.dram_active])
        power_share = _power_share(board[_At.power], board[_At.power_limit], place.model)
        sight = Sight(bool(key.mig), sharers, *seen, _highest(work), power_share)
        activity, doubt = judge(sight, self._now, self._criteria)
        return Part(
            key,
            place,
            sharers,
            activity,
            sight.own.activity is not None,
            doubt,
            utilization=activity.mean if activity else None,
            memory_copy=board[_At.memory_copy],
            memory_used=engine[_At.memory_used] if used is None else used,
            memory_total=limit if limit is not None else total if alone else None,
            device_memory=total,
            power=board[_At.power],
            power_limit=board[_At.power_limit],
            sm_clock=row[_At.sm_clock],
            engine_active=sight.engine.activity.mean if alone and sight.engine.activity else None,
            sm_active=engine[_At.sm_active],
            tensor_active=engine[_At.tensor_active],
            dram_active=engine[_At.dram_active],
            pcie=_sum(engine[_At.pcie_transmit], engine[_At.pcie_receive]),
        )


def _highest(values: Iterable[float | None]) -> float | None:
    return max([value for value in values if value is not None], default=None)


def _filled_up(row: Row, nameless: Row | None) -> Row:
    """The means of the device's series that carry the pod's name, filled up from those that carry none."""
    if nameless is None:
        return row
    return [other if value is None else value for value, other in zip(row, nameless, strict=True)]


def _power_share(power: float | None, limit: float | None, model: str) -> float | None:
    if power is None:
        return None
    if not limit:
        known = power_range(model)
        limit = known.limit if known else None
    return power / limit if limit else None


def _total_memory(row: Row) -> float | None:
    """Memory of the whole device or instance: said, or the sum of its parts."""
    said, used, free = row[_At.memory_total], row[_At.memory_used], row[_At.memory_free]
    if said is not None:
        return said
    if used is None or free is None:
        return None
    return used + free + (row[_At.memory_reserved] or 0.0)


def _sum(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other
