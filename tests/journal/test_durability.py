"""What was acknowledged survives; a round is there as a whole or not at all."""

import subprocess
import time
from collections.abc import Callable
from math import inf

import pytest

from gpusight.model.history import JournalError
from gpusight.model.time import ManualClock
from tests.journal.children import child, line
from tests.journal.conftest import Place
from tests.journal.rows import CHANGE, HOUR
from tests.support.postgres import Postgres, needs_postgres


def assert_whole(place: Place, acknowledged: int) -> None:
    """The last round is the one acknowledged last or the one after it, and all tables tell of the same one."""
    journal = place.open()
    last = int(journal.state() or b"0")
    assert last in (acknowledged, acknowledged + 1)
    assert [row.at for row in journal.changes(start=0, end=inf, limit=10**6)] == list(range(last, 0, -1))
    assert {row.used_gpu_hours for row in journal.hours(start=0, end=inf)} == {last}
    assert [row.opened for row in journal.episodes()] == [last]
    journal.close()


def acknowledged_until(place: Place, end: Callable[[subprocess.Popen[str]], None], moment: float) -> int:
    """Rounds until `end`, which comes when `moment` (0 to 1) of the next one has passed."""
    with child("record", place.location) as process:
        last = int(line(process))
        started = time.monotonic()
        for _ in range(5):
            last = int(line(process))
        time.sleep(moment * (time.monotonic() - started) / 5)
        end(process)
        assert process.stdout is not None
        return max([last, *map(int, process.stdout.read().split())])


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()


def wait_until_alone(server: Postgres, place: Place) -> None:
    """The server may still be busy with the last words of a client that was killed."""
    database = str(place.location).rpartition("/")[2]
    deadline = time.monotonic() + 10
    while server.run(f"select 1 from pg_stat_activity where datname = '{database}'"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_killed_writer_loses_no_acknowledged_round(sqlite: Place) -> None:
    for part in range(8):
        assert_whole(sqlite, acknowledged_until(sqlite, kill, part / 8))


@needs_postgres
def test_a_killed_client_of_postgresql_loses_no_acknowledged_round(postgres: Place, server: Postgres) -> None:
    for part in range(4):
        last = acknowledged_until(postgres, kill, part / 4)
        wait_until_alone(server, postgres)
        assert_whole(postgres, last)


@needs_postgres
def test_a_killed_server_loses_no_acknowledged_round(postgres: Place, server: Postgres) -> None:
    for part in range(4):
        last = acknowledged_until(postgres, lambda _process: server.kill(), part / 4)
        server.start()
        assert_whole(postgres, last)


@needs_postgres
def test_an_open_journal_goes_on_after_the_server_came_back(postgres: Place, server: Postgres) -> None:
    clock = ManualClock()
    journal = postgres.open(clock=clock)
    journal.record_round([CHANGE], [HOUR], [], b"1", at=1.0)
    server.kill()
    with pytest.raises(JournalError, match="no connection to the journal"):
        journal.record_round([], [], [], b"2", at=2.0)
    server.start()
    with pytest.raises(JournalError, match="no connection to the journal"):  # refused at once, for a moment
        journal.state()
    clock.advance(3)
    assert journal.state() == b"1"
    journal.record_round([], [], [], b"3", at=3.0)
    assert journal.state() == b"3"


@needs_postgres
def test_a_restart_between_two_calls_is_not_noticed(postgres: Place, server: Postgres) -> None:
    journal = postgres.open()
    journal.record_round([], [], [], b"1", at=1.0)
    server.stop()
    server.start()
    assert journal.state() == b"1"


def test_the_wal_of_a_killed_writer_is_read_by_the_next_one(sqlite: Place) -> None:
    last = acknowledged_until(sqlite, kill, 0.5)
    assert (sqlite.location.parent / "journal.sqlite3-wal").stat().st_size > 0  # type: ignore[union-attr]
    assert_whole(sqlite, last)
