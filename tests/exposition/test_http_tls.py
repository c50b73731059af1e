"""TLS, client certificates and passwords on real sockets, and changing them while the server runs."""

import asyncio
import base64
import gc
import logging
import ssl
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import yaml
from cryptography import x509

from gpusight.exposition import webconfig
from gpusight.exposition.http import Limits, _Tls, _Turnstile
from tests.exposition.test_http_slow import until
from tests.support.certificates import Authority, Pair
from tests.support.net import Answer, Client, connected, fetch
from tests.support.serving import Fixed, endpoint, serving, things

ALICE = bcrypt.hashpw(b"wonderland", bcrypt.gensalt(4)).decode()
SHORT = Limits(linger=0.05, shutdown=0.2)


class Setting:
    """A directory with a web configuration that serves TLS, and clients for it."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory)
        self.server = self.authority.issue("server")
        self.path = directory / "web.yml"
        self.write()

    def write(self, tls: dict[str, Any] | None = None, **more: Any) -> None:
        files = {"cert_file": "server.pem", "key_file": "server.key"}
        self.path.write_text(yaml.safe_dump({"tls_server_config": {**files, **(tls or {})}, **more}))

    def client(self, pair: Pair | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority.cert)
        if pair is not None:
            context.load_cert_chain(*pair)
        return context

    def connected(self, port: int, context: ssl.SSLContext | None = None) -> AbstractAsyncContextManager[Client]:
        return connected(port, ssl=context or self.client(), server_hostname="localhost")

    async def get(self, port: int, pair: Pair | None = None, path: str = "/healthz", **headers: str) -> Answer:
        async with self.connected(port, self.client(pair)) as client:
            return await client.get(path, **headers)


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_pages_come_over_tls(setting: Setting) -> None:
    async def main() -> None:
        async with (
            serving(endpoint(Fixed(things(50_000))), web_config=setting.path) as running,
            asyncio.timeout(10),
            setting.connected(running.port) as client,
        ):
            assert client.writer.get_extra_info("ssl_object").version() == "TLSv1.3"
            for _ in range(2):
                assert (await client.get("/metrics")).body.count(b"\ntest_things{") == 50_000
            await client.send(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert (await client.reader.read()).count(b"\ntest_things{") == 50_000

    asyncio.run(main())


def test_versions_and_ciphers_are_as_configured(setting: Setting) -> None:
    suites = ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"]
    setting.write({"max_version": "TLS12", "cipher_suites": suites, "curve_preferences": ["CurveP384"]})

    async def main() -> None:
        async with serving(web_config=setting.path) as running:
            async with setting.connected(running.port) as client:
                assert client.writer.get_extra_info("cipher")[:2] == ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2")
            other = setting.client()
            other.minimum_version = ssl.TLSVersion.TLSv1_3
            with pytest.raises((ssl.SSLError, ConnectionError)):
                async with setting.connected(running.port, other):
                    pass

    asyncio.run(main())


def test_clients_that_prefer_http_2_are_served_http_1(setting: Setting) -> None:
    async def main() -> None:
        context = setting.client()
        context.set_alpn_protocols(["h2", "http/1.1"])
        async with serving(web_config=setting.path) as running, setting.connected(running.port, context) as client:
            assert client.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
            assert (await client.get("/healthz")).status == 200

    asyncio.run(main())


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0" * 100, b"\x16\x03\x01\x02\x00garbage" * 90, b"\x16\x03\x01\xff\xff"],
    ids=["http", "zeros", "bad hello", "huge record"],
)
def test_plain_http_and_garbage_on_a_tls_port_are_closed_without_noise(
    setting: Setting, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def main() -> None:
        async with serving(web_config=setting.path) as running:
            async with connected(running.port) as client:
                await client.send(data)
                if data.startswith(b"GET"):
                    answer = await client.answer()
                    assert (answer.status, answer.text) == (400, "this port speaks HTTPS, not HTTP\n")
                assert await client.is_closed(1)
            assert (await setting.get(running.port)).status == 200

    asyncio.run(main())
    assert caplog.text == ""


HELLO = b"\x16\x03\x01\x02\x00"


@pytest.mark.parametrize("first", [b"", HELLO[:3], HELLO, HELLO + b"\x01" * 511])
def test_the_handshake_has_a_deadline(setting: Setting, first: bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def main() -> None:
        limits = Limits(handshake=0.1, shutdown=0.2)
        async with serving(web_config=setting.path, limits=limits) as running, connected(running.port) as client:
            await client.send(first)
            assert await client.is_closed(1)
            assert len(running.server.crowd) == 0
            assert (await setting.get(running.port)).status == 200

    asyncio.run(main())
    assert caplog.text == ""


def test_the_head_has_its_deadline_after_the_handshake(setting: Setting) -> None:
    async def main() -> None:
        limits = Limits(head=0.1, shutdown=0.2)
        async with (
            serving(web_config=setting.path, limits=limits) as running,
            setting.connected(running.port) as client,
        ):
            await client.send(b"GET /")
            assert (await client.answer()).status == 408
            assert await client.is_closed(1)

    asyncio.run(main())


def test_unfinished_handshakes_make_room_at_the_cap(setting: Setting) -> None:
    async def main() -> None:
        limits = Limits(connections=5, shutdown=0.2)
        async with serving(web_config=setting.path, limits=limits) as running, asyncio.timeout(10):
            port = running.port
            async with connected(port) as first, connected(port), connected(port), connected(port), connected(port):
                assert (await setting.get(port)).status == 200
                assert await first.is_closed(1)
            async with connected(port):
                pass  # closing the server with a handshake under way must not hang or leak

    asyncio.run(main())


def hello() -> bytes:
    """The first message of a real handshake."""
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def test_handshakes_under_way_are_few_and_the_oldest_makes_room(setting: Setting) -> None:
    async def main() -> None:
        limits = Limits(tls_connections=3, shutdown=0.2)
        async with serving(web_config=setting.path, limits=limits) as running, AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(connected(running.port)) for _ in range(10)]
            for client in clients[:6]:
                await client.send(hello())
                assert (await client.reader.read(1)) == b"\x16"
            for client in clients[:3]:
                assert await client.is_closed(1)
            assert len(running.server.crowd) == 7, "those who have said nothing yet cost little, and stay"
            assert (await setting.get(running.port)).status == 200

    asyncio.run(main())


def test_handshakes_begin_in_turns_of_addresses_with_the_latest_first() -> None:
    async def main() -> None:
        turnstile, entered = _Turnstile(at_once=2), []

        async def enter(peer: str, name: str) -> None:
            await turnstile.enter(peer)
            entered.append(name)

        crowd = [asyncio.create_task(enter("10.6.6.6", f"bad {i}")) for i in range(6)]
        honest = asyncio.create_task(enter("10.0.0.1", "good"))
        gone = asyncio.create_task(enter("10.0.0.2", "gone"))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(*crowd, honest)
        assert entered.index("good") == 1
        assert [name for name in entered if name != "good"] == [f"bad {i}" for i in reversed(range(6))]
        assert not turnstile._waiting

    asyncio.run(main())


def test_failed_handshakes_leave_nothing_behind(setting: Setting) -> None:
    async def main() -> None:
        async with serving(web_config=setting.path, limits=Limits(handshake=0.05, shutdown=0.2)) as running:
            for first in (b"", hello()[:50], hello(), hello() + b"junk" * 9):
                async with connected(running.port) as client:
                    await client.send(first)
                    assert await client.is_closed(1)
            assert not running.server.crowd._open
            gc.collect()
            assert not [thing for thing in gc.get_objects() if isinstance(thing, _Tls)]

    asyncio.run(main())


def test_who_never_reads_over_tls_is_cut(setting: Setting) -> None:
    async def main() -> None:
        limits = Limits(write=0.3, shutdown=0.2)
        served = endpoint(Fixed(things(200_000)))
        async with serving(served, web_config=setting.path, limits=limits) as running, asyncio.timeout(10):
            async with connected(running.port, ssl=setting.client(), server_hostname="localhost", limit=1024) as client:
                client.writer.transport.pause_reading()  # type: ignore[attr-defined]
                await client.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                await until(lambda: len(running.server.crowd._stalled) == 1)
                await until(lambda: not running.server.crowd._open)
            assert (await setting.get(running.port)).status == 200

    asyncio.run(main())


# --- client certificates ---


async def is_refused(setting: Setting, port: int, pair: Pair | None) -> bool:
    """TLS 1.3 clients learn that they were refused only when they read."""
    try:
        await setting.get(port, pair)
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        return True
    return False


def test_client_certificates_can_be_required(
    setting: Setting, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    setting.write({"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": "ca.pem"})
    stranger = Authority(tmp_path, "stranger").issue("impostor", x509.DNSName("prometheus"))

    async def main() -> None:
        async with serving(web_config=setting.path, limits=SHORT) as running:
            assert (await setting.get(running.port, setting.authority.issue("anybody"))).status == 200
            assert await is_refused(setting, running.port, None)
            assert await is_refused(setting, running.port, stranger)

    asyncio.run(main())
    assert caplog.text == ""


def test_client_certificates_can_be_optional(setting: Setting, tmp_path: Path) -> None:
    setting.write({"client_auth_type": "VerifyClientCertIfGiven", "client_ca_file": "ca.pem"})
    stranger = Authority(tmp_path, "stranger").issue("impostor")

    async def main() -> None:
        async with serving(web_config=setting.path, limits=SHORT) as running:
            assert (await setting.get(running.port)).status == 200
            assert (await setting.get(running.port, setting.authority.issue("anybody"))).status == 200
            assert await is_refused(setting, running.port, stranger)

    asyncio.run(main())


def test_client_certificates_can_need_a_name(setting: Setting) -> None:
    names = ["prometheus.example", "spiffe://cluster/prometheus", "10.1.2.3"]
    tls = {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": "ca.pem", "client_allowed_sans": names}
    setting.write(tls)
    issue = setting.authority.issue
    right = [
        issue("a", x509.DNSName("other"), x509.DNSName("prometheus.example")),
        issue("b", x509.UniformResourceIdentifier("spiffe://cluster/prometheus")),
    ]
    wrong = [issue("c", x509.DNSName("prometheus.example.evil")), issue("prometheus.example")]

    async def main() -> None:
        async with serving(web_config=setting.path, limits=SHORT) as running:
            for pair in right:
                assert (await setting.get(running.port, pair)).status == 200
            for pair in wrong:
                assert await is_refused(setting, running.port, pair)
            assert len(running.server.crowd) == 0

    asyncio.run(main())


# --- passwords ---


@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz", "/health", "/-/healthy", "/-/ready", "/nope"])
def test_every_page_needs_the_password(tmp_path: Path, path: str) -> None:
    config = tmp_path / "web.yml"
    config.write_text(yaml.safe_dump({"basic_auth_users": {"alice": ALICE}}))

    async def main() -> None:
        async with serving(web_config=config) as running:
            for header in ("", "Bearer x", basic("alice", "x"), basic("bob", "wonderland")):
                answer = await fetch(running.port, path, Authorization=header)
                assert (answer.status, answer.header("WWW-Authenticate")) == (401, 'Basic realm="gpusight"')
            head = await fetch(running.port, path, "HEAD")
            assert (head.status, int(head.header("Content-Length")) > 0) == (401, True)
            right = await fetch(running.port, path, Authorization=basic("alice", "wonderland"))
            assert right.status == (404 if path == "/nope" else 200)
            page = await fetch(running.port, "/metrics", Authorization=basic("alice", "wonderland"))
            assert b'gpusight_scrapes_rejected_total{reason="auth"} 5\n' in page.body

    asyncio.run(main())


def test_a_queue_of_guesses_is_turned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "web.yml"
    config.write_text(yaml.safe_dump({"basic_auth_users": {"alice": ALICE}}))

    async def main() -> None:
        async with serving(web_config=config) as running:
            known = basic("alice", "wonderland")
            assert (await fetch(running.port, "/healthz", Authorization=known)).status == 200
            guesses = [
                asyncio.create_task(fetch(running.port, "/healthz", Authorization=basic("alice", str(i))))
                for i in range(40)
            ]
            await asyncio.sleep(0)
            assert (await fetch(running.port, "/metrics", Authorization=known)).status == 200
            answers = await asyncio.gather(*guesses)
            assert {answer.status for answer in answers} == {401, 503}
            assert {answer.header("Retry-After") for answer in answers if answer.status == 503} == {"1"}

    slow = webconfig.check_password

    def slower(users: dict[str, bytes], user: str, password: bytes) -> bool:
        import time

        time.sleep(0.005)
        return slow(users, user, password)

    monkeypatch.setattr(webconfig, "check_password", slower)
    asyncio.run(main())


def test_no_password_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    config = tmp_path / "web.yml"
    config.write_text(yaml.safe_dump({"basic_auth_users": {"alice": ALICE}}))

    async def main() -> None:
        async with serving(web_config=config) as running:
            for password in ("wonderland", "hunter2"):
                await fetch(running.port, "/metrics", Authorization=basic("alice", password))
            config.write_text(yaml.safe_dump({"basic_auth_users": {"alice": "hunter2"}}))
            await fetch(running.port, "/metrics", Authorization=basic("alice", "wonderland"))

    asyncio.run(main())
    assert "stays in force" in caplog.text
    for secret in ("hunter2", "wonderland", ALICE, base64.b64encode(b"alice:wonderland").decode()):
        assert secret not in caplog.text


# --- changes while running ---


def test_a_renewed_certificate_is_used_for_new_connections(setting: Setting) -> None:
    async def serial(port: int) -> str:
        async with setting.connected(port) as client:
            return str(client.writer.get_extra_info("peercert")["serialNumber"])

    async def main() -> None:
        async with serving(web_config=setting.path) as running, setting.connected(running.port) as old:
            assert (await old.get("/healthz")).header("Connection") == ""
            before = await serial(running.port)
            assert await serial(running.port) == before
            setting.authority.issue("server")
            assert await serial(running.port) != before
            assert (await old.get("/healthz")).header("Connection") == "close"
            assert await old.is_closed(2)

    asyncio.run(main())


def test_a_broken_change_leaves_everything_as_it_was(setting: Setting, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with serving(web_config=setting.path) as running:
            setting.path.write_text("tls_server_config: {cert_file: gone.pem, key_file: gone.key}")
            page = await setting.get(running.port, path="/metrics")
            assert b"\ngpusight_web_config_reload_success 0\n" in page.body
            setting.write(basic_auth_users={"alice": ALICE})
            assert (await setting.get(running.port)).status == 401
            page = await setting.get(running.port, path="/metrics", Authorization=basic("alice", "wonderland"))
            assert b"\ngpusight_web_config_reload_success 1\n" in page.body

    asyncio.run(main())
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 1


def test_once_tls_is_on_nothing_more_is_said_in_the_clear(setting: Setting) -> None:
    good = setting.path.read_text()
    setting.path.write_text("")

    async def main() -> None:
        async with serving(web_config=setting.path) as running, connected(running.port) as plain:
            assert (await plain.get("/healthz")).status == 200
            setting.path.write_text(good)
            await plain.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await plain.reader.read() == b""
            assert (await setting.get(running.port)).status == 200

    asyncio.run(main())


def test_tls_can_be_switched_off(setting: Setting) -> None:
    async def main() -> None:
        async with serving(web_config=setting.path) as running:
            assert (await setting.get(running.port)).status == 200
            setting.path.write_text("")
            assert (await fetch(running.port, "/healthz")).status == 200

    asyncio.run(main())
