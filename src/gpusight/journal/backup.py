"""Copies of a whole journal: a backup is a SQLite file, whichever database it was made of."""

import sqlite3
from contextlib import closing
from itertools import islice
from pathlib import Path

from gpusight.journal.engine import Engine
from gpusight.journal.files import written_beside
from gpusight.journal.migrations import NEWEST, migrate
from gpusight.journal.sqlite import SqliteEngine, connected, explained
from gpusight.journal.tables import CONFIG_CHANGES, TABLES, Table
from gpusight.model.history import JournalError

_BATCH = 5_000


def back_up(source: Engine, version: int, destination: Path, *, now: float, force: bool = False) -> None:
    """The journal of one moment, while others go on writing. The file appears when it is whole and was read back."""
    try:
        if destination.exists() and not force:
            raise _exists(destination)
        with written_beside(destination, force=force) as temporary:
            if isinstance(source, SqliteEngine):
                _copy_file(source.path, temporary)
            else:
                _copy_tables(source, version, temporary, now)
            _finish(temporary)
    except FileExistsError:
        raise _exists(destination) from None
    except OSError as error:
        raise JournalError(f"the backup {destination} cannot be written: {error.strerror}") from error


def copy_rows(source: Engine, target: Engine) -> None:
    """Everything that `source` holds into a journal that holds nothing: all of it or nothing."""
    with source.read() as reader, target.write() as writer:
        for table in TABLES:
            if writer.all(f"select 1 from {table.name} limit 1"):  # noqa: S608 - a name of our own
                raise JournalError(f"the journal {target.name} is not empty: copy into a new one")
            rows = reader.stream(f"{table.select} order by {_oldest_first(table)}")
            while batch := list(islice(rows, _BATCH)):
                writer.many(table.put, batch)


def _oldest_first(table: Table[object]) -> str:
    return "id" if table is CONFIG_CHANGES else ", ".join(table.key)


def _copy_file(path: Path, temporary: Path) -> None:
    try:
        with closing(connected(path)) as reader, closing(connected(temporary)) as writer:
            reader.backup(writer)
    except sqlite3.Error as error:
        raise explained(error, path) from None


def _copy_tables(source: Engine, version: int, temporary: Path, now: float) -> None:
    if version != NEWEST:
        raise JournalError(
            f"the journal {source.name} has schema version {version}: start gpusight once, which brings it to {NEWEST}"
        )
    target = SqliteEngine(temporary)
    try:
        migrate(target, now)
        copy_rows(source, target)
    finally:
        target.close()


def _finish(temporary: Path) -> None:
    """One file without companions, looked through from end to end."""
    try:
        with closing(connected(temporary)) as connection:
            connection.execute("pragma journal_mode = delete")
            ((verdict,),) = connection.execute("pragma integrity_check(1)").fetchall()
    except sqlite3.Error as error:
        raise explained(error, temporary) from None
    if verdict != "ok":
        raise JournalError(f"the journal is damaged, and so would be its backup: {verdict}")


def _exists(destination: Path) -> JournalError:
    return JournalError(f"{destination} exists: name another file, or say that it may be replaced")
