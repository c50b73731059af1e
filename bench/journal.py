"""How fast rounds become durable, and how long a year of accounts takes to come back.

A round: 200 subjects' hours, 10 verdict changes, 20 kB of state, one transaction, synced to disk.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Figure, best, seconds
from gpusight.journal.open import open_journal
from gpusight.journal.retention import Retention
from gpusight.journal.sql import SqlJournal
from gpusight.model.history import HourUse, VerdictChange
from gpusight.model.time import SystemClock

SUBJECTS = 200
HOURS = 400 * 24
MONTH = 30 * 24
ROUNDS = 200


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:  # /tmp may be memory
        journal = open_journal(Path(directory) / "journal.sqlite3", retention=Retention(), clock=SystemClock())
        try:
            yield Figure("journal_durable_rounds", ROUNDS / seconds(lambda: _record(journal)), "rounds/s", (">=", 20))
            _fill(journal)
            yield Figure("journal_hours_month", best(lambda: _read(journal, MONTH), 3), "s", ("<=", 2))
            yield Figure("journal_totals_month", best(lambda: _total(journal, MONTH), 3), "s", ("<=", 2))
            yield Figure("journal_totals_13_months", seconds(lambda: _total(journal, HOURS)), "s", ("<=", 20))
            yield Figure("journal_hours_13_months", seconds(lambda: _read(journal, HOURS)), "s", ("<=", 20))
            yield Figure("journal_size_13_months", _size(Path(directory)), "MiB")
        finally:
            journal.close()


def _hour(hour: int, number: int) -> HourUse:
    namespace = f"team-{number % 20}"
    subject = f"east/{namespace}/Deployment/workload-{number}"
    model = "NVIDIA H100 80GB HBM3"
    return HourUse(
        hour * 3600, "east", namespace, subject, model, 1, 0.5, 0.25, 0.25, 1e6, 2.5, "EUR", "ada@example.org", "vision"
    )


def _record(journal: SqlJournal) -> None:
    hours = [_hour(HOURS + 1, number) for number in range(SUBJECTS)]
    for at in range(ROUNDS):
        changes = [
            VerdictChange(at, "east", "team-1", f"subject-{n}", "idle-held", "productive", 0.9, "reason", "x" * 2_000)
            for n in range(10)
        ]
        journal.record_round(changes, hours, [], bytes(20_000), at=at)


def _fill(journal: SqlJournal) -> None:
    for first in range(0, HOURS, MONTH):
        span = range(first, min(first + MONTH, HOURS))
        journal.record_round([], [_hour(hour, n) for hour in span for n in range(SUBJECTS)], [], b"", at=0)


def _read(journal: SqlJournal, hours: int) -> None:
    rows = journal.hours(start=0, end=hours * 3600)
    assert len(rows) == hours * SUBJECTS


def _total(journal: SqlJournal, hours: int) -> None:
    rows = journal.totals(start=0, end=hours * 3600)
    assert sum(row.held_gpu_hours for row in rows) == hours * SUBJECTS


def _size(directory: Path) -> float:
    return sum(entry.stat().st_size for entry in directory.iterdir()) / 2**20


def main() -> None:
    for figure in figures():
        print(figure.line(), flush=True)


if __name__ == "__main__":
    main()
