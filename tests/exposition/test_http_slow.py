"""Clients that dawdle, stall and crowd: each wait has its deadline, and honest scrapes get through."""

import asyncio
import errno
import re
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from gpusight.exposition.endpoint import Scrape, ScrapeRequest
from gpusight.exposition.http import Limits
from tests.support.net import Client, connected, fetch
from tests.support.serving import Fixed, Running, endpoint, serving, things

PAGE = b"GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n"


def run(
    scenario: Callable[[Running], Awaitable[None]], *, series: int = 10, linger: float = 0.05, **limits: float
) -> None:
    async def main() -> None:
        bounds = Limits(linger=linger, shutdown=0.2, **limits)  # type: ignore[arg-type]
        async with serving(endpoint(Fixed(things(series))), limits=bounds) as running, asyncio.timeout(20):
            await scenario(running)
            assert (await fetch(running.port, "/metrics")).status == 200

    asyncio.run(main())


@asynccontextmanager
async def crowd(port: int, count: int, first: bytes = b"") -> AsyncIterator[list[Client]]:
    async with AsyncExitStack() as stack:
        clients = []
        for _ in range(count):
            clients.append(await stack.enter_async_context(connected(port)))
            await clients[-1].send(first)
        yield clients


async def seconds_until_closed(client: Client) -> float:
    started = time.monotonic()
    assert await client.is_closed(10)
    return time.monotonic() - started


# --- deadlines ---


def test_silence_is_ended_without_a_word() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            started = time.monotonic()
            assert await client.reader.read() == b""
            assert 0.3 <= time.monotonic() - started < 5

    run(scenario, head=0.3)


def test_a_trickled_head_gets_no_extension() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            started = time.monotonic()
            answer = asyncio.create_task(client.answer())
            for byte in b"GET / HTTP/1.1\r\nX: " + b"a" * 500:
                await client.send(bytes([byte]))
                if (await asyncio.wait([answer], timeout=0.01))[0]:
                    break
            assert (await answer).status == 408
            assert 0.3 <= time.monotonic() - started < 5
            assert await client.is_closed(1)

    run(scenario, head=0.3)


def test_the_second_head_has_a_deadline_of_its_own() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            assert (await client.get("/healthz")).status == 200
            await asyncio.sleep(0.4)  # idle for longer than a head may take
            assert (await client.get("/healthz")).status == 200
            await client.send(b"GET /hea")
            assert (await client.answer()).status == 408

    run(scenario, head=0.3, idle=60)


def test_a_head_begun_in_the_previous_packet_has_its_deadline_too() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(PAGE + b"GET /hea")
            assert (await client.answer()).status == 200
            assert (await client.answer()).status == 408

    run(scenario, head=0.3, idle=60)


def test_an_idle_connection_is_closed() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.get("/healthz")
            assert 0.1 <= await seconds_until_closed(client) < 5

    run(scenario, idle=0.1)


def test_a_body_that_does_not_come_has_a_deadline() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab")
            assert (await client.answer()).status == 408
            assert await client.is_closed(1)

    run(scenario, body=0.1)


def test_a_reset_while_being_refused_is_no_noise(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The kernel may hear of a reset between two looks of ours; then shutdown fails."""

    def fail(_transport: object) -> None:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(b"GET /")
            assert await client.is_closed(2)

    monkeypatch.setattr("asyncio.selector_events._SelectorSocketTransport.write_eof", fail)
    run(scenario, head=0.3, linger=10)
    assert caplog.text == ""


def test_a_refused_client_that_stays_is_cut() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(b"nonsense\r\n\r\n")
            assert (await client.answer()).status == 400
            await client.send(b"more")
            await asyncio.sleep(0.2)
            assert len(running.server.crowd) == 0

    run(scenario, linger=0.1)


@asynccontextmanager
async def never_reading(port: int, request: bytes = PAGE) -> AsyncIterator[socket.socket]:
    """A client that asks for a page and does not read it; its receive buffer is small."""
    loop = asyncio.get_running_loop()
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await loop.sock_connect(sock, ("127.0.0.1", port))
        await loop.sock_sendall(sock, request)
        yield sock


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


LARGE = 200_000
"""Series of a page of some 5 MB, more than the kernel buffers."""


def test_who_never_reads_is_cut_and_held_little_meanwhile() -> None:
    async def scenario(running: Running) -> None:
        members = running.server.crowd
        async with never_reading(running.port):
            await until(lambda: len(members._stalled) == 1)
            (stalled,) = members._stalled
            assert stalled._the_transport.get_write_buffer_size() <= 2 * 64 * 1024
            assert (await fetch(running.port, "/healthz")).status == 200
            await until(lambda: not members._open)

    run(scenario, series=LARGE, write=0.3)


def test_who_reads_slowly_but_in_time_gets_everything() -> None:
    async def scenario(running: Running) -> None:
        async with never_reading(running.port) as sock:
            await until(lambda: len(running.server.crowd._stalled) == 1)
            loop = asyncio.get_running_loop()
            read = 0
            while b"\n# TYPE gpusight_series_dropped" not in (piece := await loop.sock_recv(sock, 1 << 20)):
                assert piece
                read += len(piece)
            assert read > 5_000_000

    run(scenario, series=LARGE, write=10)


def test_a_slow_reader_is_not_cut_off_at_the_end_of_a_closing_connection() -> None:
    async def scenario(running: Running) -> None:
        running.server._listeners[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # connections inherit it
        loop = asyncio.get_running_loop()
        async with never_reading(running.port, b"GET /metrics HTTP/1.0\r\n\r\n") as sock:
            page = b""
            while piece := await loop.sock_recv(sock, 1 << 20):
                page += piece
                if len(page) > 40_000:
                    await asyncio.sleep(0.02)  # the rest is in the server's buffer, and takes longer than it lingers
            assert page.count(b"\ntest_things{") == 4000

    run(scenario, series=4000, linger=0.01)


def test_of_many_that_never_read_the_longest_stalled_goes() -> None:
    async def scenario(running: Running) -> None:
        members = running.server.crowd
        async with AsyncExitStack() as stack:
            for _ in range(6):
                await stack.enter_async_context(never_reading(running.port))
                await until(lambda: not members._newcomers)
            await until(lambda: len(members._open) == 3 and len(members._stalled) == 3)

    run(scenario, series=LARGE, write=10, stalled_writers=3)


# --- crowds ---


def test_hundreds_of_slow_clients_do_not_delay_a_scrape() -> None:
    async def scenario(running: Running) -> None:
        async with crowd(running.port, 400, b"GET /metrics HTTP/1.1\r\nX: ") as slow:
            times = []
            for i in range(30):
                for client in slow[i % 10 :: 10]:
                    await client.send(b"a")
                started = time.monotonic()
                assert (await fetch(running.port, "/metrics")).status == 200
                times.append(time.monotonic() - started)
            assert statistics.median(times) < 0.25
            assert max(times) < 1, "or it would have waited for their deadline"
            ends = await asyncio.gather(*(seconds_until_closed(client) for client in slow))
            assert max(ends) < 6

    run(scenario, head=1.0)


def test_at_the_cap_the_oldest_newcomer_makes_room() -> None:
    async def scenario(running: Running) -> None:
        async with crowd(running.port, 10, b"GET /") as slow:
            for _ in range(3):
                assert (await fetch(running.port, "/metrics")).status == 200
            assert await slow[0].is_closed(1)
            await slow[9].send(b"healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await slow[9].answer()).status == 200

    run(scenario, connections=10)


def test_at_the_cap_newcomers_go_before_the_idle() -> None:
    async def scenario(running: Running) -> None:
        async with crowd(running.port, 5) as idle:
            for client in idle:
                assert (await client.get("/healthz")).status == 200
            async with crowd(running.port, 20, b"GET /"):
                assert (await fetch(running.port, "/metrics")).status == 200
            for client in idle:
                assert (await client.get("/healthz")).status == 200

    run(scenario, connections=10, grace=0)


def test_at_the_cap_who_has_only_just_come_is_spared_while_others_are_idle() -> None:
    async def scenario(running: Running) -> None:
        async with crowd(running.port, 10) as idle:
            for client in idle:
                assert (await client.get("/healthz")).status == 200
            async with crowd(running.port, 9, b"GET /healthz HTTP/1.1\r\n") as fresh:
                for client in fresh:
                    await client.send(b"Host: x\r\n\r\n")
                    assert (await client.answer()).status == 200

    run(scenario, connections=10)


def test_at_the_cap_the_longest_idle_goes_when_all_are_idle() -> None:
    async def scenario(running: Running) -> None:
        async with crowd(running.port, 5) as idle:
            for client in idle:
                await client.get("/healthz")
            await idle[0].get("/healthz")
            assert (await fetch(running.port, "/metrics")).status == 200
            assert await idle[1].is_closed(1)
            assert (await idle[0].get("/healthz")).status == 200

    run(scenario, connections=5)


def test_when_everybody_is_served_one_more_is_turned_away_and_counted() -> None:
    async def main() -> None:
        finish = asyncio.Event()

        async def slow(_request: ScrapeRequest) -> Scrape:
            await finish.wait()
            return Scrape([things()])

        bounds = Limits(connections=3, shutdown=0.2)
        async with serving(endpoint(slow), limits=bounds) as running:
            async with crowd(running.port, 3, PAGE) as clients:
                await until(lambda: len(running.server.crowd._busy) == 3)
                async with connected(running.port) as refused:
                    assert await refused.is_closed(1)
                finish.set()
                assert [(await client.answer()).status for client in clients] == [200] * 3
            page = await fetch(running.port, "/metrics")
            assert b'gpusight_scrapes_rejected_total{reason="connections"} 1\n' in page.body

    asyncio.run(main())


def test_a_thousand_scrapes_at_once_are_all_answered() -> None:
    async def scenario(running: Running) -> None:
        answers = await asyncio.gather(*(fetch(running.port, "/metrics") for _ in range(1000)))
        assert {answer.status for answer in answers} == {200}

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4096:
        pytest.skip(f"needs 4096 open files, and {soft} are allowed")
    run(scenario, series=100)


SERVER = """
import asyncio, resource, sys
sys.path.insert(0, {root!r})
from gpusight.exposition.endpoint import Scrape
from gpusight.exposition.http import Limits
from tests.support.serving import endpoint, serving, things
async def main():
    go = asyncio.Event()
    async def gather(request):
        await go.wait()
        return Scrape([things()])
    async with serving(endpoint(gather), limits=Limits(connections=100_000, head=30, shutdown=0.2)) as running:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        print(running.port, flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        go.set()
        await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""


@contextmanager
def server_with_few_files() -> Iterator[tuple[int, Callable[[], None]]]:
    """Its cap is set wrong on purpose, so that accept fails with EMFILE. It answers scrapes once it is told to."""
    code = SERVER.format(root=str(Path(__file__).parents[2]))
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        stdin = process.stdin

        def go() -> None:
            stdin.write(b"go\n")
            stdin.flush()

        yield int(process.stdout.readline()), go
        _, errors = process.communicate(b"", timeout=10)
    assert errors == b""
    assert process.returncode == 0


def test_running_out_of_files_does_not_stall() -> None:
    async def main(port: int) -> float:
        async with crowd(port, 300, b"GET /"), asyncio.timeout(20):
            started = time.monotonic()
            for _ in range(20):
                assert (await fetch(port, "/metrics")).status == 200
            return time.monotonic() - started

    with server_with_few_files() as (port, go):
        go()
        assert asyncio.run(main(port)) < 5, "asyncio's own accept would pause for a second each time"


def test_running_out_of_files_with_everybody_served_turns_the_rest_away() -> None:
    async def outcome(client: Client) -> int:
        try:
            return (await client.answer()).status
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0

    async def main(port: int, go: Callable[[], None]) -> None:
        async with crowd(port, 100, PAGE) as clients, asyncio.timeout(20):
            await asyncio.sleep(0.2)  # by now all who are left are being served
            for _ in range(5):
                async with connected(port) as late:
                    assert await late.is_closed(5)
            go()
            outcomes = await asyncio.gather(*map(outcome, clients))
            assert set(outcomes) == {200, 0}
            assert outcomes.count(200) >= 30
        page = await fetch(port, "/metrics")
        counted = re.search(r'gpusight_scrapes_rejected_total{reason="connections"} (\d+)', page.text)
        assert counted is not None
        assert 1 <= int(counted[1]) <= 5 + outcomes.count(0)

    with server_with_few_files() as (port, go):
        asyncio.run(main(port, go))
