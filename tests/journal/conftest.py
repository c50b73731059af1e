"""Every test that asks for a `place` runs on SQLite and on PostgreSQL."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from gpusight.journal.open import open_journal
from gpusight.journal.retention import Retention
from gpusight.journal.sql import SqlJournal
from gpusight.model.time import Clock, ManualClock
from tests.support.postgres import Postgres, needs_postgres, temporary_postgres

_numbers = count()


class Place:
    """Where a journal is, or will be; what was opened here is closed at the end."""

    def __init__(self, location: str | Path) -> None:
        self.location = location
        self.opened: list[SqlJournal] = []

    def open(self, retention: Retention | None = None, clock: Clock | None = None) -> SqlJournal:
        journal = open_journal(self.location, retention=retention or Retention(), clock=clock or ManualClock())
        self.opened.append(journal)
        return journal


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    with temporary_postgres() as server:
        yield server


@pytest.fixture
def database(server: Postgres) -> Iterator[str]:
    """The address of an empty database. It is dropped, because a server syncs all that it has after a crash."""
    name = f"test_{next(_numbers)}"
    server.run(f"create database {name}")
    yield server.url(name)
    server.run(f"drop database {name} with (force)")


@pytest.fixture
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Place]]:
    places: list[Place] = []

    def make(kind: str) -> Place:
        places.append(Place(tmp_path / "journal.sqlite3" if kind == "sqlite" else request.getfixturevalue("database")))
        return places[-1]

    yield make
    for place in places:
        for journal in place.opened:
            journal.close()


@pytest.fixture
def sqlite(new_place: Callable[[str], Place]) -> Place:
    return new_place("sqlite")


@pytest.fixture
def postgres(new_place: Callable[[str], Place]) -> Place:
    return new_place("postgres")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=needs_postgres)])
def place(request: pytest.FixtureRequest, new_place: Callable[[str], Place]) -> Place:
    return new_place(request.param)
