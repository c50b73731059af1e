"""Clients that dawdle, stall and crowd: each wait has its deadline, and honest requests get through."""

import asyncio
import socket
import threading
from collections.abc import Callable

from tests.support.net import Client, connected, fetch
from tests.web.clients import ADMIN, an_app
from tests.web.fakes import FakeAnalyzer, make_round, result
from tests.web.serving import Running, crowd, run

HALF_A_HEAD = b"GET /results HTTP/1.1\r\nHost: test\r\nX-Slow: "
HALF_A_BODY = (
    b"POST /config/update HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer " + ADMIN.encode() + b"\r\n"
    b'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"thr'
)


async def all_closed(clients: list[Client]) -> bool:
    return all(await asyncio.gather(*(client.is_closed(10) for client in clients)))


def test_a_head_that_never_ends_is_told_so_and_closed() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(HALF_A_HEAD)
            answer = await client.answer()
            assert answer.status == 408
            assert b'"too_late"' in answer.body
            assert await client.is_closed()

    run(scenario, head=0.2)


def test_silence_is_ended_without_a_word() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            assert await client.reader.read() == b""

    run(scenario, head=0.2)


def test_trickling_does_not_prolong_the_deadline() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(HALF_A_HEAD)
            trickle = asyncio.create_task(_trickle(client))
            assert (await client.answer()).status == 408
            trickle.cancel()

    run(scenario, head=0.4)


async def _trickle(client: Client) -> None:
    while True:
        await client.send(b"x")
        await asyncio.sleep(0.05)


def test_a_body_that_never_ends_is_closed() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(HALF_A_BODY)
            assert await client.is_closed()

    run(scenario, body=0.2)


def test_the_second_head_of_a_connection_has_a_deadline_too() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            assert (await client.get("/livez")).status == 200
            await client.send(HALF_A_HEAD)
            assert (await client.answer()).status == 408

    run(scenario, head=0.2)


def test_an_idle_connection_outlives_the_deadline_for_heads() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            assert (await client.get("/livez")).status == 200
            async with connected(running.port) as other:
                assert await other.is_closed()  # by then the deadline for heads is over
            assert (await client.get("/livez")).status == 200

    run(scenario, head=0.2)


def test_who_does_not_read_is_cut_off() -> None:
    rows = [result(number, 50.0, note="n" * 2000) for number in range(8000)]

    async def scenario(running: Running) -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            await loop.sock_connect(sock, ("127.0.0.1", running.port))
            await loop.sock_sendall(sock, b"GET /results HTTP/1.1\r\nHost: test\r\n\r\n")
            await until(lambda: len(running.server.crowd) == 1)
            await until(lambda: len(running.server.crowd) == 0)

    run(scenario, an_app(FakeAnalyzer(last=make_round(rows))), write=0.3)


def test_too_many_who_do_not_read_lose_their_oldest() -> None:
    rows = [result(number, 50.0, note="n" * 2000) for number in range(8000)]

    async def scenario(running: Running) -> None:
        async with crowd(running.port, 5, b"GET /results HTTP/1.1\r\nHost: test\r\n\r\n") as clients:
            for client in clients:
                client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await until(lambda: len(running.server.crowd) == 2)

    run(scenario, an_app(FakeAnalyzer(last=make_round(rows))), write=20.0, stalled=2)


async def until(happened: Callable[[], bool]) -> None:
    while not happened():  # noqa: ASYNC110  (the test has a deadline)
        await asyncio.sleep(0.01)


def test_hundreds_of_half_sent_heads_do_not_keep_honest_requests_out() -> None:
    async def scenario(running: Running) -> None:
        async with crowd(running.port, 300, HALF_A_HEAD) as clients:
            for _ in range(20):
                assert (await fetch(running.port, "/results")).status == 200
            assert len(running.server.crowd) <= 100
            running.server.crowd.cut_all()
            assert await all_closed(clients)

    run(scenario, connections=100, head=20.0)


def test_hundreds_of_half_sent_bodies_do_not_keep_honest_requests_out() -> None:
    async def scenario(running: Running) -> None:
        async with crowd(running.port, 300, HALF_A_BODY) as clients:
            for _ in range(20):
                assert (await fetch(running.port, "/results")).status == 200
            running.server.crowd.cut_all()
            assert await all_closed(clients)

    run(scenario, connections=100, body=20.0)


def test_a_request_being_answered_is_not_cut_to_make_room() -> None:
    release = threading.Event()
    analyzer = FakeAnalyzer(stall=release)

    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            asked = asyncio.create_task(client.get("/api/v1/hours"))
            await until(lambda: bool(analyzer.asked))
            async with crowd(running.port, 40, HALF_A_HEAD):
                assert (await fetch(running.port, "/livez")).status == 200
                release.set()
                assert (await asked).status == 200

    run(scenario, an_app(analyzer), connections=8)


def test_a_body_without_end_is_refused_and_cut() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(b"POST /login HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
            piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
            for _ in range(64):
                await client.send(piece)
            assert await client.is_closed()

    run(scenario)


def test_pipelined_requests_are_answered_in_order() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            one = b"GET /livez HTTP/1.1\r\nHost: test\r\n\r\n"
            await client.send(one + b"GET /readyz HTTP/1.1\r\nHost: test\r\n\r\n" + one)
            bodies = [(await client.answer()).body for _ in range(3)]
            assert bodies == [b'{"status":"ok"}', b'{"status":"ready"}', b'{"status":"ok"}']

    run(scenario)
