"""`gpusight journal`: back a journal up, put it back, see whether it is whole."""

from pathlib import Path

from gpusight.journal.backup import back_up, copy_rows
from gpusight.journal.check import Findings
from gpusight.journal.check import examine as examine_engine
from gpusight.journal.open import open_existing, open_journal
from gpusight.journal.retention import Retention
from gpusight.model.time import SystemClock


def backup(location: str | Path, destination: str | Path, *, force: bool = False) -> str:
    """Copy a journal, even one in use, into a SQLite file; the sentence to print."""
    clock = SystemClock()
    engine, version = open_existing(location, clock=clock)
    try:
        back_up(engine, version, Path(destination), now=clock.now(), force=force)
    finally:
        engine.close()
    return f"the journal {engine.name} is backed up in {destination} ({Path(destination).stat().st_size} bytes)"


def restore(source: str | Path, location: str | Path) -> str:
    """Copy a backup (or any journal) into a journal that is empty or not there yet; the sentence to print."""
    clock = SystemClock()
    reader, _version = open_existing(source, clock=clock)
    try:
        journal = open_journal(location, retention=Retention(), clock=clock)
        try:
            copy_rows(reader, journal.engine)
        finally:
            journal.close()
    finally:
        reader.close()
    return f"the journal {journal.name} holds what {reader.name} holds"


def examine(location: str | Path) -> Findings:
    """Look at all of a journal and change nothing."""
    engine, version = open_existing(location, clock=SystemClock())
    try:
        return examine_engine(engine, version)
    finally:
        engine.close()


def check(location: str | Path) -> list[str]:
    """What `examine` found as sentences, problems first."""
    problems, facts = examine(location)
    return [*(f"problem: {problem}" for problem in problems), *facts]
