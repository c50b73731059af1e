"""The application under uvicorn: addresses, TLS and its reload, passwords, and what is not HTTP."""

import asyncio
import base64
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import yaml
from cryptography import x509

from gpusight.exposition.listen import ListenError
from gpusight.exposition.webconfig import WebConfigFile
from gpusight.web.guard import GuardLimits
from gpusight.web.serve import serve_app
from tests.support.certificates import Authority, Pair
from tests.support.net import connected, fetch, talk
from tests.web.clients import READER, an_app
from tests.web.fakes import FakeAnalyzer
from tests.web.serving import Running, run, serving

ALICE = bcrypt.hashpw(b"wonderland", bcrypt.gensalt(4)).decode()


def test_all_addresses_are_served_and_told() -> None:
    async def main() -> None:
        async with serving(listen=["127.0.0.1:0", "[::1]:0", ":0"]) as running:
            assert len(running.server.addresses) == 3
            for address in running.server.addresses:
                port = int(address.rpartition(":")[2])
                host = "::1" if "[" in address else "127.0.0.1"
                assert (await fetch(port, "/livez", host=host)).status == 200

    asyncio.run(main())


def test_an_address_in_use_is_a_listen_error() -> None:
    async def main() -> None:
        async with serving() as running:
            with pytest.raises(ListenError, match="in use"):
                async with serving(listen=[running.server.addresses[0]]):
                    pass

    asyncio.run(main())


def test_nothing_answers_after_close() -> None:
    async def main() -> None:
        async with serving() as running:
            port = running.port
        with pytest.raises(ConnectionRefusedError):
            await fetch(port, "/livez")

    asyncio.run(main())


def test_close_does_not_wait_for_dawdlers() -> None:
    async def main() -> None:
        async with serving() as running, connected(running.port) as client:
            await client.send(b"GET / HTTP/1.1\r\nHost:")
            async with asyncio.timeout(10):
                await running.server.close()
            assert await client.is_closed()

    asyncio.run(main())


def test_close_does_not_wait_for_a_stalled_store(caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()
    analyzer = FakeAnalyzer(stall=release)

    async def main() -> None:
        async with serving(an_app(analyzer)) as running, connected(running.port) as client:
            asked = asyncio.create_task(client.get("/api/v1/hours"))
            while not analyzer.asked:  # noqa: ASYNC110  (the test has a deadline)
                await asyncio.sleep(0.01)
            await running.server.close()
            answer = await asked
            assert (answer.status, b'"stopping"' in answer.body) == (503, True)
        release.set()

    asyncio.run(asyncio.wait_for(main(), 20))
    assert not any(record.exc_info for record in caplog.records)


def test_an_application_that_cannot_start_says_so() -> None:
    app = an_app()

    def broken(_app: Any) -> Any:
        raise OSError("no such device")

    app.router.lifespan_context = broken

    async def main() -> None:
        with pytest.raises(RuntimeError, match="could not start"):
            async with serving(app):
                pass

    asyncio.run(main())


def test_rubbish_is_a_bad_request() -> None:
    async def scenario(running: Running) -> None:
        answer = await talk(running.port, b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b'"error":{"code":"bad_request"' in answer

    run(scenario)


def test_a_head_that_is_too_large_is_refused() -> None:
    async def scenario(running: Running) -> None:
        answer = await talk(running.port, b"GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\nX: " + b"x" * 16_400)
        assert answer.startswith(b"HTTP/1.1 400 ")
        answer = await talk(
            running.port, b"GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\nX: " + b"x" * 17_000 + b"\r\n\r\n"
        )
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))

    run(scenario)


def test_a_body_that_is_too_large_is_refused() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            await client.send(b"POST /login HTTP/1.1\r\nHost: t\r\nContent-Length: 1048577\r\n\r\n")
            answer = await client.answer()
        assert answer.status == 413
        assert b"body_too_large" in answer.body

    run(scenario)


def test_a_body_of_two_lengths_is_refused() -> None:
    async def scenario(running: Running) -> None:
        head = b"POST /login HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
        async with connected(running.port) as client:
            await client.send(head + b"0\r\n\r\n")
            assert (await client.answer()).status == 400

    run(scenario)


def test_when_everybody_is_being_served_a_newcomer_is_turned_away_and_counted() -> None:
    release = threading.Event()
    analyzer = FakeAnalyzer(stall=release)
    refused: list[int] = []

    async def main() -> None:
        limits = GuardLimits(connections=2)
        server = await serve_app(
            an_app(analyzer), listen=["127.0.0.1:0"], limits=limits, on_refusal=lambda: refused.append(1)
        )
        port = Running(server).port
        async with asyncio.timeout(20), connected(port) as one, connected(port) as other:
            asked = [asyncio.create_task(client.get("/api/v1/hours")) for client in (one, other)]
            while len(analyzer.asked) < 2:  # noqa: ASYNC110  (the test has a deadline)
                await asyncio.sleep(0.01)
            async with connected(port) as late:
                assert await late.is_closed()
            release.set()
            assert [answer.status for answer in await asyncio.gather(*asked)] == [200, 200]
        await server.close()

    asyncio.run(main())
    assert refused == [1]


def test_head_announces_what_get_would_send() -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            head = await client.get("/results", "HEAD")
            full = await client.get("/results")
        assert head.header("content-length") == full.header("content-length") == str(len(full.body))

    run(scenario)


class Tls:
    """A directory with a web configuration that serves TLS, and clients for it."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory)
        self.authority.issue("server")
        self.path = directory / "web.yml"

    def write(self, tls: dict[str, Any] | None = None, **more: Any) -> WebConfigFile:
        files = {"cert_file": "server.pem", "key_file": "server.key"}
        self.path.write_text(yaml.safe_dump({"tls_server_config": {**files, **(tls or {})}, **more}))
        return WebConfigFile(self.path)

    async def get(self, port: int, path: str = "/livez", pair: Pair | None = None) -> Any:
        context = ssl.create_default_context(cafile=self.authority.cert)
        if pair is not None:
            context.load_cert_chain(*pair)
        async with connected(port, ssl=context, server_hostname="localhost") as client:
            return await client.get(path), client.writer.get_extra_info("peercert")


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    return Tls(tmp_path)


def _run(scenario: Callable[[Running], Awaitable[None]], web_config: WebConfigFile, **limits: Any) -> None:
    run(scenario, an_app(web_config=web_config), **limits)


def test_tls_is_served_and_a_new_certificate_is_taken_up(tls: Tls) -> None:
    async def scenario(running: Running) -> None:
        answer, first = await tls.get(running.port)
        assert answer.status == 200
        tls.authority.issue("server")
        answer, second = await tls.get(running.port)
        assert answer.status == 200
        assert first["serialNumber"] != second["serialNumber"]

    _run(scenario, tls.write())


def test_tls_switched_on_ends_what_is_in_the_clear(tls: Tls, tmp_path: Path) -> None:
    path = tmp_path / "web.yml"
    path.write_text("{}")

    async def scenario(running: Running) -> None:
        async with connected(running.port) as client:
            assert (await client.get("/livez")).status == 200
            tls.write()
            answer = await client.get("/livez")
            assert answer.status == 400
            assert b"https_only" in answer.body
        assert (await tls.get(running.port))[0].status == 200

    _run(scenario, WebConfigFile(path))


def test_a_client_certificate_must_bear_an_allowed_name(tls: Tls) -> None:
    config = tls.write(
        {
            "client_ca_file": "ca.pem",
            "client_auth_type": "RequireAndVerifyClientCert",
            "client_allowed_sans": ["prometheus.example"],
        }
    )
    right = tls.authority.issue("right", x509.DNSName("prometheus.example"))
    wrong = tls.authority.issue("wrong", x509.DNSName("somebody.example"))

    async def scenario(running: Running) -> None:
        assert (await tls.get(running.port, pair=right))[0].status == 200
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError, ssl.SSLError)):
            await tls.get(running.port, pair=wrong)

    _run(scenario, config)


def test_handshakes_that_never_end_are_cut_and_keep_nobody_out(tls: Tls) -> None:
    async def scenario(running: Running) -> None:
        async with connected(running.port) as slow:
            await slow.send(b"\x16\x03\x01")
            others = [await asyncio.open_connection("127.0.0.1", running.port) for _ in range(60)]
            assert (await tls.get(running.port))[0].status == 200
            assert await slow.is_closed()
            for _, writer in others:
                writer.transport.abort()

    _run(scenario, tls.write(), connections=20, handshake=1.0)


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_users_of_the_web_configuration_guard_every_page(tmp_path: Path) -> None:
    path = tmp_path / "web.yml"
    path.write_text(yaml.safe_dump({"basic_auth_users": {"alice": ALICE}}))
    app = an_app(web_config=WebConfigFile(path))

    async def scenario(running: Running) -> None:
        for page in ("/metrics", "/health", "/results", "/"):
            refused = await fetch(running.port, page)
            assert refused.status == 401
            assert refused.header("www-authenticate").startswith("Basic ")
            assert b"password_needed" in refused.body
            assert (await fetch(running.port, page, Authorization=_basic("alice", "wonderland"))).status == 200
            assert (await fetch(running.port, page, Authorization=_basic("alice", "looking-glass"))).status == 401
        assert (await fetch(running.port, "/results", Authorization=f"Bearer {READER}")).status == 200
        assert (await fetch(running.port, "/results", Authorization="Bearer gst_wrong")).status == 401

    run(scenario, app)


def test_headers_and_rate_of_the_web_configuration_hold(tmp_path: Path) -> None:
    path = tmp_path / "web.yml"
    path.write_text(
        yaml.safe_dump(
            {
                "http_server_config": {"headers": {"Strict-Transport-Security": "max-age=1"}},
                "rate_limit": {"interval": "1h", "burst": 2},
            }
        )
    )

    async def scenario(running: Running) -> None:
        answers = [await fetch(running.port, "/livez") for _ in range(3)]
        assert [answer.status for answer in answers] == [200, 200, 429]
        assert {answer.header("strict-transport-security") for answer in answers} == {"max-age=1"}

    run(scenario, an_app(web_config=WebConfigFile(path)))
