"""The web configuration file: what it may say, what is refused with which sentence, and reading it anew."""

import asyncio
import base64
import os
import ssl
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpusight.catalog.own import WEB_CONFIG_LAST_RELOAD, WEB_CONFIG_RELOAD_SUCCESS
from gpusight.exposition import webconfig
from gpusight.exposition.webconfig import (
    Credentials,
    RateLimit,
    TokenBucket,
    WebConfigError,
    WebConfigFile,
    check_password,
    has_allowed_san,
    parse_basic,
)
from gpusight.model.time import ManualClock
from tests.support.certificates import Authority

ALICE = bcrypt.hashpw(b"wonderland", bcrypt.gensalt(4))


def write(directory: Path, content: dict[str, Any] | str) -> Path:
    path = directory / "web.yml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def complaint(directory: Path, content: dict[str, Any] | str) -> str:
    path = write(directory, content)
    with pytest.raises(WebConfigError) as caught:
        WebConfigFile(path)
    sentence = str(caught.value)
    assert sentence.startswith(f"web configuration {path}: ")
    assert "\n" not in sentence
    return sentence.removeprefix(f"web configuration {path}: ")


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a CA, a server's pair, another pair, and one with an encrypted key."""
    directory = tmp_path_factory.mktemp("pki")
    authority = Authority(directory)
    authority.issue("server")
    authority.issue("other")
    authority.issue("locked", passphrase=b"sesame")
    return directory


def tls(pki: Path, **more: Any) -> dict[str, Any]:
    return {"tls_server_config": {"cert_file": str(pki / "server.pem"), "key_file": str(pki / "server.key"), **more}}


# --- good files ---


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "basic_auth_users:\n", "tls_server_config: {}\n", "rate_limit: {interval: 0}\n"]
)
def test_an_empty_file_asks_for_nothing(tmp_path: Path, text: str) -> None:
    config = WebConfigFile(write(tmp_path, text)).current()
    assert (config.tls, config.headers, config.users, config.rate_limit) == (None, (), {}, None)


def test_a_full_file_is_understood(tmp_path: Path, pki: Path) -> None:
    content = {
        **tls(
            pki,
            client_auth_type="RequireAndVerifyClientCert",
            client_ca_file=str(pki / "ca.pem"),
            client_allowed_sans=["prometheus"],
            min_version="TLS12",
            max_version="TLS12",
            cipher_suites=["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256"],
            prefer_server_cipher_suites=False,
            curve_preferences=["X25519"],
        ),
        "http_server_config": {"http2": True, "headers": {"X-Frame-Options": "deny", "Content-Security-Policy": ""}},
        "basic_auth_users": {"alice": ALICE.decode()},
        "rate_limit": {"interval": "1m30s", "burst": 3},
    }
    config = WebConfigFile(write(tmp_path, content)).current()
    assert config.tls is not None
    assert config.tls.verify_mode is ssl.CERT_REQUIRED
    assert config.tls.minimum_version == config.tls.maximum_version == ssl.TLSVersion.TLSv1_2
    assert not config.tls.options & ssl.OP_CIPHER_SERVER_PREFERENCE
    assert [c["name"] for c in config.tls.get_ciphers() if c["protocol"] == "TLSv1.2"] == [
        "ECDHE-ECDSA-AES256-GCM-SHA384"
    ]
    assert config.allowed_sans == frozenset({"prometheus"})
    assert config.headers == (("X-Frame-Options", "deny"),)
    assert config.users == {"alice": ALICE}
    assert config.rate_limit == RateLimit(90.0, 3)
    assert "$2b$" not in repr(config)


def test_defaults_are_the_toolkits(tmp_path: Path, pki: Path) -> None:
    context = WebConfigFile(write(tmp_path, tls(pki))).current().tls
    assert context is not None
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.maximum_version == ssl.TLSVersion.TLSv1_3
    assert context.verify_mode is ssl.CERT_NONE
    assert context.options & ssl.OP_CIPHER_SERVER_PREFERENCE


def test_files_are_relative_to_the_configuration(pki: Path) -> None:
    path = pki / "relative.yml"
    path.write_text("tls_server_config: {cert_file: server.pem, key_file: server.key}")
    assert WebConfigFile(path).current().tls is not None


def test_certificates_may_stand_in_the_file_itself(tmp_path: Path, pki: Path) -> None:
    content = {
        "tls_server_config": {
            "cert": (pki / "server.pem").read_text(),
            "key": (pki / "server.key").read_text(),
            "client_ca": (pki / "ca.pem").read_text(),
            "client_auth_type": "VerifyClientCertIfGiven",
        }
    }
    context = WebConfigFile(write(tmp_path, content)).current().tls
    assert context is not None
    assert context.verify_mode is ssl.CERT_OPTIONAL
    assert len(context.get_ca_certs()) == 1


def test_every_cipher_that_go_names_is_known_to_openssl(tmp_path: Path, pki: Path) -> None:
    names = [*webconfig._SUITES, *webconfig._TLS13_SUITES]
    context = WebConfigFile(write(tmp_path, tls(pki, cipher_suites=names))).current().tls
    assert context is not None
    assert {c["name"] for c in context.get_ciphers()} >= set(webconfig._SUITES.values())


@pytest.mark.parametrize("curve", ["CurveP256", "CurveP384", "CurveP521", "X25519"])
def test_each_curve_can_be_chosen(tmp_path: Path, pki: Path, curve: str) -> None:
    assert WebConfigFile(write(tmp_path, tls(pki, curve_preferences=[curve]))).current().tls is not None


# --- bad files, each with its sentence ---


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "this is not YAML at line 1"),
        ("- a", "the file must be a mapping"),
        ("a: " + "[" * 9999, "this is not YAML"),
        ("a: 2020-13-45", "this is not YAML"),
        ("? [a]\n: b", "this is not YAML"),
        ("x: 1", "the file has an unknown key 'x'; known are basic_auth_users, "),
        ("basic_auth_users: {a: 1}\nbasic_auth_users: {}", "line 2: a key is given twice"),
        ("basic_auth_users: [a]", "basic_auth_users must map"),
        ("basic_auth_users: {1: x}", "the user name 1 must be in quotes"),
        ('basic_auth_users: {"a\\nb": x}', r"no bcrypt hash for 'a\nb'"),
        ("basic_auth_users: {'a:b': x}", "must not have a colon"),
        (
            "basic_auth_users: {alice: wonderland}",
            "basic_auth_users has no bcrypt hash for 'alice'; make one with: htpasswd",
        ),
        ("basic_auth_users: {alice: }", "basic_auth_users has no bcrypt hash for 'alice'"),
        (
            f"basic_auth_users: {{a: $2b$31$.{'.' * 52}}}",
            "basic_auth_users has a bcrypt cost outside of 4 to 18 for 'a'",
        ),
        ("http_server_config: {http3: true}", "http_server_config has an unknown key 'http3'"),
        ("http_server_config: {http2: 7}", "http_server_config.http2 must be true or false"),
        ("http_server_config: {headers: {Server: x}}", "http_server_config.headers has an unknown key 'Server'"),
        ("http_server_config: {headers: {X-Frame-Options: allow}}", "X-Frame-Options must be deny or sameorigin"),
        ("http_server_config: {headers: {X-Content-Type-Options: sniff}}", "X-Content-Type-Options must be nosniff"),
        ('http_server_config: {headers: {Content-Security-Policy: "a\\r\\nb: c"}}', "must be one line of ASCII text"),
        (
            "http_server_config: {headers: {X-XSS-Protection: 0}}",
            "http_server_config.headers.X-XSS-Protection must be text",
        ),
        ("rate_limit: {interval: 5, burst: 1}", "rate_limit.interval must be a duration with its unit"),
        ("rate_limit: {interval: fast, burst: 1}", "rate_limit.interval must be a duration"),
        ("rate_limit: {interval: 1s}", "rate_limit.burst must be at least 1"),
        ("rate_limit: {interval: 1s, burst: many}", "rate_limit.burst must be a whole number"),
        ("tls_server_config: {cert_file: a}", "tls_server_config.cert_file "),
        (
            "tls_server_config: {client_auth_type: NoClientCert}",
            "tls_server_config needs cert_file or cert, and has neither",
        ),
        ("tls_server_config: {ca: x}", "tls_server_config has an unknown key 'ca'"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, text: str, why: str) -> None:
    assert why in complaint(tmp_path, text)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"key_file": "missing.key"}, "missing.key' cannot be read: no such file or directory"),
        ({"key_file": ""}, "needs key_file or key, and has neither"),
        ({"key": "x"}, "needs key_file or key, not both"),
        ({"key_file": "a\0b"}, "it cannot be used (ValueError('embedded null byte'))"),
        ({"key_file": 3}, "tls_server_config.key_file must be text"),
        ({"key_file": "other.key"}, "cannot be used together (key values mismatch)"),
        ({"key_file": "ca.pem"}, "has a certificate and a key that cannot be used together"),
        ({"key_file": "locked.key", "cert_file": "locked.pem"}, "the key is encrypted"),
        ({"client_auth_type": "RequireAnyClientCert"}, "which Python's ssl cannot do; use RequireAndVerifyClientCert"),
        ({"client_auth_type": "RequestClientCert"}, "which Python's ssl cannot do"),
        ({"client_auth_type": "Always"}, "client_auth_type 'Always' is not known"),
        ({"client_ca_file": "ca.pem"}, "has a client CA but no client_auth_type"),
        ({"client_auth_type": "VerifyClientCertIfGiven", "client_ca_file": "gone"}, "client_ca_file cannot be read"),
        ({"client_auth_type": "VerifyClientCertIfGiven", "client_ca_file": "empty"}, "holds no usable CA certificate"),
        (
            {"client_auth_type": "VerifyClientCertIfGiven", "client_ca": "junk"},
            "client_ca holds no usable CA certificate",
        ),
        (
            {"client_auth_type": "VerifyClientCertIfGiven", "client_ca": "a", "client_ca_file": "b"},
            "has both client_ca",
        ),
        ({"client_allowed_sans": ["a"]}, "client_allowed_sans needs client_auth_type RequireAndVerifyClientCert"),
        ({"min_version": "TLS10"}, "min_version must be TLS12 or TLS13"),
        ({"max_version": "SSL3"}, "max_version must be TLS12 or TLS13"),
        ({"min_version": "TLS13", "max_version": "TLS12"}, "min_version is above max_version"),
        ({"cipher_suites": ["ROT13"]}, "'ROT13' is not known; use Go's names"),
        ({"cipher_suites": "ROT13"}, "cipher_suites must be a list of texts"),
        ({"cipher_suites": ["TLS_AES_128_GCM_SHA256"]}, "names TLS 1.3 suites only"),
        ({"curve_preferences": ["Curve1"]}, "'Curve1' is not one of CurveP256"),
        ({"curve_preferences": ["X25519", "CurveP256"]}, "may name one curve only"),
        ({"prefer_server_cipher_suites": "yes"}, "prefer_server_cipher_suites must be true or false"),
    ],
)
def test_bad_tls_is_one_sentence(pki: Path, more: dict[str, Any], why: str) -> None:
    (pki / "empty").write_text("")
    content = {"tls_server_config": {"cert_file": "server.pem", "key_file": "server.key", **more}}
    assert why in complaint(pki, content)


def test_what_is_no_readable_file_is_one_sentence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "huge").write_text("#" * (2 << 20))
    (tmp_path / "latin").write_bytes(b"# \xe9")
    for name, why in {
        "missing": "no such file or directory",
        "fifo": "not a regular file",
        ".": "not a regular file",
        "huge": "larger than",
        "latin": "not UTF-8",
    }.items():
        with pytest.raises(WebConfigError, match=why):
            WebConfigFile(tmp_path / name)


@pytest.mark.parametrize(
    "text",
    [
        "basic_auth_users: {alice: hunter2}",
        "basic_auth_users:\n  alice: hunter2\n bob: [",
        "basic_auth_users: {alice: hunter2, alice: hunter2}",
        "tls_server_config: {cert: hunter2, key: hunter2}",
        "tls_server_config:\n  cert: |\n    hunter2\n   key: x",
    ],
)
def test_no_secret_is_repeated_in_a_complaint(tmp_path: Path, text: str) -> None:
    assert "hunter2" not in complaint(tmp_path, text)


@given(st.text())
def test_any_text_is_a_configuration_or_a_complaint(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with suppress(WebConfigError):
        WebConfigFile(path)


# --- reading anew ---


def state(file: WebConfigFile) -> dict[str, Any]:
    return {block.spec.name: block.values[0] for block in file.blocks()}


def test_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    clock = ManualClock(1000)
    path = write(tmp_path, {"basic_auth_users": {"alice": ALICE.decode()}})
    file = WebConfigFile(path, clock)
    first = file.current()
    clock.advance(60)
    assert file.current() is first
    write(tmp_path, {"basic_auth_users": {"bob": ALICE.decode()}})
    assert set(file.current().users) == {"bob"}
    assert state(file) == {WEB_CONFIG_RELOAD_SUCCESS.name: 1, WEB_CONFIG_LAST_RELOAD.name: 1060}


def test_a_bad_new_file_changes_nothing_and_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(1000)
    path = write(tmp_path, {"basic_auth_users": {"alice": ALICE.decode()}})
    file = WebConfigFile(path, clock)
    clock.advance(60)
    write(tmp_path, "basic_auth_users: {bob: hunter2}")
    for _ in range(3):
        assert set(file.current().users) == {"alice"}
    assert state(file) == {WEB_CONFIG_RELOAD_SUCCESS.name: 0, WEB_CONFIG_LAST_RELOAD.name: 1000}
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("gpusight.web", "ERROR")
    assert record.getMessage().endswith("htpasswd -nBC 10 USER; the previous web configuration stays in force")
    assert "hunter2" not in caplog.text
    path.unlink()
    assert set(file.current().users) == {"alice"}
    write(tmp_path, "")
    assert file.current().users == {}
    assert state(file)[WEB_CONFIG_RELOAD_SUCCESS.name] == 1


def test_renewed_certificates_are_noticed(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    old, new = authority.issue("server"), authority.issue("renewed")
    path = tmp_path / "web.yml"
    path.write_text("tls_server_config: {cert_file: server.pem, key_file: server.key}")
    file = WebConfigFile(path)
    before = file.current().tls
    assert file.current().tls is before
    new.cert.replace(old.cert)  # for a moment the two do not fit together
    assert file.current().tls is before
    assert state(file)[WEB_CONFIG_RELOAD_SUCCESS.name] == 0
    new.key.replace(old.key)
    assert file.current().tls is not before
    assert state(file)[WEB_CONFIG_RELOAD_SUCCESS.name] == 1


def test_a_certificate_that_comes_later_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    file = WebConfigFile(path)
    write(tmp_path, "tls_server_config: {cert_file: server.pem, key_file: server.key}")
    assert file.current().tls is None
    Authority(tmp_path).issue("server")
    assert file.current().tls is not None


def test_a_swapped_symbolic_link_is_noticed(tmp_path: Path) -> None:
    """Kubernetes updates a mounted secret by swapping a link."""
    for name, user in (("one", "alice"), ("two", "carol")):
        (tmp_path / name).mkdir()
        write(tmp_path / name, {"basic_auth_users": {user: ALICE.decode()}})
    (tmp_path / "now").symlink_to("one")
    file = WebConfigFile(tmp_path / "now" / "web.yml")
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(tmp_path / "now")
    assert set(file.current().users) == {"carol"}


# --- names of certificates ---


@pytest.mark.parametrize(
    "san",
    [
        ("DNS", "prometheus"),
        ("email", "p@example.org"),
        ("URI", "spiffe://x/p"),
        ("IP Address", "10.0.0.1"),
        ("IP Address", "FE80:0:0:0:0:0:0:1"),
    ],
)
def test_one_matching_name_is_enough(san: tuple[str, str]) -> None:
    allowed = frozenset({"prometheus", "p@example.org", "spiffe://x/p", "10.0.0.1", "fe80::1"})
    assert has_allowed_san({"subjectAltName": (("DNS", "other"), san)}, allowed)


@pytest.mark.parametrize(
    "certificate", [None, {}, {"subjectAltName": ()}, {"subjectAltName": (("DNS", "prometheus2"),)}]
)
def test_no_matching_name_is_not(certificate: dict[str, Any] | None) -> None:
    assert not has_allowed_san(certificate, frozenset({"prometheus"}))


# --- passwords ---


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("header", "login"),
    [
        (basic("alice", "a:b:c"), ("alice", b"a:b:c")),
        (basic("", ""), ("", b"")),
        (basic("ä", "ö"), ("ä", "ö".encode())),
        ("bAsIc   " + basic("a", "b").split()[1], ("a", b"b")),
        ("", None),
        ("Basic", None),
        ("Basic !!!", None),
        ("Basic YWxpY2U=", None),
        ("Basic /////w==", None),
        ("Bearer " + basic("a", "b").split()[1], None),
        (basic("a", "b") + ", " + basic("a", "b"), None),
    ],
)
def test_basic_credentials_are_read(header: str, login: tuple[str, bytes] | None) -> None:
    assert parse_basic(header) == login


@given(st.text())
def test_any_header_is_a_login_or_none(header: str) -> None:
    parse_basic(header)
    parse_basic("Basic " + header)


def test_passwords_are_checked() -> None:
    users = {"alice": ALICE, "y": ALICE.replace(b"$2b$", b"$2y$")}
    assert check_password(users, "alice", b"wonderland")
    assert check_password(users, "y", b"wonderland")
    for user, password in (
        ("alice", b""),
        ("alice", b"Wonderland"),
        ("bob", b"wonderland"),
        ("alice", b"a\0b"),
        ("", b""),
    ):
        assert not check_password(users, user, password)


def test_long_passwords_count_to_72_bytes() -> None:
    users = {"alice": bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4))}
    assert check_password(users, "alice", b"x" * 100)
    assert not check_password(users, "alice", b"x" * 71)


def test_wrong_answers_cost_the_same_whoever_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[int] = []
    monkeypatch.setattr(bcrypt, "checkpw", lambda _password, hashed: spent.append(2 ** int(hashed[4:6])))
    users = {"low": b"$2b$05$" + b"a" * 53, "high": b"$2b$09$" + b"a" * 53}
    for user in ("low", "high", "nobody"):
        spent.clear()
        assert not check_password(users, user, b"guess")
        assert sum(spent) == 2**9


def judge(credentials: Credentials, header: str, peer: str = "10.0.0.1") -> "asyncio.Task[str]":
    async def ask() -> str:
        return await credentials.judge({"alice": ALICE}, header, peer)

    return asyncio.create_task(ask())


class Counting:
    """Stands in for the password check, and counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, took: float = 0.0) -> None:
        self.calls = self.running = self.peak = 0
        self.threads: set[threading.Thread] = set()
        self._took = took
        monkeypatch.setattr(webconfig, "check_password", self.check)

    def check(self, users: dict[str, bytes], user: str, password: bytes) -> bool:
        self.calls += 1
        self.running += 1
        self.peak = max(self.peak, self.running)
        self.threads.add(threading.current_thread())
        time.sleep(self._took)
        self.running -= 1
        return user == "alice" and password == b"wonderland"


def test_right_passwords_are_remembered_and_wrong_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = Counting(monkeypatch)

    async def scenario() -> None:
        credentials = Credentials()
        right, wrong = basic("alice", "wonderland"), basic("alice", "x")
        assert [await judge(credentials, h) for h in (right, right, wrong, wrong)] == ["allowed"] * 2 + ["denied"] * 2
        assert checks.calls == 3
        assert threading.main_thread() not in checks.threads
        assert (
            await credentials.judge({"alice": b"$2b$04$" + b"a" * 53}, right, "p") == "allowed"
        )  # another hash: checked
        assert checks.calls == 4
        assert not any(b"wonderland" in key for key in credentials._remembered)

    asyncio.run(scenario())


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webconfig, "check_password", lambda *_: True)

    async def scenario() -> None:
        credentials = Credentials(max_remembered=3)
        for i in range(10):
            assert await judge(credentials, basic("alice", str(i))) == "allowed"
        assert len(credentials._remembered) == 3

    asyncio.run(scenario())


def test_guessing_is_one_at_a_time_and_the_queue_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = Counting(monkeypatch, took=0.002)

    async def scenario() -> None:
        credentials = Credentials(max_waiting=6, max_per_peer=2)
        flood = [judge(credentials, basic("alice", str(i)), f"10.0.0.{i % 5}") for i in range(50)]
        same = [judge(credentials, basic("alice", "0"), "10.0.0.0") for i in range(20)]
        verdicts = await asyncio.gather(*flood, *same)
        assert verdicts[:50].count("busy") == 44
        assert verdicts[50:] == ["denied"] * 20
        assert (checks.calls, checks.peak) == (6, 1)
        assert not credentials._by_peer
        assert await judge(credentials, basic("alice", "wonderland")) == "allowed"

    asyncio.run(scenario())


def test_one_address_cannot_fill_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    Counting(monkeypatch, took=0.002)

    async def scenario() -> None:
        credentials = Credentials(max_waiting=6, max_per_peer=2)
        flood = [judge(credentials, basic("alice", str(i)), "10.6.6.6") for i in range(50)]
        honest = judge(credentials, basic("alice", "wonderland"), "10.0.0.1")
        assert await honest == "allowed"
        await asyncio.gather(*flood)

    asyncio.run(scenario())


def test_a_wrong_password_holds_up_the_next_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    Counting(monkeypatch, took=0.02)

    async def scenario() -> None:
        credentials = Credentials()
        started = time.monotonic()
        await asyncio.gather(*(judge(credentials, basic("alice", str(i)), str(i)) for i in range(3)))
        assert time.monotonic() - started >= 3 * 4 * 0.02

    asyncio.run(scenario())


# --- rate ---


def test_the_bucket_fills_with_time() -> None:
    bucket = TokenBucket(RateLimit(2.0, 3), now=100.0)
    assert [bucket.take(100.0) for _ in range(4)] == [True, True, True, False]
    assert not bucket.take(101.9)
    assert bucket.take(102.0)
    assert not bucket.take(102.0)
    assert [bucket.take(1000.0) for _ in range(4)] == [True, True, True, False]


@pytest.mark.parametrize(
    ("text", "seconds"), [("1s", 1.0), ("100ms", 0.1), ("1h1m1.5s", 3661.5), ("5us", 5e-6), ("0", 0), (0, 0)]
)
def test_durations_are_gos(text: str | int, seconds: float) -> None:
    assert webconfig._duration(text) == pytest.approx(seconds)
