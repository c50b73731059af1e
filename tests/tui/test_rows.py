"""Order, filters and short text."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpusight.tui import show
from gpusight.tui.arrange import Wish, arrange
from gpusight.tui.snapshot import Row, Section, column
from gpusight.tui.words import _HELP, _WORDS, Words, language_of


class Fact:
    def __init__(self, score: float | None) -> None:
        self.score = score


SECTION = Section(
    "gpus",
    "status",
    8,
    (column("score", 6, "score", str),),
    (
        Row("n1", "", "n1", "n1", "", None),
        Row("a", "n1", "a", "a", "busy", Fact(5.0)),
        Row("b", "n1", "b", "b", "idle", Fact(None), "why"),
        Row("n2", "", "n2", "n2", "", None),
        Row("c", "n2", "c", "c", "idle", Fact(1.0)),
        Row("d", "n2", "d", "d", "busy", Fact(9.0)),
    ),
)


def keys(**wish: object) -> list[str]:
    lines = arrange(SECTION, Wish(**wish), Words())  # type: ignore[arg-type]
    return [f"{line.row.key}:note" if line.is_note else line.row.key for line in lines]


def test_groups_come_with_their_first_member() -> None:
    assert keys(sort="score") == ["n2", "c", "d", "n1", "a", "b"]
    assert keys(sort="score", descending=True) == ["n2", "d", "c", "n1", "a", "b"]


def test_a_flat_list_has_no_groups_and_the_unknown_last() -> None:
    assert keys(tree=False, sort="score") == ["c", "a", "d", "b"]
    assert keys(tree=False, sort="score", descending=True) == ["d", "a", "c", "b"]


def test_a_filter_keeps_what_is_above_and_below_a_match() -> None:
    assert keys(filter="n2") == ["n2", "c", "d"]
    assert keys(filter="WHY") == ["n1", "b"]
    assert keys(filter="idle", tree=False) == ["b", "c"]
    assert keys(filter="idle n1") == []


def test_notes_follow_their_rows_and_folded_branches_are_shut() -> None:
    assert keys(notes=True, folded=frozenset({"n2"})) == ["n1", "a", "b", "b:note", "n2"]


def test_a_filter_finds_the_words_of_the_language() -> None:
    found = arrange(SECTION, Wish(filter="空闲", tree=False), Words("zh"))
    assert [line.row.key for line in found] == ["b", "c"]


@given(st.text(), st.integers(0, 40), st.booleans())
def test_text_fills_its_cells_exactly_and_is_printable(text: str, width: int, right: bool) -> None:
    fitted = show.fitted(text, width, right=right)
    assert cell_len(fitted) == width
    assert fitted.isprintable()


def test_durations_are_short() -> None:
    said = {0: "0s", 59.9: "59s", 61: "1m01s", 3600: "1h00m", 90_000: "1d01h", 86_400 * 400: "400d", -5: "0s"}
    assert {seconds: show.duration(seconds) for seconds in said} == said
    assert show.duration(None) == show.percent(None) == show.gib(None) == show.number(None) == "-"


def test_every_word_has_both_languages_with_the_same_places() -> None:
    for english, chinese in _WORDS.values():
        assert english
        assert chinese
        assert english.count("{") == chinese.count("{")
    assert all(len(row) == 3 and all(row) for rows in _HELP.values() for row in rows)


def test_the_language_comes_from_the_environment() -> None:
    assert language_of({"LANG": "zh_CN.UTF-8"}) == "zh"
    assert language_of({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}) == "en"
    assert language_of({"LC_MESSAGES": "", "LANG": "de_DE"}) == "en"
    assert language_of({}) == "en"
