"""A store of our own in one DuckDB file, for places without a Prometheus."""

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import duckdb

from gpusight.model.series import (
    Ask,
    Failure,
    Newest,
    Place,
    Point,
    Quantity,
    Reading,
    SeriesKey,
    Span,
    StoreError,
    Windows,
)
from gpusight.model.time import Clock
from gpusight.store import embedded_file, normalize, schema
from gpusight.store.embedded_charts import chart
from gpusight.store.embedded_file import Limits
from gpusight.store.embedded_pods import POD_FAMILIES, owners, started
from gpusight.store.embedded_series import UNKNOWN, SeriesBook, SeriesInfo, SeriesRef, SeriesShelf, Target, labels_of
from gpusight.store.embedded_upkeep import Retention, Upkeep
from gpusight.store.embedded_windows import LOOKBACK, Question, Wanted
from gpusight.store.promql import matching

_log = logging.getLogger("gpusight.store")

_UPKEEP_EVERY = 300.0
_NEARLY_FULL = 0.75
_A_LITTLE = 0.02
_LOG_SHARE = 32
"""The log may take one such part of what the file may."""
_AMBIGUOUS = tuple(source.family for source in normalize.SOURCES if source.scale is None)


class Batch(NamedTuple):
    """What one scrape of one target brought; nothing and `up=False` if it failed, which ends the target's series."""

    target: Target
    moment: float
    series: Sequence[SeriesRef] = ()
    values: Sequence[float] = ()
    up: bool = True
    simulated: bool = False


class EmbeddedStore:
    """Only one process may open the file; within it any thread may call. `append` returns when the rows are durable."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        retention: Retention = Retention(),  # noqa: B008  (immutable)
        declared_scales: Mapping[str, float] = MappingProxyType({}),
        cluster_label: str = "cluster",
        condition: str = "",
        limits: Limits = Limits(),  # noqa: B008  (immutable)
        deadline: float = 30.0,
    ) -> None:
        self._path = path
        self._clock = clock
        self._retention = retention
        self._declared = declared_scales
        self._limits = limits._replace(log=min(limits.log, max(retention.max_bytes // _LOG_SHARE, 1)))
        self._deadline = deadline
        self._lock = threading.RLock()
        self._book = SeriesBook()
        self._shelf = SeriesShelf(cluster_label, matching(condition))
        self._alive: frozenset[str] = frozenset()
        self._closed = False
        self._next_upkeep = 0.0
        self._size_after_upkeep = 0
        self._connection: duckdb.DuckDBPyConnection | None = embedded_file.open_file(path, self._limits)

    @property
    def name(self) -> str:
        return f"embedded {self._path}"

    def use_condition(self, condition: str) -> None:
        """Judge other series from now on. ConditionError if it is no list of matchers."""
        self._shelf = SeriesShelf(self._shelf.cluster_label, matching(condition))

    @property
    def simulated(self) -> bool | None:
        """Whether the file holds simulated samples; None while it holds none."""
        with self._asking() as cursor:
            found = schema.meta(cursor, "simulated")
        return None if found is None else found == "1"

    def ref(self, target: Target, family: str, labels: Mapping[str, str]) -> SeriesRef:
        """What stands for a series in batches: the same object for the same series, while somebody holds it."""
        with self._lock:
            return self._book.ref(target, family, labels)

    def append(self, batches: Sequence[Batch]) -> Mapping[Target, str]:
        """All batches in one transaction; by target, why its batch was refused. StoreError: nothing was written."""
        with self._lock:
            with self._writing() as connection:
                refused = self._refused(connection, batches)
                self._write(connection, [batch for batch in batches if batch.target not in refused])
            if self._is_upkeep_due():
                self.maintain()
            return refused

    def maintain(self) -> None:
        """Roll-ups, retention, room. `append` sees to it; what goes wrong here is logged, and tried again later."""
        with self._lock:
            now = self._clock.now()
            self._next_upkeep = now + _UPKEEP_EVERY
            try:
                with self._writing(commits=False) as connection:
                    upkeep = Upkeep(connection, self._path, self._retention)
                    if upkeep.run(now) and upkeep.forget_series():
                        self._book.forget_numbers()
                        self._shelf.forget()
            except StoreError as error:
                _log.warning("the upkeep of the embedded store failed: %s", error)
            self._size_after_upkeep = embedded_file.size_on_disk(self._path)

    def families(self) -> frozenset[str]:
        now = self._clock.now()
        with self._asking() as cursor:
            found = Question(cursor, self._shelf, Span(now, LOOKBACK, LOOKBACK)).living_families()
        return frozenset(found) & normalize.BY_FAMILY.keys()

    def latest(self, families: Iterable[str]) -> list[Newest]:
        """The living series of any families that were kept."""
        now = self._clock.now()
        with self._asking() as cursor:
            rows = Question(cursor, self._shelf, Span(now, LOOKBACK, LOOKBACK)).living(list(families))
        return [Newest(family, labels_of(labels), value) for family, labels, value in rows]

    def read(self, asks: Sequence[Ask], span: Span) -> Reading:
        wanted = list(self._wanted(asks))
        with self._asking() as cursor:
            cursor.begin()  # one state of the file for all questions
            question = Question(cursor, self._shelf, span)
            windows, seen = question.windows(wanted)
            rows = question.living([*POD_FAMILIES, *normalize.INFO_FAMILIES, *_AMBIGUOUS])
            warnings = _missing_raw(cursor, span)
        living = [self._shelf.describe(family, labels) for family, labels, _ in rows]
        values = [value for _, _, value in rows]
        return Reading(
            span=span,
            windows=windows,
            places=_places([*living, *seen], self._shelf),
            owners=owners(living, self._shelf.cluster_label),
            started=started(living, values, self._shelf.cluster_label),
            failures=[*self._ambiguities(asks, {info.family for info in living}), *self._lost(windows)],
            warnings=warnings,
            queries=question.queries,
        )

    def range(self, key: SeriesKey, quantity: Quantity, span: Span) -> Sequence[Point]:
        wanted = list(self._wanted([Ask(quantity, ())]))
        with self._asking() as cursor:
            cursor.begin()
            return chart(cursor, self._shelf, key, wanted, span)

    def check(self) -> None:
        with self._asking() as cursor:
            cursor.execute("SELECT 1 FROM meta").fetchone()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._disconnect()

    def _wanted(self, asks: Sequence[Ask]) -> Iterator[Wanted]:
        for ask in asks:
            for source in normalize.SOURCES:
                scale = normalize.resolve_scale(source, self._declared)
                if source.quantity == ask.quantity and scale is not None:
                    yield Wanted(ask, source, scale)

    def _ambiguities(self, asks: Sequence[Ask], present: set[str]) -> list[Failure]:
        asked = {ask.quantity for ask in asks}
        return [
            Failure(source.family, source.quantity, normalize.ambiguity(source), is_standing=True)
            for source in normalize.SOURCES
            if source.family in present
            and source.quantity in asked
            and normalize.resolve_scale(source, self._declared) is None
        ]

    def _lost(self, windows: Sequence[Windows]) -> list[Failure]:
        """Families that had living series a round ago and have none now."""
        before, self._alive = self._alive, frozenset(each.family for each in windows)
        return [
            Failure(family, None, f"{family} had series a round ago and has none now")
            for family in sorted(before - self._alive)
        ]

    def _refused(self, connection: duckdb.DuckDBPyConnection, batches: Sequence[Batch]) -> dict[Target, str]:
        """A store holds simulated samples or real ones; the first that come decide."""
        kind = schema.meta(connection, "simulated")
        refused: dict[Target, str] = {}
        for batch in batches:
            if not batch.series:
                continue
            mine = "1" if batch.simulated else "0"
            if kind is None:
                kind = mine
                schema.set_meta(connection, "simulated", mine)
            elif kind != mine:
                held, came = ("simulated", "real") if kind == "1" else ("real", "simulated")
                refused[batch.target] = (
                    f"{self._path} holds {held} samples and takes no {came} ones: give them a store of their own"
                )
        return refused

    def _write(self, connection: duckdb.DuckDBPyConnection, batches: Sequence[Batch]) -> None:
        if not batches:
            return
        self._book.number(connection, (ref for batch in batches for ref in batch.series if ref.id == UNKNOWN))
        row = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM scrapes").fetchone()
        first = int(row[0]) if row else 1
        connection.execute(
            "INSERT INTO scrapes SELECT unnest(?::BIGINT[]), unnest(?::INTEGER[]), unnest(?::DOUBLE[]),"
            " unnest(?::BOOLEAN[])",
            [
                list(range(first, first + len(batches))),
                [self._book.target_id(connection, batch.target) for batch in batches],
                [batch.moment for batch in batches],
                [batch.up for batch in batches],
            ],
        )
        connection.execute(
            "INSERT INTO samples SELECT unnest(?::BIGINT[]), unnest(?::INTEGER[]), unnest(?::DOUBLE[])",
            [
                [number for number, batch in enumerate(batches, first) for _ in batch.series],
                [ref.id for batch in batches for ref in batch.series],
                [value for batch in batches for value in batch.values],
            ],
        )

    def _is_upkeep_due(self) -> bool:
        """Every few minutes, and when the file has grown a little more although it is nearly full."""
        limit = self._retention.max_bytes
        nearly_full = max(_NEARLY_FULL * limit, self._size_after_upkeep + _A_LITTLE * limit)
        return self._clock.now() >= self._next_upkeep or embedded_file.size_on_disk(self._path) > nearly_full

    @contextmanager
    def _writing(self, *, commits: bool = True) -> Iterator[duckdb.DuckDBPyConnection]:
        """The connection, in a transaction of its own unless the caller makes them; the lock is held."""
        connection = self._connected()
        try:
            if commits:
                connection.begin()
            yield connection
            if commits:
                connection.commit()
        except (duckdb.Error, OSError) as error:
            with suppress(duckdb.Error):
                connection.rollback()
            self._recover(error)
            raise embedded_file.explained(self._path, error) from error
        except BaseException:
            with suppress(duckdb.Error):
                connection.rollback()
            self._book.forget_numbers()
            raise

    @contextmanager
    def _asking(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor of one's own, interrupted at the deadline."""
        with self._lock:
            cursor = self._connected().cursor()
        timer = threading.Timer(self._deadline, cursor.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield cursor
        except (duckdb.Error, OSError) as error:
            if isinstance(error, duckdb.InterruptException):
                raise StoreError(f"{self.name} took longer than {self._deadline:g} s to answer") from error
            with self._lock:
                self._recover(error)
            raise embedded_file.explained(self._path, error) from error
        finally:
            timer.cancel()
            with suppress(duckdb.Error):
                cursor.close()

    def _connected(self) -> duckdb.DuckDBPyConnection:
        if self._closed:
            raise StoreError(f"{self.name} is closed")
        if self._connection is None:
            self._connection = embedded_file.open_file(self._path, self._limits)
        return self._connection

    def _recover(self, error: Exception) -> None:
        """After this the next call finds a file that works, or says why there is none."""
        self._book.forget_numbers()
        if self._closed:
            return
        is_corrupt = embedded_file.is_corruption(error)
        if is_corrupt or not self._answers():
            self._shelf.forget()
            self._disconnect()
        if is_corrupt:
            embedded_file.set_aside(self._path, str(error))

    def _answers(self) -> bool:
        try:
            return self._connection is not None and bool(self._connection.execute("SELECT 1").fetchone())
        except duckdb.Error:
            return False

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(duckdb.Error):
                self._connection.close()
            self._connection = None


def _missing_raw(cursor: duckdb.DuckDBPyConnection, span: Span) -> tuple[str, ...]:
    raw_from = schema.meta(cursor, "raw_from")
    if raw_from is None or span.start >= float(raw_from):
        return ()
    return ("the window begins before the oldest raw sample that the embedded store still keeps",)


def _places(infos: Iterable[SeriesInfo], shelf: SeriesShelf) -> dict[tuple[str, str], Place]:
    """Node and model of each GPU, each from the first series that says it."""
    places: dict[tuple[str, str], Place] = {}
    for info in infos:
        device = shelf.device(info)
        known = places.get(device)
        if known is None:
            places[device] = info.place
        elif not (known.node and known.model):
            places[device] = Place(known.node or info.place.node, known.model or info.place.model)
    places.pop(("", ""), None)
    return places
