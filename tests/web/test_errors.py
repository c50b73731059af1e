"""Whatever goes wrong has one shape, a request id, and no traceback."""

import logging

import httpx2
import pytest

from tests.web.clients import ADMIN, an_app, bearer, get, run
from tests.web.fakes import FakeAnalyzer


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/results/", 404, "not_found"),
        ("POST", "/results", 405, "method_not_allowed"),
        ("DELETE", "/config/update", 405, "method_not_allowed"),
        ("GET", "/api/v1/results?limit=x", 422, "invalid_request"),
        ("POST", "/config/update", 401, "token_needed"),
        ("OPTIONS", "/results", 405, "method_not_allowed"),
        ("BREW", "/results", 405, "method_not_allowed"),
    ],
)
def test_every_refusal_has_one_shape(method: str, path: str, status: int, code: str) -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        answer = await client.request(method, path)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/json"
        error = answer.json()["error"]
        assert set(error) == {"code", "message", "detail"}
        assert error["code"] == code
        assert error["message"].endswith(".")
        assert answer.headers["x-request-id"]

    run(scenario)


def test_a_defect_is_a_500_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    app = an_app(FakeAnalyzer(failure=RuntimeError("secret detail")))

    async def scenario(client: httpx2.AsyncClient) -> None:
        answer = await client.get("/api/v1/hours", headers={"X-Request-ID": "abc-1"})
        assert answer.status_code == 500
        assert answer.headers["x-request-id"] == "abc-1"
        assert answer.json()["error"]["detail"] == {"request_id": "abc-1"}
        assert "secret detail" not in answer.text

    with caplog.at_level(logging.ERROR, "gpusight.web"):
        run(scenario, app)
    assert "request abc-1 to /api/v1/hours failed" in caplog.text


@pytest.mark.parametrize("given", ["", "a" * 65, "with space", "x;y", "ä"])
def test_a_request_id_that_is_none_is_replaced(given: str) -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        answer = await client.get("/livez", headers={b"X-Request-ID": given.encode()})
        assert answer.headers["x-request-id"] not in ("", given)

    run(scenario)


def test_what_was_sent_is_not_repeated() -> None:
    assert "hunter2" not in get("/api/v1/results?limit=hunter2").text


def test_bodies_and_heads_have_limits() -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        large = await client.post("/config/update", content=b"x" * (1 << 20), headers=bearer(ADMIN))
        assert large.status_code == 422
        larger = await client.post("/config/update", content=b"x" * ((1 << 20) + 1), headers=bearer(ADMIN))
        assert (larger.status_code, larger.json()["error"]["code"]) == (413, "body_too_large")

        async def endless() -> object:
            for _ in range(100):
                yield b"x" * 65536

        chunked = await client.post("/config/update", content=endless(), headers=bearer(ADMIN))  # type: ignore[arg-type]
        assert chunked.status_code == 413
        head = await client.get("/results?q=" + "x" * 17_000)
        assert (head.status_code, head.json()["error"]["code"]) == (431, "head_too_large")

    run(scenario)


def test_head_is_get_without_a_body() -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        head, full = await client.head("/results"), await client.get("/results")
        assert head.status_code == 200
        assert head.content == b""
        assert head.headers["content-length"] == full.headers["content-length"]
        assert head.headers["etag"] == full.headers["etag"]

    run(scenario)
