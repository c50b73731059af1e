"""Applications, credentials and clients for tests."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import yaml
from fastapi import FastAPI

from gpusight.model.time import Clock, ManualClock
from gpusight.web.app import create_app
from gpusight.web.auth import Auth
from gpusight.web.tokens import TokenFile, hash_token
from tests.web.fakes import FakeAnalyzer

ADMIN, READER, TEAM_A = "gst_admin", "gst_reader", "gst_team_a"
TOKENS: list[dict[str, Any]] = [
    {"name": "ops", "sha256": hash_token(ADMIN), "role": "admin"},
    {"name": "grafana", "sha256": hash_token(READER), "role": "read"},
    {"name": "team", "sha256": hash_token(TEAM_A), "role": "read", "namespaces": ["team-a"]},
]


def auth_of(clock: Clock, **options: Any) -> Auth:
    """With the tokens above; the file is read once and gone."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "tokens.yml"
        path.write_text(yaml.safe_dump(TOKENS))
        tokens = TokenFile(path)
    return Auth(clock=clock, tokens=tokens, **options)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def an_app(analyzer: FakeAnalyzer | None = None, *, read: Any = "open", **options: Any) -> FastAPI:
    found = analyzer or FakeAnalyzer()
    clock = options.pop("clock", None) or ManualClock()
    auth = options.pop("auth", None) or auth_of(clock, read=read)
    return create_app(found, auth=auth, clock=clock, **options)


@asynccontextmanager
async def client_of(app: FastAPI, base_url: str = "http://test") -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    async with app.router.lifespan_context(app), httpx2.AsyncClient(transport=transport, base_url=base_url) as client:
        yield client


def run(scenario: Callable[[httpx2.AsyncClient], Awaitable[None]], app: FastAPI | None = None, **options: Any) -> None:
    """A scenario with a client of the application, in an event loop of its own."""

    async def main() -> None:
        async with asyncio.timeout(30), client_of(app or an_app(**options)) as client:
            await scenario(client)

    asyncio.run(main())


def get(path: str, app: FastAPI | None = None, **headers: str) -> httpx2.Response:
    """One request."""
    answers: list[httpx2.Response] = []

    async def scenario(client: httpx2.AsyncClient) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answers.append(await client.get(path, headers=named))

    run(scenario, app)
    return answers[0]
