"""The HTTP client against servers that are slow, sick or hostile."""

import base64
import gzip
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpusight.model.time import SystemClock
from gpusight.store import http
from gpusight.store.http import HttpClient, HttpConfig, HttpError
from tests.store.scripted import Said, Scripted, scripted
from tests.support.certificates import Authority
from tests.support.net import free_port

OK = Said(b"fine")


def always(answer: Said) -> Callable[..., Said]:
    return lambda *_: answer


@contextmanager
def client(engine: Scripted, **options: object) -> Iterator[HttpClient]:
    made = HttpClient(HttpConfig(engine.url, **{"timeout": 5.0, **options}), SystemClock())  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.close()


def test_asks_by_post_with_a_form() -> None:
    with scripted(always(OK)) as engine, client(engine) as http_client:
        assert http_client.ask("/api", {"query": 'up{a="ü"} + 1'}).body == b"fine"
    method, path, parameters, headers = engine.asked[0]
    assert (method, path, parameters) == ("POST", "/api", {"query": 'up{a="ü"} + 1'})
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"


def test_falls_back_to_get_where_post_is_not_allowed_and_remembers_it() -> None:
    with scripted(always(OK), refuses_posts=True) as engine, client(engine) as http_client:
        assert http_client.ask("/api", {"query": "a b"}).body == b"fine"
        assert http_client.ask("/api", {"query": "c"}).body == b"fine"
    assert [(method, parameters) for method, _, parameters, _ in engine.asked] == [
        ("POST", {}),
        ("GET", {"query": "a b"}),
        ("GET", {"query": "c"}),
    ]


def test_keeps_its_connection_and_survives_that_the_server_closes_it() -> None:
    closing = Said(b"bye", headers={"Connection": "close"})
    answers = iter([OK, closing, OK])
    with scripted(lambda *_: next(answers)) as engine, client(engine) as http_client:
        assert [http_client.ask("/", {}).body for _ in range(3)] == [b"fine", b"bye", b"fine"]


def test_a_kept_connection_that_went_away_is_made_anew() -> None:
    with scripted(always(OK)) as engine, client(engine) as http_client:
        assert http_client.ask("/", {}).body == b"fine"
        for connection in http_client._all:
            connection.sock.shutdown(2)
        assert http_client.ask("/", {}).body == b"fine"


def test_the_path_of_the_url_is_kept() -> None:
    with scripted(always(OK)) as engine:
        config = HttpConfig(f"{engine.url}/prometheus/", timeout=5)
        made = HttpClient(config, SystemClock())
        made.ask("/api/v1/query", {})
        made.close()
    assert engine.asked[0][1] == "/prometheus/api/v1/query"


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (Said(b"broken\x1b[31m\n", 500), "answered 500 Internal Server Error: broken [31m"),
        (Said(b"", 503), "answered 503 Service Unavailable"),
        (Said(b"", 302, {"Location": "http://elsewhere/"}), "answered 302 with a redirect, which is not followed"),
        (Said(b"x" * 1000, 502), "answered 502 Bad Gateway: " + "x" * 199 + "…"),
        (Said(b"0123456789", cut=4), "ends in the middle"),
        (Said(b"x" * (3 * 2**20)), "larger than 2 MiB"),
        (Said(b"no gzip", headers={"Content-Encoding": "gzip"}), "is not gzip"),
        (Said(gzip.compress(b"x" * (3 * 2**20)), headers={"Content-Encoding": "gzip"}), "larger than 2 MiB"),
        (Said(gzip.compress(b"x" * 1000)[:-9], headers={"Content-Encoding": "gzip"}), "ends in the middle"),
    ],
)
def test_a_bad_answer_is_one_sentence(answer: Said, sentence: str) -> None:
    with scripted(always(answer)) as engine, client(engine, max_bytes=2 * 2**20) as http_client:
        with pytest.raises(HttpError) as error:
            http_client.ask("/", {})
        assert str(error.value).startswith(engine.url)
        assert sentence in str(error.value)
        assert "\n" not in str(error.value)


def test_gzip_is_unpacked() -> None:
    with scripted(always(Said(gzip.compress(b"plain"), headers={"Content-Encoding": "gzip"}))) as engine:
        with client(engine) as http_client:
            assert http_client.ask("/", {}).body == b"plain"
        assert engine.asked[0][3]["Accept-Encoding"] == "identity", "loopback has bandwidth enough"


@pytest.mark.parametrize(
    "answer", [Said(b"late", pause=30), Said(b"x" * 1000, trickle=0.05), Said(b"", trickle=0, pause=30)]
)
def test_the_deadline_is_for_the_whole_request(answer: Said) -> None:
    with scripted(always(answer)) as engine, client(engine, timeout=0.4) as http_client:
        began = time.monotonic()
        with pytest.raises(HttpError, match=r"did not answer in full within 0\.4 s") as error:
            http_client.ask("/", {})
        assert error.value.timed_out
        assert time.monotonic() - began < 5


def test_nobody_listens() -> None:
    made = HttpClient(HttpConfig(f"http://127.0.0.1:{free_port()}", timeout=2), SystemClock())
    with pytest.raises(HttpError, match="refuses the connection"):
        made.ask("/", {})
    made.close()


def test_a_token_is_read_anew_for_every_request(tmp_path: Path) -> None:
    token = tmp_path / "token"
    with scripted(always(OK)) as engine, client(engine, bearer_token_file=token) as http_client:
        for text in ("first\n", "second"):
            token.write_text(text)
            http_client.ask("/", {})
        token.unlink()
        with pytest.raises(HttpError, match=r"the file .*token cannot be read"):
            http_client.ask("/", {})
        token.write_text("sec\nret")
        with pytest.raises(HttpError, match="characters that no header may have") as error:
            http_client.ask("/", {})
        assert "sec" not in str(error.value).replace("second", "")
    assert [headers["Authorization"] for *_, headers in engine.asked] == ["Bearer first", "Bearer second"]


def test_basic_authentication_from_settings_files_and_the_url(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("from file\n")
    with scripted(always(OK)) as engine:
        bare = engine.url
        for url, options in (
            (bare, {"username": "me", "password": "pass:word"}),
            (bare, {"username": "me", "password_file": password}),
            (bare.replace("http://", "http://us%40er:p%3Aw@"), {}),
        ):
            made = HttpClient(HttpConfig(url, timeout=5, **options), SystemClock())
            made.ask("/", {})
            made.close()
    sent = [base64.b64decode(headers["Authorization"].removeprefix("Basic ")) for *_, headers in engine.asked]
    assert sent == [b"me:pass:word", b"me:from file", b"us@er:p:w"]


def test_headers_such_as_a_tenant_are_sent() -> None:
    with scripted(always(OK)) as engine, client(engine, headers={"X-Scope-OrgID": "team-a"}) as http_client:
        http_client.ask("/", {})
    assert engine.asked[0][3]["X-Scope-OrgID"] == "team-a"


@pytest.mark.parametrize(
    "options",
    [
        {"url": "prometheus:9090"},
        {"url": "ftp://host"},
        {"url": "http://"},
        {"url": "http://host", "headers": {"X-A": "a\r\nX-B: b"}},
        {"url": "http://host", "headers": {"X A": "a"}},
        {"url": "http://host", "key_file": Path("key")},
    ],
)
def test_what_cannot_work_is_refused_at_once(options: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        HttpConfig(**options)  # type: ignore[arg-type]


def test_secrets_are_in_no_text() -> None:
    config = HttpConfig("http://user:hunter2@host:9090/p?x=1", headers={"X-Key": "hunter2"}, password="hunter2")
    assert "hunter2" not in repr(config)
    assert http.shown_url(config.url) == "http://host:9090/p"
    made = HttpClient(config, SystemClock())
    assert made.shown == "http://host:9090/p"


def test_tls_with_an_authority_and_a_client_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server, mine = authority.issue("server"), authority.issue("client")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.cert, server.key)
    context.load_verify_locations(authority.cert)
    context.verify_mode = ssl.CERT_REQUIRED
    with scripted(always(OK), tls=context) as engine:
        with client(engine, ca_file=authority.cert, cert_file=mine.cert, key_file=mine.key) as http_client:
            assert http_client.ask("/", {}).body == b"fine"
        with client(engine, insecure=True, cert_file=mine.cert, key_file=mine.key) as http_client:
            assert http_client.ask("/", {}).body == b"fine"
        with (
            client(engine, cert_file=mine.cert, key_file=mine.key) as http_client,
            pytest.raises(HttpError, match="certificate verify failed"),
        ):
            http_client.ask("/", {})
