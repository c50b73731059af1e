"""The application on real sockets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

from fastapi import FastAPI

from gpusight.web.guard import GuardLimits
from gpusight.web.serve import WebServer, serve_app
from tests.support.net import Client, connected
from tests.web.clients import an_app


class Running(NamedTuple):
    server: WebServer

    @property
    def port(self) -> int:
        return int(self.server.addresses[0].rpartition(":")[2])


@asynccontextmanager
async def serving(
    app: FastAPI | None = None, *, listen: Sequence[str] = ("127.0.0.1:0",), **limits: Any
) -> AsyncIterator[Running]:
    server = await serve_app(app or an_app(), listen=listen, limits=GuardLimits(**limits), shutdown_seconds=1)
    try:
        yield Running(server)
    finally:
        await server.close()


def run(scenario: Callable[[Running], Awaitable[None]], app: FastAPI | None = None, **limits: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(30), serving(app, **limits) as running:
            await scenario(running)

    asyncio.run(main())


@asynccontextmanager
async def crowd(port: int, count: int, first: bytes = b"") -> AsyncIterator[list[Client]]:
    """So many connections, each of which has sent that much."""
    async with AsyncExitStack() as stack:
        clients = []
        for _ in range(count):
            clients.append(await stack.enter_async_context(connected(port)))
            await clients[-1].send(first)
        yield clients
