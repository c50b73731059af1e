"""The API proper: filters, order, pages, CSV, history, replay."""

import csv
import io
import threading
from collections.abc import Sequence
from typing import Any

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from gpusight.analysis.replay_report import ReplayReport, TraceSummary
from gpusight.model.history import JournalError
from gpusight.model.series import StoreError
from gpusight.web.query import RESULT_COLUMNS, VERDICT_COLUMNS, Filters, in_order, parse_time
from gpusight.web.replay import ReplayRequest
from gpusight.web.tables import to_csv
from gpusight.web.work import LANES, Workers
from tests.web.clients import an_app, get, run
from tests.web.fakes import FakeAnalyzer, a_round, make_round, result, verdict


def pods(path: str) -> list[str]:
    answer = get(path)
    assert answer.status_code == 200, answer.text
    return [item["pod"] for item in answer.json()["items"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["pod-1", "pod-2", "pod-3", "pod-4", "pod-5"]),
        ("namespace=team-a", ["pod-1", "pod-3", "pod-5"]),
        ("namespace=team-a&namespace=team-b&limit=2", ["pod-1", "pod-2"]),
        ("status=unknown", ["pod-5"]),
        ("state=idle-held", ["pod-1"]),
        ("min_score=15&max_score=50", ["pod-2", "pod-3"]),
        ("max_score=100", ["pod-1", "pod-2", "pod-3", "pod-4"]),
        ("q=POD-4", ["pod-4"]),
        ("q=no%20samples", ["pod-5"]),
        ("model=Tesla%20T4", ["pod-2", "pod-4"]),
        ("subject=prod/team-a/Pod/pod-3", ["pod-3"]),
        ("cluster=elsewhere", []),
        ("gpu_id=GPU-00000004-11f6-5ecc-feb0-af07406e1838&pod=pod-4", ["pod-4"]),
        ("sort=-score", ["pod-4", "pod-3", "pod-2", "pod-1", "pod-5"]),
        ("sort=-pod&limit=2&offset=1", ["pod-4", "pod-3"]),
        ("offset=5", []),
    ],
)
def test_results_are_filtered_sorted_and_paged(query: str, expected: list[str]) -> None:
    assert pods(f"/api/v1/results?{query}") == expected


def test_a_page_tells_how_much_there_is() -> None:
    said = get("/api/v1/results?limit=2&offset=1&namespace=team-a").json()
    assert (said["total"], said["limit"], said["offset"], said["round"]) == (3, 2, 1, 1)


@pytest.mark.parametrize(
    "query",
    ["sort=nothing", "sort=ai_analysis", "limit=0", "limit=10001", "offset=-1", "status=lazy", "min_score=nan",
     "format=xml", "max_score=101"],
)  # fmt: skip
def test_a_wrong_parameter_is_refused(query: str) -> None:
    answer = get(f"/api/v1/results?{query}")
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "invalid_request"


@given(
    scores=st.lists(st.none() | st.floats(0, 100), max_size=30),
    sort=st.sampled_from([*RESULT_COLUMNS, *(f"-{name}" for name in RESULT_COLUMNS)]),
)
def test_any_order_keeps_every_row_and_the_unknown_last(scores: list[float | None], sort: str) -> None:
    rows = [result(number, score) for number, score in enumerate(scores)]
    ordered = in_order(rows, sort, RESULT_COLUMNS)
    assert sorted(row.id for row in ordered) == sorted(row.id for row in rows)
    values = [RESULT_COLUMNS[sort.removeprefix("-")](row) for row in ordered]
    known = [value for value in values if value is not None]
    assert values == known + [None] * (len(values) - len(known))
    assert known == sorted(known, reverse=sort.startswith("-"))


def test_every_verdict_column_sorts() -> None:
    verdicts = a_round().verdicts
    for column in VERDICT_COLUMNS:
        assert len(in_order(verdicts, f"-{column}", VERDICT_COLUMNS)) == len(verdicts)


def test_a_verdict_is_found_by_its_own_words_and_by_its_rows() -> None:
    row = result(1, 5.0)
    found = structs.replace(verdict(row), team="radiology")
    assert Filters(allowed={}, search="radiology").admits_verdict(found, [row])
    assert Filters(allowed={"status": frozenset({"idle"})}).admits_verdict(found, [row])
    assert not Filters(allowed={"status": frozenset({"high"})}, search="radiology").admits_verdict(found, [row])
    assert not Filters(allowed={}, search="elsewhere").admits_verdict(found, [row])
    assert Filters(allowed={}).admits_verdict(found, [])


def test_one_result_comes_with_its_verdict() -> None:
    said = get("/api/v1/results/0000000000000001").json()
    assert said["result"]["pod"] == "pod-1"
    assert said["verdict"]["subject"]["id"] == "prod/team-a/Pod/pod-1"
    assert get("/api/v1/results/ffff").status_code == 404


def test_a_window_is_pairs_of_time_and_value() -> None:
    said = get("/api/v1/results/0000000000000001/window?quantity=power").json()
    assert said == {
        "id": "0000000000000001",
        "quantity": "power",
        "points": [[1769855370.0, 0.5], [1769855400.0, 0.75]],
    }
    assert get("/api/v1/results/0000000000000001/window?quantity=charm").status_code == 422
    assert get("/api/v1/results/ffff/window").status_code == 404


def test_a_row_that_went_meanwhile_has_no_window() -> None:
    answer = get("/api/v1/results/0000000000000001/window", an_app(FakeAnalyzer(failure=KeyError("gone"))))
    assert answer.status_code == 404


@pytest.mark.parametrize("subject", ["prod/team-a/Pod/pod-1", "prod%2Fteam-a%2FPod%2Fpod-1"])
def test_a_subject_has_slashes(subject: str) -> None:
    assert get(f"/api/v1/verdicts/{subject}").json()["subject"]["name"] == "pod-1"
    said = get(f"/api/v1/verdicts/{subject}/explanation").json()
    assert said["state"] == "idle-held"
    assert [row["pod"] for row in said["results"]] == ["pod-1"]
    assert any("90%" in step for step in said["steps"])


def test_a_workload_may_be_called_explanation() -> None:
    row = result(1, 5.0, pod="explanation", subject="prod/team-a/Pod/explanation")
    app = an_app(FakeAnalyzer(last=make_round([row])))
    assert get("/api/v1/verdicts/prod/team-a/Pod/explanation", app).json()["subject"]["name"] == "explanation"
    said = get("/api/v1/verdicts/prod/team-a/Pod/explanation/explanation", app).json()
    assert said["subject"] == "prod/team-a/Pod/explanation"


def test_verdicts_take_the_same_filters() -> None:
    said = get("/api/v1/verdicts?namespace=team-a&sort=-name&max_score=50").json()
    assert [item["subject"]["name"] for item in said["items"]] == ["pod-3", "pod-1"]
    assert get("/api/v1/verdicts/prod/team-a/Pod/nobody").status_code == 404


def test_the_round_tells_how_it_went() -> None:
    said = get("/api/v1/round").json()
    assert (said["number"], said["results"], said["verdicts"]) == (1, 5, 5)
    assert said["problems"] == ["DCGM_FI_DEV_POWER_USAGE could not be read."]


@pytest.mark.parametrize("path", ["results", "verdicts", "lending", "stats", "round", "results/1", "verdicts/a/b"])
def test_before_the_first_round_the_api_says_so(path: str) -> None:
    answer = get(f"/api/v1/{path}", an_app(FakeAnalyzer(last=None)))
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "no_round_yet"


# --- CSV ---


def table(answer: httpx2.Response) -> list[dict[str, str]]:
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_results_as_csv_are_all_of_them_unless_paged() -> None:
    analyzer = FakeAnalyzer(last=make_round([result(number, 50.0) for number in range(150)]))
    app = an_app(analyzer)
    assert len(table(get("/api/v1/results?format=csv", app))) == 150
    assert len(table(get("/api/v1/results?format=csv&limit=20", app))) == 20
    assert len(table(get("/api/v1/results", app, accept="text/csv"))) == 150
    assert get("/api/v1/results", app, accept="text/csv;q=0.1, application/json").json()["total"] == 150


def test_lending_and_tenants_have_csv_too() -> None:
    assert table(get("/api/v1/lending?format=csv"))[0]["subject"] == "prod/team-a/Pod/pod-1"
    assert table(get("/api/v1/tenants?format=csv"))[0]["owner"] == "'=HYPERLINK(1)"


@given(st.text(st.characters(codec="utf-8"), max_size=30))
@example("=\0")
@example("  @SUM(1)")
def test_no_cell_is_a_formula(text: str) -> None:
    body = to_csv(type(result(1)), [result(1, pod=text)]).decode()
    cell = next(csv.DictReader(io.StringIO(body, newline="")))["pod"]
    assert not cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    assert cell.removeprefix("'") == text.replace("\0", "\\0").removeprefix("'")


# --- the journal ---


def test_history_has_readable_times_and_the_evidence() -> None:
    analyzer = FakeAnalyzer()
    said = get("/api/v1/history?from=2026-01-31T00:00:00Z&to=1769904000&subject=x&limit=5", an_app(analyzer)).json()
    assert (said["from"], said["to"]) == ("2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z")
    assert said["items"][0]["at"] == "2026-01-31T09:00:00.500000Z"
    assert said["items"][0]["detail"] == {"x": 1}
    asked = {"start": 1769817600.0, "end": 1769904000.0, "subject": "x", "namespaces": None, "limit": 5}
    assert analyzer.asked == [asked]


def test_a_day_until_now_is_the_default_span() -> None:
    analyzer = FakeAnalyzer()
    get("/api/v1/tenants", an_app(analyzer))
    assert (analyzer.asked[0]["start"], analyzer.asked[0]["end"]) == (1_700_000_000.0 - 86400, 1_700_000_000.0)


@pytest.mark.parametrize("query", ["from=soon", "to=1e400", "from=nan", "from=2&to=1", "to=-5"])
def test_a_span_that_is_none_is_refused(query: str) -> None:
    assert get(f"/api/v1/hours?{query}").status_code == 422


def test_a_time_may_have_an_offset() -> None:
    assert parse_time("2026-01-31T08:00:00 08:00", "from") == parse_time("2026-01-31T00:00:00Z", "from")


def test_episodes_hours_and_changes_of_settings() -> None:
    assert [item["id"] for item in get("/api/v1/episodes").json()["items"]] == ["e1", "e0"]
    assert [item["id"] for item in get("/api/v1/episodes?open=true").json()["items"]] == ["e1"]
    assert get("/api/v1/hours").json()["items"][0]["hour"] == "2026-01-31T09:00:00Z"
    assert get("/api/v1/config/changes").json()["items"][0]["actor"] == "ops"


def test_what_does_not_answer_is_told_in_the_one_shape() -> None:
    store = get("/api/v1/results/0000000000000001/window", an_app(FakeAnalyzer(failure=StoreError("no route to host"))))
    assert (store.status_code, store.json()["error"]["code"]) == (503, "store_unavailable")
    journal = get("/api/v1/hours", an_app(FakeAnalyzer(failure=JournalError("the disk is full"))))
    assert journal.json() == {"error": {"code": "journal_unavailable", "message": "the disk is full.", "detail": None}}


def test_a_stalled_store_keeps_nothing_else_waiting() -> None:
    release = threading.Event()
    lanes = {**LANES, "store": LANES["store"]._replace(threads=2, waiting=2, deadline=0.2)}

    async def scenario(client: httpx2.AsyncClient) -> None:
        window = "/api/v1/results/0000000000000001/window"
        try:
            slow = [await client.get(window) for _ in range(4)]
            assert [answer.status_code for answer in slow[:2]] == [504, 504]
            assert slow[0].json()["error"]["code"] == "too_slow"
            for path in ("/results", "/health", "/api/v1/results?format=csv", "/metrics", "/"):
                assert (await client.get(path)).status_code == 200
        finally:
            release.set()

    run(scenario, an_app(FakeAnalyzer(stall=release), workers=Workers(lanes)))


# --- replay ---

SUMMARY = TraceSummary(
    source="a test",
    subjects=1,
    samples=2,
    start=0.0,
    end=60.0,
    step_seconds=30.0,
    gpu_hours=0.02,
    active_gpu_hours=0.0,
    idle_gpu_hours=0.02,
    unknown_gpu_hours=0.0,
    unknown_share=0.0,
    active_above=1.0,
    problems=(),
    warnings=(),
)


def test_a_replay_is_run_by_whoever_can() -> None:
    asked: list[tuple[ReplayRequest, Sequence[str] | None]] = []

    def runner(request: ReplayRequest, namespaces: Sequence[str] | None) -> ReplayReport:
        asked.append((request, namespaces))
        if "nonsense" in request.policies:
            raise ValueError("there is no policy nonsense")
        return ReplayReport(trace=SUMMARY, policies=(), sweep=(), regret_limit=0.05, recommended=None)

    async def scenario(client: httpx2.AsyncClient) -> None:
        given: dict[str, Any] = {"policies": ["default"], "from": "2026-01-31T00:00:00Z"}
        answer = await client.post("/api/v1/replay", json=given)
        assert answer.json()["trace"]["source"] == "a test"
        refused = await client.post("/api/v1/replay", json={"policies": ["nonsense"]})
        assert refused.status_code == 422
        assert refused.json()["error"]["message"] == "there is no policy nonsense."
        for body in (b"", b"[]", b'{"polices": []}', b"\xff"):
            assert (await client.post("/api/v1/replay", content=body)).status_code == 422

    run(scenario, an_app(replay=runner))
    assert asked[0][0].policies == ("default",)


def test_without_a_runner_there_is_no_replay() -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        answer = await client.post("/api/v1/replay", json={})
        assert (answer.status_code, answer.json()["error"]["code"]) == (501, "no_replay")

    run(scenario)
