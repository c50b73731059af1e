"""One round of reading from a Prometheus-compatible engine: which queries, in which order, and what becomes of them.

First the newest samples of the families that say who is there, with all their labels; then everything else. A family
whose queries do not all succeed is not read at all: half an answer looks like an answer.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import NamedTuple

from gpusight.model.series import Aggregate, Ask, Failure, Place, Span, Windows
from gpusight.store.answer import Answer, Row, labels_of
from gpusight.store.columns import Column, read_column
from gpusight.store.engine import Engine, QueryError
from gpusight.store.labels import FULL_LABELS, GPU_LABELS
from gpusight.store.normalize import INFO_FAMILIES, ambiguity, resolve_scale, sources_for
from gpusight.store.promql import Shape, any_of, selector
from gpusight.store.roster import NOBODY, Roster, Sighting
from gpusight.store.sources import Source

MOST_QUERIES = 80
_RESERVED = 10
"""Of these for names, exporters, places and owners."""
_TOO_MANY = "{family} is not read: a round has at most 80 queries, and more trusted families know the same"
_FEW = 5000
"""GPUs up to which a query names them one by one: 200 kB."""


class Plan(NamedTuple):
    """One family to be read for one question."""

    shape: Shape
    ask: Ask
    rank: int
    """0 for the most trusted family of its quantity and scope."""

    @property
    def family(self) -> str:
        return self.shape.source.family

    @property
    def cost(self) -> int:
        return len(self.ask.aggregates) + ("last_active" in self.ask.aggregates)

    def failure(self, reason: str) -> Failure:
        return Failure(self.family, self.ask.quantity, reason)


@dataclass(slots=True, eq=False)
class _Found:
    """What is known of one plan so far."""

    plan: Plan
    columns: dict[Aggregate, Column] = field(default_factory=dict)
    gpu_label: str = ""
    bare_uuids: bool = False
    """The label lacks the prefix that keys have."""
    rejected: int = 0
    failure: str = ""

    def wants(self, aggregate: Aggregate) -> bool:
        return aggregate in self.plan.ask.aggregates

    def column(self, aggregate: Aggregate) -> Column:
        return self.columns.get(aggregate, {})


Job = tuple[_Found, Callable[[], None]]


def make_plans(
    asks: Iterable[Ask],
    present: frozenset[str],
    span: Span,
    condition: str,
    cluster_label: str,
    declared: Mapping[str, float],
    known: Collection[str] = (),
) -> tuple[list[Plan], list[Failure]]:
    """The families to read, the most trusted first, and those that cannot be; `known` ones are read already."""
    plans: list[Plan] = []
    failures: list[Failure] = []
    for ask in asks:
        ranks = {"device": count(), "holder": count()}
        for source in sources_for(ask.quantity, present.difference(known)):
            scale = resolve_scale(source, declared)
            if scale is None:
                failures.append(Failure(source.family, ask.quantity, ambiguity(source), is_standing=True))
            else:
                shape = Shape(source, scale, span, condition, cluster_label)
                plans.append(Plan(shape, ask, next(ranks[source.scope])))
    dropped = _too_many(plans)
    failures += [plan.failure(_TOO_MANY.format(family=plan.family))._replace(is_standing=True) for plan in dropped]
    return [plan for plan in plans if plan not in dropped], failures


def _too_many(plans: Sequence[Plan]) -> list[Plan]:
    """What is beyond the bound on queries: the least trusted first."""
    cost = sum(plan.cost for plan in plans)
    dropped = []
    for plan in sorted(plans, key=lambda plan: (plan.rank, plan.cost), reverse=True):
        if cost <= MOST_QUERIES - _RESERVED:
            break
        dropped.append(plan)
        cost -= plan.cost
    return dropped


class RoundReader:
    """Reads once. `roster` is the store's memory of who is who."""

    def __init__(self, engine: Engine, executor: Executor, workers: int, roster: Roster, span: Span) -> None:
        self._engine = engine
        self._executor = executor
        self._workers = workers
        self._roster = roster
        self._span = span
        self.end = span.end
        self._timeouts = 0
        self.queries = 0
        self.warnings: dict[str, None] = {}
        self.failures: list[Failure] = []
        self.places: dict[tuple[str, str], Place] = {}

    def windows(self, plans: Sequence[Plan]) -> list[Windows]:
        """In the order of the plans; what could not be read is in `failures`."""
        found = [_Found(plan) for plan in plans]
        there = self._see(found)
        self._fill(there)
        self._say_when_active(there)
        self._look_again(there)
        self.failures += [one.plan.failure(one.failure) for one in found if one.failure]
        return [make_window(one.plan.shape.source, one.columns, one.rejected) for one in there if not one.failure]

    def ask(self, query: str) -> Answer[Row]:
        """One query; counted, and its warnings kept."""
        if self._timeouts >= self._workers:
            raise QueryError(f"not asked, because {self._timeouts} queries before it were not answered in time")
        self.queries += 1
        try:
            found = self._engine.vector(query, self._span.end)
        except QueryError as error:
            self._timeouts += error.timed_out
            raise
        self.warnings.update(dict.fromkeys(found.warnings))
        return found

    def side_by_side(self, queries: Sequence[str]) -> Iterator[Answer[Row]]:
        """Several queries at once; their answers in order, each as soon as it is there."""
        futures = [self._executor.submit(self.ask, query) for query in queries]
        return (future.result() for future in futures)

    def add_places(self, present: frozenset[str]) -> None:
        """What families that only inform say of GPUs that others say nothing of."""
        families = [family for family in INFO_FAMILIES if family in present]
        if not families:
            return
        by = ",".join((self._roster.cluster_label, *FULL_LABELS))
        try:
            rows = self.ask(f"group by ({by}) ({{__name__=~{any_of(families)}}})").rows
        except QueryError as error:
            self.failures.append(Failure(families[0], None, str(error)))
            return
        self.put(self._roster.sightings(rows))

    # Who is there.

    def _see(self, found: Sequence[_Found]) -> list[_Found]:
        """The families that have living series, as far as they were asked for that."""
        asked = [one for one in found if one.wants("last_seen")]
        rows: dict[int, Sequence[Row]] = {}

        def see(one: _Found) -> None:
            rows[id(one)] = self.ask(one.plan.shape.query("last_seen")).rows

        self._run([(one, partial(see, one)) for one in asked])
        jobs = self._roster.jobs_in_question(row for each in rows.values() for row in each)
        if not self.know_exporters(jobs):
            return []
        for one in asked:
            if seen := rows.pop(id(one), ()):
                self._saw(one, seen)
        return [one for one in found if not one.wants("last_seen") or one.columns]

    def _saw(self, one: _Found, rows: Sequence[Row]) -> None:
        labels = labels_of(rows[0].metric)
        one.gpu_label = next((name for name in GPU_LABELS if labels.get(name)), "")
        sightings = self._roster.sightings(rows)
        one.bare_uuids = labels.get(one.gpu_label, "") != sightings[0].key.gpu
        keys = [sighting.key for sighting in sightings]
        one.columns["last_seen"] = read_column(one.plan.shape, "last_seen", keys, rows).column
        self.put(sightings)

    def put(self, sightings: Iterable[Sighting]) -> None:
        """Remember where GPUs are."""
        for key, place in sightings:
            if key is NOBODY:
                continue
            where = key[:2]
            known = self.places.get(where)
            if known is None:
                self.places[where] = place
            elif known is not place and not all(known):
                self.places[where] = Place(known.node or place.node, known.model or place.model)

    def know_exporters(self, jobs: Collection[str]) -> bool:
        """Learn which pods are exporters; without that nobody can be told from an exporter, so nothing is read."""
        if not jobs:
            return True
        up = selector("up", 'pod!=""', f"job=~{any_of(sorted(jobs))}")
        try:
            self._roster.meet_exporters(self.ask(f"group by (job,instance,namespace,pod) ({up})").rows)
        except QueryError as error:
            reason = f"exporters' own pods cannot be told from workloads, because {error}"
            self.failures.append(Failure("*", None, reason))
            return False
        return True

    # What they did.

    def _fill(self, found: Iterable[_Found]) -> None:
        self._run(
            [
                (one, partial(self._read, one, aggregate))
                for one in found
                for aggregate in one.plan.ask.aggregates
                if aggregate not in ("last_seen", "last_active")
            ]
        )

    def _read(self, one: _Found, aggregate: Aggregate) -> None:
        shape = one.plan.shape
        rows = self.ask(shape.query(aggregate, one.plan.ask.active_above)).rows
        one.columns[aggregate], rejected = read_column(shape, aggregate, self._roster.keys(rows), rows)
        one.rejected = max(one.rejected, rejected)

    def _say_when_active(self, found: Iterable[_Found]) -> None:
        wanted = [one for one in found if one.wants("last_active") and not one.failure]
        self._run([(one, partial(self._read_last_active, one)) for one in wanted])

    def _read_last_active(self, one: _Found) -> None:
        """What was active at every look or is active now was so when last seen; only others need a dear query."""
        seen, counts = one.column("last_seen"), one.column("count")
        active = {key: looks for key, looks in one.column("active_count").items() if looks}
        column = {key: seen[key] for key, looks in active.items() if looks == counts.get(key) and key in seen}
        if one.wants("active_count") and len(active) - len(column) > _FEW:
            column |= self._active_now(one, seen)
        missing = {key.gpu for key in active.keys() - column.keys()}
        if missing or not one.wants("active_count"):
            column = {**self._last_active(one, missing), **column}
        one.columns["last_active"] = column

    def _active_now(self, one: _Found, seen: Column) -> Column:
        rows = self.ask(one.plan.shape.active_now(one.plan.ask.active_above)).rows
        return {key: seen.get(key, self._span.end) for key in self._roster.keys(rows)}

    def _last_active(self, one: _Found, gpus: Collection[str]) -> Column:
        rows = (
            self._rows_of_few(one, gpus)
            or self.ask(one.plan.shape.query("last_active", one.plan.ask.active_above)).rows
        )
        return read_column(one.plan.shape, "last_active", self._roster.keys(rows), rows).column

    def _rows_of_few(self, one: _Found, gpus: Collection[str]) -> Sequence[Row]:
        """Of few GPUs, by name; nothing where that cannot be asked, as engines limit the length of a query."""
        if not one.gpu_label or not 0 < len(gpus) <= _FEW:
            return ()
        named = sorted(gpu.removeprefix("GPU-") if one.bare_uuids else gpu for gpu in gpus)
        try:
            return self.ask(one.plan.shape.last_active_of(one.gpu_label, named, one.plan.ask.active_above)).rows
        except QueryError as error:
            if error.timed_out:
                raise
            return ()

    def _look_again(self, found: Iterable[_Found]) -> None:
        """Where samples were blank or no numbers: once more without them."""
        again = []
        spare = MOST_QUERIES - _RESERVED - self.queries
        for one in found:
            if one.rejected and not one.failure and one.plan.cost <= spare:
                spare -= one.plan.cost
                one.plan = one.plan._replace(shape=one.plan.shape._replace(filtered=True))
                one.columns = {name: column for name, column in one.columns.items() if name == "last_seen"}
                one.rejected = 0
                again.append(one)
        self._fill(again)
        self._say_when_active(again)
        for one in again:
            one.rejected = len(one.column("last_seen").keys() - one.column("mean").keys())

    def _run(self, jobs: Sequence[Job]) -> None:
        """Side by side; a job that fails fails its family."""
        futures = [(one, self._executor.submit(job)) for one, job in jobs]
        for one, future in futures:
            try:
                future.result()
            except QueryError as error:
                one.failure = one.failure or str(error)


def make_window(source: Source, columns: dict[Aggregate, Column], rejected: int) -> Windows:
    """Series that ended within the window stay: they are those that were not seen last."""
    if "active_count" in columns:
        # the engine has no row for what was never active
        counted = columns.get("count", columns.get("last_seen", {}))
        columns["active_count"] = {**dict.fromkeys(counted, 0.0), **columns["active_count"]}
    return Windows(source.quantity, source.scope, source.family, columns, rejected)
