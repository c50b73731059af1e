"""Journals of earlier versions become today's with all their rows; those of later ones are refused."""

import sqlite3
from contextlib import closing
from math import inf
from pathlib import Path

import pytest

from gpusight.journal.engine import Engine
from gpusight.journal.migrations import MIGRATIONS, NEWEST, Migration, migrate, version_of
from gpusight.journal.postgres import PostgresEngine, Server
from gpusight.journal.sqlite import SqliteEngine, create
from gpusight.journal.tables import TABLES
from gpusight.model.history import JournalError
from gpusight.model.time import ManualClock
from tests.journal.children import child, line
from tests.journal.conftest import Place
from tests.journal.rows import CHANGE, CONFIG_CHANGE, EPISODE, HOUR

VERSION_1 = Path(__file__).with_name("version_1.sql")
"""A journal as version 1 wrote it; it is never edited."""


def raw(place: Place) -> Engine:
    if isinstance(place.location, Path):
        create(place.location)
        return SqliteEngine(place.location)
    return PostgresEngine(Server(place.location), ManualClock())


def test_a_file_of_version_1_is_read_with_all_its_rows(sqlite: Place) -> None:
    with closing(sqlite3.connect(sqlite.location)) as connection:
        connection.executescript(VERSION_1.read_text())
    journal = sqlite.open()
    assert version_of(journal.engine) == NEWEST
    assert journal.changes(start=-inf, end=inf) == [CHANGE]
    assert journal.hours(start=-inf, end=inf) == [HOUR]
    assert journal.episodes() == [EPISODE]
    assert journal.config() == {"threshold": "30"}
    assert journal.config_changes() == [CONFIG_CHANGE]
    assert journal.state() == b"\x00\x01"


def test_each_earlier_version_is_brought_up_to_date(place: Place) -> None:
    engine = raw(place)
    migrate(engine, 1.0, MIGRATIONS[:1])
    with engine.write() as session:
        for table, row in zip(TABLES[:3], (CHANGE, HOUR, EPISODE), strict=True):
            session.run(table.put, row)
    for step in MIGRATIONS[1:]:
        migrate(engine, 2.0, MIGRATIONS[: step.version])
        assert version_of(engine) == step.version
    with engine.read() as session:
        assert session.all("select version, applied from schema_version order by version") == [(1, 1.0), (2, 2.0)]
    engine.close()
    journal = place.open()
    assert journal.hours(start=-inf, end=inf) == [HOUR]
    assert journal.changes(start=-inf, end=inf) == [CHANGE]


def test_a_step_that_fails_leaves_the_journal_as_it_was(place: Place) -> None:
    engine = raw(place)
    migrate(engine, 1.0, MIGRATIONS[:1])
    broken = Migration(2, ("create table half (x integer)", "create table hours (x integer)"))
    with pytest.raises(JournalError, match="already exists"):
        migrate(engine, 2.0, (MIGRATIONS[0], broken))
    with engine.read() as session:
        assert "half" not in {name for (name,) in session.all(engine.dialect.tables)}
    assert version_of(engine) == 1
    engine.close()
    place.open()


def test_a_journal_of_a_later_version_is_refused_and_stays_as_it_is(place: Place) -> None:
    engine = raw(place)
    migrate(engine, 1.0, (*MIGRATIONS, Migration(NEWEST + 1, ("create table later (x integer)",))))
    engine.close()
    with pytest.raises(
        JournalError, match=f"has schema version {NEWEST + 1} and this gpusight knows {NEWEST}: upgrade"
    ):
        place.open()


def test_a_database_of_something_else_is_refused(place: Place) -> None:
    engine = raw(place)
    with engine.write() as session:
        session.run("create schema gpusight" if engine.dialect.placeholder == "%s" else "select 1")
        session.run("create table cats (name text)")
    engine.close()
    with pytest.raises(JournalError, match="is a database of something else"):
        place.open()


def test_versions_are_numbered_without_gaps() -> None:
    assert [step.version for step in MIGRATIONS] == list(range(1, NEWEST + 1))


def test_replicas_that_start_at_once_do_not_get_in_each_others_way(place: Place) -> None:
    with child("record", place.location) as first, child("record", place.location) as second:
        assert line(first)
        assert line(second)


def test_queries_use_an_index(sqlite: Place) -> None:
    engine = sqlite.open().engine
    questions = (
        "select * from verdict_changes where at >= ? order by at desc, cluster desc, namespace desc, subject desc",
        "select * from verdict_changes where subject = ? and at >= ? order by at desc",
        "select * from verdict_changes where namespace in (select value from json_each(?)) and at >= ?",
        "select * from hours where hour >= ? and hour < ? order by hour, cluster, namespace, subject",
        "select * from episodes where closed is null order by opened desc",
        "select * from episodes where closed < ?",
    )
    with engine.read() as session:
        for question in questions:
            plan = session.all(f"explain query plan {question}", (1,) * question.count("?"))
            assert "USING INDEX" in str(plan), (question, plan)
