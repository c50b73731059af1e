from typing import Any

import pytest

from gpusight.analysis.criteria import Criteria, CriteriaError, Weights
from gpusight.analysis.hardware import power_range
from gpusight.analysis.score import Scored, score_part, status_of

from .building import CRITERIA, GIB, H100, MIB, gpu, key_of, part_of

KEY = key_of()
V100S = "Tesla V100S-PCIE-32GB"


def scored(*, criteria: Criteria = CRITERIA, model: str = V100S, doubt: str = "", **series: Any) -> Scored:
    return score_part(part_of(gpu(KEY, **series), model=model), criteria, doubt)


@pytest.mark.parametrize(
    ("util", "copy", "used", "total", "power", "limit", "score"),
    [
        # 39.25 + 9.04 + 11.2503... + 7.412
        (0.785, 0.452, 18432.5, 32768, 185.3, 250, 67.0),
        # the published program's own total of 32000: 39.25 + 9.04 + 11.5203... + 7.412
        (0.785, 0.452, 18432.5, 32000, 185.3, 250, 67.2),
        # 42.65 + 12.42 + 16 + 8.82
        (0.853, 0.621, 25600, 32000, 220.5, 250, 79.9),
        # the same board at its own limit of 500 W: 42.65 + 12.42 + 16 + 4.41
        (0.853, 0.621, 25600, 32000, 220.5, 500, 75.5),
        (0, 0, 0, 32768, 0, 250, 0.0),
        (1, 1, 32768, 32768, 300, 250, 100.0),
    ],
)
def test_the_score_is_the_published_formula(
    util: float, copy: float, used: float, total: float, power: float, limit: float, score: float
) -> None:
    found = scored(
        util=util, memory_copy=copy, used=used * MIB, total=total * MIB, power=power, power_limit=limit, model="?"
    )
    assert found == Scored(score, status_of(score, CRITERIA), "")


@pytest.mark.parametrize(
    ("left_out", "score", "note"),
    [
        # of 0.5 * 0.6 + 0.2 * 0.4 + 0.2 * 0.5 + 0.1 * 0.8 the rest, divided by its weights
        ({}, 56.0, ""),
        ({"memory_copy"}, 60.0, "without memory traffic"),
        ({"used"}, 57.5, "without memory"),
        ({"total"}, 57.5, "without memory"),
        ({"power"}, 53.3, "without power"),
        ({"memory_copy", "power"}, 57.1, "without memory traffic and power"),
    ],
)
def test_terms_without_data_are_left_out_the_others_weighted_up_and_that_is_said(
    left_out: set[str], score: float, note: str
) -> None:
    whole: dict[str, Any] = {
        "util": 0.6,
        "memory_copy": 0.4,
        "used": 40 * GIB,
        "total": 80 * GIB,
        "power": 200.0,
        "power_limit": 250.0,
    }
    found = scored(**{name: value for name, value in whole.items() if name not in left_out})
    assert (found.score, found.note) == (score, note)


def test_total_memory_is_the_sum_of_used_free_and_reserved_where_nobody_says_it() -> None:
    found = part_of(gpu(KEY, util=0.5, used=10 * GIB, memory_free=60 * GIB, memory_reserved=10 * GIB))
    assert found.memory_total == 80 * GIB
    assert part_of(gpu(KEY, util=0.5, used=10 * GIB, memory_free=60 * GIB)).memory_total == 70 * GIB
    assert part_of(gpu(KEY, util=0.5, used=10 * GIB)).memory_total is None


@pytest.mark.parametrize(
    ("model", "limit", "score"),
    [
        # without memory traffic the weights are 5/8, 2/8 and 1/8
        ("Tesla T4", None, 100.0),  # its 70 W are its all, not 28 % of 250 W
        ("Tesla T4", 140.0, 93.8),  # the device's own limit comes first
        (H100, None, 88.8),  # 70 of 700 W
        ("Frobnicator 9000", None, 100.0),  # nobody knows its limit: no power term at all
    ],
)
def test_power_is_against_the_own_limit_then_the_models_and_else_left_out(
    model: str, limit: float | None, score: float
) -> None:
    found = scored(util=1.0, used=80 * GIB, total=80 * GIB, power=70.0, power_limit=limit, model=model)
    assert found.score == score
    assert ("power" in found.note) == model.startswith("Frob")


def test_a_model_is_known_by_its_most_specific_name() -> None:
    limits = {
        "NVIDIA A100-SXM4-40GB": 400,
        "NVIDIA A100-PCIE-40GB": 250,
        "NVIDIA A100 80GB PCIe": 300,
        "NVIDIA H100 PCIe": 350,
        "NVIDIA H200 NVL": 600,
        "NVIDIA L40S": 350,
        "NVIDIA L4": 72,
        "NVIDIA A10": 150,
        "NVIDIA GeForce RTX 3090 Ti": 450,
        "Tesla V100-SXM2-16GB": 300,
    }
    assert {model: found.limit for model in limits if (found := power_range(model))} == limits
    assert power_range("") is None


def test_a_hostile_model_name_does_not_keep_the_patterns_busy() -> None:
    assert power_range("A100PCI" * 20_000) is not None  # would take hours if all of it were searched


@pytest.mark.parametrize(
    ("score", "status"),
    [(0, "idle"), (9.9, "idle"), (10, "low"), (19.9, "low"), (20, "normal"), (70, "normal"), (70.1, "high")],
)
def test_a_status_begins_at_its_threshold(score: float, status: str) -> None:
    assert status_of(score, CRITERIA) == status


def test_thresholds_are_settable() -> None:
    criteria = Criteria(idle_below=5, low_below=50, high_above=60)
    assert [status_of(score, criteria) for score in (4, 5, 49, 50, 60, 61)] == [
        "idle",
        "low",
        "low",
        "normal",
        "normal",
        "high",
    ]


@pytest.mark.parametrize("series", [{"util": 0.9}, {"util": 0.9, "memory_copy": 0.4}, {"used": GIB, "total": 80 * GIB}])
def test_too_little_data_gives_no_score(series: dict[str, Any]) -> None:
    found = scored(**series, model="?")
    assert (found.score, found.status) == (None, "unknown")
    assert found.note


def test_doubt_gives_no_score_and_says_why() -> None:
    few = part_of(gpu(KEY, util=[0.5] * 10, used=GIB, total=80 * GIB))
    assert score_part(few, CRITERIA) == Scored(None, "unknown", "only 50% of the expected samples are there")


def test_what_a_doubtful_reading_makes_look_little_used_is_not_called_so() -> None:
    series: dict[str, Any] = {"used": 8 * GIB, "total": 80 * GIB, "power": 70.0, "power_limit": 700.0}
    assert scored(util=0.0, **series).status == "idle"
    assert scored(util=0.0, doubt="half is missing", **series) == Scored(None, "unknown", "half is missing")
    assert scored(util=0.9, doubt="half is missing", **series).status == "normal"


def test_a_mig_instance_is_scored_by_its_own_counters() -> None:
    key = key_of(mig="1")
    part = part_of(gpu(key, util=0.0, engine=0.8, used=5 * GIB, total=10 * GIB, dram_active=0.4, power=300.0))
    # the board's power is not its own: (0.5 * 0.8 + 0.2 * 0.4 + 0.2 * 0.5) / 0.9
    assert score_part(part, CRITERIA) == Scored(64.4, "normal", "without power")


def test_weights_are_settable_and_a_score_of_nothing_is_none() -> None:
    by_power = Criteria(weights=Weights(gpu_util=0, mem_copy=0, mem_used=0, power=1))
    assert scored(criteria=by_power, util=1.0, power=125.0, power_limit=250.0).score == 50.0
    nothing = scored(criteria=by_power, util=1.0, used=GIB, total=80 * GIB)
    assert nothing.score is None
    assert "weigh nothing" in nothing.note


@pytest.mark.parametrize(
    "weights",
    [
        {"gpu_util": 0.6},
        {"gpu_util": -0.5, "mem_copy": 1.2},
        {"gpu_util": float("nan")},
        {"gpu_util": 0, "mem_copy": 0, "mem_used": 0, "power": 0},
    ],
)
def test_weights_that_are_no_shares_are_refused_by_name(weights: dict[str, float]) -> None:
    with pytest.raises(CriteriaError, match="gpu_util"):
        Weights(**weights)


@pytest.mark.parametrize(
    "thresholds",
    [
        {"low_below": 5},
        {"low_below": 80},
        {"idle_below": -1},
        {"high_above": 101},
        {"low_below": float("nan")},
        {"coverage": 0},
        {"coverage": float("nan")},
        {"idle_rounds": 0},
        {"interval": 0},
        {"stale_after": 0},
        {"active_above": -0.1},
    ],
)
def test_criteria_that_make_no_sense_are_refused(thresholds: dict[str, float]) -> None:
    with pytest.raises(CriteriaError, match=r"must"):
        Criteria(**thresholds)  # type: ignore[arg-type]
