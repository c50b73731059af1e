"""The parser on pages as exporters make them, with prometheus_client's parsers as the oracle."""

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from gpusight.exposition.parser import Labels, Page, PageParser
from gpusight.exposition.text import escape, format_number

Series = tuple[str, frozenset[tuple[str, str]]]

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "node").glob("*.prom"))


def series_of(name: str, labels: Mapping[str, str]) -> Series:
    return name, frozenset((key, value) for key, value in labels.items() if value)


def parser() -> PageParser[Series]:
    return PageParser(series_of)


def parse(text: str | bytes, *, openmetrics: bool = False) -> Page[Series]:
    body = text if isinstance(text, bytes) else text.encode()
    return parser().parse(body, openmetrics=openmetrics)


def samples(page: Page[Series]) -> dict[Series, float]:
    return dict(zip(page.series, page.values, strict=True))


def oracle(text: str) -> dict[Series, float]:
    """Without the types: by them prometheus_client renames counters to end in `_total`."""
    found: dict[Series, float] = {}
    untyped = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("# TYPE"))
    for family in text_families(untyped):
        for sample in family.samples:
            found.setdefault(series_of(sample.name, sample.labels), sample.value)
    return found


def same(ours: Mapping[Series, float], theirs: Mapping[Series, float]) -> bool:
    """Equal, where NaN is NaN."""
    return ours.keys() == theirs.keys() and all(
        ours[key] == theirs[key] or (math.isnan(ours[key]) and math.isnan(theirs[key])) for key in ours
    )


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_our_own_pages_read_as_prometheus_client_reads_them(path: Path) -> None:
    text = path.read_text()
    page = parse(text)
    assert same(samples(page), oracle(text))
    assert page.faults == {}


names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True)
label_names = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,8}", fullmatch=True)
label_values = st.text(st.one_of(st.sampled_from('\\"\n,}{= #'), st.characters(exclude_categories=["Cs"])), max_size=12)
lines = st.tuples(
    names,
    st.dictionaries(label_names, label_values, max_size=4),
    st.one_of(st.floats(), st.integers(-(10**18), 10**18)),
    st.sampled_from(["", " 1700000000123"]),
    st.sampled_from([" ", "  ", "\t"]),
)


def rendered(name: str, labels: Mapping[str, str], value: float, time: str, gap: str) -> str:
    pairs = ",".join(f'{key}="{escape(text)}"' for key, text in labels.items())
    braces = f"{{{pairs}}}" if labels else ""
    return f"{name}{braces}{gap}{format_number(value)}{time}\n"


@settings(max_examples=300, deadline=None)
@given(st.lists(lines, max_size=8))
def test_any_page_that_can_be_written_is_read_as_written(rows: list[tuple[str, Labels, float, str, str]]) -> None:
    text = "".join(rendered(*row) for row in rows)
    first: dict[Series, float] = {}
    for name, labels, value, _, _ in rows:
        first.setdefault(series_of(name, labels), float(value))
    ours = parser()
    for _ in range(2):  # parsed, then looked up
        page = ours.parse(text.encode())
        assert same(samples(page), first)
        assert sum(page.faults.values()) == len(rows) - len(first)


printable = st.characters(min_codepoint=33, max_codepoint=0x24F, exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc"])


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(names, st.tuples(st.text(printable, max_size=10), st.floats()), min_size=1, max_size=6))
def test_prometheus_client_agrees_on_generated_pages(rows: dict[str, tuple[str, float]]) -> None:
    text = "".join(rendered(name, {"a": label, "b": "x,}"}, value, "", " ") for name, (label, value) in rows.items())
    assert same(samples(parse(text)), oracle(text))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_make_it_raise(body: bytes, openmetrics: bool) -> None:
    page = parser().parse(body, openmetrics=openmetrics)
    assert len(page.series) == len(page.values)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 40), st.sampled_from(list(b'{}",=\\ \n\r#\xff0a')))
def test_a_spoilt_line_does_not_change_its_neighbours(at: int, byte: int) -> None:
    middle = bytearray(b'spoilt{a="some text",b="more"} 1234567890')
    middle[at % len(middle)] = byte
    page = parse(b'before{x="1"} 1\n' + bytes(middle) + b'\nafter{x="2"} 2\n')
    found = samples(page)
    assert found[series_of("before", {"x": "1"})] == 1
    assert found[series_of("after", {"x": "2"})] == 2


OPENMETRICS = """\
# TYPE requests counter
requests_total{code="200"} 17 1700000000.5 # {trace_id="a # {b} 3"} 0.5 1700000000.1
requests_created{code="200"} 1.7e9 1700000000.5
# TYPE seconds histogram
seconds_bucket{le="0.5"} 3 # {trace_id="abc"} 0.43
seconds_bucket{le="+Inf"} 4
seconds_count 4
seconds_sum 2.5
# EOF
"""


def test_openmetrics_with_exemplars_and_seconds() -> None:
    page = parse(OPENMETRICS, openmetrics=True)
    theirs = {
        series_of(sample.name, sample.labels): sample
        for family in openmetrics_families(OPENMETRICS)
        for sample in family.samples
    }
    assert same(samples(page), {key: sample.value for key, sample in theirs.items()})
    assert page.times == {0: 1700000000.5, 1: 1700000000.5}
    assert page.complete
    assert not page.faults


def test_openmetrics_without_its_end_is_incomplete() -> None:
    cut = OPENMETRICS.removesuffix("# EOF\n")
    assert not parse(cut, openmetrics=True).complete
    assert parse(cut + "# EOF", openmetrics=True).complete


def test_milliseconds_of_the_old_format_become_seconds() -> None:
    ours = parser()
    for value in (1, 2):
        page = ours.parse(f'a{{x="y"}} {value} 1700000000123\n'.encode())
        assert page.times == {0: 1700000000.123}
        assert page.values == [value]


def test_a_series_is_learnt_once() -> None:
    learnt: list[str] = []

    def learn(name: str, labels: Labels) -> str:
        learnt.append(name)
        return name + labels["x"]

    ours = PageParser(learn)
    for value in range(3):
        page = ours.parse(f'a{{x="1"}} {value}\r\na{{x="2"}}  {value}\r\n\r\n'.encode())
        assert page.series == ["a1", "a2"]
        assert page.values == [value, value]
    assert learnt == ["a", "a"]


def test_unwanted_families_are_skipped_even_if_they_are_broken() -> None:
    ours = PageParser(series_of, lambda name: name.startswith("keep"))
    page = ours.parse(b'keep_a 1\ndrop_a{ 1\ndrop_b{x="y"} 2\n{"drop.c"} 3\n')
    assert samples(page) == {series_of("keep_a", {}): 1}
    assert not page.faults


def test_names_in_quotes() -> None:
    page = parse('{"gpu.power",host="a","label.b"="c"} 5\n{x="y","late.name"} 1\nplain{"twice"} 1\n')
    assert samples(page) == {series_of("gpu.power", {"host": "a", "label.b": "c"}): 5}
    assert page.faults == {"syntax": 2}


def remembered(ours: PageParser[Series]) -> int:
    return len(ours._known)


def test_what_is_gone_is_forgotten() -> None:
    ours = parser()
    for generation in range(20):
        ours.parse("".join(f'a{{pod="{generation}-{i}"}} 1\n' for i in range(1000)).encode())
    assert remembered(ours) <= 3000


@pytest.mark.parametrize("text", ["+Inf", "-Inf", "NaN", "1e300", "-0", "1.5E-3", "inf", "0x"])
def test_values_as_prometheus_client_takes_them(text: str) -> None:
    page = parse(f"a {text}\n")
    try:
        expected = oracle(f"a {text}\n")
    except ValueError:
        expected = {}
    assert same(samples(page), expected)
