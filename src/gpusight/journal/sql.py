"""`model.history.Journal` on either database."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from gpusight.journal.engine import Engine
from gpusight.journal.retention import Retention
from gpusight.journal.tables import (
    CONFIG_CHANGES,
    EPISODES,
    HOURS,
    OVERRIDES,
    STATE,
    VERDICT_CHANGES,
    Table,
    key_text,
)
from gpusight.model.history import ConfigChange, Episode, HourUse, VerdictChange

Row = TypeVar("Row")

_BATCH = 5_000
"""Rows that one transaction of pruning takes, give or take those of one moment."""
_ALL = 2**53

_TOTALS = """
    select min(hour), cluster, namespace, subject, model,
        sum(held_gpu_hours), sum(used_gpu_hours), sum(idle_gpu_hours), sum(unknown_gpu_hours),
        case when count(energy_joules) = count(*) then sum(energy_joules) end,
        case when count(cost) = count(*) then sum(cost) end,
        currency, owner, team
    from hours where {where}
    group by cluster, namespace, subject, model, currency, owner, team
    order by cluster, namespace, subject, model, currency, owner, team
"""


class Condition(NamedTuple):
    text: str
    parameter: Any


class SqlJournal:
    """Thread-safe; see the protocol for what the methods promise."""

    def __init__(self, engine: Engine, retention: Retention) -> None:
        self.engine = engine
        self._retention = retention

    @property
    def name(self) -> str:
        return self.engine.name

    def record_round(
        self,
        changes: Sequence[VerdictChange],
        hours: Sequence[HourUse],
        episodes: Sequence[Episode],
        state: bytes,
        *,
        at: float,
    ) -> None:
        found: tuple[tuple[Table[Any], Sequence[Sequence[Any]]], ...] = (
            (VERDICT_CHANGES, changes),
            (HOURS, hours),
            (EPISODES, episodes),
            (STATE, [(1, at, state)]),
        )
        batches = [(table.put, [table.cells(row) for row in rows]) for table, rows in found if rows]
        with self.engine.write() as session:
            for statement, cells in batches:
                session.many(statement, cells)

    def state(self) -> bytes | None:
        rows = self._rows(STATE, [], 1)
        return bytes(rows[0].state) if rows else None

    def changes(
        self,
        *,
        start: float,
        end: float,
        subject: str | None = None,
        namespaces: Iterable[str] | None = None,
        limit: int = 1000,
    ) -> list[VerdictChange]:
        """From `start` to `end`, both included."""
        where = [Condition("at >= ?", start), Condition("at <= ?", end), *self._within(namespaces)]
        if subject is not None:
            where.append(Condition("subject = ?", key_text(subject)))
        return self._rows(VERDICT_CHANGES, where, limit)

    def hours(self, *, start: float, end: float, namespaces: Iterable[str] | None = None) -> list[HourUse]:
        """Hours that began in [start, end): spans that touch share none."""
        return self._rows(HOURS, self._began(start, end, namespaces))

    def totals(self, *, start: float, end: float, namespaces: Iterable[str] | None = None) -> list[HourUse]:
        """The same hours summed by the database: one row per subject, model, owner, team and currency.

        `hour` is the first of them. Energy and cost are None unless every hour knows them.
        """
        where = self._began(start, end, namespaces)
        statement = _TOTALS.format(where=" and ".join(condition.text for condition in where))
        with self.engine.read() as session:
            rows = session.each(statement, [condition.parameter for condition in where])
            return [HourUse._make(row) for row in rows]

    def episodes(
        self, *, open_only: bool = False, namespaces: Iterable[str] | None = None, limit: int = 1000
    ) -> list[Episode]:
        """Those that opened last first."""
        where = self._within(namespaces)
        return self._rows(EPISODES, where, limit, also=("closed is null",) if open_only else ())

    def change_config(self, values: Mapping[str, str], changes: Sequence[ConfigChange]) -> None:
        overrides = [OVERRIDES.cells(item) for item in values.items()]
        audit = [CONFIG_CHANGES.cells(change) for change in changes]
        with self.engine.write() as session:
            session.run("delete from config_overrides")
            session.many(OVERRIDES.put, overrides)
            session.many(CONFIG_CHANGES.put, audit)

    def config(self) -> dict[str, str]:
        return {override.name: override.value for override in self._rows(OVERRIDES, [])}

    def config_changes(self, limit: int = 1000) -> list[ConfigChange]:
        return self._rows(CONFIG_CHANGES, [], limit)

    def prune(self, now: float) -> None:
        """In transactions of a few thousand rows, so that nobody waits long."""
        for table, age in (
            (VERDICT_CHANGES, self._retention.verdict_changes),
            (HOURS, self._retention.hours),
            (EPISODES, self._retention.episodes),
        ):
            while self._dropped_some(table, _whole(now - age)):
                pass

    def close(self) -> None:
        self.engine.close()

    def _dropped_some(self, table: Table[Any], before: int) -> bool:
        """Whether there may be more. A batch ends with a whole moment, which needs no row numbers."""
        select = f"select {table.time} from {table.name} where {table.time} < ? order by {table.time} limit 1 offset ?"  # noqa: S608 - names of our own
        delete = f"delete from {table.name} where {table.time} <= ? and {table.time} < ?"  # noqa: S608 - likewise
        with self.engine.write() as session:
            last = session.all(select, (before, _BATCH))
            session.run(delete, (last[0][0] if last else before, before))
        return bool(last)

    def _began(self, start: float, end: float, namespaces: Iterable[str] | None) -> list[Condition]:
        span = [Condition("hour >= ?", _whole(start)), Condition("hour < ?", _whole(end))]
        return [*span, *self._within(namespaces)]

    def _within(self, namespaces: Iterable[str] | None) -> list[Condition]:
        if namespaces is None:
            return []
        dialect = self.engine.dialect
        names = sorted(set(map(key_text, namespaces)))
        return [Condition(dialect.among.format(column="namespace"), dialect.pack(names))]

    def _rows(
        self, table: Table[Row], where: Sequence[Condition], limit: int | None = None, also: Sequence[str] = ()
    ) -> list[Row]:
        conditions = [*(condition.text for condition in where), *also]
        parameters = [condition.parameter for condition in where]
        statement = table.select + (f" where {' and '.join(conditions)}" if conditions else "")
        statement += f" order by {table.order}"
        if limit is not None:
            statement += " limit ?"
            parameters.append(min(max(0, limit), _ALL))
        with self.engine.read() as session:
            return [table.make(row) for row in session.each(statement, parameters)]


def _whole(time: float) -> int:
    """The first whole second from then on: an index on whole numbers is of no use for a fraction."""
    return math.ceil(min(max(time, -_ALL), _ALL))
