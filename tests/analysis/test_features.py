import pytest
from hypothesis import given

from gpusight.analysis.features import (
    Features,
    _of_many,
    _of_one,
    features_of,
    floor_name,
    learn_floors,
    power_above_floor,
)
from gpusight.analysis.parts import build_parts
from gpusight.model.series import Reading, Windows

from .building import CRITERIA, GIB, LOOKS, NOW, SPAN, busy_gpu, gpu, idle_gpu, key_of, part_of, reading_of
from .worlds import plausible_readings

KEYS = [key_of(gpu=f"GPU-{number}") for number in range(8)]


def features(*groups: list[Windows]) -> Features:
    return features_of(build_parts(reading_of(*groups), CRITERIA), {})


def test_one_busy_gpu_of_eight_makes_the_workload_active() -> None:
    found = features(*(idle_gpu(key) for key in KEYS[1:]), busy_gpu(KEYS[0]))
    assert found.is_active
    assert found.utilization == pytest.approx(0.9)  # of the busy one, not spread over all
    assert found.active_share == 1.0


def test_an_unknown_part_stays_a_doubt_beside_seven_known_ones() -> None:
    found = features(*(idle_gpu(key) for key in KEYS[1:]), gpu(KEYS[0], used=GIB))
    assert not found.is_active
    assert found.doubts == ("no series says whether it computes",)


def test_efficiency_is_while_active() -> None:
    half = [0.0] * (LOOKS // 2) + [0.8] * (LOOKS // 2)
    found = features(busy_gpu(KEYS[0], util=half, sm_active=0.3, tensor_active=0.1, dram_active=0.2, engine=half))
    assert found.active_share == 0.5
    assert found.utilization == pytest.approx(0.4)  # over the window
    assert (found.sm, found.tensor, found.dram) == (0.6, 0.2, 0.4)
    assert found.last_active == NOW


def test_memory_is_known_when_that_of_each_part_is() -> None:
    assert features(*(idle_gpu(key) for key in KEYS)).memory_bytes == 8 * 60 * GIB
    some = features(*(idle_gpu(key) for key in KEYS[1:]), idle_gpu(KEYS[0], used=None))
    assert some.memory_bytes is None
    assert some.memory_share == 0.75


def test_coverage_is_that_of_the_part_with_least() -> None:
    assert features(idle_gpu(KEYS[0]), idle_gpu(KEYS[1], util=[0.0] * 18)).coverage == 0.9


def test_evidence_is_as_good_as_its_weakest_part() -> None:
    found = features(idle_gpu(KEYS[0], engine=0.0), idle_gpu(KEYS[1], power=None))
    assert found.evidence == "utilization"


def test_the_idle_floor_is_the_models_until_one_is_learnt() -> None:
    part = part_of(busy_gpu(KEYS[0], power=385.0))
    assert power_above_floor(part, {}) == 0.5  # between 70 and 700 W
    assert power_above_floor(part, {floor_name(part): 130.0}) == pytest.approx(255 / 570)
    assert power_above_floor(part_of(busy_gpu(KEYS[0]), model="?"), {}) is None
    assert power_above_floor(part_of(busy_gpu(KEYS[0], power_limit=50.0)), {}) is None  # below its idle power


def test_only_a_whole_window_without_activity_teaches_a_floor_and_only_a_lower_one() -> None:
    name = floor_name(part_of(idle_gpu(KEYS[0])))
    assert learn_floors([part_of(idle_gpu(KEYS[0]))], {}) == {name: 100.0}
    assert learn_floors([part_of(idle_gpu(KEYS[0]))], {name: 90.0}) == {name: 90.0}
    assert learn_floors([part_of(idle_gpu(KEYS[0]))], {name: 110.0}) == {name: 100.0}
    for part in (
        part_of(busy_gpu(KEYS[0])),
        part_of(idle_gpu(KEYS[0], util=[0.0] * 5)),
        part_of(idle_gpu(KEYS[0], power=0.0)),
        part_of(idle_gpu(KEYS[0], power=None)),
    ):
        assert learn_floors([part], {}) == {}


def test_floors_of_two_clusters_do_not_mix() -> None:
    names = {floor_name(part_of(idle_gpu(key_of(cluster=cluster)))) for cluster in ("", "east", "west")}
    assert len(names) == 3


def test_nothing_is_made_of_nothing() -> None:
    found = features_of([], {})
    assert (found.is_active, found.active_share, found.memory_bytes, found.evidence) == (False, None, 0, "none")
    assert SPAN.expected == LOOKS


@given(plausible_readings())
def test_the_short_way_for_one_part_says_what_the_long_way_says(reading: Reading) -> None:
    for part in build_parts(reading, CRITERIA):
        if part.activity is not None:
            assert _of_one([part], part, part.activity, {}) == _of_many([part], {})
