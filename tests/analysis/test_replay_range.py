"""Recordings from range queries: subjects, several GPUs of one pod, pieces, and bad answers."""

import json
import math
from collections.abc import Iterable
from typing import Any

import pytest

from gpusight.analysis.replay_csv import TraceError
from gpusight.analysis.replay_range import MOST_POINTS, fetch, from_series, parse_response, subject_of
from gpusight.analysis.replay_trace import Trace

Series = tuple[dict[str, str], list[tuple[float, float]]]


def values(trace: Trace) -> dict[str, list[float | None]]:
    return {each.subject: [None if math.isnan(u) else u for u in each.util] for each in trace.subjects}


def answer(*series: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}, **more}).encode()


def test_a_saved_answer() -> None:
    data = answer({"metric": {"namespace": "n", "pod": "p"}, "values": [[0, "0"], [60, "55.5"], [120, "NaN"]]})
    assert values(parse_response(data, "x.json")) == {"n/p": [0, 55.5, None]}


@pytest.mark.parametrize(
    ("labels", "subject"),
    [
        ({"__name__": "m", "namespace": "n", "pod": "p", "gpu": "0"}, "n/p"),
        ({"namespace": "monitoring", "pod": "dcgm", "exported_namespace": "n", "exported_pod": "p"}, "n/p"),
        ({"cluster": "c", "namespace": "n", "pod": "p"}, "c/n/p"),
        ({"__name__": "m", "UUID": "GPU-1", "Hostname": "h"}, "{Hostname='h',UUID='GPU-1'}"),
    ],
)
def test_subjects_by_labels(labels: dict[str, str], subject: str) -> None:
    assert subject_of(labels) == subject


def test_the_gpus_of_a_pod_are_one_subject() -> None:
    series: list[Series] = [
        ({"pod": "p", "gpu": "0"}, [(0, 0), (60, 0), (120, 0), (180, 0)]),
        ({"pod": "p", "gpu": "1"}, [(0, 0), (60, 40), (180, 0)]),
    ]
    trace = from_series("x", series, step=60)
    assert values(trace) == {"p": [0, 40, None, 0]}
    assert trace.subjects[0].gpus == 2


def test_one_series_after_the_other_is_one_gpu() -> None:
    series: list[Series] = [
        ({"pod": "p", "instance": "old"}, [(0, 0), (60, 0)]),
        ({"pod": "p", "instance": "new"}, [(120, 0), (180, 5)]),
    ]
    trace = from_series("x", series, step=60)
    assert values(trace) == {"p": [0, 0, 0, 5]}
    assert trace.subjects[0].gpus == 1


def test_values_out_of_range_are_missing_and_counted() -> None:
    series: list[Series] = [({"pod": "p"}, [(0, 5), (60, 9223372036854775794), (120, 3)])]
    trace = from_series("x", series)
    assert values(trace) == {"p": [5, None, 3]}
    assert [(each.reason, each.count) for each in trace.problems] == [("the utilization is not from 0 to 100", 1)]


def test_a_long_range_is_asked_for_in_pieces() -> None:
    asked: list[tuple[float, float]] = []

    def source(query: str, start: float, end: float, step: float) -> Iterable[Series]:
        asked.append((start, end))
        count = int((end - start) // step) + 1
        assert count <= MOST_POINTS
        return [({"pod": "p"}, [(start + index * step, 2.0) for index in range(count)])]

    trace = fetch(source, "q", start=0, end=25_000 * 30.0, step=30)
    assert len(asked) == 3
    assert len(trace.subjects[0].times) == 25_001
    assert trace.subjects[0].marks == 0


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(TraceError, match="begin before it ends"):
        fetch(lambda *_: [], "q", start=100, end=0, step=30)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "not the JSON"),
        (b"<html>", "not the JSON"),
        (b"{}", "not the JSON"),
        (b'{"status":"error","error":"bad query"}', "bad query"),
        (b'{"status":"success","data":{"resultType":"vector","result":[]}}', "vector"),
    ],
)
def test_another_answer_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(TraceError, match=complaint):
        parse_response(data, "x.json")


def test_a_bad_series_costs_itself_only() -> None:
    good = {"metric": {"pod": "p"}, "values": [[0, "3"], [60, "4"]]}
    trace = parse_response(answer({"metric": 5}, {"metric": {}, "values": [[0, "x"]]}, good), "x.json")
    assert values(trace) == {"p": [3, 4]}
    assert trace.problems[0].count == 2


def test_what_the_engine_doubts_is_passed_on() -> None:
    data = answer({"metric": {"pod": "p"}, "values": [[0, "3"]]}, warnings=["partial response"])
    assert parse_response(data, "x.json").warnings == ("Prometheus warned: partial response",)
