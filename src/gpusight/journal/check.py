"""Is a journal whole, and what is in it?"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from gpusight.errors import printable
from gpusight.journal.engine import Engine, Session
from gpusight.journal.migrations import NEWEST
from gpusight.journal.sqlite import SqliteEngine
from gpusight.journal.tables import EPISODES, TABLES, Table
from gpusight.model.history import JournalError

_TOLERANCE = 1e-6
_MOST_PROBLEMS = 10
_FSYNC = "select current_setting('fsync')"
_GAP = "abs(held_gpu_hours - used_gpu_hours - idle_gpu_hours - unknown_gpu_hours)"


class Findings(NamedTuple):
    """Sentences. A journal without problems is sound."""

    problems: list[str]
    facts: list[str]


def examine(engine: Engine, version: int) -> Findings:
    """Reads all of it; a part that cannot be read is a problem and costs only itself."""
    findings = Findings([], [f"journal {engine.name}, schema version {version} of {NEWEST}"])
    looks = [(_size, findings.facts), (_tables, findings.facts)]
    looks += [(look, findings.problems) for look in (_integrity, _server, _accounts)]
    for look, found in looks:
        try:
            with engine.read() as session:
                found.extend(look(engine, session))
        except JournalError as error:
            if str(error) not in findings.problems:
                findings.problems.append(str(error))
    return findings


def _size(engine: Engine, session: Session) -> Iterator[str]:
    ((size,),) = session.all(engine.dialect.size)
    yield f"{size / 2**20:.1f} MiB"


def _tables(_engine: Engine, session: Session) -> Iterator[str]:
    for table in TABLES:
        time = table.time or "null"
        ((count, oldest, newest),) = session.all(f"select count(*), min({time}), max({time}) from {table.name}")  # noqa: S608 - names of our own
        yield f"{table.name}: {_counted(count, 'row')}{_still_open(table, session)}{_between(oldest, newest)}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _still_open(table: Table[Any], session: Session) -> str:
    if table is not EPISODES:
        return ""
    ((count,),) = session.all("select count(*) from episodes where closed is null")
    return f", {count} open"


def _between(oldest: float | None, newest: float | None) -> str:
    return "" if oldest is None or newest is None else f", {_utc(oldest)} to {_utc(newest)}"


def _utc(time: float) -> str:
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{time:g}"


def _integrity(engine: Engine, session: Session) -> Iterator[str]:
    if isinstance(engine, SqliteEngine):
        rows = session.all(f"pragma integrity_check({_MOST_PROBLEMS})")
        yield from (f"damaged: {printable(str(text))}" for (text,) in rows if text != "ok")


def _server(engine: Engine, session: Session) -> Iterator[str]:
    if not isinstance(engine, SqliteEngine):
        ((fsync,),) = session.all(_FSYNC)
        if fsync != "on":
            yield "the server has fsync switched off: what it acknowledges may be lost with its power"


def _accounts(_engine: Engine, session: Session) -> Iterator[str]:
    """Hours that were held are used, idle or unknown, and nothing else."""
    wrong = f"from hours where {_GAP} > {_TOLERANCE}"
    ((count,),) = session.all(f"select count(*) {wrong}")
    if count:
        ((hour, subject, gap),) = session.all(f"select hour, subject, {_GAP} {wrong} order by hour limit 1")
        yield (
            f"{_counted(count, 'hour')} off: held is not used + idle + unknown, the first at {_utc(hour)} of"
            f" {printable(subject)} by {gap:g} GPU-hours"
        )
