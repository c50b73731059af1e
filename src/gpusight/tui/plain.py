"""The same without a screen: a table for people and pipes, JSON for programs."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.cells import cell_len

from gpusight.errors import printable
from gpusight.tui.arrange import Wish, arrange
from gpusight.tui.head import problem_lines, state_line, title_line
from gpusight.tui.show import fitted
from gpusight.tui.snapshot import Section, Snapshot
from gpusight.tui.words import Words


def as_text(snapshot: Snapshot, words: Words, wish: Wish) -> str:
    """As wide as it needs to be; nothing is cut."""
    lines = [title_line(snapshot, words), state_line(snapshot, words, snapshot.received)]
    lines += problem_lines(snapshot, words)
    for section in snapshot.sections:
        lines += ["", words(section.key), *_table(section, words, wish)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _table(section: Section, words: Words, wish: Wish) -> Iterator[str]:
    titles = ["name", section.status_title, *(column.key for column in section.columns)]
    right = [False, False, *(column.right for column in section.columns)]
    rows = [[words(title) for title in titles], *_cells(section, words, wish)]
    if len(rows) == 1:
        yield words("no rows")
        return
    tabular = [row for row in rows if len(row) > 1]
    widths = [max(cell_len(row[index]) for row in tabular) for index in range(len(titles))]
    for row in rows:
        if len(row) == 1:
            yield row[0]
        else:
            cells = zip(row, widths, right, strict=True)
            yield "  ".join(fitted(text, width, right=to_right) for text, width, to_right in cells)


def _cells(section: Section, words: Words, wish: Wish) -> Iterator[list[str]]:
    """A note is a row of one cell."""
    for line in arrange(section, wish, words):
        row, indent = line.row, "  " * line.depth
        if line.is_note:
            yield [indent + printable(row.note)]
            continue
        values = [] if row.is_group else [column.show(row.fact) for column in section.columns]
        values += [""] * (len(section.columns) - len(values))
        name = row.name if wish.tree else row.full_name
        yield [indent + printable(name), printable(words.status(row.status)), *map(printable, values)]


def as_json(snapshot: Snapshot) -> str:
    """Base units, null for what is not known, the same keys whatever is known."""
    told: dict[str, Any] = {
        "kind": snapshot.kind,
        "source": snapshot.source,
        "fetched_at": datetime.fromtimestamp(snapshot.at, UTC).isoformat(),
        "data_age_seconds": snapshot.age,
        "data_is_old": snapshot.is_old(snapshot.received),
        "simulated": snapshot.simulated,
        "problems": snapshot.problems,
        **snapshot.facts,
    }
    return json.dumps(msgspec.to_builtins(told), indent=2) + "\n"
