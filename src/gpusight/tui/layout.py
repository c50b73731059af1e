"""Which columns fit on the screen and where, and the text of a line. No markup is ever made of anything."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len

from gpusight.tui.arrange import NAME, STATUS, Line, Wish
from gpusight.tui.show import fitted
from gpusight.tui.snapshot import Section
from gpusight.tui.words import Words

_LEAST_NAME = 24
_GUTTER = 2
_FOLD_MARKS = {None: "  ", True: "+ ", False: "- "}


class Place(NamedTuple):
    """A column on the screen: its first cell, its width, and its title."""

    key: str
    start: int
    width: int
    title: str
    right: bool


class Cell(NamedTuple):
    text: str
    status: str = ""
    """The word that a colour may stress."""


class Layout(NamedTuple):
    width: int
    places: tuple[Place, ...]
    hidden: int

    def at(self, x: int) -> str | None:
        """The column at this cell of the screen."""
        return next((place.key for place in self.places if place.start <= x < place.start + place.width), None)


def lay_out(section: Section, width: int, wish: Wish, words: Words) -> Layout:
    """The name gets what the others leave; what does not fit is left out from the right."""
    wanted = [(STATUS, section.status_width, section.status_title, False)]
    wanted += [(column.key, column.width, column.key, column.right) for column in section.columns]
    sized = [(key, max(size, cell_len(words(title)) + 1), title, right) for key, size, title, right in wanted]
    room = width - _GUTTER - _LEAST_NAME
    kept = len(sized)
    while kept and sum(size + 1 for _, size, _, _ in sized[:kept]) > room:
        kept -= 1
    name_width = max(1, width - _GUTTER - sum(size + 1 for _, size, _, _ in sized[:kept]))
    places = [Place(NAME, _GUTTER, name_width, _title(NAME, NAME, wish, words), right=False)]
    for key, size, title, right in sized[:kept]:
        start = places[-1].start + places[-1].width + 1
        places.append(Place(key, start, size, _title(key, title, wish, words), right))
    return Layout(width, tuple(places), len(sized) - kept)


def _title(key: str, title: str, wish: Wish, words: Words) -> str:
    mark = "" if key != wish.sort else "v" if wish.descending else "^"
    return words(title) + mark


def header_text(layout: Layout) -> str:
    cells = (fitted(place.title, place.width, right=place.right) for place in layout.places)
    return fitted(" " * _GUTTER + " ".join(cells), layout.width)


def line_cells(
    line: Line, section: Section, layout: Layout, words: Words, wish: Wish, *, branches: bool, marked: bool
) -> list[Cell]:
    """Cells that fill the whole line, each with the blank before it; `branches` if any line can be folded."""
    gutter = "> " if marked else " " * _GUTTER
    indent = "  " * line.depth
    if line.is_note:
        return [Cell(gutter + fitted(f"{indent}{line.row.note}", layout.width - _GUTTER))]
    name = line.row.name if wish.tree else line.row.full_name
    mark = _FOLD_MARKS[line.folded] if branches else ""
    cells = [Cell(gutter + fitted(f"{indent}{mark}{name}", layout.places[0].width))]
    shown = _shown(line, section, layout)
    for place, text in zip(layout.places[1:], shown, strict=True):
        status = line.row.status if place.key == STATUS else ""
        said = words.status(status) if place.key == STATUS else text
        cells.append(Cell(" " + fitted(said, place.width, right=place.right), status))
    return cells


def _shown(line: Line, section: Section, layout: Layout) -> Sequence[str]:
    """The status, which is said in words elsewhere, then the columns that are on the screen."""
    row = line.row
    columns = section.columns[: max(0, len(layout.places) - 2)]
    if row.is_group:
        return [""] * (len(layout.places) - 1)
    return ["", *(column.show(row.fact) for column in columns)][: len(layout.places) - 1]
