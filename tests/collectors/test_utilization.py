"""The last round as families of seed 003."""

from datetime import UTC, datetime
from typing import Any

from gpusight.analysis.records import GpuResult, Round
from gpusight.analysis.results import stats_of
from gpusight.catalog import utilization as family
from gpusight.collectors.utilization import UtilizationCollector, Work
from gpusight.exposition.blocks import Histogram, check, group

NO_WORK = Work(3, 1, Histogram((0,) * (len(family.DURATION.buckets) + 1), 0.0))
AT = datetime(2026, 1, 2, tzinfo=UTC)


def result(**given: Any) -> GpuResult:
    row: dict[str, Any] = {
        "gpu_id": "GPU-03cd1cf6-11f6-5ecc-feb0-af07406e1838",
        "pod": "p",
        "namespace": "n",
        "hostname": "h",
        "model_name": "Tesla V100S-PCIE-32GB",
        "gpu_util": 78.5,
        "mem_copy": 45.2,
        "mem_used_mb": 18432.5,
        "mem_total_mb": 32768.0,
        "mem_usage_percent": 56.3,
        "power_usage": 185.3,
        "sm_clock": 1530.0,
        "score": 66.9,
        "status": "normal",
        "timestamp": AT,
        "id": "1",
        "cluster": "",
        "container": "c",
        "mig_instance": "",
        "slot": "",
        "subject": "/n/Pod/p",
        "state": "productive",
        "note": "",
    }
    return GpuResult(**row | given)


def round_of(*results: GpuResult, **given: Any) -> Round:
    made: dict[str, Any] = {
        "number": 1,
        "at": AT,
        "duration_seconds": 0.5,
        "window_seconds": 600.0,
        "threshold": 20.0,
        "store": "a store",
        "queries": 12,
        "results": results,
        "verdicts": (),
        "stats": stats_of(results, 20.0),
        "loans": (),
        "problems": (),
    }
    return Round(**made | given)


def series(last: Round | None) -> dict[str, dict[tuple[str | None, ...], Any]]:
    blocks = group(UtilizationCollector(lambda: last, lambda: NO_WORK).collect())
    for block in blocks:
        check(block)
    return {block.spec.name: dict(zip(block.keys, block.values, strict=True)) for block in blocks}


def test_before_the_first_round_only_the_work_is_told() -> None:
    assert set(series(None)) == {
        "gpu_analysis_total",
        "gpu_analysis_errors_total",
        "gpu_analysis_duration_seconds",
    }
    assert series(None)["gpu_analysis_total"] == {(): 3}


def test_a_gpu_has_its_full_uuid_and_no_status_label() -> None:
    found = series(round_of(result()))
    key = ("GPU-03cd1cf6-11f6-5ecc-feb0-af07406e1838", "p", "n", "h")

    assert found["gpu_utilization_score"] == {(*key, "Tesla V100S-PCIE-32GB"): 66.9}
    assert found["gpu_core_utilization"] == {key: 78.5}
    assert found["gpu_memory_used_mb"] == {key: 18432.5}
    assert found["gpu_memory_copy_utilization"] == {key: 45.2}
    assert found["gpu_power_usage_watts"] == {key: 185.3}
    assert found["gpu_sm_clock_mhz"] == {key: 1530.0}


def test_what_is_unknown_has_no_series_and_is_in_no_average() -> None:
    unknown = result(pod="q", score=None, status="unknown", gpu_util=None, power_usage=None)
    found = series(round_of(result(), unknown))

    assert len(found["gpu_utilization_score"]) == 1
    assert len(found["gpu_core_utilization"]) == 1
    assert len(found["gpu_memory_used_mb"]) == 2
    assert found["gpu_average_score"] == {(): 66.9}
    assert found["gpu_total_count"] == {(): 2}
    assert found["gpu_status_count"] == {("idle",): 0, ("low",): 0, ("normal",): 1, ("high",): 0, ("unknown",): 1}
    assert sum(found["gpu_status_count"].values()) == found["gpu_total_count"][()]


def test_an_average_of_nothing_is_absent() -> None:
    found = series(round_of(result(score=None, status="unknown")))

    assert "gpu_average_score" not in found
    assert "gpu_namespace_average_score" not in found
    assert found["gpu_namespace_count"] == {("n",): 1}


def test_no_ghost_stays_after_a_pod_is_gone() -> None:
    last = round_of(result(), result(pod="gone", gpu_id="GPU-2"))
    collector = UtilizationCollector(lambda: last, lambda: NO_WORK)
    group(collector.collect())
    last = round_of(result())

    [score] = [block for block in group(collector.collect()) if block.spec is family.SCORE]
    assert [key[1] for key in score.keys] == ["p"]


def test_rows_that_the_labels_cannot_tell_apart_are_left_out() -> None:
    found = series(round_of(result(mig_instance="1"), result(mig_instance="2", id="2", score=1.0)))

    assert found["gpu_utilization_score"] == {}
    assert found["gpu_total_count"] == {(): 2}


def test_an_unchanged_round_keeps_its_blocks() -> None:
    last = round_of(result())
    collector = UtilizationCollector(lambda: last, lambda: NO_WORK)
    first, second = list(collector.collect()), list(collector.collect())

    assert all(one is other for one, other in zip(first[3:], second[3:], strict=True))
