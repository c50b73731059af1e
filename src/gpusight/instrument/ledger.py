"""The counts behind GpuMetrics: a table of small cells of floats, and the folding of buffered records into it.

Recording only appends to a list, which is atomic; folding takes whole runs of records in a few C calls. A cell is any
mutable sequence of floats: a list here, a piece of a shared file in multi-process mode.
"""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol

from gpusight.catalog.ops import OPS_DURATION
from gpusight.instrument.labels import DeviceIds, clean

Key = tuple[str, ...]
"""A cell's identity; its first element is one of the words below."""
RUN, FALLBACK, FAILURE, CHECK, ERROR = "run", "fallback", "failure", "check", "error"
DEVICE, QUEUE, MEMORY, MEMORY_TOTAL = "device", "queue", "memory", "memory_total"
WORKERS, SPAN = "workers", "span"

Cell = MutableSequence[float]
RunKey = tuple[Any, Any, Any]
"""(module, device, backend) as the program named them."""
RunRecord = tuple[RunKey, Any, Any, Any, Any, float]
"""(key, size, latency, failed, reason, time): Any is what it says, a program may pass anything."""
Event = tuple[Any, ...]
"""(kind, module, reason) counts one; ("set", kind, device, value, time) sets a gauge; (DEVICE, name, ...) announces."""

BOUNDS = OPS_DURATION.buckets
SLOTS = 12
"""Parts of the sliding window: it forgets in steps of a twelfth."""

# A run cell: what is kept per module, device and backend.
FAILED, SUM, MIN, MAX, LAST, SIZE, AT = range(7)
BUCKETS = 7
BUCKETS_END = BUCKETS + len(BOUNDS) + 1
SLOT_EPOCH, SLOT_COUNT, SLOT_FAILED, SLOT_SUM, SLOT_MIN, SLOT_MAX = range(6)
SLOT_SIZE = 6
RUN_CELL = BUCKETS_END + SLOTS * SLOT_SIZE

# What reduced() makes of the slots.
WINDOW = BUCKETS_END
WINDOW_MIN, WINDOW_MAX = WINDOW + 3, WINDOW + 4

MAX_CELLS = 2_000
MAX_REASONS = 64
OTHER = "other"
UNSPECIFIED = "unspecified"
ERROR_REASONS = ("bad_latency", "bad_size", "bad_value", "too_many_series", "no_space", "serve", "internal")


_PLAIN_TYPES = {int, float}
_LARGEST_EXACT = 2**53


class Store(Protocol):
    """Where cells live."""

    def cell(self, key: Key, size: int) -> Cell:
        """A new cell of zeros."""
        ...


class MemoryStore:
    """Cells of this process alone."""

    def cell(self, key: Key, size: int) -> Cell:  # noqa: ARG002  (part of the protocol)
        return [0.0] * size


class Ledger:
    """All cells of one process. The caller holds a lock around every method."""

    def __init__(self, store: Store, window: float) -> None:
        self.slot_seconds = window / SLOTS
        self.devices = DeviceIds()
        self._store = store
        self._cells: dict[Key, Cell] = {}
        self._run_cells: dict[RunKey, tuple[str, Cell]] = {}
        self._reasons: Counter[tuple[str, str]] = Counter()
        for reason in ERROR_REASONS:
            self._cell((ERROR, reason), 1)
        self._cell((SPAN,), 1)[0] = window

    def table(self, now: float) -> dict[Key, list[float]]:
        """A copy for reading: run cells with their window reduced to what is still inside it."""
        return {key: reduced(key, cell, now, self.slot_seconds) for key, cell in self._cells.items()}

    def adopt_devices(self, other: "Ledger") -> None:
        """Know the devices that the other one knew."""
        self.devices = other.devices
        for key, cell in other._cells.items():  # noqa: SLF001  (of the same class)
            if key[0] == DEVICE:
                self._cell(key, 2)[:] = _floats(*cell)

    def error(self, reason: str, count: int = 1) -> None:
        self._cells[(ERROR, reason)][0] += count

    def fold_run(self, record: RunRecord) -> None:
        """Take over one execution: the quick way of multi-process mode, where nothing may wait."""
        key, size, latency, failed, reason, at = record
        try:
            known = self._run_cells.get(key)
        except Exception:
            known = None
        if known is None or type(failed) is not bool or type(latency) is not float or not 0.0 <= latency < math.inf:
            self.fold_runs((record,))
            return
        module, cell = known
        if failed:
            self._count(FAILURE, module, reason)
            cell[FAILED] += 1
        cell[SUM] += latency
        if latency < cell[MIN]:  # noqa: PLR1730  (each access counts here)
            cell[MIN] = latency
        if latency > cell[MAX]:  # noqa: PLR1730
            cell[MAX] = latency
        _add_to_slot(cell, at // self.slot_seconds, 1, int(failed), latency, latency, latency)
        cell[BUCKETS + bisect_left(BOUNDS, latency)] += 1
        cell[LAST], cell[AT] = latency, at
        self._note_size(cell, size)

    def fold_runs(self, records: Sequence[RunRecord]) -> None:
        """Take over executions, module by module; a record that is no good costs only itself."""
        try:
            groups = _grouped(records)
        except Exception:  # a module, device or backend that cannot be hashed or compared
            groups = _grouped([(_as_text(record[0]), *record[1:]) for record in records])
        for key, group in groups.items():
            self._fold_group(key, group)

    def fold_events(self, events: Iterable[Event]) -> None:
        """Take over fallbacks, checks and gauges, in order."""
        for event in events:
            try:
                if event[0] == "set":
                    self._set(*event[1:])
                elif event[0] == DEVICE:
                    self._announce(*event[1:])
                elif event[0] == CHECK:
                    self._count(CHECK, event[1], "matched" if event[2] else "mismatched")
                elif event[0] == ERROR:
                    self.error(*event[1:])
                else:
                    self._count(*event)
            except Exception:
                self.error("bad_value")

    def _fold_group(self, key: RunKey, records: Sequence[RunRecord]) -> None:
        if not (_sound([record[2] for record in records]) and {type(record[3]) for record in records} == {bool}):
            records = self._sound_only(records)
            if not records:
                return
        module, cell = self._run_cell(key)
        self._note_size(cell, records[-1][1])
        times = [record[5] for record in records]
        start = 0
        while start < len(times):  # almost always once: a buffer spans a slot's end only now and then
            epoch = times[start] // self.slot_seconds
            # at least one on each turn: times of several threads may be a little out of order
            end = max(start + 1, bisect_left(times, (epoch + 1) * self.slot_seconds, start))
            self._add(module, cell, epoch, records[start:end])
            start = end

    def _add(self, module: str, cell: Cell, epoch: float, records: Sequence[RunRecord]) -> None:
        """Add executions that fall into one slot of the window."""
        latencies = [record[2] for record in records]
        failed = [record for record in records if record[3]]
        for record in failed:
            self._count(FAILURE, module, record[4])
        seconds, shortest, longest = sum(latencies), min(latencies), max(latencies)
        cell[FAILED] += len(failed)
        cell[SUM] += seconds
        cell[MIN] = min(cell[MIN], shortest)
        cell[MAX] = max(cell[MAX], longest)
        cell[LAST], cell[AT] = latencies[-1], records[-1][5]
        _add_to_buckets(cell, latencies)
        _add_to_slot(cell, epoch, len(records), len(failed), seconds, shortest, longest)

    def _sound_only(self, records: Sequence[RunRecord]) -> list[RunRecord]:
        kept = []
        for record in records:
            seconds, failed = _seconds(record[2]), _truth(record[3])
            if seconds is None or failed is None:
                self.error("bad_latency" if seconds is None else "bad_value")
            else:
                kept.append((*record[:2], seconds, failed, *record[4:]))
        return kept

    def _run_cell(self, key: RunKey) -> tuple[str, Cell]:
        known = self._run_cells.get(key)
        if known is None:
            module, device, backend = key
            name = clean(module)
            where = self.devices.resolve(device) if device is not None else ""
            cell = self._bounded_cell(
                (RUN, name, where, "" if backend is None else clean(backend)), (RUN, name, "", ""), (RUN, OTHER, "", "")
            )
            known = (name, cell)
            if len(self._run_cells) < MAX_CELLS:
                self._run_cells[key] = known
        return known

    def _bounded_cell(self, *keys: Key) -> Cell:
        """The cell of the first key that exists or still finds room; the last one always does."""
        for attempt, key in enumerate(keys):
            if key in self._cells or len(self._cells) < MAX_CELLS or attempt == len(keys) - 1:
                if attempt:
                    self.error("too_many_series")
                return self._cell(key, RUN_CELL)
        raise AssertionError  # unreachable: the last key is always taken

    def _cell(self, key: Key, size: int) -> Cell:
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = self._new_cell(key, size)
            if size == RUN_CELL:
                cell[MIN], cell[SIZE] = math.inf, math.nan
        return cell

    def _new_cell(self, key: Key, size: int) -> Cell:
        try:
            return self._store.cell(key, size)
        except OSError:
            self.error("no_space")  # this cell is lost to other processes, the program goes on
            return [0.0] * size

    def _note_size(self, cell: Cell, size: Any) -> None:
        if type(size) is int and 0 <= size <= _LARGEST_EXACT:
            cell[SIZE] = size
            return
        if size is None:
            return
        number = _finite(size)
        if number is None or number < 0:
            self.error("bad_size")
        else:
            cell[SIZE] = number

    def _count(self, kind: str, module: Any, reason: Any) -> None:
        name, why = clean(module), clean(reason) if reason is not None else UNSPECIFIED
        key = (kind, name, why)
        if key not in self._cells:
            if self._reasons[kind, name] >= MAX_REASONS or len(self._cells) >= MAX_CELLS:
                self.error("too_many_series")
                key = (kind, name if self._reasons[kind, name] else OTHER, OTHER)
            self._reasons[kind, name] += key not in self._cells
        self._cell(key, 1)[0] += 1

    def _announce(self, device: Any, backend: Any, available: Any, at: float) -> None:
        known, name = self.devices.register(device)
        self._run_cells.clear()  # what was recorded under a bare name so far goes on under its id
        self._set(DEVICE, (known, name, "" if backend is None else clean(backend)), bool(available), at)

    def _set(self, kind: str, where: Any, value: Any, at: float) -> None:
        number = _finite(value)
        if number is None or number < 0:
            self.error("bad_value")
            return
        labels = where if isinstance(where, tuple) else ("" if where is None else self.devices.resolve(where),)
        key = (kind, *labels)
        if key not in self._cells and len(self._cells) >= MAX_CELLS:
            self.error("too_many_series")
            return
        cell = self._cell(key, 2)
        cell[0], cell[1] = number, at


def reduced(key: Key, cell: Sequence[float], now: float, slot_seconds: float) -> list[float]:
    """The cell as read by pages: the slots of a run cell become count, failures, sum, min, max of the window."""
    if key[0] != RUN:
        return list(cell)
    oldest = now // slot_seconds - SLOTS
    slots = [s for s in _slots(cell) if s[SLOT_COUNT] and s[SLOT_EPOCH] > oldest]
    window = [
        sum(s[SLOT_COUNT] for s in slots),
        sum(s[SLOT_FAILED] for s in slots),
        sum(s[SLOT_SUM] for s in slots),
        min((s[SLOT_MIN] for s in slots), default=math.inf),
        max((s[SLOT_MAX] for s in slots), default=0.0),
    ]
    return [*cell[:BUCKETS_END], *window]


def _slots(cell: Sequence[float]) -> Iterator[Sequence[float]]:
    return (cell[i : i + SLOT_SIZE] for i in range(BUCKETS_END, RUN_CELL, SLOT_SIZE))


def _add_to_slot(
    cell: Cell, epoch: float, executions: int, failed: int, seconds: float, shortest: float, longest: float
) -> None:
    slot = BUCKETS_END + int(epoch) % SLOTS * SLOT_SIZE
    if cell[slot] != epoch:
        if cell[slot] > epoch:  # a record folded so late that its slot serves a newer time
            return
        cell[slot + SLOT_COUNT] = 0.0  # first, so that a reader in between sees an empty slot
        cell[slot : slot + SLOT_SIZE] = _floats(epoch, 0.0, 0.0, 0.0, math.inf, 0.0)
    cell[slot + SLOT_SUM] += seconds
    if shortest < cell[slot + SLOT_MIN]:  # noqa: PLR1730  (each access counts here)
        cell[slot + SLOT_MIN] = shortest
    if longest > cell[slot + SLOT_MAX]:  # noqa: PLR1730
        cell[slot + SLOT_MAX] = longest
    if failed:
        cell[slot + SLOT_FAILED] += failed
    cell[slot + SLOT_COUNT] += executions


def _add_to_buckets(cell: Cell, latencies: Sequence[float]) -> None:
    if len(latencies) < 4 * len(BOUNDS):
        for latency in latencies:
            cell[BUCKETS + bisect_left(BOUNDS, latency)] += 1
        return
    ordered = sorted(latencies)
    below = 0
    for index, bound in enumerate(BOUNDS, BUCKETS):
        upto = bisect_right(ordered, bound, below)
        cell[index] += upto - below
        below = upto
    cell[BUCKETS_END - 1] += len(ordered) - below


def _floats(*values: float) -> "array[float]":
    """In a form that both a list and a view of a file take as a slice."""
    return array("d", values)


def _grouped(records: Sequence[RunRecord]) -> dict[RunKey, list[RunRecord]]:
    groups: dict[RunKey, list[RunRecord]] = {}
    for key, same in groupby(records, itemgetter(0)):
        groups.setdefault(key, []).extend(same)
    return groups


def _as_text(key: RunKey) -> RunKey:
    module, device, backend = key
    return clean(module), None if device is None else clean(device), None if backend is None else clean(backend)


def _sound(latencies: Sequence[Any]) -> bool:
    """Whether all are plain, finite and not negative: the usual case, settled in C."""
    if not set(map(type, latencies)) <= _PLAIN_TYPES:
        return False
    try:
        return bool(min(latencies) >= 0) and math.isfinite(sum(latencies))
    except OverflowError:
        return False


def _seconds(value: Any) -> float | None:
    """A latency in seconds, or None where it cannot be one."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    number = _finite(value)
    return number if number is not None and number >= 0 else None


def _truth(value: Any) -> bool | None:
    try:
        return bool(value)
    except Exception:
        return None


def _finite(value: Any) -> float | None:
    if isinstance(value, str | bytes):
        return None
    try:
        number = float(value)
    except Exception:
        return None
    return number if math.isfinite(number) else None
