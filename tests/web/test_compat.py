"""The published analyzer's endpoints answer with its JSON."""

from typing import Any

import httpx2
import pytest

from gpusight.errors import SettingsError
from gpusight.model.history import JournalError
from gpusight.web.service import Trigger
from tests.web.clients import ADMIN, READER, an_app, bearer, get, run
from tests.web.fakes import FakeAnalyzer, a_round, make_round, result

ROW = [
    "gpu_id", "pod", "namespace", "hostname", "model_name", "gpu_util", "mem_copy", "mem_used_mb", "mem_total_mb",
    "mem_usage_percent", "power_usage", "sm_clock", "score", "status", "timestamp", "ai_analysis",
]  # fmt: skip


def test_the_service_tells_what_it_is() -> None:
    said = get("/").json()
    assert said["service"] == "GPU Utilization Monitor"
    assert said["features"] == {"ai_analysis": False, "prometheus_metrics": True, "control_api": False}
    assert said["config"] == {
        "prometheus_url": "http://prometheus:9090",
        "threshold": 20,
        "interval": 300,
        "time_window_min": 10,
        "max_workers": 8,
    }
    assert said["endpoints"]["results"] == "/results"


def test_every_endpoint_that_the_service_names_is_there() -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        for address in (await client.get("/")).json()["endpoints"].values():
            answer = await client.get("/api/v1/results" if address == "/api/v1" else address)
            assert answer.status_code in (200, 405), address

    run(scenario)


def test_health_has_the_published_fields() -> None:
    answer = get("/health", an_app(FakeAnalyzer(last=None)))
    assert answer.status_code == 200
    published = ("status", "prometheus_connected", "last_analysis", "analysis_timeout", "ai_enabled", "interval")
    assert list(answer.json())[:6] == list(published)
    assert answer.json()["last_analysis"] is None


@pytest.mark.parametrize("path", ["/readyz", "/-/ready"])
def test_readiness_waits_for_the_first_round(path: str) -> None:
    assert get(path).json() == {"status": "ready"}
    answer = get(path, an_app(FakeAnalyzer(last=None)))
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "not_ready"
    for alive in ("/livez", "/-/healthy"):
        assert get(alive, an_app(FakeAnalyzer(last=None))).status_code == 200


def test_analyze_triggers_a_round() -> None:
    analyzer = FakeAnalyzer()
    said = get("/analyze", an_app(analyzer)).json()
    assert said == {"status": "triggered", "message": "GPU analysis started in background", "use_ai": False}
    assert analyzer.triggers == 1


def test_analyze_with_ai_says_why_there_is_none() -> None:
    said = get("/analyze?use_ai=true").json()
    assert said["use_ai"] is False
    assert "language model" in said["reason"]


def test_analyze_joins_the_round_under_way() -> None:
    said = get("/analyze", an_app(FakeAnalyzer(outcome=Trigger(outcome="joined")))).json()
    assert said["status"] == "triggered"
    assert "joined" in said["message"]


def test_analyze_too_often_is_told_when_to_come_back() -> None:
    limited = Trigger(outcome="limited", retry_after=12.2)
    answer = get("/analyze", an_app(FakeAnalyzer(outcome=limited)))
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "13"
    assert answer.json()["error"]["code"] == "too_many_rounds"


def test_results_are_the_published_rows_lowest_first_unknown_last() -> None:
    rows = get("/results").json()
    assert [row["score"] for row in rows] == [5.2, 15.0, 45.6, 92.3, None]
    assert [row["status"] for row in rows] == ["idle", "low", "normal", "high", "unknown"]
    assert list(rows[0])[: len(ROW)] == ROW
    assert all(row["ai_analysis"] is None for row in rows)


def test_low_results_leave_out_what_is_unknown() -> None:
    said = get("/results/low").json()
    assert list(said) == ["count", "threshold", "timestamp", "gpus"]
    assert said["count"] == 2
    assert said["threshold"] == 20
    assert [row["score"] for row in said["gpus"]] == [5.2, 15.0]


def test_stats_have_the_published_fields() -> None:
    said = get("/results/stats").json()
    assert said["total_gpus"] == 5
    assert (said["avg_score"], said["min_score"], said["max_score"]) == (39.5, 5.2, 92.3)
    assert said["by_status"] == {"idle": 1, "low": 1, "normal": 1, "high": 1, "unknown": 1}
    assert said["by_namespace"]["team-b"] == {"count": 2, "avg_score": 53.6, "low_util_count": 1}


def test_before_the_first_round_there_is_nothing_to_tell() -> None:
    app = an_app(FakeAnalyzer(last=None))
    assert get("/results", app).json() == []
    assert get("/results/low", app).json() == {"count": 0, "threshold": 20, "timestamp": None, "gpus": []}
    assert get("/results/stats", app).json()["avg_score"] is None


def test_a_new_round_replaces_the_old_answer() -> None:
    analyzer = FakeAnalyzer()

    async def scenario(client: httpx2.AsyncClient) -> None:
        first = await client.get("/results")
        again = await client.get("/results", headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        analyzer.last = make_round([result(9, 33.0)], number=2)
        after = await client.get("/results", headers={"If-None-Match": first.headers["etag"]})
        assert [row["score"] for row in after.json()] == [33.0]

    run(scenario, an_app(analyzer))


def test_results_are_encoded_once_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpusight.web import encoding

    made: list[Any] = []
    encode = encoding.encode_json

    def counting(answer: Any) -> bytes:
        made.append(answer)
        return encode(answer)

    monkeypatch.setattr(encoding, "encode_json", counting)

    async def scenario(client: httpx2.AsyncClient) -> None:
        for coding in ("identity", "gzip", "identity", "gzip"):
            answer = await client.get("/results", headers={"Accept-Encoding": coding})
            assert answer.headers.get("content-encoding", "identity") == coding
            assert len(answer.json()) == 5

    run(scenario)
    assert len(made) == 1


def test_a_name_that_is_no_unicode_does_not_cost_the_others() -> None:
    analyzer = FakeAnalyzer(last=make_round([result(1, 5.0, pod="p\ud800"), result(2, 6.0)]))
    assert [row["pod"] for row in get("/results", an_app(analyzer)).json()] == ["p\\ud800", "pod-2"]


def test_metrics_come_from_the_endpoint() -> None:
    answer = get("/metrics?name[]=test_things", accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.startswith("# HELP test_things ")
    assert answer.text.endswith("# EOF\n")


def test_config_has_the_published_groups_and_no_secret() -> None:
    answer = get("/config")
    said = answer.json()
    assert list(said) == ["prometheus", "scoring", "thresholds", "scheduler", "ai", "control"]
    assert said["ai"] == {"enabled": False, "model": "gpt-4"}
    assert said["control"] == {"enabled": False, "api_url": None}
    assert said["scheduler"] == {"interval": 300, "max_workers": 8}
    assert "geheim" not in answer.text
    assert "geheim" not in get("/api/v1/config").text


# --- POST /config/update ---


def update(analyzer: FakeAnalyzer, path: str = "/config/update", token: str = ADMIN, **body: Any) -> httpx2.Response:
    answers: list[httpx2.Response] = []

    async def scenario(client: httpx2.AsyncClient) -> None:
        answers.append(await client.post(path, headers=bearer(token), **body))

    run(scenario, an_app(analyzer))
    return answers[0]


def test_settings_change_by_query_as_published() -> None:
    analyzer = FakeAnalyzer()
    answer = update(analyzer, "/config/update?threshold=25&interval=60&ai_enabled=true")
    assert answer.status_code == 200
    said = answer.json()
    assert said["status"] == "updated"
    assert said["updates"] == {"threshold": 25, "interval": 60, "ai_enabled": "true"}
    assert said["note"]
    assert analyzer.updates == [({"threshold": "25", "interval": "60", "ai.enabled": "true"}, "ops")]


def test_settings_change_by_json_under_any_spelling() -> None:
    analyzer = FakeAnalyzer()
    answer = update(analyzer, json={"threshold": 25, "gpu_util_weight": 0.4, "ai.enabled": False, "max-workers": 4})
    assert answer.status_code == 200
    wanted = {"threshold": "25", "gpu-util-weight": "0.4", "ai.enabled": "false", "max-workers": "4"}
    assert analyzer.updates == [(wanted, "ops")]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("?threshold=25&nonsense=1", {}),
        ("?prom.url=http://evil", {}),
        ("?threshold=25", {"json": {"threshold": 30}}),
        ("?threshold=25&threshold=30", {}),
        ("", {}),
        ("", {"json": []}),
        ("", {"json": {"threshold": None}}),
        ("", {"json": {"threshold": [1]}}),
        ("", {"content": b"{"}),
        ("", {"content": b"\xff\xfe"}),
        ("", {"json": {"threshold": 25, "interval": "soon"}}),
    ],
)
def test_a_change_with_anything_wrong_changes_nothing(path: str, body: dict[str, Any]) -> None:
    analyzer = FakeAnalyzer()
    answer = update(analyzer, f"/config/update{path}", **body)
    assert answer.status_code == 422
    assert answer.json()["error"]["message"]
    assert analyzer.updates == []


def test_what_the_analyzer_refuses_is_told() -> None:
    refused = update(FakeAnalyzer(failure=SettingsError("setting threshold: 300 is too much")), json={"threshold": 300})
    assert refused.status_code == 422
    assert refused.json()["error"]["message"] == "setting threshold: 300 is too much."
    lost = update(FakeAnalyzer(failure=JournalError("the disk is full")), json={"threshold": 30})
    assert lost.status_code == 503
    assert lost.json()["error"]["code"] == "journal_unavailable"


def test_changing_takes_an_admin_token() -> None:
    analyzer = FakeAnalyzer(last=a_round())
    assert update(analyzer, "/config/update?threshold=25", token=READER).status_code == 403
    assert update(analyzer, "/config/update?threshold=25", token="gst_wrong").status_code == 401
    assert analyzer.updates == []
