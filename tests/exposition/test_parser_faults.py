"""A broken line costs itself: it is counted with a reason, and its neighbours are kept."""

from collections.abc import Mapping

import pytest

from gpusight.exposition import parser as parser_module
from gpusight.exposition.parser import Fault, Limits, PageParser

LIMITS = Limits(line=200, lines=50, labels=3, label=20)


def parser() -> PageParser[str]:
    def learn(name: str, labels: Mapping[str, str]) -> str | None:
        return None if name == "refused" else f"{name}{dict(sorted(labels.items()))}"

    return PageParser(learn, limits=LIMITS)


BROKEN: tuple[tuple[bytes, Fault], ...] = (
    (b"a", "syntax"),
    (b"a{", "syntax"),
    (b'a{x="1"', "syntax"),
    (b'a{x="1} 2', "syntax"),
    (b"a{x=1} 2", "syntax"),
    (b'a{x="1" y="2"} 2', "syntax"),
    (b'a{,x="1"} 2', "syntax"),
    (b'a{x="1"}', "syntax"),
    (b'{x="1"} 2', "syntax"),
    (b'{"",x="1"} 2', "syntax"),
    (b'a{__name__="b"} 2', "syntax"),
    (b"9a 1", "syntax"),
    (b"a 1 2 3", "syntax"),
    (b'a 1 # {t="x"} 2', "syntax"),
    (b"a one", "value"),
    (b"a 1_000", "value"),
    (b'a{x="1"} 0x10', "value"),
    (b"a 1 yesterday", "timestamp"),
    (b"a 1 1.5", "timestamp"),
    (b'a{x="' + b"9" * 400 + b'"} 1', "line_too_long"),
    (b'a{x="1",x="2"} 1', "duplicate_label"),
    (b'a{x="\xff\xfe"} 1', "not_utf8"),
    (b'a{p="1",q="2",r="3",s="4"} 1', "too_many_labels"),
    (b'a{p="' + b"x" * 21 + b'"} 1', "label_too_long"),
    (b"before 7", "duplicate"),
    (b"refused 1", "refused"),
)


@pytest.mark.parametrize(("line", "fault"), BROKEN, ids=lambda given: given if isinstance(given, str) else None)
@pytest.mark.parametrize("is_warm", [False, True])
def test_a_broken_line_is_counted_and_its_neighbours_are_kept(line: bytes, fault: Fault, is_warm: bool) -> None:
    ours = parser()
    body = b"before 1\n" + line + b"\nafter 2\n"
    if is_warm:
        ours.parse(b"a 1\n" + body)
    page = ours.parse(body)
    assert dict(page.faults) == {fault: 1}
    assert page.series == ["before{}", "after{}"]
    assert page.values == [1, 2]


def test_a_last_line_without_an_end_may_be_half_a_number() -> None:
    page = parser().parse(b"a 1\nb 12")
    assert page.values == [1]
    assert page.faults == {"truncated": 1}


def test_a_page_with_too_many_lines_is_cut() -> None:
    page = parser().parse(b"".join(b'a{i="%d"} 1\n' % i for i in range(80)))
    assert len(page.values) == 50
    assert page.faults == {"too_many_lines": 1}
    assert not page.complete


def test_lines_across_chunks_and_one_longer_than_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser_module, "_CHUNK", 64)
    lines = [b'a{i="%d"} %d' % (i, i) for i in range(20)]
    lines.insert(7, b"long{" + b" " * 300 + b"} 1")
    page = parser().parse(b"\n".join(lines) + b"\n")
    assert page.values == list(range(20))
    assert page.faults == {"line_too_long": 1}


def test_labels_without_a_value_mean_no_label() -> None:
    page = parser().parse(b'a{x="",y="1",} 1\nb{} 2\n')
    assert page.series == ["a{'y': '1'}", "b{}"]


def test_a_broken_value_of_a_known_series_is_not_its_old_value() -> None:
    ours = parser()
    ours.parse(b"a 1\nb 1\n")
    page = ours.parse(b"a oops\nb 2 1700000000000\n")
    assert page.series == ["b{}"]
    assert page.times == {0: 1_700_000_000}


def test_a_blank_page_is_blank() -> None:
    for body in (b"", b"\n\n", b"# HELP a b\n# TYPE a gauge"):
        page = parser().parse(body)
        assert (page.series, page.values, dict(page.faults)) == ([], [], {})
