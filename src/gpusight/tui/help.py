"""The screen behind `?`."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from gpusight.tui.show import fitted
from gpusight.tui.words import Words

_KEY_WIDTH = 28


class HelpScreen(ModalScreen[None]):
    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen Static { width: auto; height: auto; max-width: 100%; max-height: 100%; padding: 1 2; border: solid; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "dismiss", show=False),
    ]

    def __init__(self, words: Words) -> None:
        super().__init__()
        self._words = words

    def compose(self) -> ComposeResult:
        lines = [f"{fitted(key, _KEY_WIDTH)} {meaning}" for key, meaning in self._words.help()]
        yield Static(Content("\n".join(lines)))
