"""Recordings: order, moments that come twice, samples that never came."""

import math
from array import array
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpusight.analysis.replay_trace import Columns, Problems, SubjectTrace, build, busiest

NAN = math.nan


def built(times: list[float], util: list[float], step: float | None = None) -> SubjectTrace:
    columns = Columns(array("d", times), array("f", util))
    return build("test", {"a": columns}, step=step).subjects[0]


def shown(trace: SubjectTrace) -> list[tuple[float, float | None]]:
    return [(t, None if math.isnan(u) else u) for t, u in zip(trace.times, trace.util, strict=True)]


def test_samples_in_order_stay_as_they_are() -> None:
    trace = built([0, 60, 120], [1, 2, 3])
    assert shown(trace) == [(0, 1), (60, 2), (120, 3)]
    assert (trace.step, trace.start, trace.end, trace.marks) == (60, 0, 180, 0)


def test_samples_out_of_order_are_sorted() -> None:
    assert shown(built([120, 0, 60], [3, 1, 2])) == [(0, 1), (60, 2), (120, 3)]


def test_the_busiest_of_one_moment_counts() -> None:
    assert shown(built([0, 60, 60, 120], [0, 5, 7, 0])) == [(0, 0), (60, 7), (120, 0)]


def test_idle_beside_unknown_is_unknown() -> None:
    assert math.isnan(busiest(0, NAN))
    assert math.isnan(busiest(NAN, 0))
    assert math.isnan(busiest(NAN, NAN))
    assert busiest(3, NAN) == busiest(NAN, 3) == 3


def test_a_sample_that_never_came_is_missing() -> None:
    trace = built([0, 60, 120, 360, 420, 480], [0] * 6)
    assert shown(trace) == [(0, 0), (60, 0), (120, 0), (180, None), (360, 0), (420, 0), (480, 0)]
    assert trace.marks == 1


def test_a_late_sample_is_not_a_missing_one() -> None:
    assert built([0, 60, 145, 180, 240], [0] * 5).marks == 0


def test_one_sample_lasts_as_long_as_those_of_the_others() -> None:
    columns = {
        "a": Columns(array("d", [0, 30, 60]), array("f", [0, 0, 0])),
        "b": Columns(array("d", [100]), array("f", [0])),
    }
    trace = build("test", columns)
    assert [(each.start, each.end) for each in trace.subjects] == [(0, 90), (100, 130)]
    assert (trace.start, trace.end, trace.samples) == (0, 130, 4)


def test_one_sample_alone_lasts_no_time() -> None:
    trace = built([100], [0])
    assert (trace.start, trace.end) == (100, 100)


def test_a_subject_without_samples_is_none() -> None:
    assert build("test", {"a": Columns()}).subjects == []


def test_many_rows_of_one_moment_are_remarked_upon() -> None:
    columns = {"a": Columns(array("d", [0, 0, 60, 60]), array("f", [0, 0, 0, 0]))}
    assert "2 of 4 rows" in build("test", columns).warnings[0]


def test_problems_are_counted_with_the_first_lines() -> None:
    problems = Problems()
    for line in range(10, 20):
        problems.add("bad", line)
    problems.add("worse")
    assert [(each.reason, each.count, each.first) for each in problems.all()] == [
        ("bad", 10, (10, 11, 12, 13, 14)),
        ("worse", 1, ()),
    ]


@given(st.lists(st.tuples(st.integers(0, 500), st.sampled_from([0.0, 1.0, 50.0, NAN])), min_size=1))
def test_times_ascend_whatever_comes(samples: list[tuple[int, float]]) -> None:
    trace = built([float(time) for time, _ in samples], [util for _, util in samples])
    times = list(trace.times)
    assert all(one < other for one, other in pairwise(times))
    assert {time for time, _ in samples} <= set(times)
    assert len(times) - trace.marks == len({time for time, _ in samples})
    assert trace.end >= times[-1]
    assert len(trace.util) == len(times)
