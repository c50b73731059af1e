"""Which series there are: from name and labels to the number that stands for them in the file, and back."""

import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

from duckdb import DuckDBPyConnection

from gpusight.model.series import Place, SeriesKey
from gpusight.store.labels import gpu_of, place, series_key
from gpusight.store.normalize import BY_FAMILY
from gpusight.store.promql import Matches

UNKNOWN = 0


class Target(NamedTuple):
    """Who was scraped, as Prometheus names it."""

    job: str
    instance: str


class SeriesRef:
    """Stands for one series of one target; `id` is UNKNOWN until the file has it."""

    __slots__ = ("__weakref__", "family", "id", "labels", "target")

    def __init__(self, target: Target, family: str, labels: str) -> None:
        self.target = target
        self.family = family
        self.labels = labels
        self.id = UNKNOWN


class SeriesInfo(NamedTuple):
    """What a stored series is about; `key` is None if it is of no use for a verdict, and only then labels are kept."""

    family: str
    labels: Mapping[str, str]
    key: SeriesKey | None
    place: Place


def canonical(labels: Mapping[str, str]) -> str:
    """One text for one set of labels, whatever their order."""
    return json.dumps(labels, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def labels_of(text: str) -> dict[str, str]:
    labels: dict[str, str] = json.loads(text)
    return labels


class SeriesBook:
    """Hands out references and gives them their numbers. The caller holds the store's write lock."""

    def __init__(self) -> None:
        self._refs: WeakValueDictionary[tuple[Target, str, str], SeriesRef] = WeakValueDictionary()
        self._targets: dict[Target, int] = {}

    def ref(self, target: Target, family: str, labels: Mapping[str, str]) -> SeriesRef:
        identity = (target, family, canonical(labels))
        found = self._refs.get(identity)
        if found is None:
            found = self._refs[identity] = SeriesRef(*identity)
        return found

    def forget_numbers(self) -> None:
        """The file may have changed behind the references: ask it again."""
        self._targets.clear()
        for ref in list(self._refs.values()):
            ref.id = UNKNOWN

    def target_id(self, connection: DuckDBPyConnection, target: Target) -> int:
        if target not in self._targets:
            found = connection.execute("SELECT id FROM targets WHERE job = ? AND instance = ?", list(target)).fetchone()
            self._targets[target] = found[0] if found else _add_target(connection, target)
        return self._targets[target]

    def number(self, connection: DuckDBPyConnection, refs: Iterable[SeriesRef]) -> None:
        """Find these series in the file, or add them; inside a transaction."""
        new = list({id(ref): ref for ref in refs if ref.id == UNKNOWN}.values())
        if not new:
            return
        columns = [
            [self.target_id(connection, ref.target) for ref in new],
            [ref.family for ref in new],
            [ref.labels for ref in new],
        ]
        for row, number in connection.execute(_NUMBER, columns).fetchall():
            new[row].id = number
        _insert(connection, [ref for ref in new if ref.id == UNKNOWN], self._targets)


_NUMBER = """
    WITH asked AS (
        SELECT unnest(range(len($1::INTEGER[]))) AS place, unnest($1::INTEGER[]) AS target,
               unnest($2::VARCHAR[]) AS family, unnest($3::VARCHAR[]) AS labels)
    SELECT place, min(id) FROM asked JOIN series USING (target, family, labels) GROUP BY place"""


def _add_target(connection: DuckDBPyConnection, target: Target) -> int:
    number = _next(connection, "targets")
    connection.execute("INSERT INTO targets VALUES (?, ?, ?)", [number, *target])
    return number


def _insert(connection: DuckDBPyConnection, refs: Sequence[SeriesRef], targets: Mapping[Target, int]) -> None:
    if not refs:
        return
    first = _next(connection, "series")
    for number, ref in enumerate(refs, first):
        ref.id = number
    connection.execute(
        "INSERT INTO series SELECT unnest(?::INTEGER[]), unnest(?::INTEGER[]), unnest(?::VARCHAR[]),"
        " unnest(?::VARCHAR[])",
        [
            [ref.id for ref in refs],
            [targets[ref.target] for ref in refs],
            [ref.family for ref in refs],
            [ref.labels for ref in refs],
        ],
    )


def _next(connection: DuckDBPyConnection, table: str) -> int:
    row = connection.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {table}").fetchone()  # noqa: S608  (ours)
    return int(row[0]) if row else 1


class SeriesShelf:
    """What stored series are about, read once each. Any thread may ask: entries are replaced whole."""

    def __init__(self, cluster_label: str, matches: Matches = lambda _family, _labels: True) -> None:
        self.cluster_label = cluster_label
        self.matches = matches
        self._infos: dict[int, SeriesInfo] = {}
        self._keys: dict[SeriesKey, SeriesKey] = {}
        self._places: dict[Place, Place] = {}
        """One object for equal keys and places: a GPU has a dozen families."""

    def look_up(self, connection: DuckDBPyConnection, numbers: Collection[int]) -> dict[int, SeriesInfo]:
        """All that is known, at least of these series. Old ones are forgotten when they outnumber the asked ones."""
        infos = self._infos
        missing = [number for number in numbers if number not in infos]
        if missing or len(infos) > 2 * len(numbers) + 1000:
            rows = connection.execute(
                "SELECT id, family, labels FROM series WHERE id IN (SELECT unnest(?::INTEGER[]))", [missing]
            ).fetchall()
            kept = infos
            if len(infos) > 2 * len(numbers) + 1000:
                kept = {number: infos[number] for number in numbers if number in infos}
                self._keys = {info.key: info.key for info in kept.values() if info.key}
                self._places = {info.place: info.place for info in kept.values()}
            infos = {**kept, **{number: self.describe(family, labels) for number, family, labels in rows}}
            self._infos = infos
        return infos

    def describe(self, family: str, text: str) -> SeriesInfo:
        labels = labels_of(text)
        key = self._key(family, labels)
        found = place(labels)
        return SeriesInfo(sys.intern(family), {} if key else labels, key, self._places.setdefault(found, found))

    def _key(self, family: str, labels: Mapping[str, str]) -> SeriesKey | None:
        source = BY_FAMILY.get(family)
        if source is None or any(labels.get(name, value) != value for name, value in source.only.items()):
            return None
        if not self.matches(family, labels):
            return None
        key = series_key(labels, self.cluster_label)
        return self._keys.setdefault(key, key) if key.gpu else None

    def device(self, info: SeriesInfo) -> tuple[str, str]:
        """Cluster and GPU that a series is about; two empty texts if it names no GPU."""
        if info.key:
            return info.key.cluster, info.key.gpu
        gpu = gpu_of(info.labels)
        return (info.labels.get(self.cluster_label, ""), gpu) if gpu else ("", "")

    def forget(self) -> None:
        self._infos = {}
        self._keys = {}
        self._places = {}
