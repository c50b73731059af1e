"""Several replicas serve, one acts: who?

`acquire` is called at the start of every round. A lock that is lost (a dead process, a connection that broke) is taken
by whoever asks next.
"""

import fcntl
import logging
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from gpusight.journal.dialect import LEADER_LOCK, LOCKS
from gpusight.journal.open import is_postgres
from gpusight.model.history import JournalError

_log = logging.getLogger(__name__)


class Leadership(Protocol):
    """May be called from any thread."""

    @property
    def held(self) -> bool:
        """As the last `acquire` found it; nobody is asked."""
        ...

    def acquire(self) -> bool:
        """Become or remain the one that acts; never waits for another to stop. False in any doubt."""
        ...

    def release(self) -> None:
        """Let another one act, at once."""
        ...


def leadership(location: str | Path) -> Leadership:
    """The lock that belongs to a journal."""
    if is_postgres(location):
        return PostgresLeader(str(location))
    path = Path(location)
    return FileLeader(path.with_name(f"{path.name}.leader"))


class FileLeader:
    """For replicas on one machine: the kernel frees the lock of a process that died."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def acquire(self) -> bool:
        with self._lock:
            if self._descriptor is not None and not self._is_named(self._descriptor):
                self._drop()  # somebody removed the file: another process may have locked a new one
            if self._descriptor is None:
                self._descriptor = self._locked()
            return self._descriptor is not None

    def release(self) -> None:
        with self._lock:
            self._drop()

    def _locked(self) -> int | None:
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise JournalError(f"the lock {self._path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_named(descriptor):
                return descriptor
        except BlockingIOError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def _is_named(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except OSError:
            return False

    def _drop(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


_TRY = f"select pg_try_advisory_lock({LOCKS}, {LEADER_LOCK})"
_HOLDS = f"""
    select exists (select from pg_locks where locktype = 'advisory' and granted and pid = pg_backend_pid()
        and classid = {LOCKS} and objid = {LEADER_LOCK} and objsubid = 2
        and database = (select oid from pg_database where datname = current_database()))
"""  # noqa: S608 - constants
_NOTICED_SOON = """
    select set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false),
        set_config('tcp_keepalives_count', '3', false)
"""
"""So that the server frees the lock of a machine that vanished in half a minute instead of two hours."""


class PostgresLeader:
    """For replicas that share a database: the server frees the lock of a connection that ended."""

    def __init__(self, url: str) -> None:
        from gpusight.journal.postgres import Server  # noqa: PLC0415 - an optional extra

        self._server = Server(url)
        self._lock = threading.Lock()
        self._connection: Any = None
        self._is_held = False

    @property
    def held(self) -> bool:
        return self._is_held

    def acquire(self) -> bool:
        with self._lock:
            try:
                self._is_held = self._holds()
            except Exception as error:
                _log.warning("%s; another replica may act meanwhile", self._server.unreachable(error))
                self._drop()
            return self._is_held

    def release(self) -> None:
        with self._lock:
            self._drop()

    def _holds(self) -> bool:
        if self._connection is None:
            self._connection = self._server.connect()
            self._connection.execute(_NOTICED_SOON)
        if self._is_held and self._asked(_HOLDS):
            return True
        return self._asked(_TRY)

    def _asked(self, question: str) -> bool:
        return bool(self._connection.execute(question).fetchone()[0])

    def _drop(self) -> None:
        self._is_held = False
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()
