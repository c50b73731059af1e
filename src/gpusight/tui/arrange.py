"""From rows to lines: filtered, sorted, as a tree or flat. Everything here is done once per change, not per frame."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpusight.tui.snapshot import Column, Order, Row, Section
from gpusight.tui.words import Words

NAME, STATUS = "name", "status"


@dataclass(frozen=True, slots=True)
class Wish:
    """How somebody wants to see a section."""

    tree: bool = True
    notes: bool = False
    sort: str | None = None
    """A column's key, `name` or `status`; None is the source's own order."""
    descending: bool = False
    filter: str = ""
    folded: frozenset[str] = field(default_factory=frozenset)


class Line(NamedTuple):
    row: Row
    depth: int
    is_note: bool = False
    folded: bool | None = None
    """None if there is nothing to fold."""


def arrange(section: Section, wish: Wish, words: Words) -> list[Line]:
    matches = _matcher(wish.filter, words)
    order = _order(section, wish.sort)
    return _tree(section, wish, matches, order) if wish.tree else _flat(section, wish, matches, order)


def _matcher(asked: str, words: Words) -> Callable[[Row], bool] | None:
    """Every word somewhere in the row, in any case."""
    wanted = asked.casefold().split()
    if not wanted:
        return None

    def matches(row: Row) -> bool:
        text = f"{row.full_name} {row.status} {words.status(row.status)} {row.words} {row.note}".casefold()
        return all(word in text for word in wanted)

    return matches


def _order(section: Section, sort: str | None) -> Callable[[Row], Order] | None:
    if sort == NAME:
        return lambda row: row.full_name.casefold()
    if sort == STATUS:
        return lambda row: row.status or None
    found: Column | None = next((column for column in section.columns if column.key == sort), None)
    if found is None:
        return None
    get = found.order
    return lambda row: None if row.is_group else get(row.fact)


Matches = Callable[[Row], bool] | None
Ordered = Callable[[Row], Order] | None


def _flat(section: Section, wish: Wish, matches: Matches, order: Ordered) -> list[Line]:
    rows = [row for row in section.rows if not row.is_group and (matches is None or matches(row))]
    if order is not None:
        rows = _sorted(rows, {row.key: order(row) for row in rows}, descending=wish.descending)
    return _with_notes([Line(row, 0) for row in rows], wish)


def _tree(section: Section, wish: Wish, matches: Matches, order: Ordered) -> list[Line]:
    rows = section.rows if matches is None else _branches(section.rows, matches)
    values = None if order is None else _extremes(rows, order, descending=wish.descending)
    children: dict[str, list[Row]] = {}
    for row in rows:
        children.setdefault(row.parent, []).append(row)
    lines: list[Line] = []

    def grow(parent: str, depth: int) -> None:
        siblings = children.get(parent, [])
        if values is not None:
            siblings = _sorted(siblings, values, descending=wish.descending)
        for row in siblings:
            folded = row.key in wish.folded if row.key in children else None
            lines.append(Line(row, depth, False, folded))
            if folded is False:
                grow(row.key, depth + 1)

    grow("", 0)
    return _with_notes(lines, wish)


def _branches(rows: Sequence[Row], matches: Callable[[Row], bool]) -> list[Row]:
    """Rows that match, all above them and all below them."""
    parents = {row.key: row.parent for row in rows}
    below: set[str] = set()
    above: set[str] = set()
    for row in rows:  # parents come first
        if row.parent in below or matches(row):
            below.add(row.key)
            parent = row.parent
            while parent and parent not in above:
                above.add(parent)
                parent = parents.get(parent, "")
    return [row for row in rows if row.key in below or row.key in above]


def _extremes(rows: Sequence[Row], order: Callable[[Row], Order], *, descending: bool) -> dict[str, Order]:
    """The value of each row; of a group the one of its members that comes first."""
    values = {row.key: order(row) for row in rows}
    pick = max if descending else min
    groups = {row.key for row in rows if row.is_group}
    for row in reversed(rows):  # children come last
        if row.parent in groups:
            both = [value for value in (values.get(row.parent), values[row.key]) if value is not None]
            values[row.parent] = pick(both, default=None)
    return values


def _sorted(rows: Sequence[Row], values: Mapping[str, Order], *, descending: bool) -> list[Row]:
    """The unknown last, whichever way round."""
    known = [row for row in rows if values[row.key] is not None]
    unknown = [row for row in rows if values[row.key] is None]
    known.sort(key=lambda row: values[row.key], reverse=descending)  # type: ignore[arg-type,return-value]
    return known + unknown


def _with_notes(lines: list[Line], wish: Wish) -> list[Line]:
    if not wish.notes:
        return lines
    told: list[Line] = []
    for line in lines:
        told.append(line)
        if line.row.note:
            told.append(Line(line.row, line.depth + 1, is_note=True))
    return told
