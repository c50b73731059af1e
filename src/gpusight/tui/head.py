"""The lines above the table: what is shown, of when, and what is wrong. Words of strangers come out printable."""

from gpusight.errors import printable
from gpusight.tui.show import duration
from gpusight.tui.snapshot import Snapshot, SourceError
from gpusight.tui.words import Words


def title_line(snapshot: Snapshot, words: Words) -> str:
    parts = ["gpusight top", snapshot.source, snapshot.title]
    if snapshot.simulated:
        parts.insert(1, words("simulated"))
    return printable("  ".join(part for part in parts if part))


def state_line(snapshot: Snapshot, words: Words, monotonic: float) -> str:
    """How old the data is, and how many are in which state."""
    counts = (f"{count} {words.status(status)}" for status, count in snapshot.summary)
    return printable("  ".join([_age(snapshot, words, monotonic), *counts]))


def problem_lines(snapshot: Snapshot, words: Words) -> list[str]:
    """One line at most, with the first of what the source could not read."""
    if not snapshot.problems:
        return []
    return [printable(words("problems", count=len(snapshot.problems), first=snapshot.problems[0]))]


def failure_line(since: float, error: SourceError, words: Words, monotonic: float) -> str:
    """Since when, on the monotonic clock, and why there is no newer data."""
    return printable(words("unreachable", age=duration(monotonic - since), reason=str(error)))


def _age(snapshot: Snapshot, words: Words, monotonic: float) -> str:
    age = snapshot.age_at(monotonic)
    if age is None:
        return words("age unknown")
    return words("data is old" if snapshot.is_old(monotonic) else "data age", age=duration(age))
