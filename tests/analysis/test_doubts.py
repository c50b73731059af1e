"""Inactivity needs a proof, and no objection."""

from collections.abc import Sequence

import pytest

from gpusight.analysis.features import evidence_of, is_active
from gpusight.analysis.parts import Part, build_parts
from gpusight.model.series import Aggregate, Windows

from .building import CRITERIA, LOOKS, NOW, busy_gpu, gpu, idle_gpu, key_of, part_of, reading_of, signal

KEY = key_of()
ONE_BURST = [0.0] * (LOOKS - 1) + [0.08]
"""Its mean is below the threshold of activity."""


def without(windows: Windows, *aggregates: Aggregate) -> Windows:
    columns = {name: values for name, values in windows.columns.items() if name not in aggregates}
    return Windows(windows.quantity, windows.scope, windows.family, columns)


def is_inactive(part: Part) -> bool:
    return not part.doubt and not is_active(part)


def test_nothing_is_doubted_when_all_is_there() -> None:
    assert is_inactive(part_of(idle_gpu(KEY)))
    assert part_of(busy_gpu(KEY)).doubt == ""


@pytest.mark.parametrize(("age", "is_doubted"), [(150, False), (151, True), (-30, False)])
def test_old_samples_say_nothing_of_now(age: float, is_doubted: bool) -> None:
    windows = signal("utilization", {KEY: 0.0})
    old = Windows("utilization", "device", "f", {**windows.columns, "last_seen": {KEY: reading_of().span.end - age}})
    assert part_of([old]).doubt == (f"its newest sample is {age:.0f} s old" if is_doubted else "")


@pytest.mark.parametrize(("samples", "is_doubted"), [(16, False), (15, True), (1, True)])
def test_too_few_samples_say_nothing(samples: int, is_doubted: bool) -> None:
    assert bool(part_of(gpu(KEY, util=[0.0] * samples)).doubt) == is_doubted


def test_more_samples_than_fit_are_two_exporters() -> None:
    assert part_of(gpu(KEY, util=[0.0] * 2 * LOOKS)).doubt == "two exporters publish the same series"
    assert part_of(gpu(KEY, util=[0.0] * (LOOKS + 1))).doubt == ""


def test_two_families_may_differ_a_little_and_not_much() -> None:
    def both(one: float, other: float) -> Part:
        return part_of([signal("utilization", {KEY: one}, family="a"), signal("utilization", {KEY: other}, family="b")])

    assert both(0.9, 0.7).doubt == ""
    assert both(0.9, 0.3).doubt == "two sources disagree on its utilization"


@pytest.mark.parametrize("seen", [0.3, 0.006, ONE_BURST], ids=str)
@pytest.mark.parametrize("order", [1, -1])
def test_activity_that_any_family_saw_is_never_outvoted(seen: float | Sequence[float], order: int) -> None:
    windows = [signal("utilization", {KEY: 0.0}, family="a"), signal("utilization", {KEY: seen}, family="b")]
    assert not is_inactive(part_of(windows[::order]))


def test_profiling_counters_that_saw_activity_contradict_a_utilization_of_0() -> None:
    assert not is_inactive(part_of(idle_gpu(KEY, engine=ONE_BURST)))
    assert is_inactive(part_of(idle_gpu(KEY, engine=0.0)))


def test_a_container_that_saw_activity_contradicts_a_device_of_0() -> None:
    assert not is_inactive(part_of(idle_gpu(KEY, own=ONE_BURST)))
    assert is_inactive(part_of(idle_gpu(KEY, own=0.0)))
    assert not is_inactive(part_of(gpu(key_of(mig="1"), engine=0.0, own=ONE_BURST)))


def test_the_device_without_a_name_saw_activity() -> None:
    assert not is_inactive(part_of(idle_gpu(KEY), gpu(key_of(""), util=ONE_BURST)))


def test_what_ended_without_a_name_was_before_the_pod() -> None:
    before = signal("utilization", {key_of(""): 1.0}, family="device_utilization", ended=[key_of("")])
    assert is_inactive(part_of(idle_gpu(KEY), [before]))


def test_a_family_whose_series_of_the_pod_ended_still_saw_what_it_saw() -> None:
    ended = signal("utilization", {KEY: 0.4}, family="old_exporter", ended=[KEY])
    assert not is_inactive(part_of(idle_gpu(KEY), [ended]))


def test_a_container_far_from_its_device_is_a_contradiction() -> None:
    assert (
        part_of(gpu(KEY, util=1.0, own=0.2)).doubt == "the container's utilization (20%) contradicts the GPU's (100%)"
    )


def test_utilization_with_profiling_counters_at_0_is_a_contradiction() -> None:
    found = part_of(busy_gpu(KEY, engine=0.0)).doubt
    assert found == "utilization is 90% and the profiling counters stand at 0"


@pytest.mark.parametrize("counter", ["sm_active", "tensor_active", "dram_active", "memory_copy"])
def test_counters_of_work_contradict_inactivity(counter: str) -> None:
    assert part_of(idle_gpu(KEY, **{counter: 0.3})).doubt
    assert is_inactive(part_of(idle_gpu(KEY, **{counter: 0.01})))


def test_power_that_no_inactive_gpu_draws_contradicts_inactivity() -> None:
    found = part_of(idle_gpu(KEY, power=600.0)).doubt
    assert found == "no activity is seen while it draws 86% of its power limit"
    assert part_of(idle_gpu(KEY, power=600.0, power_limit=None)).doubt  # by the model's limit


@pytest.mark.parametrize(
    "dropped",
    [
        ("max",),
        ("max", "active_count"),
        ("max", "active_count", "last_active"),
        ("active_count", "last_active"),
        ("count",),
        ("mean",),
        ("count", "mean", "max", "active_count", "last_active"),
    ],
    ids=" ".join,
)
def test_a_burst_is_not_forgotten_with_the_columns_that_show_it(dropped: tuple[Aggregate, ...]) -> None:
    burst = without(signal("utilization", {KEY: ONE_BURST}), *dropped)
    rest = [each for each in idle_gpu(KEY) if each.quantity != "utilization"]
    assert not is_inactive(part_of([burst], rest))


@pytest.mark.parametrize("column", ["mean", "max", "active_count", "last_active"])
def test_a_single_value_that_shows_activity_is_an_objection(column: Aggregate) -> None:
    found = signal("utilization", {KEY: 0.4}, family="second").columns[column]
    assert not is_inactive(part_of(idle_gpu(KEY), [Windows("utilization", "device", "second", {column: found})]))


@pytest.mark.parametrize(("moment", "is_seen"), [(NOW - 601, False), (NOW - 600, True), (1e308, True)])
def test_activity_counts_from_the_beginning_of_the_window(moment: float, is_seen: bool) -> None:
    idle = signal("utilization", {KEY: 0.0}, family="device_utilization")
    odd = Windows("utilization", "device", idle.family, {**idle.columns, "last_active": {KEY: moment}})
    part = part_of([odd])
    assert part.activity is not None
    assert part.activity.is_active == is_seen
    assert part.activity.last_active == (min(moment, NOW) if is_seen else None)


def test_a_signal_without_its_highest_value_proves_no_inactivity() -> None:
    assert part_of([without(signal("utilization", {KEY: 0.0}), "max")], gpu(KEY, used=1.0)).activity is None


def test_a_count_of_none_is_a_count_and_no_count_is_none() -> None:
    counted, uncounted = signal("utilization", {KEY: 0.4, key_of("b", "GPU-2"): 0.0}), signal("utilization", {KEY: 0.4})
    column: dict[Aggregate, dict[object, float]] = {"active_count": {}, "last_active": {}}
    between_looks = Windows("utilization", "device", "f", {**counted.columns, **column})  # type: ignore[dict-item]
    found = {part.key.pod: part.activity for part in build_parts(reading_of([between_looks]), CRITERIA)}
    first, second = found["train"], found["b"]
    assert first is not None
    assert first.is_active
    assert first.active_share == pytest.approx(0.4)  # a ratio's mean is the least share in which it was active
    assert second is not None
    assert second.active_share == 0
    alone = part_of([without(uncounted, "active_count")]).activity
    assert alone is not None
    assert alone.active_share is None


def test_a_second_signal_proves_what_the_first_cannot() -> None:
    assert is_inactive(part_of(idle_gpu(KEY, util=[0.0] * 5, engine=0.0)))
    assert part_of(idle_gpu(KEY, util=[0.0] * 5, engine=[0.0] * 5)).doubt
    assert not is_inactive(part_of(idle_gpu(KEY, util=[0.0] * 4 + [0.5], engine=0.0)))


def test_sharers_are_told_apart_by_their_own_series_only() -> None:
    def pair(**series: float) -> dict[str, str]:
        keys = {pod: key_of(pod) for pod in ("busy", "calm")}
        own = [gpu(keys[pod], own=value) for pod, value in series.items()]
        parts = build_parts(reading_of(gpu(keys["busy"], util=0.8), gpu(keys["calm"], util=0.8), *own), CRITERIA)
        return {part.key.pod: part.doubt for part in parts}

    unknown = "2 pods share the GPU and only its total is known"
    assert pair() == {"busy": unknown, "calm": unknown}
    assert pair(busy=0.8, calm=0.0) == {"busy": "", "calm": ""}
    assert pair(busy=0.8) == {"busy": "", "calm": unknown}


def test_a_mig_instance_without_profiling_says_what_it_needs() -> None:
    doubt = part_of(gpu(key_of(mig="1"), util=0.0, used=1.0)).doubt
    assert doubt == "no series says whether it computes (a MIG instance needs profiling metrics)"


@pytest.mark.parametrize(
    ("series", "rung"),
    [
        ({"util": 0.5, "engine": 0.5, "sm_active": 0.5, "tensor_active": 0.1, "dram_active": 0.2}, "profiling"),
        ({"util": 0.5, "engine": 0.5, "tensor_active": 0.1, "dram_active": 0.2}, "profiling-default"),
        ({"util": 0.5, "own": 0.5, "power": 300.0}, "container"),
        ({"util": 0.5, "own": 0.5}, "container"),
        ({"own": 0.5}, "container"),
        ({"util": 0.5, "power": 300.0}, "utilization-power"),
        ({"util": 0.5}, "utilization"),
        ({"used": 1.0}, "none"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_ladder_of_evidence(series: dict[str, float], rung: str) -> None:
    assert evidence_of(part_of(gpu(KEY, **series))) == rung
