"""The text of queries: nothing that a user or a tenant writes can leave its place."""

import shutil
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpusight.model.series import Aggregate, Span
from gpusight.store.normalize import BY_FAMILY
from gpusight.store.promql import (
    ConditionError,
    Shape,
    any_of,
    condition,
    duration,
    in_words_of,
    matching,
    quoted,
    selector,
)
from tests.support.prometheus import Prometheus, needs_prometheus, temporary_prometheus


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("{}", ""),
        ('{pod!=""}', 'pod!=""'),
        (' pod!="" ', 'pod!=""'),
        ('{pod!="",}', 'pod!=""'),
        ('{pod!="", namespace=~"a|b"}', 'pod!="", namespace=~"a|b"'),
        ("namespace!~'x.*'", "namespace!~'x.*'"),
        ('a="}\\" or up{"', 'a="}\\" or up{"'),
    ],
)
def test_conditions_as_users_write_them(text: str, expected: str) -> None:
    assert condition(text) == expected


@pytest.mark.parametrize(
    "text",
    ["pod", "{pod}", 'pod!=""} or up{a="b"', 'pod!="" or x', 'pod!="', '{pod!=""', '1a="b"', 'pod=="a"', 'a="b" c="d"'],
)
def test_a_condition_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConditionError):
        condition(text)


@pytest.mark.parametrize(("seconds", "text"), [(600, "600s"), (0.5, "500ms"), (599.999, "599999ms"), (0, "1ms")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


AGGREGATES: tuple[Aggregate, ...] = (
    "count",
    "mean",
    "min",
    "max",
    "last",
    "last_seen",
    "active_count",
    "last_active",
    "increase",
)
FAMILIES = ("DCGM_FI_DEV_GPU_UTIL", "mx_memory_used", "nvshare_client_allocated_bytes", "hw_gpu_utilization_ratio")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    if shutil.which("prometheus") is None:
        pytest.skip("the `prometheus` program is not installed")
    with temporary_prometheus(tmp_path_factory.mktemp("prometheus"), []) as prometheus:
        yield prometheus


@needs_prometheus
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("filtered", [False, True])
def test_every_query_is_valid(engine: Prometheus, family: str, filtered: bool) -> None:
    source = BY_FAMILY[family]
    shape = Shape(source, source.scale or 1.0, Span(0.0, 600, 30), 'pod!=""', "cluster", filtered)
    for aggregate in AGGREGATES:
        assert engine.query(shape.query(aggregate, 0.005)) == []
    assert engine.query(shape.active_now(0.005)) == []
    assert engine.query(shape.last_active_of("UUID", ["a", "b"], 0.005)) == []
    assert engine.query(shape.over_time('GPU-"x"')) == []


@needs_prometheus
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(codec="utf-8"), max_size=40))
def test_any_text_matches_exactly_itself(engine: Prometheus, text: str) -> None:
    labelled = f'label_replace(vector(1), "a", {quoted(text.replace("$", "$$"))}, "", "")'
    found = engine.query(labelled)
    assert found[0]["metric"] == ({"a": text} if text else {})
    matched = engine.query(f'label_replace({labelled}, "hit", "yes", "a", {any_of([text, "other"])})')
    assert matched[0]["metric"].get("hit") == "yes"
    missed = engine.query(f'label_replace({labelled}, "hit", "yes", "a", {any_of(["x" + text])})')
    assert "hit" not in missed[0]["metric"]


def test_selectors_leave_out_what_is_empty() -> None:
    assert selector("up", "", 'a="b"', "") == 'up{a="b"}'


@pytest.mark.parametrize(
    ("family", "wanted"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", 'pod!="",namespace=~"a|b",node="x"'),
        ("Device_utilization_desc_of_container", 'podname!="",podnamespace=~"a|b",node="x"'),
        ("vGPU_device_memory_usage_in_bytes", 'podname!="",podnamespace=~"a|b",node="x"'),
        ("dcgm_gpu_utilization", 'pod_name!="",pod_namespace=~"a|b",node="x"'),
        ("hami_container_device_memory_bytes", 'pod!="",namespace=~"a|b",node="x"'),
    ],
)
def test_a_condition_speaks_the_words_of_each_family(family: str, wanted: str) -> None:
    assert in_words_of(family, condition('{pod!="",namespace=~"a|b",node="x"}')) == wanted


@pytest.mark.parametrize(
    ("text", "labels", "meets"),
    [
        ('{pod!=""}', {"pod": "a"}, True),
        ('{pod!=""}', {}, False),
        ('{namespace=~"team-.*",pod!~"test.*"}', {"namespace": "team-1", "pod": "train"}, True),
        ('{namespace=~"team-.*",pod!~"test.*"}', {"namespace": "team-1", "pod": "test-1"}, False),
        ('{namespace=~"team"}', {"namespace": "team-1"}, False),
        ('{pod="a\\"b"}', {"pod": 'a"b'}, True),
        ("{}", {}, True),
    ],
)
def test_a_condition_is_tested_as_an_engine_would(text: str, labels: dict[str, str], meets: bool) -> None:
    assert matching(text)("DCGM_FI_DEV_GPU_UTIL", labels) is meets


def test_a_condition_is_tested_in_the_words_of_each_family() -> None:
    assert matching('{pod!=""}')("Device_utilization_desc_of_container", {"podname": "a"})
    assert not matching('{pod!=""}')("Device_utilization_desc_of_container", {"pod": "the-exporter"})


def test_a_condition_with_a_broken_expression_is_refused() -> None:
    with pytest.raises(ConditionError, match="is not a regular expression"):
        matching('{pod=~"("}')
