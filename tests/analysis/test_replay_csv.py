"""CSV recordings: what is read, and what a bad line costs."""

import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.analysis.replay_csv import LONGEST_LINE, TraceError, csv_lines, lines_of, parse_csv
from gpusight.analysis.replay_trace import Trace
from gpusight.analysis.traces import TraceSpec, generate


def parsed(text: str | bytes, **options: str) -> Trace:
    data = text.encode() if isinstance(text, str) else text
    return parse_csv(lines_of(io.BytesIO(data).readline), "test.csv", **options)  # type: ignore[arg-type]


def values(trace: Trace) -> dict[str, list[tuple[float, float | None]]]:
    return {
        each.subject: [(t, None if math.isnan(u) else u) for t, u in zip(each.times, each.util, strict=True)]
        for each in trace.subjects
    }


def test_rows_of_two_subjects() -> None:
    trace = parsed("timestamp,subject,util\n60,a,0\n60,b,99.5\n120,a,5\n120,b,\n")
    assert values(trace) == {"a": [(60, 0), (120, 5)], "b": [(60, 99.5), (120, None)]}
    assert trace.problems == ()


def test_columns_in_any_order_with_others_between() -> None:
    trace = parsed("\ufeffUtil, power ,node,gpus,subject,timestamp\r\n7,150,n,2,a,0\r\n8,,n,4,a,60\r\n")
    assert values(trace) == {"a": [(0, 7), (60, 8)]}
    subject = trace.subjects[0]
    assert subject.gpus == 4
    assert subject.power is not None
    assert subject.power[0] == 150
    assert math.isnan(subject.power[1])


def test_times_as_rfc_3339_and_unix_seconds() -> None:
    trace = parsed(
        "timestamp,subject,util\n2024-01-01T00:00:00Z,a,1\n2024-01-01T01:01:00+01:00,a,2\n1704067320.5,a,3\n"
    )
    assert values(trace) == {"a": [(1704067200, 1), (1704067260, 2), (1704067320.5, 3)]}


def test_ratios_become_percent() -> None:
    assert values(parsed("timestamp,subject,util\n0,a,0.5\n60,a,1\n", unit="ratio")) == {"a": [(0, 50), (60, 100)]}


def test_ratios_called_percent_are_remarked_upon() -> None:
    assert "--unit ratio" in parsed("timestamp,subject,util\n0,a,0.5\n60,a,1\n").warnings[0]
    assert parsed("timestamp,subject,util\n0,a,0.5\n60,a,2\n").warnings == ()


def test_each_bad_line_costs_itself_only() -> None:
    rows = [
        "timestamp,subject,util",
        "0,a,1",
        "x,a,1",
        "60,a",
        "60,,1",
        "60,a,much",
        "60,a,101",
        "60,a,-1",
        "60,a,inf",
        "60,a,9223372036854775794",
        "1700000000000,a,1",
        "2024-01-01T00:00:00,a,1",
        '60,"a,1',
        "",
        "60,a,nan",
        '120,"a",3',
    ]
    trace = parsed("\n".join(rows))
    assert values(trace) == {"a": [(0, 1), (60, None), (120, 3)]}
    assert {each.reason: each.first for each in trace.problems} == {
        "the timestamp is neither Unix seconds nor RFC 3339": (3,),
        "the number of fields is not that of the first line": (4,),
        "the subject is empty": (5,),
        "the utilization is not a number": (6,),
        "the utilization is not from 0 to 100": (7, 8, 9, 10),
        "the timestamp is out of range (Unix time in milliseconds?)": (11,),
        "the timestamp has no time zone": (12,),
        "the quotes do not match": (13,),
    }


def test_a_bad_number_of_gpus_makes_no_empty_subject() -> None:
    trace = parsed("timestamp,subject,util,gpus\n0,a,1,none\n0,b,1,0.5\n")
    assert [(each.subject, each.gpus) for each in trace.subjects] == [("b", 0.5)]


def test_an_overlong_line_is_left_out_and_the_next_one_read() -> None:
    trace = parsed(b"timestamp,subject,util\n0,a," + b"9" * 3 * LONGEST_LINE + b"\n60,a,5\n")
    assert values(trace) == {"a": [(60, 5)]}
    assert trace.problems[0].first == (2,)


@pytest.mark.parametrize("text", ["", "\n", "a,b,c\n1,2,3\n", '"timestamp,subject,util\n', "timestamp,util\n"])
def test_a_file_without_the_columns_is_refused(text: str) -> None:
    with pytest.raises(TraceError, match=r"test\.csv has no"):
        parsed(text)


def test_names_with_commas_and_quotes_survive() -> None:
    name = 'a "b", c'
    trace = parsed('timestamp,subject,util\n0,"a ""b"", c",5\n60,"a ""b"", c",6\n')
    assert [each.subject for each in trace.subjects] == [name]
    assert [each.subject for each in parsed("".join(csv_lines(trace))).subjects] == [name]


def test_what_is_written_reads_back() -> None:
    trace = generate(TraceSpec(seed=3, subjects=40, days=2))
    again = parsed("".join(csv_lines(trace)))
    assert values(again) == values(trace)
    assert again.problems == ()


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    trace = parsed(b"timestamp,subject,util,power,gpus\n" + data)
    for subject in trace.subjects:
        assert all(math.isnan(value) or 0 <= value <= 100 for value in subject.util)


@given(st.lists(st.sampled_from([b"0", b"60", b"a", b",", b"\n", b'"', b"nan", b"", b"\x00", b"\xff"]), max_size=60))
def test_no_mixture_breaks_the_reader(parts: list[bytes]) -> None:
    trace = parsed(b"timestamp,subject,util\n" + b"".join(parts))
    assert all(len(each.times) == len(each.util) > 0 for each in trace.subjects)
