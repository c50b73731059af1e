"""`gpusight journal backup`, `restore` and `check`."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Any

import pytest

from gpusight.journal.open import open_journal
from gpusight.journal.retention import Retention
from gpusight.journal.sql import SqlJournal
from gpusight.model.history import JournalError
from gpusight.model.time import ManualClock
from gpusight.runtime.journal import backup, check, examine, restore
from tests.journal.children import child, line
from tests.journal.conftest import Place
from tests.journal.rows import CHANGE, CONFIG_CHANGE, EPISODE, HOUR
from tests.support.postgres import PASSWORD, needs_postgres


def fill(journal: SqlJournal, hours: Sequence[Any] = (HOUR,)) -> None:
    changes = [CHANGE._replace(at=float(n)) for n in range(6_000)]
    journal.record_round(changes, list(hours), [EPISODE], b"\x00state", at=1_000.5)
    journal.change_config({"threshold": "30"}, [CONFIG_CHANGE, CONFIG_CHANGE._replace(name="interval")])


def content(journal: SqlJournal) -> tuple[Any, ...]:
    return (
        journal.changes(start=-inf, end=inf, limit=10**6),
        journal.hours(start=-inf, end=inf),
        journal.episodes(),
        journal.config(),
        journal.config_changes(),
        journal.state(),
    )


def test_a_backup_is_a_journal_with_all_that_was_there(place: Place, tmp_path: Path) -> None:
    journal = place.open()
    fill(journal)
    copy = tmp_path / "backup" / "copy.sqlite3"
    copy.parent.mkdir()
    told = backup(place.location, copy)
    assert told == f"the journal {journal.name} is backed up in {copy} ({copy.stat().st_size} bytes)"
    assert [entry.name for entry in copy.parent.iterdir()] == [copy.name]
    assert copy.stat().st_mode & 0o777 == 0o600
    again = open_journal(copy, retention=Retention(), clock=ManualClock())
    assert content(again) == content(journal)
    again.close()


def test_a_backup_is_put_back_into_either_database(place: Place, tmp_path: Path) -> None:
    source = open_journal(tmp_path / "source.sqlite3", retention=Retention(), clock=ManualClock())
    fill(source)
    backup(tmp_path / "source.sqlite3", tmp_path / "copy.sqlite3")
    restore(tmp_path / "copy.sqlite3", place.location)
    journal = place.open()
    assert content(journal) == content(source)
    with pytest.raises(JournalError, match="is not empty: copy into a new one"):
        restore(tmp_path / "copy.sqlite3", place.location)
    assert content(journal) == content(source)
    journal.change_config({}, [CONFIG_CHANGE])  # the numbers of the audit go on where they ended
    assert len(journal.config_changes()) == 3
    source.close()


def test_a_backup_of_a_journal_in_use_is_of_one_moment(place: Place, tmp_path: Path) -> None:
    with child("record", place.location) as process:
        for number in range(5):
            line(process)
            copy = tmp_path / f"copy{number}.sqlite3"
            backup(place.location, copy)
            journal = open_journal(copy, retention=Retention(), clock=ManualClock())
            last = int(journal.state() or b"0")
            assert last > number
            assert len(journal.changes(start=0, end=inf, limit=10**6)) == last
            assert {row.used_gpu_hours for row in journal.hours(start=0, end=inf)} == {last}
            journal.close()


def test_a_backup_replaces_nothing_unless_told_to(place: Place, tmp_path: Path) -> None:
    place.open()
    copy = tmp_path / "precious"
    copy.write_text("precious")
    with pytest.raises(JournalError, match="precious exists: name another file, or say that it may be replaced"):
        backup(place.location, copy)
    assert copy.read_text() == "precious"
    backup(place.location, copy, force=True)
    assert examine(copy).problems == []


def test_a_backup_to_nowhere_is_a_sentence_and_leaves_nothing(place: Place, tmp_path: Path) -> None:
    place.open()
    with pytest.raises(JournalError, match="cannot be written: No such file or directory"):
        backup(place.location, tmp_path / "missing" / "copy")
    assert not [entry for entry in tmp_path.iterdir() if "copy" in entry.name]


def test_a_journal_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    for ask in (check, lambda path: backup(path, tmp_path / "copy")):
        with pytest.raises(JournalError, match="there is no journal at "):
            ask(tmp_path / "journal.sqlite3")
    assert list(tmp_path.iterdir()) == []


@needs_postgres
def test_an_empty_database_stays_empty(database: str) -> None:
    with pytest.raises(JournalError, match="it has no tables") as caught:
        check(database)
    assert PASSWORD not in str(caught.value)
    with pytest.raises(JournalError, match="it has no tables"):
        check(database)


def test_a_sound_journal_is_described(place: Place) -> None:
    journal = place.open()
    fill(journal)
    told = check(place.location)
    assert told[0] == f"journal {journal.name}, schema version 2 of 2"
    assert told[1].endswith(" MiB")
    assert told[2:] == [
        "verdict_changes: 6000 rows, 1970-01-01T00:00:00Z to 1970-01-01T01:39:59Z",
        "hours: 1 row, 1970-01-01T01:00:00Z to 1970-01-01T01:00:00Z",
        "episodes: 1 row, 1 open",
        "config_overrides: 1 row",
        "config_changes: 2 rows, 1970-01-01T00:16:40Z to 1970-01-01T00:16:40Z",
        "analysis_state: 1 row, 1970-01-01T00:16:40Z to 1970-01-01T00:16:40Z",
    ]


def test_hours_that_do_not_add_up_are_a_problem(place: Place) -> None:
    wrong = HOUR._replace(hour=7_200, subject="evil\nname", idle_gpu_hours=1.5)
    almost = HOUR._replace(hour=0, idle_gpu_hours=HOUR.idle_gpu_hours + 1e-9)
    fill(place.open(), [HOUR, wrong, almost])
    (problem,) = examine(place.location).problems
    assert problem == (
        "1 hour off: held is not used + idle + unknown, the first at 1970-01-01T02:00:00Z of evil\\nname"
        " by 0.25 GPU-hours"
    )
    assert check(place.location)[0].startswith("problem: 1 hour off")


def test_damage_is_a_problem_and_prevents_a_backup(sqlite: Place, tmp_path: Path) -> None:
    journal = sqlite.open()
    fill(journal)
    journal.close()
    with closing(sqlite3.connect(sqlite.location)) as connection:
        connection.execute("pragma writable_schema = on")
        connection.execute("update sqlite_master set rootpage = 3 where name = 'hours_by_namespace'")
        connection.commit()
    problems = examine(sqlite.location).problems
    assert problems
    assert any("damaged" in problem for problem in problems)
    with pytest.raises(JournalError, match="damaged"):
        backup(sqlite.location, tmp_path / "copy")
    assert [entry.name for entry in tmp_path.iterdir() if "copy" in entry.name] == []


def test_a_journal_that_is_looked_at_stays_as_it_is(sqlite: Place, tmp_path: Path) -> None:
    fill(sqlite.open())
    copy = tmp_path / "copy.sqlite3"
    backup(sqlite.location, copy)
    before = copy.read_bytes()
    check(copy)
    assert copy.read_bytes() == before
    assert not (tmp_path / "copy.sqlite3-wal").exists()


@needs_postgres
def test_a_server_that_does_not_sync_is_a_problem(postgres: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres.open()
    monkeypatch.setattr("gpusight.journal.check._FSYNC", "select 'off'")
    assert examine(postgres.location).problems == [
        "the server has fsync switched off: what it acknowledges may be lost with its power"
    ]
