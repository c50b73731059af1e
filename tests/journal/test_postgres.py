"""The server: who may in, what it tells, and what is never told."""

import logging
import traceback
from collections.abc import Iterator
from itertools import count

import pytest

from gpusight.journal.open import open_journal
from gpusight.journal.postgres import Server
from gpusight.journal.retention import Retention
from gpusight.journal.sql import SqlJournal
from gpusight.model.history import JournalError
from gpusight.model.time import ManualClock
from tests.journal.conftest import Place
from tests.support.net import free_port
from tests.support.postgres import PASSWORD, Postgres, needs_postgres

pytestmark = needs_postgres
_numbers = count()


def opened(url: str) -> SqlJournal:
    return open_journal(url, retention=Retention(), clock=ManualClock())


def refused(url: str) -> str:
    """The sentence, of which neither the password nor a part of it may be found anywhere."""
    with pytest.raises(JournalError) as caught:
        opened(url)
    told = "".join(traceback.format_exception(caught.value))
    assert not any(secret in told for secret in ("hunter2", "p%zz", PASSWORD))
    return str(caught.value)


@pytest.fixture
def role(server: Postgres) -> Iterator[str]:
    name = f"role_{next(_numbers)}"
    server.run(f"create role {name} login password 'hunter2'")
    yield name
    server.run(f"drop owned by {name}")
    server.run(f"drop role {name}")


def test_a_wrong_password_is_a_sentence_without_it(server: Postgres) -> None:
    told = refused(server.url(password="hunter2"))
    assert "no connection to the journal postgresql://127.0.0.1" in told
    assert "password authentication failed" in told


def test_a_server_that_is_not_there_is_a_sentence() -> None:
    port = free_port()
    told = refused(f"postgres://user:hunter2@127.0.0.1:{port}/db")
    assert told.startswith(f"no connection to the journal postgresql://127.0.0.1:{port}/db: ")
    assert "check the address, the password and whether the server runs" in told


@pytest.mark.parametrize(
    "url",
    [
        "postgres://user:p%zz@host/db",
        "postgres://user:hunter2@host/db?hunter2=hunter2",
        "postgresql://user:hunter2@[::1/db",
    ],
)
def test_an_address_that_makes_no_sense_is_not_repeated(url: str) -> None:
    assert "is not one of PostgreSQL" in refused(url)


def test_a_password_among_the_parameters_is_not_told() -> None:
    server = Server("postgres:///db?host=somewhere&password=hunter2")
    assert repr(server) == "Server(postgresql://somewhere/db)"
    assert str(server.explained(Exception("it is hunter2\n"))).endswith("failed: it is ********")


def test_nothing_that_is_logged_holds_the_password(postgres: Place, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        journal = postgres.open()
        assert journal.state() is None
        assert PASSWORD not in repr(journal) + repr(journal.engine) + journal.name + caplog.text


def test_a_database_with_another_encoding_is_refused(server: Postgres) -> None:
    server.run("create database latin encoding 'LATIN1' locale 'C' template template0")
    try:
        assert "has encoding LATIN1: make one with UTF8" in refused(server.url("latin"))
    finally:
        server.run("drop database latin with (force)")


def test_everything_is_in_a_schema_of_its_own(postgres: Place) -> None:
    with postgres.open().engine.read() as session:
        found = session.all(
            "select distinct schemaname from pg_tables where schemaname not in ('pg_catalog', 'information_schema')"
        )
    assert found == [("gpusight",)]


def test_a_role_that_owns_only_the_schema_is_enough(postgres: Place, server: Postgres, role: str) -> None:
    database = str(postgres.location).rpartition("/")[2]
    url = f"postgres://{role}:hunter2@127.0.0.1:{server.port}/{database}"
    assert "permission denied for database" in refused(url)
    server.run(f"create schema gpusight authorization {role}", database)
    journal = opened(url)
    journal.record_round([], [], [], b"1", at=1.0)
    assert journal.state() == b"1"
    journal.close()
    server.run(f"drop owned by {role}", database)


def test_a_statement_that_does_not_end_is_ended(postgres: Place) -> None:
    journal = postgres.open()
    with pytest.raises(JournalError, match="statement timeout"), journal.engine.read() as session:
        session.run("set local statement_timeout = 50")
        session.run("select pg_sleep(60)")
    with journal.engine.read() as session:
        ((limit, commits),) = session.all(
            "select current_setting('statement_timeout'), current_setting('synchronous_commit')"
        )
    assert (limit, commits) == ("30s", "on")


def test_a_role_that_need_not_wait_for_the_disk_still_does(postgres: Place, server: Postgres, role: str) -> None:
    server.run(f"alter role {role} set synchronous_commit = off")
    database = str(postgres.location).rpartition("/")[2]
    server.run(f"create schema gpusight authorization {role}", database)
    journal = opened(f"postgres://{role}:hunter2@127.0.0.1:{server.port}/{database}")
    with journal.engine.read() as session:
        assert session.all("select current_setting('synchronous_commit')") == [("on",)]
    journal.close()
    server.run(f"drop owned by {role}", database)
