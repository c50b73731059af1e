"""The stream of events: what it tells, how many may listen, and that it ends when the server does."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from tests.support.net import Client, connected, free_port
from tests.support.process import running, wait_for_http
from tests.web.clients import an_app, bearer, get, run
from tests.web.fakes import FakeAnalyzer, a_round
from tests.web.serving import Running, serving

ASK = b"GET /api/v1/events HTTP/1.1\r\nHost: x\r\n\r\n"


async def until(client: Client, wanted: bytes) -> bytes:
    """What came up to there."""
    seen = b""
    while wanted not in seen:
        piece = await client.reader.read(65536)
        assert piece, seen
        seen += piece
    return seen


def told(text: bytes) -> Any:
    return msgspec.json.decode(text.rpartition(b"data: ")[2].partition(b"\n")[0])


def test_it_tells_the_round_at_once_and_every_new_one() -> None:
    analyzer = FakeAnalyzer()

    async def main() -> None:
        async with asyncio.timeout(20), serving(an_app(analyzer)) as server, connected(server.port) as client:
            await client.send(ASK)
            first = await until(client, b'"old":false}\n\n')
            assert b"content-type: text/event-stream" in first.lower()
            assert told(first)["round"] == 1
            analyzer.last = a_round(2)
            assert told(await until(client, b'"old":false}\n\n'))["round"] == 2

    asyncio.run(main())


def test_it_tells_before_the_first_round_too() -> None:
    async def main() -> None:
        app = an_app(FakeAnalyzer(last=None))
        async with asyncio.timeout(20), serving(app) as server, connected(server.port) as client:
            await client.send(ASK)
            said = told(await until(client, b'"old":false}\n\n'))
            assert (said["round"], said["age"]) == (0, None)

    asyncio.run(main())


def test_so_many_may_listen_and_who_leaves_makes_room() -> None:
    app = an_app()
    app.state.streams._most = 1

    async def main() -> None:
        async with asyncio.timeout(20), serving(app) as server:
            async with connected(server.port) as first, connected(server.port) as second:
                await first.send(ASK)
                await until(first, b"data: ")
                await second.send(ASK)
                assert (await until(second, b"\r\n")).startswith(b"HTTP/1.1 503 ")
            while app.state.streams.open:  # noqa: ASYNC110  (nobody tells)
                await asyncio.sleep(0.01)
            async with connected(server.port) as third:
                await third.send(ASK)
                await until(third, b"data: ")

    asyncio.run(main())


def test_it_ends_with_the_server_and_does_not_keep_it() -> None:
    async def main() -> None:
        async with asyncio.timeout(20):
            server = serving(an_app())
            served: Running = await server.__aenter__()
            async with connected(served.port) as client:
                await client.send(ASK)
                await until(client, b"data: ")
                await server.__aexit__(None, None, None)
                assert b"0\r\n\r\n" in await client.reader.read(), "it was ended, not cut"

    asyncio.run(main())


def test_a_plain_uvicorn_ends_it_too(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    command = [sys.executable, "-m", "uvicorn", "tests.web.plain_root:app", "--host", "127.0.0.1", "--port", str(port)]

    async def listen(process: Any) -> bytes:
        async with asyncio.timeout(20), connected(port) as client:
            await client.send(ASK)
            await until(client, b"data: ")
            process.send_signal(signal.SIGTERM)
            return await client.reader.read()

    with running(command, log, cwd=Path(__file__).parents[2]) as process:
        wait_for_http(f"http://127.0.0.1:{port}/livez", process)
        assert b"0\r\n\r\n" in asyncio.run(listen(process))
        process.wait(timeout=10)


def test_it_is_for_readers() -> None:
    assert get("/api/v1/events", an_app(read="token")).status_code == 401


def test_who_asks_for_its_head_gets_that_alone() -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        answer = await client.head("/api/v1/events", headers=bearer("gst_reader"))
        assert (answer.status_code, answer.content) == (200, b"")

    run(scenario)
