"""No fault of an engine becomes a value: it is a sentence, and the rest goes on."""

import email.utils
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from gpusight.model.series import Ask, Reading, StoreError
from gpusight.store.normalize import SOURCES
from gpusight.store.reading import MOST_QUERIES
from tests.store.fleet import UTILIZATION, span, store, window
from tests.store.scripted import UUIDS, Said, Script, busy_fleet, names, said, scripted, vector

UTIL = "DCGM_FI_DEV_GPU_UTIL"
ASKS = (UTILIZATION, Ask("memory_used", ("last_seen", "mean")))
HTML = Said(b"<html><body>Sign in</body></html>", headers={"Content-Type": "text/html"})
EMPTY = vector([])


def nan_instead(answer: Said) -> Said:
    document = json.loads(answer.body)
    for each in document["data"]["result"]:
        each["value"][1] = "NaN"
    return said(document)


Spoil = Callable[[Said], Said]

FAULTS: Mapping[str, Spoil] = {
    "500": lambda _: Said(b"boom", 500),
    "503": lambda _: said({"status": "error", "error": "no store matched"}, 503),
    "an error with 200": lambda _: said({"status": "error", "errorType": "timeout", "error": "query timed out"}),
    "a web page": lambda _: HTML,
    "truncated JSON": lambda answer: Said(answer.body[: len(answer.body) // 2]),
    "a connection cut in the answer": lambda answer: replace(answer, cut=len(answer.body) // 2),
    "a stall": lambda answer: replace(answer, pause=30),
    "a redirect": lambda _: Said(b"", 307, {"Location": "http://127.0.0.1:1/"}),
    "a scalar": lambda _: said({"status": "success", "data": {"resultType": "scalar", "result": [1, "0"]}}),
    "no data": lambda _: said({"status": "success"}),
    "an unfinished thought": lambda _: Said(b""),
}


def spoiled(spoil: Spoil, *, when: Callable[[str], bool] = lambda _: True) -> Script:
    healthy = busy_fleet()

    def script(path: str, parameters: Mapping[str, str]) -> Said:
        answer = healthy(path, parameters)
        return spoil(answer) if when(parameters.get("query", path)) else answer

    return script


def read(script: Script, **options: object) -> Reading:
    with scripted(script) as engine, store(engine.url, **{"timeout": 0.5, **options}) as prometheus:
        return prometheus.read(ASKS, span(time.time()))


def test_the_healthy_engine_of_these_tests() -> None:
    found = read(busy_fleet(), timeout=5)
    utilization = window(found, UTIL)
    assert {key.gpu for key in utilization.columns["mean"]} == set(UUIDS)
    assert list(utilization.columns["mean"].values()) == [pytest.approx(0.95)] * 2
    assert found.failures == ()


@pytest.mark.parametrize("fault", FAULTS)
def test_everything_is_broken(fault: str) -> None:
    with pytest.raises(StoreError) as error:
        read(spoiled(FAULTS[fault]))
    assert str(error.value).startswith("http://127.0.0.1:")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("fault", FAULTS)
def test_queries_are_broken_although_names_are_there(fault: str) -> None:
    with pytest.raises(StoreError):
        read(spoiled(FAULTS[fault], when=lambda query: "/values" not in query))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("aggregate", ["count_over_time((", "avg_over_time", "max_over_time", "timestamp("])
def test_one_broken_query_costs_its_family(fault: str, aggregate: str) -> None:
    found = read(spoiled(FAULTS[fault], when=lambda query: UTIL in query and aggregate in query))
    assert [each.family for each in found.windows] == ["DCGM_FI_DEV_FB_USED"]
    assert {failure.family for failure in found.failures} == {UTIL}
    assert all(failure.reason.startswith("http://127.0.0.1:") for failure in found.failures)


def test_nothing_answers_although_names_are_there() -> None:
    found = read(spoiled(lambda _: EMPTY, when=lambda query: "/values" not in query))
    assert all(not column for each in found.windows for column in each.columns.values())


def test_everything_is_not_a_number() -> None:
    found = read(spoiled(nan_instead, when=lambda query: "avg_over_time" in query or "max_over_time" in query))
    utilization = window(found, UTIL)
    assert utilization.rejected == 2
    assert utilization.columns["mean"] == {}
    assert utilization.columns["max"] == {}


def test_infinity_is_no_value() -> None:
    infinite = vector([({"UUID": UUIDS[0], "namespace": "team", "pod": "pod-0", "container": "main"}, "+Inf")])
    found = read(spoiled(lambda _: infinite, when=lambda query: "avg_over_time" in query))
    assert window(found, UTIL).columns["mean"] == {}


def test_warnings_are_passed_on_and_infos_are_not() -> None:
    partial = spoiled(
        lambda answer: replace(
            answer,
            body=answer.body[:-1] + b', "warnings": ["store 10.0.0.9 is down"], "infos": ["metric might be a gauge"]}',
        ),
        when=lambda query: "avg_over_time" in query,
    )
    assert read(partial).warnings == ("store 10.0.0.9 is down",)


def test_nobody_is_taken_for_a_workload_while_exporters_cannot_be_told() -> None:
    with pytest.raises(StoreError, match="exporters' own pods cannot be told from workloads"):
        read(spoiled(FAULTS["500"], when=lambda query: "(up{" in query))


def test_a_stall_does_not_hold_up_a_round_query_by_query() -> None:
    began = time.monotonic()
    with pytest.raises(StoreError, match="did not answer in full within"):
        read(spoiled(FAULTS["a stall"], when=lambda query: "/values" not in query), max_workers=2)
    assert time.monotonic() - began < 10


def test_rows_without_a_gpu_are_nobodys() -> None:
    def script(path: str, parameters: Mapping[str, str]) -> Said:
        answer = busy_fleet()(path, parameters)
        return replace(answer, body=answer.body.replace(b'"UUID"', b'"other"'))

    found = read(script)
    assert all(not column for each in found.windows for column in each.columns.values())
    assert found.places == {}


def test_hostile_labels_stay_text() -> None:
    hostile = '</script>\\"}\\n{{' + "x" * 5000

    def script(path: str, parameters: Mapping[str, str]) -> Said:
        answer = busy_fleet()(path, parameters)
        return replace(answer, body=answer.body.replace(b"pod-1", hostile.encode()))

    pods = {key.pod for key in window(read(script), UTIL).columns["mean"]}
    assert pods == {"pod-0", '</script>"}\n{{' + "x" * 5000}


def test_a_clock_that_differs_is_a_doubt() -> None:
    wrong = email.utils.formatdate(time.time() - 3600, usegmt=True)
    late = spoiled(lambda answer: replace(answer, headers={"Date": wrong}), when=lambda query: "/values" in query)
    found = read(late)
    assert len(found.warnings) == 1
    assert "behind ours" in found.warnings[0]


@pytest.mark.parametrize("status", [403, 404])
def test_a_gateway_that_lets_only_queries_through(status: int) -> None:
    healthy = busy_fleet()

    def script(path: str, parameters: Mapping[str, str]) -> Said:
        if path.endswith("/values"):
            return Said(b"", status)
        if "group by (__name__)" in parameters["query"]:
            return vector([({"__name__": UTIL}, 1), ({"__name__": "DCGM_FI_DEV_FB_USED"}, 1)])
        return healthy(path, parameters)

    assert {each.family for each in read(script).windows} == {UTIL, "DCGM_FI_DEV_FB_USED"}


def test_a_round_has_a_bound_on_queries_and_drops_the_least_trusted() -> None:
    healthy = busy_fleet()

    def script(path: str, parameters: Mapping[str, str]) -> Said:
        return names(*(source.family for source in SOURCES)) if path.endswith("/values") else healthy(path, parameters)

    quantities = dict.fromkeys(source.quantity for source in SOURCES)
    asks = [UTILIZATION, *(Ask(quantity, ("mean",)) for quantity in quantities if quantity != "utilization")]
    with scripted(script) as engine, store(engine.url, timeout=10) as prometheus:
        found = prometheus.read(asks, span(time.time()))
        assert len(engine.asked) <= MOST_QUERIES
    assert found.queries <= MOST_QUERIES
    dropped = [failure for failure in found.failures if "at most 80 queries" in failure.reason]
    assert dropped
    best = {next(source.family for source in SOURCES if source.quantity == quantity) for quantity in quantities}
    assert not best & {failure.family for failure in dropped}


def test_secrets_stay_out_of_names_and_errors() -> None:
    with scripted(lambda *_: Said(b"no", 401)) as engine:
        url = engine.url.replace("http://", "http://user:hunter2@")
        with store(url, headers={"X-Key": "hunter2"}) as prometheus:
            with pytest.raises(StoreError, match="answered 401") as error:
                prometheus.check()
            assert "hunter2" not in f"{error.value} {prometheus.name} {prometheus._config!r}"


def test_an_engine_that_takes_no_long_query_is_asked_for_all() -> None:
    """One GPU's last activity has to be asked for by name."""
    healthy = busy_fleet()

    def script(path: str, parameters: Mapping[str, str]) -> Said:
        query = parameters.get("query", "")
        if "UUID=~" in query:
            return said({"status": "error", "error": "too long query"}, 400)
        if "> 0.5" in query and "count_over_time" in query:
            return vector([({"UUID": UUIDS[0], "namespace": "team", "pod": "pod-0", "container": "main"}, 3)])
        if "max_over_time(timestamp" in query:
            return vector([({"UUID": UUIDS[0], "namespace": "team", "pod": "pod-0", "container": "main"}, 1234)])
        return healthy(path, parameters)

    found = read(script)
    assert found.failures == ()
    assert list(window(found, UTIL).columns["last_active"].values()) == [1234]
