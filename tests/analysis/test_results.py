import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpusight.analysis.criteria import Criteria
from gpusight.analysis.records import GpuResult
from gpusight.analysis.results import sort_results, stats_of
from gpusight.analysis.score import status_of

from .building import GIB, busy_gpu, gpu, idle_gpu, judge, key_of, reading_of, results_in

READING = reading_of(
    busy_gpu(key_of("busy", "GPU-1"), memory_copy=0.5, sm_clock=1.98e9),
    idle_gpu(key_of("calm", "GPU-2", namespace="other"), memory_copy=0.0, used=0.0),
    gpu(key_of("blank", "GPU-3"), util=0.0),
)


def row(score: float | None, namespace: str = "team") -> GpuResult:
    template = judge(READING).results[0]
    status = "unknown" if score is None else status_of(score, Criteria())
    return replace(template, score=score, status=status, namespace=namespace)


def test_a_row_has_the_published_units() -> None:
    found = results_in(judge(READING))["busy"]
    assert (found.gpu_id, found.pod, found.namespace, found.hostname) == ("GPU-1", "busy", "team", "node-1")
    assert (found.gpu_util, found.mem_copy, found.power_usage, found.sm_clock) == (90.0, 50.0, 600.0, 1980.0)
    assert (found.mem_used_mb, found.mem_total_mb, found.mem_usage_percent) == (60 * 1024, 80 * 1024, 75.0)
    # 45 + 10 + 15 + 8.57
    assert (found.score, found.status, found.note) == (78.6, "high", "")
    assert (found.subject, found.state) == ("/team/Pod/busy", "productive")


def test_what_is_unknown_is_null_and_last() -> None:
    results = judge(READING).results
    assert [each.pod for each in results] == ["calm", "busy", "blank"]
    blank = results[-1]
    assert (blank.score, blank.status, blank.mem_used_mb, blank.power_usage) == (None, "unknown", None, None)
    assert blank.note == "no data on memory traffic and memory and power"


def test_an_id_stays_the_same_over_rounds_and_differs_by_container() -> None:
    first, second = (results_in(judge(READING)) for _ in range(2))
    assert {name: each.id for name, each in first.items()} == {name: each.id for name, each in second.items()}
    pair = judge(reading_of(*(gpu(key_of(container=name), own=0.1, own_used=GIB) for name in "ab"))).results
    assert len({each.id for each in pair}) == 2


def test_statistics_leave_out_what_is_unknown() -> None:
    rows = [row(0.0), row(10.0), row(19.9, "b"), row(20.0, "b"), row(70.0), row(70.1), row(None), row(None, "c")]
    stats = stats_of(rows, 20)
    assert stats.total_gpus == 8
    assert (stats.avg_score, stats.min_score, stats.max_score) == (31.7, 0.0, 70.1)
    assert (stats.low_utilization_count, stats.idle_count) == (3, 1)
    assert stats.by_status == {"idle": 1, "low": 2, "normal": 2, "high": 1, "unknown": 2}
    assert stats.by_namespace["b"].avg_score == pytest.approx(19.9, abs=0.11)
    assert (stats.by_namespace["c"].count, stats.by_namespace["c"].avg_score) == (1, None)


def test_statistics_of_nothing_are_null_and_name_all_statuses() -> None:
    stats = stats_of([], 20)
    assert (stats.total_gpus, stats.avg_score, stats.min_score, stats.max_score) == (0, None, None, None)
    assert stats.by_status == {"idle": 0, "low": 0, "normal": 0, "high": 0, "unknown": 0}


@given(
    st.lists(
        st.tuples(st.none() | st.floats(0, 100).map(lambda score: round(score, 1)), st.sampled_from("abc")), max_size=40
    )
)
def test_statistics_sum_up(pairs: list[tuple[float | None, str]]) -> None:
    stats = stats_of([row(*pair) for pair in pairs], 20)
    assert sum(stats.by_status.values()) == stats.total_gpus == len(pairs)
    assert sum(each.count for each in stats.by_namespace.values()) == len(pairs)
    assert sum(each.low_util_count for each in stats.by_namespace.values()) == stats.low_utilization_count
    assert stats.low_utilization_count == stats.by_status["idle"] + stats.by_status["low"]
    known = [score for score, _ in pairs if score is not None]
    assert (stats.avg_score is None) == (not known)
    assert stats.avg_score is None or min(known) - 0.06 <= stats.avg_score <= max(known) + 0.06


def test_rows_are_ascending() -> None:
    assert [each.score for each in sort_results([row(None), row(50.0), row(3.0)])] == [3.0, 50.0, None]
