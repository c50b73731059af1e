"""The server on real sockets: HTTP as it should be, and as attackers write it."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import h11
import pytest

from gpusight.exposition.endpoint import Scrape, ScrapeRequest
from gpusight.exposition.http import Limits, connection_cap, raise_open_files_limit, to_request
from gpusight.exposition.listen import ListenError
from gpusight.model.time import ManualClock
from tests.support.net import connected, fetch, free_port, talk
from tests.support.serving import Fixed, Running, endpoint, serving, serving_in_thread, things

GET = b"GET %s HTTP/1.1\r\nHost: test\r\n\r\n"


def run(scenario: Callable[[Running], Awaitable[None]], limits: Limits | None = None, **options: object) -> None:
    """Run a scenario against a server; it must answer an honest scrape afterwards."""

    async def main() -> None:
        async with serving(endpoint(Fixed(things(2000)), **options), limits=limits) as running, asyncio.timeout(20):
            await scenario(running)
            assert (await fetch(running.port, "/metrics")).status == 200

    asyncio.run(main())


# --- as it should be ---


def test_header_names_leave_in_their_usual_case() -> None:
    with serving_in_thread(endpoint()) as running:
        command = ["curl", "-sI", f"http://127.0.0.1:{running.port}/metrics"]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
    assert "Content-Type: text/plain; version=0.0.4; charset=utf-8\n" in shown.replace("\r", "")
    assert {line.split(":")[0] for line in shown.splitlines()[1:] if line} == {
        "Content-Type",
        "Content-Length",
        "Vary",
        "Date",
    }


def test_a_connection_serves_one_request_after_the_other() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            pages = [await client.get("/metrics"), await client.get("/", "HEAD"), await client.get("/nope")]
            assert [page.status for page in pages] == [200, 200, 404]
            assert pages[0].body.count(b"\ntest_things{") == 2000
            assert int(pages[1].header("Content-Length")) > 0
            assert (await client.get("/healthz")).body == b"OK\n"

    run(scenario)


def test_pipelined_requests_are_answered_in_order() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(GET % b"/healthz" + GET % b"/nope" + GET % b"/metrics" + b"GET /-/ready HTTP/1.1\r\nHo")
            assert [(await client.answer()).status for _ in range(3)] == [200, 404, 200]
            await client.send(b"st: x\r\n\r\n")
            assert (await client.answer()).text == "ready\n"

    run(scenario)


def test_http_1_0_is_answered_and_closed() -> None:
    async def scenario(running: Running) -> None:
        answer = await talk(running.port, b"GET /healthz HTTP/1.0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"Connection: close\r\n" in answer
        assert answer.endswith(b"\r\n\r\nOK\n")

    run(scenario)


def test_close_is_honoured() -> None:
    async def scenario(running: Running) -> None:
        answer = await talk(running.port, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert answer.endswith(b"OK\n")

    run(scenario)


def test_a_large_page_arrives_whole_when_closing() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(b"GET /metrics HTTP/1.0\r\n\r\n")
            await asyncio.sleep(0.05)
            page = await client.reader.read()
            assert page.count(b"\ntest_things{") == 50_000

    async def main() -> None:
        async with serving(endpoint(Fixed(things(50_000)))) as running, asyncio.timeout(20):
            await scenario(running)

    asyncio.run(main())


def test_a_half_closed_client_gets_its_answer() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(GET % b"/metrics")
            client.writer.write_eof()
            assert (await client.answer()).status == 200
            assert await client.is_closed(1)

    run(scenario)


def test_an_end_in_the_middle_of_a_head_is_a_bad_request() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(b"GET / HT")
            client.writer.write_eof()
            assert (await client.answer()).status == 400
            assert await client.is_closed(1)

    run(scenario)


def test_a_client_that_says_nothing_and_leaves_is_no_event(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            client.writer.write_eof()
            assert await client.is_closed(1)

    run(scenario)
    assert caplog.text == ""


def test_a_small_body_is_read_and_dropped() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
            await client.send(
                b"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
            )
            await client.send(GET % b"/healthz")
            assert [(await client.answer()).status for _ in range(3)] == [200, 405, 200]

    run(scenario)


@pytest.mark.parametrize("framing", [b"Content-Length: 2000", b"Transfer-Encoding: chunked"])
def test_a_large_body_is_refused(framing: bytes) -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(b"POST /metrics HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n\r\n")
            await client.send(b"7d0\r\n" + b"x" * 2000 + b"\r\n")
            answer = await client.answer()
            assert (answer.status, answer.header("Connection")) == (413, "close")
            assert await client.is_closed(2)

    run(scenario, Limits(body_bytes=1000, linger=0.05, shutdown=0.2))


def test_a_flood_after_a_refusal_is_cut() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
            for _ in range(64):
                await client.send(b"x" * 65536)
            assert await client.is_closed(2)

    run(scenario, Limits(linger=10, shutdown=0.2))


def test_nobody_has_to_send_a_body_that_is_not_wanted() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n")
            answer = await client.answer()
            assert (answer.status, answer.header("Connection")) == (405, "close")

    run(scenario)


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET /healthz HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c",
        b"CONNECT host:443 HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
    ],
)
def test_offers_to_switch_protocol_are_not_taken_up(request_line: bytes) -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(request_line + b"\r\nHost: x\r\n\r\n")
            assert (await client.answer()).status in (200, 404)

    run(scenario)


def test_many_pipelined_requests_are_answered_in_turn() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(GET % b"/healthz" * 3000)
            assert {(await client.answer()).status for _ in range(3000)} == {200}

    run(scenario)


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/metrics?name[]=a&x=%20", "/metrics", "name[]=a&x=%20"),
        (b"http://host:1/metrics?x", "/metrics", "x"),
        (b"HTTP://host", "/", ""),
        (b"http://host?x", "/", "x"),
        (b"/http://host/metrics", "/http://host/metrics", ""),
        (b"*", "*", ""),
    ],
)
def test_targets_are_split(target: bytes, path: str, query: str) -> None:
    request = to_request(
        h11.Request(method="GET", target=target, headers=[("Host", "x"), ("Accept", "a"), ("accept", "b")])
    )
    assert (request.path, request.query, request.header("accept")) == (path, query, "a, b")


# --- as it should not be ---

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
BAD = {
    "no http": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "no version": b"GET /metrics\r\n\r\n",
    "version 2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "version 9": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "space before colon": HEAD + b"Content-Length : 5\r\n\r\nhello",
    "nul in header": HEAD + b"A: b\0c\r\n\r\n",
    "bare cr in header": HEAD + b"A: b\rTransfer-Encoding: chunked\r\n\r\n",
    "control in target": b"GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
    "space in target": b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
    "length and chunked": HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + GET % b"/x",
    "chunked and length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
    "chunked in 1.0": b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length list": HEAD + b"Content-Length: 1, 2\r\n\r\nab",
    "signed length": HEAD + b"Content-Length: +1\r\n\r\na",
    "hex length": HEAD + b"Content-Length: 0x1\r\n\r\na",
    "endless length": HEAD + b"Content-Length: " + b"1" * 400 + b"\r\n\r\n",
    "odd coding": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "hidden coding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "two codings": HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
    "bad chunk size": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "negative chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    "huge chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n",
    "chunk without end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\naXX0\r\n\r\n",
}


@pytest.mark.parametrize("case", BAD)
def test_bad_http_is_refused_and_closed(case: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(BAD[case])
            answer = await client.answer()
            assert answer.status in (400, 413, 501, 505), answer
            assert answer.header("Connection") == "close"
            rest = await client.reader.read()
            assert rest == b"", "one answer only: nothing may be smuggled in behind"

    run(scenario, Limits(linger=0.05, shutdown=0.2))
    assert caplog.text == ""


HUGE = {
    "one header": HEAD + b"A: " + b"a" * 20_000 + b"\r\n\r\n",
    "many headers": HEAD + b"" + b"A: b\r\n" * 4000 + b"\r\n",
    "target": b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "no end": HEAD + b"A: " + b"a" * 200_000,
    "no line": b"G" * 200_000,
}


@pytest.mark.parametrize("case", HUGE)
def test_huge_heads_are_refused(case: str) -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(HUGE[case])
            answer = await client.answer()
            assert answer.status in (400, 431)
            assert await client.is_closed(2)

    run(scenario, Limits(linger=0.05, shutdown=0.2))


def test_a_head_just_within_the_limit_is_fine() -> None:
    async def scenario(running: Running) -> None:
        assert (await fetch(running.port, "/healthz", X="a" * 16_000)).status == 200

    run(scenario)


def test_resets_in_the_middle_have_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(running: Running) -> None:
        async def reset(sent: bytes, read: int) -> None:
            async with connected(running.port) as client:
                await client.send(sent)
                await client.reader.read(read)
                client.reset()

        page = GET % b"/metrics"
        await asyncio.gather(*(reset(page, 100) for _ in range(100)), *(reset(page * 3, 1) for _ in range(100)))
        async with connected(running.port) as client:
            await client.send(page[:20])
            client.reset()

    run(scenario)
    assert caplog.text == ""


def test_a_reset_in_a_large_page_is_no_noise(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with serving(endpoint(Fixed(things(200_000)))) as running, asyncio.timeout(20):
            for _ in range(5):
                async with connected(running.port) as client:
                    await client.send(GET % b"/metrics")
                    client.reset()  # before the page is made: all pieces of it are written to a broken connection
            while running.server.crowd._open:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    asyncio.run(main())
    assert caplog.text == ""


def test_a_failing_collector_leaves_the_connection_open(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_request: ScrapeRequest) -> Scrape:
        raise RuntimeError("no")

    async def main() -> None:
        async with serving(endpoint(fail)) as running, connected(running.port) as client:
            assert [(await client.get(path)).status for path in ("/metrics", "/metrics", "/healthz")] == [500, 500, 200]

    asyncio.run(main())
    assert caplog.text.count("Traceback") == 1


# --- addresses, start and end ---


def test_several_addresses_are_served_at_once() -> None:
    port = free_port("::1")

    async def main() -> None:
        async with serving(listen=["127.0.0.1:0", f"[::1]:{port}", "localhost:0"]) as running:
            assert running.server.addresses[1] == f"[::1]:{port}"
            assert (await fetch(port, "/healthz", host="::1")).status == 200
            for address in running.server.addresses:
                host, _, number = address.rpartition(":")
                assert (await fetch(int(number), "/healthz", host=host.strip("[]"))).status == 200

    asyncio.run(main())


def test_a_taken_address_is_said_and_nothing_stays_open() -> None:
    async def main() -> None:
        async with serving() as running:
            with pytest.raises(ListenError, match="address already in use"):
                async with serving(listen=["127.0.0.1:0", f"127.0.0.1:{running.port}"]):
                    pass

    asyncio.run(main())


def test_closing_lets_a_scrape_finish_and_ends_the_idle() -> None:
    async def main() -> None:
        started, finish = asyncio.Event(), asyncio.Event()

        async def slow(_request: ScrapeRequest) -> Scrape:
            started.set()
            await finish.wait()
            return Scrape([things()])

        async with serving(endpoint(slow), limits=Limits(linger=0.05)) as running, connected(running.port) as idle:
            assert (await idle.get("/healthz")).status == 200
            scrape = asyncio.create_task(fetch(running.port, "/metrics"))
            await started.wait()
            closing = asyncio.create_task(running.server.close())
            assert await idle.is_closed(1)
            with pytest.raises(OSError, match="Connect call failed"):
                await fetch(running.port, "/healthz")
            finish.set()
            answer = await scrape
            assert (answer.status, answer.header("Connection")) == (200, "close")
            await closing

    asyncio.run(main())


def test_closing_does_not_wait_for_ever() -> None:
    async def main() -> None:
        async def hang(_request: ScrapeRequest) -> Scrape:
            await asyncio.Event().wait()
            raise AssertionError

        async with serving(endpoint(hang), limits=Limits(shutdown=0.05)) as running, connected(running.port) as client:
            await client.send(GET % b"/metrics")
            await asyncio.sleep(0.05)
            async with asyncio.timeout(2):
                await running.server.close()
                await running.server.close()
            assert await client.is_closed(1)

    asyncio.run(main())


def test_the_date_is_the_clocks() -> None:
    async def main() -> None:
        async with serving(clock=ManualClock(0)) as running:
            assert (await fetch(running.port, "/healthz")).header("Date") == "Thu, 01 Jan 1970 00:00:00 GMT"

    asyncio.run(main())


# --- with a configuration file, without TLS ---


def test_headers_and_rate_limit_follow_the_file(tmp_path: Path) -> None:
    path = tmp_path / "web.yml"
    path.write_text("http_server_config: {headers: {X-Frame-Options: deny}}\nrate_limit: {interval: 10s, burst: 3}")
    clock = ManualClock()

    async def main() -> None:
        async with serving(web_config=path, clock=clock) as running:
            answers = [await fetch(running.port, "/healthz") for _ in range(4)]
            assert [answer.status for answer in answers] == [200, 200, 200, 429]
            assert {answer.header("X-Frame-Options") for answer in answers} == {"deny"}
            assert answers[3].header("Retry-After") == "1"
            clock.advance(10)
            page = await fetch(running.port, "/metrics")
            assert b'gpusight_scrapes_rejected_total{reason="busy"} 1\n' in page.body
            assert b"\ngpusight_web_config_reload_success 1\n" in page.body
            assert (await fetch(running.port, "/healthz")).status == 429
            path.write_text("rate_limit: {interval: 0}")
            answers = [await fetch(running.port, "/healthz") for _ in range(5)]
            assert {(answer.status, answer.header("X-Frame-Options")) for answer in answers} == {(200, "")}
            path.write_text("nonsense: 1")
            page = await fetch(running.port, "/metrics")
            assert b"\ngpusight_web_config_reload_success 0\n" in page.body

    asyncio.run(main())


# --- how many ---


@pytest.mark.parametrize(("files", "cap"), [(256, 128), (1024, 768), (20_000, 8192), (1 << 20, 8192), (64, 16)])
def test_the_cap_leaves_a_reserve(files: int, cap: int) -> None:
    assert connection_cap(files) == cap


def test_the_limit_on_open_files_can_be_raised() -> None:
    code = (
        "import resource as r; from gpusight.exposition.http import raise_open_files_limit as up;"
        "r.setrlimit(r.RLIMIT_NOFILE, (100, 200)); assert up() == 200; assert up() == 200;"
        "assert r.getrlimit(r.RLIMIT_NOFILE) == (200, 200)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)
    assert raise_open_files_limit() > 0
