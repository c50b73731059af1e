"""Windows of the embedded store: looks, lookback, ends, units."""

import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpusight.model.series import Ask, Span
from gpusight.model.time import ManualClock
from gpusight.store.embedded import Batch, EmbeddedStore
from gpusight.store.embedded_series import Target
from gpusight.store.normalize import BY_FAMILY, SOURCES, Source, to_base
from tests.store.embedding import EVERYTHING, NODE, START, UTIL, batch, embedded, gpu, key, row, window

LOOKBACK = 300.0


def test_a_series_without_a_gap(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        for step in range(21):
            store.append([batch(store, START + 30 * step, {"a": float(step)})])
        found = row(window(store, Span(START + 600, 600, 30)), key("a"))
    assert found.pop("mean") == pytest.approx(0.105)
    assert found.pop("increase") > 0
    assert found == {
        "count": 20,
        "min": 0.01,
        "max": 0.20,
        "last": 0.20,
        "last_seen": START + 600,
        "active_count": 15,
        "last_active": START + 600,
    }


def test_a_series_that_vanished_from_the_page_has_ended(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        for step in range(11):
            values = {"a": 50.0, "gone": 50.0} if step < 8 else {"a": 50.0}
            store.append([batch(store, START + 30 * step, values)])
        found = window(store, Span(START + 300, 300, 30))
    assert key("gone") not in found.columns["last_seen"]
    assert key("gone") not in found.columns["last"]
    assert found.columns["count"] == {key("a"): 10, key("gone"): 7}


def test_a_failed_scrape_ends_all_series_of_its_target_only(tmp_path: Path) -> None:
    other = Target("dcgm", "node-2:9400")
    with embedded(tmp_path) as store:
        for step in range(11):
            moment = START + 30 * step
            mine = batch(store, moment, {"a": 1.0}) if step < 10 else Batch(NODE, moment, up=False)
            store.append([mine, batch(store, moment, {"b": 1.0}, target=other)])
        found = window(store, Span(START + 300, 300, 30))
        assert set(found.columns["last_seen"]) == {key("b")}
        store.append([batch(store, START + 330, {"a": 1.0})])
        again = row(window(store, Span(START + 330, 300, 30)), key("a"))
    assert again["count"] == 9, "the gap stays one"


def test_without_further_scrapes_a_sample_shows_for_five_minutes(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        store.append([batch(store, START + 10, {"a": 1.0})])
        found = row(window(store, Span(START + 309, 600, 1)), key("a"))
        assert found["count"] == 300
        assert found["last_seen"] == START + 10
        assert store.read([Ask("utilization", ("last_seen",))], Span(START + 310, 600, 1)).windows == []


def test_windows_end_in_the_past_as_well(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        for step in range(41):
            store.append([batch(store, START + 30 * step, {"a": float(step)})])
        assert row(window(store, Span(START + 300, 300, 30)), key("a"))["last"] == 0.10


scrapes = st.lists(
    st.tuples(
        st.sampled_from([1.0, 7.5, 15.0, 30.0, 61.0, 290.0, 301.0]),
        st.booleans() | st.just(True),
        st.dictionaries(st.sampled_from("abc"), st.sampled_from([0.0, 3.0, 50.0, 100.0, math.nan, 2147483632.0])),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scrapes, st.sampled_from([10.0, 15.0, 30.0, 60.0]), st.floats(0, 400))
def test_looks_agree_with_looking(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[float, bool, dict[str, float]]], step: float, wait: float
) -> None:
    """The slow way: stand at every look and see what shows."""
    history: list[tuple[float, dict[str, float]]] = []
    moment = START
    batches = []
    with embedded(tmp_path_factory.mktemp("looks")) as store:
        for gap, up, values in rows:
            moment += gap
            history.append((moment, values if up else {}))
            batches.append(batch(store, moment, history[-1][1], up=up))
        store.append(batches)
        span = Span(moment + wait, 600.0, step)
        found = store.read([Ask("utilization", ("count", "active_count", "last_active"), 0.05)], span).windows
    columns = found[0].columns if found else {"count": {}, "active_count": {}, "last_active": {}}
    for name in "abc":
        looks = _looks(history, name, span)
        active = [time for time, value in looks if value > 5]
        assert columns["count"].get(key(name), 0) == len(looks)
        assert columns["active_count"].get(key(name), 0) == len(active)
        assert columns["last_active"].get(key(name)) == max(active, default=None)


def _looks(history: list[tuple[float, dict[str, float]]], name: str, span: Span) -> list[tuple[float, float]]:
    """Time and value of the sample that shows at each multiple of the step."""
    shown = []
    look = math.floor(span.start / span.step) + 1
    while look * span.step <= span.end:
        newest = max((each for each in history if each[0] <= look * span.step), key=lambda each: each[0], default=None)
        if newest and look * span.step < newest[0] + LOOKBACK and 0 <= newest[1].get(name, -1) <= 100:
            shown.append((newest[0], newest[1][name]))
        look += 1
    return shown


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from([source for source in SOURCES if source.scale is not None and not source.summed]),
            st.floats(allow_nan=True) | st.sampled_from([0.0, 1.0, 1.0005, 100.0, 101.0, 1600.0, 9.2233720368e18])
            | st.sampled_from([2147483632.0, 2147483635.0, 140737488355330.0, 9223372036854775792.0]),
        ),
        min_size=1,
        max_size=30,
        unique_by=lambda pair: pair[0].family,
    )
)  # fmt: skip
def test_values_come_in_base_units_as_normalize_says(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[Source, float]]
) -> None:
    with embedded(tmp_path_factory.mktemp("units")) as store:
        refs = [store.ref(NODE, source.family, gpu("a")) for source, _ in pairs]
        store.append([Batch(NODE, START, refs, [raw for _, raw in pairs])])
        asks = [Ask(quantity, ("last", "last_seen")) for quantity in {source.quantity for source, _ in pairs}]
        found = {each.family: each for each in store.read(asks, Span(START + 30, 60, 30)).windows}
    for source, raw in pairs:
        expected = to_base(source, source.scale or 0.0, raw)
        last = found[source.family].columns["last"].get(key("a"))
        assert last == (None if expected is None else pytest.approx(expected))
        assert found[source.family].rejected == (expected is None)
        assert key("a") in found[source.family].columns["last_seen"]


def test_families_come_in_order_of_trust(tmp_path: Path) -> None:
    families = ["dcgm_gpu_utilization", "DCGM_FI_DEV_GPU_UTIL", "gpusight_gpu_utilization_ratio"]
    with embedded(tmp_path) as store:
        refs = [store.ref(NODE, family, gpu("a")) for family in families]
        store.append([Batch(NODE, START, refs, [1.0] * 3)])
        found = store.read([Ask("utilization", EVERYTHING)], Span(START, 60, 30)).windows
    assert [each.family for each in found] == [families[1], families[2], families[0]]


def test_the_same_subject_from_two_targets_is_counted_once(tmp_path: Path) -> None:
    moved = Target("dcgm", "node-1:9401")
    with embedded(tmp_path) as store:
        for step in range(11):
            moment = START + 30 * step
            if step <= 6:
                store.append([batch(store, moment, {"a": 10.0})])
            if step >= 5:
                store.append([batch(store, moment, {"a": 30.0}, target=moved)])
            if step == 7:
                store.append([Batch(NODE, moment, up=False)])
        found = row(window(store, Span(START + 300, 300, 30)), key("a"))
    assert found["count"] == 10
    assert (found["min"], found["max"], found["last"], found["last_seen"]) == (0.1, 0.3, 0.3, START + 300)


def test_parts_of_one_subject_are_added_up_at_each_look(tmp_path: Path) -> None:
    family = "nvshare_client_nvml_used_bytes"
    assert BY_FAMILY[family].summed
    with embedded(tmp_path) as store:
        labels = [{"gpu_uuid": "GPU-a", "namespace": "n", "pod": "p", "client_id": each} for each in "12"]
        refs = [store.ref(NODE, family, each) for each in labels]
        for step in range(5):
            store.append([Batch(NODE, START + 30 * step, refs, [100.0, 20.0 + step])])
        store.append([Batch(NODE, START + 150, refs, [100.0, math.nan])])
        found = row(window(store, Span(START + 150, 150, 30), "memory_used"), key("a", namespace="n", pod="p"))
    assert (found["count"], found["min"], found["max"]) == (4, 121.0, 124.0)
    assert "last" not in found, "a sum that lacks a part is not known"


def test_increase_counts_resets_and_reaches_to_the_ends(tmp_path: Path) -> None:
    family = "gpusight_gpu_energy_joules_total"
    values = [1000.0, 1100.0, 1200.0, 50.0, 150.0, 250.0]
    with embedded(tmp_path) as store:
        for step, value in enumerate(values):
            store.append([batch(store, START + 60 * step, {"a": value}, family=family)])
        found = row(window(store, Span(START + 310, 320, 60), "energy"), key("a"))
    assert found["increase"] == pytest.approx(450 * 320 / 300)


def test_only_the_wanted_parts_of_a_family_and_only_series_with_a_gpu(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        refs = [
            store.ref(NODE, "hw_gpu_utilization_ratio", {"hw_id": "GPU-a", "hw_gpu_task": "general"}),
            store.ref(NODE, "hw_gpu_utilization_ratio", {"hw_id": "GPU-b", "hw_gpu_task": "encoder"}),
            store.ref(NODE, UTIL, {"gpu": "0"}),
        ]
        store.append([Batch(NODE, START, refs, [0.5, 0.5, 50.0])])
        found = store.read([Ask("utilization", ("last", "last_seen"))], Span(START, 60, 30)).windows
    assert [dict(each.columns["last"]) for each in found if each.columns["last"]] == [{key("a"): 0.5}]


def test_an_ambiguous_unit_is_read_only_when_it_is_declared(tmp_path: Path) -> None:
    family = "DCGM_FI_DEV_GPU_UTIL_RATIO"
    asks, span = [Ask("utilization", ("last", "last_seen"))], Span(START, 60, 30)
    with embedded(tmp_path) as store:
        store.append([batch(store, START, {"a": 50.0}, family=family)])
        reading = store.read(asks, span)
        assert not reading.windows
        assert [(each.family, each.quantity) for each in reading.failures] == [(family, "utilization")]
        assert "store.scale" in reading.failures[0].reason
    with embedded(tmp_path, declared_scales={family: 0.01}) as store:
        reading = store.read(asks, span)
        assert reading.windows[0].columns["last"] == {key("a"): 0.5}
        assert not reading.failures


def test_a_family_that_is_gone_is_a_failure_once(tmp_path: Path) -> None:
    asks = [Ask("utilization", ("last_seen",))]
    with embedded(tmp_path) as store:
        store.append([batch(store, START, {"a": 50.0})])
        assert not store.read(asks, Span(START, 60, 30)).failures
        assert [each.family for each in store.read(asks, Span(START + 400, 60, 30)).failures] == [UTIL]
        assert not store.read(asks, Span(START + 430, 60, 30)).failures


def _fill(store: EmbeddedStore, steps: int) -> None:
    for step in range(steps):
        store.append([batch(store, START + 30 * step, {"a": float(step)})])


def test_charts_are_one_point_per_look(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        _fill(store, 11)
        points = store.range(key("a"), "utilization", Span(START + 300, 150, 30))
        assert [point.time - START for point in points] == [180, 210, 240, 270, 300]
        assert [point.value for point in points] == pytest.approx([0.06, 0.07, 0.08, 0.09, 0.1])
        assert store.range(key("b"), "utilization", Span(START + 300, 150, 30)) == ()


def test_a_chart_of_a_holder_falls_back_to_its_device(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        _fill(store, 3)
        holder = key("a", namespace="n", pod="p")
        assert len(store.range(holder, "utilization", Span(START + 60, 60, 30))) == 2
        assert not store.range(key("a", mig="3"), "utilization", Span(START + 60, 60, 30))


def test_families_are_those_that_live(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with embedded(tmp_path, clock) as store:
        refs = [store.ref(NODE, name, gpu("a")) for name in (UTIL, "kube_pod_owner")]
        store.append([Batch(NODE, START, refs, [1.0, 1.0])])
        assert store.families() == {UTIL}
        clock.advance(301)
        assert store.families() == frozenset()


def test_every_series_gets_its_own_numbers(tmp_path: Path) -> None:
    """Enough series for several threads and row groups: no column may slip against another."""
    families = (UTIL, "DCGM_FI_DEV_SM_CLOCK")
    count = 10_000
    with embedded(tmp_path) as store:
        refs = [store.ref(NODE, family, gpu(f"{i:05}")) for i in range(count) for family in families]
        for step in range(8):
            values = [value for i in range(count) for value in (i / count * 90 + step, float(i + step))]
            store.append([Batch(NODE, START + 30 * step, refs, values)])
        asks = [Ask("utilization", EVERYTHING), Ask("sm_clock", EVERYTHING)]
        found = store.read(asks, Span(START + 210, 240, 30)).windows
    for each, (lowest, unit) in zip(found, ((0.9 / count, 0.01), (1e6, 1e6)), strict=True):
        for i in range(count):
            mine = row(each, key(f"{i:05}"))
            assert mine["min"] == pytest.approx(i * lowest)
            assert mine["max"] == mine["last"] == pytest.approx(i * lowest + 7 * unit)
