"""Samples in a Prometheus-compatible engine: Prometheus, Thanos, Mimir, VictoriaMetrics."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from gpusight.model.series import (
    Ask,
    Failure,
    Newest,
    PodKey,
    Point,
    Quantity,
    Reading,
    SeriesKey,
    Span,
    StoreError,
    Windows,
)
from gpusight.model.time import Clock
from gpusight.store import owners
from gpusight.store.answer import RangeRow, labels_of
from gpusight.store.digest import Digest
from gpusight.store.engine import Engine, Names, QueryError
from gpusight.store.http import HttpConfig, shown_url
from gpusight.store.labels import series_key
from gpusight.store.normalize import BY_FAMILY, INFO_FAMILIES, resolve_scale, sources_for, to_base
from gpusight.store.owners import Ownership
from gpusight.store.promql import Shape, any_of, condition
from gpusight.store.reading import RoundReader, make_plans
from gpusight.store.recorded import read_recorded
from gpusight.store.roster import Roster

_KNOWN = frozenset(BY_FAMILY) | owners.FAMILIES | frozenset(INFO_FAMILIES)
_RECENT = 300.0
"""Seconds within which a family must have had samples to be there now."""
_OWNERS_KEPT = 600.0
"""Seconds after which owners are asked for again, although no pod is new."""


@dataclass(frozen=True, slots=True)
class PrometheusConfig:
    """Where the engine is, how to reach it, and what of it to read."""

    url: str = field(repr=False)
    timeout: float = 30.0
    """Seconds for one query, from the connection to the last byte."""
    max_workers: int = 8
    """Queries that run at the same time."""
    condition: str = ""
    """Label matchers for every query of GPU series, with or without braces."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    bearer_token_file: Path | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    password_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    insecure: bool = False
    scales: Mapping[str, float] = field(default_factory=dict)
    """What to multiply families with whose names leave the unit open; see normalize.declared_scales."""
    cluster_label: str = "cluster"
    max_bytes: int = 512 * 2**20
    """The largest answer to a query that is read."""

    @property
    def http(self) -> HttpConfig:
        return HttpConfig(
            self.url,
            timeout=self.timeout,
            max_bytes=self.max_bytes,
            headers=self.headers,
            bearer_token_file=self.bearer_token_file,
            username=self.username,
            password=self.password,
            password_file=self.password_file,
            ca_file=self.ca_file,
            cert_file=self.cert_file,
            key_file=self.key_file,
            insecure=self.insecure,
        )


class PrometheusStore:
    """A SeriesStore."""

    def __init__(self, config: PrometheusConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._condition = condition(config.condition)
        self._engine = Engine(config.http, clock)
        self._executor = ThreadPoolExecutor(config.max_workers, "gpusight-query")
        self._round = threading.Lock()
        self._roster = Roster(config.cluster_label)
        self._owners = _OwnersMemory(clock, config.cluster_label)
        self._alive: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return f"prometheus {shown_url(self._config.url)}"

    def families(self) -> frozenset[str]:
        return self._names(self._clock.now()).present & frozenset(BY_FAMILY)

    def latest(self, families: Iterable[str]) -> list[Newest]:
        rows = self._engine.vector(f"{{__name__=~{any_of(families)}}}", self._clock.now()).rows
        found = ((labels_of(row.metric), row.value[1]) for row in rows)
        return [Newest(labels.pop("__name__", ""), labels, value) for labels, value in found]

    def check(self) -> None:
        self._engine.vector("vector(1)", self._clock.now())

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)
        self._engine.close()

    def read(self, asks: Sequence[Ask], span: Span) -> Reading:
        with self._round:
            return self._read(asks, span)

    def _names(self, now: float) -> Names:
        return self._engine.names(now - _RECENT, now, _KNOWN)

    def _read(self, asks: Sequence[Ask], span: Span) -> Reading:
        names = self._names(span.end)
        self._roster.begin()
        config = self._config
        reader = RoundReader(self._engine, self._executor, config.max_workers, self._roster, span)
        recorded = read_recorded(reader, self._roster, self._digest(asks, span), asks, names.present)
        plans, failures = make_plans(
            asks,
            names.present,
            span,
            self._condition,
            config.cluster_label,
            config.scales,
            known={window.family for window in recorded},
        )
        windows = [*recorded, *reader.windows(plans)]
        if plans and not windows and reader.failures:
            raise StoreError(reader.failures[0].reason)
        reader.add_places(names.present)
        ownership = self._owners.of(_pods(windows), reader, names.present)
        reader.failures += self._lost(windows)
        return Reading(
            span=span,
            windows=windows,
            places=reader.places,
            owners=ownership.owners,
            started=ownership.started,
            failures=(*failures, *reader.failures),
            warnings=tuple(filter(None, (names.skew, *names.warnings, *reader.warnings))),
            queries=reader.queries + 1,
        )

    def _digest(self, asks: Sequence[Ask], span: Span) -> Digest:
        """The recordings that would answer this round."""
        above = next((ask.active_above for ask in asks if "active_count" in ask.aggregates), 0.0)
        return Digest(span, above, self._condition, self._config.cluster_label)

    def _lost(self, windows: Sequence[Windows]) -> list[Failure]:
        """Families that had living series a round ago and have none now."""
        alive = frozenset(each.family for each in windows)
        lost = self._alive - alive
        self._alive = alive
        return [Failure(family, None, f"{family} had series a round ago and has none now") for family in sorted(lost)]

    def range(self, key: SeriesKey, quantity: Quantity, span: Span) -> Sequence[Point]:
        config = self._config
        for source in sources_for(quantity, self._names(span.end).present):
            scale = resolve_scale(source, config.scales)
            if scale is None:
                continue
            shape = Shape(source, scale, span, self._condition, config.cluster_label)
            row = _row_for(key, self._engine.matrix(shape.over_time(key.gpu), span).rows, config.cluster_label)
            points = ((time, to_base(source, scale, raw)) for time, raw in (row.values if row else ()))
            if found := [Point(time, value) for time, value in points if value is not None]:
                return found
        return ()


def _pods(windows: Sequence[Windows]) -> set[PodKey]:
    keys: set[SeriesKey] = set()
    for each in windows:
        seen = each.columns.get("last_seen", {}).keys()
        keys |= seen - keys
    return {PodKey(key[0], key[4], key[5]) for key in keys if key[5]}


def _row_for(key: SeriesKey, rows: Sequence[RangeRow], cluster_label: str) -> RangeRow | None:
    """The subject's own row, else its device's, else that of an exporter's pod: a GPU that nobody holds."""
    mine = [(series_key(labels_of(row.metric), cluster_label), row) for row in rows]
    mine = [(found, row) for found, row in mine if found[:3] == key[:3]]
    bare = key._replace(slot="")
    for fits in (
        lambda found: found == key,
        lambda found: found._replace(slot="") == bare,
        lambda found: not found.pod,
        lambda _: not key.pod,
    ):
        for found, row in mine:
            if fits(found):
                return row
    return None


class _OwnersMemory:
    """Owners change seldom: they are asked for when a pod is new, or after a while."""

    def __init__(self, clock: Clock, cluster_label: str) -> None:
        self._clock = clock
        self._cluster_label = cluster_label
        self._asked: set[PodKey] = set()
        self._asked_at = -_OWNERS_KEPT
        self._known = Ownership({}, {})

    def of(self, pods: set[PodKey], reader: RoundReader, present: frozenset[str]) -> Ownership:
        now = self._clock.monotonic()
        if not pods or (pods <= self._asked and now - self._asked_at < _OWNERS_KEPT):
            return self._known
        try:
            self._known = owners.read_ownership(
                lambda query: reader.ask(query).rows, present, pods, self._cluster_label
            )
        except QueryError as error:
            reader.failures.append(Failure("kube_pod_owner", None, f"owners are not known: {error}"))
        else:
            self._asked, self._asked_at = pods, now
        return self._known
