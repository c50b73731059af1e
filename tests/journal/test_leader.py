"""One of several acts; when it dies another one does."""

import logging
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpusight.journal.leader import FileLeader, PostgresLeader, leadership
from gpusight.model.history import JournalError
from tests.journal.children import child, line
from tests.journal.conftest import Place
from tests.support.postgres import PASSWORD, Postgres, needs_postgres


def asked(process: subprocess.Popen[str]) -> bool:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return line(process) == "True"


def eventually(holds: Callable[[], bool], within: float = 10.0) -> bool:
    """A server notices a client that went away in its own time."""
    deadline = time.monotonic() + within
    while not (there := holds()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return there


def test_when_the_leader_is_killed_the_other_one_takes_over(place: Place) -> None:
    with child("lead", place.location) as first, child("lead", place.location) as second:
        assert asked(first)
        assert not asked(second)
        assert asked(first)
        first.kill()
        first.wait()
        assert eventually(lambda: asked(second))


def test_a_leader_that_releases_hands_over_and_may_lead_again(place: Place) -> None:
    first, second = leadership(place.location), leadership(place.location)
    try:
        assert (first.held, second.held) == (False, False)
        assert (first.acquire(), second.acquire()) == (True, False)
        assert (first.held, second.held) == (True, False)
        assert first.acquire()  # as often as one likes: one release is enough
        first.release()
        assert not first.held
        assert eventually(second.acquire)
        assert not first.acquire()
        second.release()
        assert eventually(first.acquire)
    finally:
        first.release()
        second.release()


def test_a_lock_file_that_was_removed_makes_no_second_leader(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second = FileLeader(path), FileLeader(path)
    assert first.acquire()
    path.unlink()
    assert second.acquire()
    assert not first.acquire()
    assert not first.held
    second.release()
    assert first.acquire()
    first.release()


def test_the_lock_is_beside_the_journal_and_for_its_owner(tmp_path: Path) -> None:
    leader = leadership(tmp_path / "journal.sqlite3")
    assert leader.acquire()
    assert (tmp_path / "journal.sqlite3.leader").stat().st_mode & 0o777 == 0o600
    leader.release()


def test_a_lock_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot be opened: No such file or directory"):
        FileLeader(tmp_path / "missing" / "lock").acquire()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalError, match="cannot be opened"):
        FileLeader(tmp_path / "link").acquire()
    assert not (tmp_path / "elsewhere").exists()


@needs_postgres
def test_who_loses_the_connection_is_no_leader(
    postgres: Place, server: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    leader = PostgresLeader(str(postgres.location))
    assert leader.acquire()
    server.kill()
    with caplog.at_level(logging.WARNING):
        assert not leader.acquire()
        assert not leader.acquire()
    assert not leader.held
    assert "no connection to the journal postgresql://127.0.0.1" in caplog.text
    assert PASSWORD not in caplog.text
    server.start()
    assert leader.acquire()
    leader.release()


@needs_postgres
def test_a_lock_that_was_taken_away_on_the_server_is_lost(postgres: Place, server: Postgres) -> None:
    first, second = PostgresLeader(str(postgres.location)), PostgresLeader(str(postgres.location))
    assert first.acquire()
    first._connection.execute("select pg_advisory_unlock_all()")
    assert second.acquire()
    assert not first.acquire()
    first.release()
    second.release()


@needs_postgres
def test_other_databases_have_other_leaders(postgres: Place, server: Postgres) -> None:
    here, there = PostgresLeader(str(postgres.location)), PostgresLeader(server.url())
    assert here.acquire()
    assert there.acquire()
    here.release()
    there.release()
