"""The table on the screen: only the lines that can be seen are ever made, so its size costs nothing."""

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpusight.tui.arrange import Line, Wish
from gpusight.tui.layout import Layout, header_text, lay_out, line_cells
from gpusight.tui.show import fitted
from gpusight.tui.snapshot import Section
from gpusight.tui.words import Words

_HEADER = Style(bold=True, underline=True)
_CURSOR = Style(reverse=True)
_NOTE = Style(dim=True)
_STATUS: dict[str, Style] = {
    **dict.fromkeys(("busy", "productive", "bursty", "memory-bound"), Style(color="green")),
    **dict.fromkeys(("idle", "idle-held", "idle-empty", "hollow-busy", "starved", "throttled"), Style(color="yellow")),
    **dict.fromkeys(("down", "old", "overloaded", "yielding"), Style(color="red", bold=True)),
    "unknown": Style(dim=True),
}
_PLAIN = Style()


class RowTable(ScrollView, can_focus=True):
    """Lines of one section below a header that stays."""

    DEFAULT_CSS = "RowTable { overflow-x: hidden; scrollbar-size-vertical: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "move(-1000000000)", show=False),
        Binding("end", "move(1000000000)", show=False),
        Binding("enter", "fold", show=False),
    ]

    class SortAsked(Message):
        def __init__(self, column: str) -> None:
            super().__init__()
            self.column = column

    class Resized(Message):
        """Other columns may fit now."""

    class FoldAsked(Message):
        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, words: Words) -> None:
        super().__init__()
        self._words = words
        self._section: Section | None = None
        self._lines: list[Line] = []
        self._wish = Wish()
        self._layout_made: Layout | None = None
        self._nothing = ""
        self._branches = False
        self.cursor = 0

    @property
    def hidden_columns(self) -> int:
        return self._laid_out().hidden if self._section and self._width() else 0

    @property
    def lines(self) -> list[Line]:
        return self._lines

    def show_lines(self, section: Section, lines: list[Line], wish: Wish, nothing: str) -> None:
        """`nothing` is said where there are no lines. The cursor stays on its row if that is still there."""
        key = self._lines[self.cursor].row.key if self.cursor < len(self._lines) else None
        self._section, self._lines, self._wish, self._nothing = section, lines, wish, nothing
        self._layout_made = None
        self._branches = any(line.folded is not None for line in lines)
        self.cursor = min(self._place_of(key), max(0, len(lines) - 1))
        self.virtual_size = Size(0, len(lines) + 1)
        self._keep_cursor_in_sight()
        self.refresh()

    def _place_of(self, key: str | None) -> int:
        at = self.cursor
        if at < len(self._lines) and self._lines[at].row.key == key:
            return at
        return next((index for index, line in enumerate(self._lines) if line.row.key == key), at)

    def render_line(self, y: int) -> Strip:
        width = self._width()
        if self._section is None:
            return Strip.blank(width)
        if y == 0:
            return Strip([Segment(header_text(self._laid_out()), _HEADER)]).adjust_cell_length(width)
        index = y - 1 + self.scroll_offset.y
        if not self._lines and y == 1:
            return Strip([Segment(fitted(f"  {self._nothing}", width), _NOTE)])
        if index >= len(self._lines):
            return Strip.blank(width)
        return self._strip(self._section, index).adjust_cell_length(width)

    def _strip(self, section: Section, index: int) -> Strip:
        line, marked = self._lines[index], index == self.cursor
        layout = self._laid_out()
        cells = line_cells(line, section, layout, self._words, self._wish, branches=self._branches, marked=marked)
        return Strip([Segment(cell.text, self._style(line, cell.status, marked=marked)) for cell in cells])

    @staticmethod
    def _style(line: Line, status: str, *, marked: bool) -> Style:
        style = _NOTE if line.is_note else _STATUS.get(status, _PLAIN)
        return style + _CURSOR if marked else style

    def _laid_out(self) -> Layout:
        width = self._width()
        made = self._layout_made
        if made is None or made.width != width:
            assert self._section is not None  # noqa: S101  (callers look first)
            made = self._layout_made = lay_out(self._section, width, self._wish, self._words)
        return made

    def _width(self) -> int:
        return self.scrollable_content_region.width

    def _rows_in_sight(self) -> int:
        return max(1, self.scrollable_content_region.height - 1)

    def _keep_cursor_in_sight(self) -> None:
        top, rows = self.scroll_offset.y, self._rows_in_sight()
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, immediate=True)
        elif self.cursor >= top + rows:
            self.scroll_to(y=self.cursor - rows + 1, animate=False, immediate=True)

    def on_resize(self, _event: Resize) -> None:
        self._keep_cursor_in_sight()
        self.refresh()
        self.post_message(self.Resized())

    def action_move(self, by: int) -> None:
        self.cursor = max(0, min(self.cursor + by, len(self._lines) - 1))
        self._keep_cursor_in_sight()
        self.refresh()

    def action_page(self, pages: int) -> None:
        self.action_move(pages * self._rows_in_sight())

    def action_fold(self) -> None:
        if self.cursor < len(self._lines) and self._lines[self.cursor].folded is not None:
            self.post_message(self.FoldAsked(self._lines[self.cursor].row.key))

    def on_click(self, event: Click) -> None:
        if self._section is None:
            return
        if event.y == 0:
            column = self._laid_out().at(event.x)
            if column is not None:
                self.post_message(self.SortAsked(column))
        elif event.y - 1 + self.scroll_offset.y < len(self._lines):
            self.cursor = event.y - 1 + self.scroll_offset.y
            self.refresh()
