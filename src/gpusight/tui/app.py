"""The screen of `gpusight top`: a head, a table, a line of keys."""

from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from gpusight.errors import printable
from gpusight.model.time import Clock
from gpusight.tui.arrange import NAME, STATUS, Wish, arrange
from gpusight.tui.head import failure_line, problem_lines, state_line, title_line
from gpusight.tui.help import HelpScreen
from gpusight.tui.poll import Outcome, Poller
from gpusight.tui.show import fitted
from gpusight.tui.snapshot import Section, Snapshot, SourceError
from gpusight.tui.source import Source
from gpusight.tui.table import RowTable
from gpusight.tui.words import Words


class Arrived(Message):
    """An answer, or why there is none."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


class TopApp(App[None]):
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #keys { height: 1; }
    #head { height: auto; }
    RowTable { height: 1fr; }
    Input { height: 1; border: none; padding: 0; display: none; }
    Input.-asked { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", show=False),
        Binding("slash", "filter", show=False),
        Binding("escape", "clear_filter", show=False),
        Binding("s", "sort(1)", show=False),
        Binding("S", "sort(-1)", show=False),
        Binding("o", "reverse", show=False),
        Binding("t", "tree", show=False),
        Binding("v", "notes", show=False),
        Binding("p", "pause", show=False),
        Binding("r", "ask_now", show=False),
        Binding("tab", "next_view", show=False, priority=True),
        *(Binding(f"{number}", f"view({number - 1})", show=False) for number in (1, 2, 3)),
        Binding("question_mark", "help", show=False),
    ]

    def __init__(self, source: Source, clock: Clock, words: Words, interval: float, wish: Wish | None = None) -> None:
        super().__init__()
        self.snapshot: Snapshot | None = None
        self.failure: tuple[float, SourceError] | None = None
        """Since when, on the monotonic clock, and why."""
        self.paused = False
        self.arrivals = 0
        """Answers and failures so far."""
        self._source = source
        self._clock = clock
        self._words = words
        self._wish = wish or Wish()
        self._sorts: dict[str, tuple[str | None, bool]] = {}
        self._view = 0
        self._poller = Poller(source.fetch, self._deliver, interval)
        self._table = RowTable(words)

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield self._table
        yield Input(placeholder=self._words("filter prompt"), value=self._wish.filter)
        yield Static(Content(self._words("keys")), id="keys")

    def on_mount(self) -> None:
        self.theme = "ansi-dark"
        self._table.focus()
        self._show_head()
        self.set_interval(1.0, self._show_head)
        self._poller.start()

    def on_unmount(self) -> None:
        self._poller.stop()

    # --- data ---

    def _deliver(self, outcome: Outcome) -> None:
        """Called by the poller's thread, maybe after the last screen."""
        with suppress(RuntimeError):
            self.post_message(Arrived(outcome))

    def on_arrived(self, message: Arrived) -> None:
        self.arrivals += 1
        if isinstance(message.outcome, SourceError):
            since = self.failure[0] if self.failure else self._clock.monotonic()
            self.failure = since, message.outcome
            self._show_head()
            return
        before, self.snapshot, self.failure = self.snapshot, message.outcome, None
        if before is not None and before.sections is message.outcome.sections:
            self._show_head()  # the rows are those of before
        else:
            self._show_rows()

    @property
    def section(self) -> Section | None:
        if self.snapshot is None:
            return None
        return self.snapshot.sections[min(self._view, len(self.snapshot.sections) - 1)]

    @property
    def wish(self) -> Wish:
        """With the sorting of the section that is shown: each has its own."""
        sort, descending = self._sorts.get(self.section.key, (None, False)) if self.section else (None, False)
        return replace(self._wish, sort=sort, descending=descending)

    # --- the screen ---

    def _show_rows(self) -> None:
        section = self.section
        if section is not None:
            wish = self.wish
            lines = arrange(section, wish, self._words)
            nothing = self._words("no match" if wish.filter and section.rows else "no rows")
            self._table.show_lines(section, lines, wish, nothing)
        self._show_head()

    def _show_head(self) -> None:
        lines = [fitted(line, self.size.width) for line in self._head_lines()]
        self.query_one("#head", Static).update(Content("\n".join(lines)))

    def _head_lines(self) -> list[str]:
        now = self._clock.monotonic()
        failed = [failure_line(*self.failure, self._words, now)] if self.failure else []
        if self.snapshot is None:
            return ["gpusight top", *(failed or [self._words("connecting", source=self._source.shown)])]
        return [
            title_line(self.snapshot, self._words),
            state_line(self.snapshot, self._words, now),
            *(failed or problem_lines(self.snapshot, self._words)),
            self._view_line(self.snapshot),
        ]

    def _view_line(self, snapshot: Snapshot) -> str:
        shown = self.section
        views = [
            f"[{number} {self._words(each.key)}]" if each is shown else f" {number} {self._words(each.key)} "
            for number, each in enumerate(snapshot.sections, 1)
        ]
        parts = [" ".join(views)]
        if self.paused:
            parts.append(self._words("paused"))
        parts += self._wishes_told()
        if self._table.hidden_columns:
            parts.append(self._words("narrow", count=self._table.hidden_columns))
        return printable("  ".join(parts))

    def _wishes_told(self) -> list[str]:
        wish, told = self.wish, []
        if wish.sort is not None and self.section is not None:
            title = self.section.status_title if wish.sort == STATUS else wish.sort
            told.append(self._words("sorted by", column=self._words(title), order="v" if wish.descending else "^"))
        if wish.filter and self.section is not None:
            rows = sum(not row.is_group for row in self.section.rows)
            shown = sum(not (line.row.is_group or line.is_note) for line in self._table.lines)
            told.append(self._words("filtered by", filter=wish.filter, shown=shown, all=rows))
        return told

    # --- wishes ---

    def _wish_for(self, **changes: object) -> None:
        self._wish = replace(self._wish, **changes)  # type: ignore[arg-type]
        self._show_rows()

    def action_tree(self) -> None:
        self._wish_for(tree=not self._wish.tree)

    def action_notes(self) -> None:
        self._wish_for(notes=not self._wish.notes)

    def action_sort(self, by: int) -> None:
        if self.section is not None:
            choices = [None, NAME, STATUS, *(column.key for column in self.section.columns)]
            at = choices.index(self.wish.sort)
            self._sort_by(choices[(at + by) % len(choices)])

    def _sort_by(self, column: str | None, *, descending: bool | None = None) -> None:
        """Numbers the greatest first, words from A."""
        if self.section is not None:
            numeric = any(each.key == column and each.right for each in self.section.columns)
            self._sorts[self.section.key] = column, numeric if descending is None else descending
            self._show_rows()

    def action_reverse(self) -> None:
        if self.wish.sort is not None:
            self._sort_by(self.wish.sort, descending=not self.wish.descending)

    def on_row_table_sort_asked(self, message: RowTable.SortAsked) -> None:
        if message.column == self.wish.sort:
            self.action_reverse()
        else:
            self._sort_by(message.column)

    def on_row_table_resized(self) -> None:
        self._show_head()

    def on_row_table_fold_asked(self, message: RowTable.FoldAsked) -> None:
        self._wish_for(folded=self._wish.folded ^ {message.key})

    def action_view(self, number: int) -> None:
        if self.snapshot is not None and number < len(self.snapshot.sections):
            self._view = number
            self._show_rows()

    def action_next_view(self) -> None:
        if self.snapshot is not None:
            self.action_view((self._view + 1) % len(self.snapshot.sections))

    def action_filter(self) -> None:
        field = self.query_one(Input)
        field.add_class("-asked")
        self.query_one("#keys").display = False
        field.focus()

    def on_input_changed(self, message: Input.Changed) -> None:
        self._wish_for(filter=message.value)

    def on_input_submitted(self) -> None:
        self._leave_filter()

    def action_clear_filter(self) -> None:
        self.query_one(Input).value = ""
        self._leave_filter()

    def _leave_filter(self) -> None:
        self.query_one(Input).remove_class("-asked")
        self.query_one("#keys").display = True
        self._table.focus()

    # --- the rest ---

    def action_pause(self) -> None:
        self.paused = not self.paused
        self._poller.pause(self.paused)
        self._show_head()

    def action_ask_now(self) -> None:
        self._poller.ask_now()

    def action_help(self) -> None:
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self._words))
