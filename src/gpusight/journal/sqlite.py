"""The journal's file: SQLite in WAL mode, so that others read while one writes."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from gpusight.journal.dialect import SQLITE
from gpusight.journal.engine import Engine
from gpusight.journal.files import written_beside
from gpusight.model.history import JournalError

_BUSY_SECONDS = 10.0

_PRAGMAS = (
    "pragma synchronous = full",
    "pragma foreign_keys = on",
    "pragma trusted_schema = off",
    "pragma journal_size_limit = 67108864",
)

_SENTENCES: Mapping[int, str] = {
    sqlite3.SQLITE_FULL: "the disk with the journal {name} is full: nothing was kept of this; free some space",
    sqlite3.SQLITE_CORRUPT: "the journal {name} is damaged ({error}): move it away and put a backup in its place",
    sqlite3.SQLITE_NOTADB: "{name} is not a journal ({error}): move it away, or put a backup in its place",
    sqlite3.SQLITE_BUSY: "another process has been writing to the journal {name} for too long: nothing was kept",
    sqlite3.SQLITE_CANTOPEN: "the journal {name} cannot be opened: its directory must exist and be writable",
    sqlite3.SQLITE_READONLY: "the journal {name} cannot be written: the file and its directory must be writable",
    sqlite3.SQLITE_PERM: "the journal {name} cannot be written: the file and its directory must be writable",
}


class SqliteEngine(Engine):
    """One file, which must exist (see `create`). A file that is only looked at stays as it is."""

    dialect = SQLITE
    driver_error = sqlite3.Error

    def __init__(self, path: Path, *, is_for_looking: bool = False) -> None:
        super().__init__(str(path))
        self.path = path
        self._prepare = _look_only if is_for_looking else _share

    def _connect(self) -> sqlite3.Connection:
        connection = connected(self.path)
        try:
            self._prepare(connection, self.path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _explained(self, error: Exception) -> JournalError:
        return explained(error, self.path)


def _look_only(connection: sqlite3.Connection, _path: Path) -> None:
    connection.execute("pragma query_only = on")


def _share(connection: sqlite3.Connection, path: Path) -> None:
    ((mode,),) = connection.execute("pragma journal_mode = wal").fetchall()
    if mode != "wal":
        raise JournalError(
            f"the file system of the journal {path} lacks what SQLite needs for several processes:"
            " name a local disk or a PostgreSQL database"
        )
    for pragma in _PRAGMAS:
        connection.execute(pragma)


def connected(path: Path) -> sqlite3.Connection:
    """To a file that exists; transactions begin and end by statement."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )


def create(path: Path) -> None:
    """An empty journal that only we may read, with its directory; one that is there stays.

    It appears in WAL mode, because two processes that switch an empty file to it at once get in each other's way.
    """
    try:
        if path.exists():
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with written_beside(path) as temporary:
            connection = connected(temporary)
            try:
                connection.execute("pragma journal_mode = wal")
            finally:
                connection.close()
    except FileExistsError:
        if not path.is_file():
            raise JournalError(f"the journal {path} cannot be made: a part of its path is not a directory") from None
    except OSError as error:
        raise JournalError(
            f"the journal {path} cannot be made: {error.strerror}; name a directory that can be written"
        ) from error
    except sqlite3.Error as error:
        raise explained(error, path) from None


def explained(error: Exception, path: Path) -> JournalError:
    code = getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_IOERR_SHMSIZE:  # it could not make its file of shared memory longer
        code = sqlite3.SQLITE_FULL
    sentence = _SENTENCES.get(code & 0xFF, "the journal {name} failed: {error}")
    return JournalError(sentence.format(name=path, error=error))
