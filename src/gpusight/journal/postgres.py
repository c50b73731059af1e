"""The journal in PostgreSQL, in a schema of its own."""

from collections.abc import Iterator, Mapping
from typing import Any

from gpusight.errors import MissingExtra, printable
from gpusight.journal.dialect import POSTGRES, SCHEMA
from gpusight.journal.engine import Engine, Session
from gpusight.model.history import JournalError
from gpusight.model.time import Clock

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError:  # pragma: no cover - an optional extra
    raise MissingExtra("a journal in PostgreSQL", "postgres") from None

_DEFAULTS: Mapping[str, Any] = {
    "application_name": "gpusight",
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""What the address itself says counts more."""

_SESSION = f"""
    select set_config('search_path', '{SCHEMA}', false),
        set_config('statement_timeout', '30s', false),
        set_config('lock_timeout', '10s', false),
        set_config('idle_in_transaction_session_timeout', '60s', false),
        set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), false)
"""

_SECRETS = ("password", "sslpassword")
_QUIET_SECONDS = 2.0
_BATCH = 5_000


class Server:
    """Where the database is and how to get in; never tells the password."""

    def __init__(self, url: str) -> None:
        try:
            self._parameters = {**_DEFAULTS, **conninfo_to_dict(url), "client_encoding": "utf8"}
        except psycopg.Error:  # the driver's message quotes the part that it does not understand
            raise JournalError(
                "the journal's address is not one of PostgreSQL: it must look like"
                " postgres://user:password@host:5432/database, with special characters %-encoded"
            ) from None
        self._secrets = [str(self._parameters[name]) for name in _SECRETS if self._parameters.get(name)]
        host, port = (self._parameters.get(part, "") for part in ("host", "port"))
        database = self._parameters.get("dbname", "")
        self.name = printable(f"postgresql://{host}{':' if port else ''}{port}/{database}")

    def __repr__(self) -> str:
        return f"Server({self.name})"

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        """A connection that commits only when told to."""
        connection = psycopg.connect(**self._parameters, autocommit=True)
        try:
            encoding = connection.info.parameter_status("server_encoding")
            if encoding != "UTF8":
                raise JournalError(f"the database {self.name} has encoding {encoding}: make one with UTF8")
            connection.execute(_SESSION)
        except BaseException:
            connection.close()
            raise
        return connection

    def explained(self, error: Exception) -> JournalError:
        return JournalError(f"the journal {self.name} failed: {self._told(error)}")

    def unreachable(self, error: Exception) -> JournalError:
        return JournalError(
            f"no connection to the journal {self.name}: {self._told(error)}; check the address, the password and"
            " whether the server runs"
        )

    def _told(self, error: Exception) -> str:
        text = " ".join(str(error).split())
        for secret in self._secrets:
            text = text.replace(secret, "********")
        return printable(text)


class PostgresSession(Session):
    def stream(self, statement: str) -> Iterator[tuple[Any, ...]]:
        self.run(f"declare streamed no scroll cursor for {statement}")
        while rows := self.all(f"fetch {_BATCH} from streamed"):
            yield from rows
        self.run("close streamed")


class PostgresEngine(Engine):
    """After a connection could not be made, callers are refused for a moment instead of waiting one by one."""

    dialect = POSTGRES
    session = PostgresSession
    driver_error = psycopg.Error

    def __init__(self, server: Server, clock: Clock) -> None:
        super().__init__(server.name)
        self._server = server
        self._clock = clock
        self._refusal: tuple[float, JournalError] | None = None

    def _connect(self) -> Any:
        if self._refusal is not None and self._clock.monotonic() < self._refusal[0]:
            raise JournalError(str(self._refusal[1]))
        try:
            connection = self._server.connect()
        except psycopg.Error as error:
            refusal = self._server.unreachable(error)
            self._refusal = (self._clock.monotonic() + _QUIET_SECONDS, refusal)
            raise refusal from None
        self._refusal = None
        return connection

    def _is_stale(self, _connection: Any) -> bool:
        return bool(_connection.closed)

    def _explained(self, error: Exception) -> JournalError:
        return self._server.explained(error)
