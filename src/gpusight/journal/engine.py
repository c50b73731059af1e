"""Transactions on pooled connections: what both databases have in common."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from gpusight.journal.dialect import Dialect
from gpusight.model.history import JournalError

_MOST_IDLE = 4


class Session:
    """One transaction under way."""

    def __init__(self, connection: Any, dialect: Dialect) -> None:
        self._connection = connection
        self._spelled = dialect.spelled

    def run(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        self._connection.execute(self._spelled(statement), parameters)

    def many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self._connection.cursor().executemany(self._spelled(statement), rows)

    def all(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._connection.execute(self._spelled(statement), parameters).fetchall()
        return found

    def each(self, statement: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        yield from self._connection.execute(self._spelled(statement), parameters)

    def stream(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """All rows of a table, which may be larger than memory."""
        yield from self.each(statement)


class Engine(ABC):
    """A database, from any thread. A connection that met an error is closed, which also undoes what was under way."""

    dialect: ClassVar[Dialect]
    session: ClassVar[type[Session]] = Session
    driver_error: type[Exception]

    def __init__(self, name: str) -> None:
        self.name = name
        """For people: a path, or an address without credentials."""
        self._idle: list[Any] = []
        self._lock = threading.Lock()
        self._writer = threading.Lock()
        self._is_closed = False

    @abstractmethod
    def _connect(self) -> Any:
        """A connection that commits only when told to."""

    @abstractmethod
    def _explained(self, error: Exception) -> JournalError:
        """The driver's error as a sentence."""

    def _is_stale(self, _connection: Any) -> bool:
        """Whether a connection that waited is of no use any more."""
        return False

    @contextmanager
    def write(self) -> Iterator[Session]:
        """All that happens inside is on disk when it ends, or nothing of it is. One at a time in this process."""
        with self._writer, self._transaction(self.dialect.begin_write) as session:
            yield session

    @contextmanager
    def read(self) -> Iterator[Session]:
        """All that is read inside is of one moment."""
        with self._transaction(self.dialect.begin_read) as session:
            yield session

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Session]:
        with self._explaining():
            connection = self._begun(begin)
            try:
                yield self.session(connection, self.dialect)
                connection.execute("commit")
            except BaseException:
                self._discard(connection)
                raise
            self._give_back(connection)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except self.driver_error as error:
            raise self._explained(error) from None  # a driver's message may hold what nobody should read

    def _begun(self, begin: str) -> Any:
        while True:
            connection = self._taken()
            fresh = connection is None
            connection = self._connect() if connection is None else connection
            try:
                connection.execute(begin)
                return connection
            except BaseException:
                is_stale = self._is_stale(connection)
                self._discard(connection)
                if fresh or not is_stale:
                    raise

    def _taken(self) -> Any:
        with self._lock:
            if self._is_closed:
                raise JournalError(f"the journal {self.name} was closed")
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: Any) -> None:
        with self._lock:
            if not self._is_closed and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _discard(self, connection: Any) -> None:
        with suppress(self.driver_error):
            connection.close()
