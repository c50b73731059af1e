"""The last round's verdicts as families."""

from typing import Any

from gpusight.analysis.records import Activity, Efficiency, Holding, Round, Subject, Verdict
from gpusight.collectors.verdicts import Standing, VerdictCollector
from gpusight.exposition.blocks import check, group
from tests.collectors.test_utilization import AT, round_of

ALONE = Standing(is_leader=True, last_success=5.0, tenants={("c", "n"): (3.0, 2.0, 1.0)})


def verdict(**given: Any) -> Verdict:
    made: dict[str, Any] = {
        "subject": Subject(id="c/n/Deployment/d", cluster="c", namespace="n", kind="Deployment", name="d", how="by x"),
        "state": "idle-held",
        "since": AT,
        "confidence": 0.7,
        "reason": "No activity for 20 min.",
        "evidence": "utilization-power",
        "coverage": 0.95,
        "activity": Activity(last_active=None, active_share=0.0, idle_seconds=1200.0),
        "efficiency": Efficiency(
            utilization=0.0,
            engine_active=None,
            sm_active=None,
            tensor_active=None,
            dram_active=None,
            power_above_floor=None,
        ),
        "holding": Holding(gpus=2.0, memory_bytes=3e9, memory_share=0.5, idle_byte_hours=1e9),
        "pods": ("p",),
        "parts": ("1",),
        "nodes": ("h",),
        "models": ("m",),
        "pending": None,
        "pending_rounds": 0,
        "owner": "",
        "team": "",
    }
    return Verdict(**made | given)


def series(last: Round | None) -> dict[str, dict[tuple[str | None, ...], Any]]:
    blocks = group(VerdictCollector(lambda: last, lambda: ALONE).collect())
    for block in blocks:
        check(block)
    return {block.spec.name: dict(zip(block.keys, block.values, strict=True)) for block in blocks}


def test_a_workload_has_one_state_and_its_numbers() -> None:
    found = series(round_of(verdicts=(verdict(),)))
    key = ("c", "n", "Deployment", "d")

    assert found["gpusight_workload_state"] == {(*key, "idle-held"): 1}
    assert found["gpusight_workload_idle_seconds"] == {key: 1200.0}
    assert found["gpusight_workload_gpus"] == {key: 2.0}
    assert found["gpusight_workload_memory_held_bytes"] == {key: 3e9}
    assert found["gpusight_workload_confidence_ratio"] == {key: 0.7}
    assert found["gpusight_workloads"]["idle-held",] == 1
    assert sum(found["gpusight_workloads"].values()) == 1
    assert len(found["gpusight_workloads"]) == 10


def test_what_is_unknown_is_absent() -> None:
    unknown = verdict(
        state="unknown", coverage=None, activity=Activity(last_active=None, active_share=None, idle_seconds=None)
    )
    found = series(round_of(verdicts=(unknown,)))

    assert not found["gpusight_workload_idle_seconds"]
    assert not found["gpusight_workload_active_ratio"]
    assert not found["gpusight_workload_coverage_ratio"]


def test_leadership_and_tenants_are_told_before_the_first_round() -> None:
    assert series(None) == {
        "gpusight_analysis_leader": {(): 1},
        "gpusight_analysis_last_success_timestamp_seconds": {(): 5.0},
        "gpusight_tenant_gpu_seconds_total": {
            ("c", "n", "used"): 3.0,
            ("c", "n", "idle"): 2.0,
            ("c", "n", "unknown"): 1.0,
        },
    }


def test_simulated_data_says_so() -> None:
    made_up = ALONE._replace(is_simulated=True)
    blocks = group(VerdictCollector(lambda: None, lambda: made_up).collect())
    assert {block.spec.name: block.values for block in blocks}["gpusight_simulated"] == (1,)
