"""Who may read what, who may change anything, and that guessing does not pay."""

import logging
from typing import Any

import httpx2
import pytest

from gpusight.model.time import ManualClock
from gpusight.web.auth import Attempts, Auth, AuthError
from tests.web.clients import ADMIN, READER, TEAM_A, an_app, auth_of, bearer, get, run
from tests.web.fakes import FakeAnalyzer

OPEN = ["/metrics", "/health", "/livez", "/readyz", "/-/healthy", "/-/ready"]
READS = [
    "/", "/results", "/results/low", "/results/stats", "/config", "/analyze", "/api/v1/results", "/api/v1/verdicts",
    "/api/v1/results/0000000000000001", "/api/v1/results/0000000000000001/window", "/api/v1/stats", "/api/v1/round",
    "/api/v1/verdicts/prod/team-a/Pod/pod-1", "/api/v1/verdicts/prod/team-a/Pod/pod-1/explanation", "/api/v1/lending",
    "/api/v1/history", "/api/v1/episodes", "/api/v1/hours", "/api/v1/tenants", "/api/v1/config",
    "/api/v1/config/changes", "/api/v1/roles",
]  # fmt: skip


@pytest.mark.parametrize("path", READS)
def test_reads_take_a_token_where_it_says_so(path: str) -> None:
    app = an_app(read="token")
    refused = get(path, app)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert refused.json()["error"]["code"] == "token_needed"
    assert get(path, app, authorization=f"Bearer {READER}").status_code == 200
    assert get(path, an_app(read="open")).status_code == 200


@pytest.mark.parametrize("path", OPEN)
def test_metrics_and_health_stay_open(path: str) -> None:
    assert get(path, an_app(read="token")).status_code == 200


def test_a_wrong_token_is_refused_even_where_reads_are_open() -> None:
    assert get("/results", authorization="Bearer gst_wrong").status_code == 401


def test_every_described_read_is_covered_here() -> None:
    described = an_app().openapi()["paths"]
    reads = {path for path, methods in described.items() if "get" in methods}
    covered = {path.replace("0000000000000001", "{id}").replace("prod/team-a/Pod/pod-1", "{subject}") for path in READS}
    assert reads == covered | set(OPEN)


# --- namespaces ---


def seen(path: str) -> str:
    answer = get(path, authorization=f"Bearer {TEAM_A}")
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.parametrize(
    "path",
    ["/results", "/results/low", "/results/stats", "/api/v1/results", "/api/v1/results?format=csv", "/api/v1/verdicts",
     "/api/v1/lending", "/api/v1/lending?format=csv", "/api/v1/stats", "/api/v1/history?to=2000000000",
     "/api/v1/episodes", "/api/v1/hours", "/api/v1/tenants", "/api/v1/tenants?format=csv"],
)  # fmt: skip
def test_a_token_bound_to_a_namespace_sees_nothing_else(path: str) -> None:
    assert "team-b" in get(path, authorization=f"Bearer {READER}").text
    text = seen(path)
    assert "team-a" in text
    assert "team-b" not in text


def test_the_page_of_a_bound_session_shows_nothing_else() -> None:
    text = get("/?view=table", accept="text/html", authorization=f"Bearer {TEAM_A}").text
    assert "pod-1" in text
    assert "team-b" not in text


def test_stats_of_a_bound_token_count_its_own() -> None:
    answer = get("/results/stats", authorization=f"Bearer {TEAM_A}").json()
    assert (answer["total_gpus"], answer["avg_score"], answer["low_utilization_count"]) == (3, 25.4, 1)


@pytest.mark.parametrize(
    "path",
    ["/api/v1/results/0000000000000002", "/api/v1/results/0000000000000002/window",
     "/api/v1/verdicts/prod/team-b/Pod/pod-2", "/api/v1/verdicts/prod/team-b/Pod/pod-2/explanation"],
)  # fmt: skip
def test_others_rows_are_not_there(path: str) -> None:
    assert get(path).status_code == 200
    assert get(path, authorization=f"Bearer {TEAM_A}").status_code == 404


def test_a_bound_token_does_not_see_who_changed_settings() -> None:
    assert get("/api/v1/config/changes", authorization=f"Bearer {TEAM_A}").status_code == 403


def test_answers_for_different_readers_do_not_mix() -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        for _ in range(2):
            assert len((await client.get("/results")).json()) == 5
            assert len((await client.get("/results", headers=bearer(TEAM_A))).json()) == 3

    run(scenario)


# --- sessions ---


async def log_in(client: httpx2.AsyncClient, token: str = ADMIN) -> None:
    answer = await client.post("/login", json={"token": token})
    assert answer.status_code == 200


def test_a_login_makes_a_session_that_browsers_keep_to_themselves() -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        answer = await client.post("/login", json={"token": TEAM_A})
        assert answer.json() == {
            "status": "logged in",
            "name": "team",
            "role": "read",
            "namespaces": ["team-a"],
        }
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "Secure" not in cookie
        assert TEAM_A not in cookie
        assert len((await client.get("/results")).json()) == 3
        await client.post("/logout")
        assert (await client.get("/results")).status_code == 401

    run(scenario, read="token")


def test_over_tls_the_cookie_is_secure() -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        answer = await client.post("https://test/login", json={"token": READER})
        assert "Secure" in answer.headers["set-cookie"]

    run(scenario)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Origin": "http://test"}, 200),
        ({"Origin": "http://test", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "http://[bad"}, 403),
        ({"Origin": "http://test", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
    ],
)
def test_a_session_changes_things_from_its_own_page_only(headers: dict[str, str], status: int) -> None:
    analyzer = FakeAnalyzer()

    async def scenario(client: httpx2.AsyncClient) -> None:
        await log_in(client)
        answer = await client.post("/config/update?threshold=25", headers=headers)
        assert answer.status_code == status

    run(scenario, an_app(analyzer))
    assert len(analyzer.updates) == (status == 200)


def test_a_form_of_another_site_cannot_log_in_or_out() -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        evil = {"Origin": "http://evil.example"}
        assert (await client.post("/login", json={"token": ADMIN}, headers=evil)).status_code == 403
        assert (await client.post("/logout", headers=evil)).status_code == 403

    run(scenario)


def test_a_session_ends_with_its_time_and_with_its_token() -> None:
    clock = ManualClock()
    auth = auth_of(clock, session_seconds=100)
    _, cookie = auth.login(ADMIN, "10.0.0.1")
    found = auth.identify("", cookie, "10.0.0.1")
    assert found is not None
    assert (found.name, found.by) == ("ops", "session")
    clock.advance(99)
    assert auth.identify("", cookie, "10.0.0.1") is not None
    clock.advance(1)
    with pytest.raises(AuthError, match="has ended"):
        auth.identify("", cookie, "10.0.0.1")


def test_sessions_are_for_replicas_that_share_the_secret() -> None:
    clock = ManualClock()
    _, cookie = auth_of(clock, session_secret=b"shared").login(ADMIN, "10.0.0.1")
    assert auth_of(clock, session_secret=b"shared").identify("", cookie, "10.0.0.1") is not None
    with pytest.raises(AuthError, match="not known"):
        auth_of(clock).identify("", cookie, "10.0.0.1")
    with pytest.raises(AuthError, match="not known"):
        Auth(clock=clock, session_secret=b"shared").identify("", cookie, "10.0.0.1")


def test_a_forged_session_is_refused() -> None:
    auth = auth_of(ManualClock())
    _, cookie = auth.login(READER, "10.0.0.1")
    claim, _, signature = cookie.partition(".")
    _, admins = auth.login(ADMIN, "10.0.0.1")
    forged = [f"{admins.partition('.')[0]}.{signature}", claim, f"{claim}.", ".", "x.y", "é.é", "\ud800", "." * 10_000]
    for cookie in forged:
        with pytest.raises(AuthError, match="not known"):
            auth.identify("", cookie, "10.0.0.1")


def test_a_stale_session_does_not_lock_anybody_out_of_what_is_open() -> None:
    answer = get("/results", cookie="gpusight_session=stale.stale")
    assert answer.status_code == 200
    assert get("/results", an_app(read="token"), cookie="gpusight_session=stale.stale").status_code == 401


def test_without_a_token_file_nobody_changes_anything() -> None:
    clock = ManualClock()
    app = an_app(auth=Auth(clock=clock), clock=clock)

    async def scenario(client: httpx2.AsyncClient) -> None:
        answer = await client.post("/config/update?threshold=25")
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "no_tokens")
        assert (await client.post("/login", json={"token": ""})).status_code == 401

    run(scenario, app)


# --- guessing ---


def test_wrong_tokens_run_out_and_come_back_with_time() -> None:
    clock = ManualClock()
    auth = auth_of(clock)
    for number in range(10):
        with pytest.raises(AuthError) as error:
            auth.identify(f"Bearer guess-{number}", "", "10.0.0.1")
        assert error.value.retry_after is None
    with pytest.raises(AuthError) as error:
        auth.identify(f"Bearer {ADMIN}", "", "10.0.0.1")
    assert error.value.retry_after == 10
    assert auth.identify(f"Bearer {ADMIN}", "", "10.0.0.2") is not None
    clock.advance(10)
    assert auth.identify(f"Bearer {ADMIN}", "", "10.0.0.1") is not None


def test_the_limit_is_answered_with_429() -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        codes = [
            (await client.get("/results", headers=bearer(f"gst_guess_{number}"))).status_code for number in range(12)
        ]
        assert codes == [401] * 10 + [429] * 2
        answer = await client.post("/login", json={"token": ADMIN})
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1

    run(scenario)


def test_a_broken_client_with_one_wrong_token_is_not_a_guesser() -> None:
    auth = auth_of(ManualClock())
    for _ in range(100):
        with pytest.raises(AuthError) as error:
            auth.identify("Bearer gst_old", "", "10.0.0.1")
        assert error.value.retry_after is None
    assert auth.identify(f"Bearer {ADMIN}", "", "10.0.0.1") is not None


def test_an_ipv6_household_is_one_guesser() -> None:
    attempts = Attempts(ManualClock(), burst=1)
    attempts.failed("2001:db8::1", "a")
    with pytest.raises(AuthError):
        attempts.admit("2001:db8::2", "b")
    attempts.admit("2001:db8:0:1::2", "b")
    attempts.failed("::ffff:10.0.0.1", "a")
    with pytest.raises(AuthError):
        attempts.admit("10.0.0.1", "b")


def test_the_memory_of_guessers_is_bounded() -> None:
    attempts = Attempts(ManualClock(), max_peers=10)
    for number in range(100):
        attempts.failed(f"10.0.0.{number}", "a")
    assert len(attempts._peers) == 10


def test_failures_are_counted_and_no_token_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    analyzer = FakeAnalyzer()

    async def scenario(client: httpx2.AsyncClient) -> None:
        for number in range(3):
            await client.get("/results", headers=bearer(f"gst_mistyped_{number}"))
        page = (await client.get("/metrics")).text
        assert 'gpusight_scrapes_rejected_total{reason="auth"} 3' in page

    with caplog.at_level(logging.DEBUG, "gpusight"):
        run(scenario, an_app(analyzer))
    assert "gst_mistyped" not in caplog.text
    assert caplog.text.count("a wrong credential from") == 1


@pytest.mark.parametrize(("read", "tokens", "word"), [("open", True, "everybody"), ("token", False, "nobody")])
def test_the_start_log_can_name_the_state(read: Any, tokens: bool, word: str) -> None:
    clock = ManualClock()
    auth = auth_of(clock, read=read) if tokens else Auth(clock=clock, read=read)
    assert word in auth.describe()
