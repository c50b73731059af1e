"""Which database a journal is in: a path is a SQLite file, postgres:// is PostgreSQL."""

from pathlib import Path

from gpusight.journal.engine import Engine
from gpusight.journal.migrations import check_version, migrate, version_of
from gpusight.journal.retention import Retention
from gpusight.journal.sql import SqlJournal
from gpusight.journal.sqlite import SqliteEngine, create
from gpusight.model.history import JournalError
from gpusight.model.time import Clock

FILE_NAME = "journal.sqlite3"
_POSTGRES = ("postgres://", "postgresql://")


def open_journal(location: str | Path, *, retention: Retention, clock: Clock) -> SqlJournal:
    """Made if it is not there, and brought up to date."""
    if not is_postgres(location):
        create(_path(location))
    engine = _engine(location, clock)
    try:
        migrate(engine, clock.now())
    except BaseException:
        engine.close()
        raise
    return SqlJournal(engine, retention)


def open_existing(location: str | Path, *, clock: Clock) -> tuple[Engine, int]:
    """A journal as it is, and its schema version; nothing is made or changed. JournalError if there is none."""
    if not is_postgres(location):
        _check_there(_path(location))
    engine = _engine(location, clock, is_for_looking=True)
    try:
        version = version_of(engine)
        if version == 0:
            raise JournalError(f"there is no journal in {engine.name}: it has no tables")
        check_version(engine, version)
    except BaseException:
        engine.close()
        raise
    return engine, version


def _check_there(path: Path) -> None:
    try:
        if path.is_file():
            return
    except OSError as error:
        raise JournalError(f"the journal {path} cannot be read: {error.strerror}") from error
    raise JournalError(f"there is no journal at {path}")


def is_postgres(location: str | Path) -> bool:
    return isinstance(location, str) and location.lower().startswith(_POSTGRES)


def _engine(location: str | Path, clock: Clock, *, is_for_looking: bool = False) -> Engine:
    if is_postgres(location):
        from gpusight.journal.postgres import PostgresEngine, Server  # noqa: PLC0415 - an optional extra

        return PostgresEngine(Server(str(location)), clock)
    return SqliteEngine(_path(location), is_for_looking=is_for_looking)


def _path(location: str | Path) -> Path:
    scheme, separator, _rest = str(location).partition("://")
    if isinstance(location, str) and separator:
        raise JournalError(f"a journal is a path or starts with postgres://, not with {scheme}://")
    return Path(location)
