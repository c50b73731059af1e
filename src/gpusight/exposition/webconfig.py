"""The exporter-toolkit's web configuration file: TLS, users, response headers, rate limit.

The file and the files it names are looked at again with every connection and request. A new version that cannot be
used changes nothing: the old one stays in force, one log line says why, and a gauge turns 0.
"""

import asyncio
import base64
import binascii
import hashlib
import ipaddress
import logging
import os
import re
import secrets
import ssl
import stat
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import bcrypt
import yaml

from gpusight.catalog.own import WEB_CONFIG_LAST_RELOAD, WEB_CONFIG_RELOAD_SUCCESS
from gpusight.exposition.blocks import FamilyBlock
from gpusight.model.time import Clock, SystemClock

log = logging.getLogger("gpusight.web")

_Fingerprint = tuple[int, int, int]
_LARGEST_FILE = 1 << 20
_SECTIONS = {"tls_server_config", "http_server_config", "basic_auth_users", "rate_limit"}


class WebConfigError(ValueError):
    """A web configuration that cannot be used; the message names the file, the key and the reason."""


class _Wrong(ValueError):  # noqa: N818  (becomes a WebConfigError that also names the file)
    """What is wrong, said without any secret."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """One request every `interval` seconds, and `burst` of them at once."""

    interval: float
    burst: int


@dataclass(frozen=True, slots=True)
class WebConfig:
    """A configuration that can be used as it stands."""

    tls: ssl.SSLContext | None = None
    allowed_sans: frozenset[str] | None = None
    headers: tuple[tuple[str, str], ...] = ()
    users: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    rate_limit: RateLimit | None = None


class WebConfigFile:
    """A web configuration file and what it said when it was last readable."""

    def __init__(self, path: str | os.PathLike[str], clock: Clock | None = None) -> None:
        self._path = Path(path)
        self._clock = clock or SystemClock()
        self._watched: list[Path] = []
        self._seen: list[_Fingerprint | None] = []
        self._config = self._read()
        self._is_good = True
        self._loaded_at = self._clock.now()

    def current(self) -> WebConfig:
        """The configuration in force, read anew if a file changed."""
        seen = [_fingerprint(path) for path in self._watched]
        if seen != self._seen:
            self._seen = seen
            self._reload()
        return self._config

    def blocks(self) -> Iterable[FamilyBlock]:
        yield FamilyBlock(WEB_CONFIG_RELOAD_SUCCESS, ((),), (int(self._is_good),))
        yield FamilyBlock(WEB_CONFIG_LAST_RELOAD, ((),), (self._loaded_at,))

    def _reload(self) -> None:
        try:
            self._config = self._read()
        except WebConfigError as error:
            self._is_good = False
            log.error("%s; the previous web configuration stays in force", error)  # noqa: TRY400  (no traceback)
        else:
            self._is_good = True
            self._loaded_at = self._clock.now()
            log.info("web configuration %s read anew", self._path)

    def _read(self) -> WebConfig:
        directory = self._path.parent
        seen = _fingerprint(self._path)  # before it is read, so that no change between is missed
        try:
            sections = _load_yaml(self._path)
            files = _named_files(sections, directory)
            self._watched = [self._path, *files]
            self._seen = [seen, *map(_fingerprint, files)]
            return _build(sections, directory)
        except _Wrong as error:
            raise WebConfigError(f"web configuration {self._path}: {error}") from error
        except Exception as error:
            raise WebConfigError(f"web configuration {self._path}: it cannot be used ({error!r})") from error


def _fingerprint(path: Path) -> _Fingerprint | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


# --- the file --------------------------------------------------------------------------------------------------------


class _StrictLoader(yaml.SafeLoader):
    """YAML in which a key given twice is an error, as it is for the toolkit."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode):
                if key_node.value in seen:
                    raise _Wrong(f"line {key_node.start_mark.line + 1}: a key is given twice")
                seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def _load_yaml(path: Path) -> dict[str, Any]:
    text = _read_text(path)
    try:
        content = yaml.load(text, _StrictLoader)  # noqa: S506  (a SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f" at line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise _Wrong(f"this is not YAML{line}") from None  # the parser's own words quote the file, secrets included
    except _Wrong:
        raise
    except Exception:  # deep nesting, impossible dates, ...
        raise _Wrong("this is not YAML") from None
    return _section(content, "the file", _SECTIONS)


def _read_text(path: Path) -> str:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise _Wrong("it is not a regular file")
        if found.st_size > _LARGEST_FILE:
            raise _Wrong(f"it is larger than {_LARGEST_FILE} bytes")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise _Wrong("it is not UTF-8 text") from None
    except OSError as error:
        raise _Wrong(f"it cannot be read: {_reason(error)}") from None


def _section(value: object, where: str, keys: set[str]) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _Wrong(f"{where} must be a mapping of keys to values")
    for key in value:
        if key not in keys:
            raise _Wrong(f"{where} has an unknown key {key!r}; known are {', '.join(sorted(keys))}")
    return {key: given for key, given in value.items() if given is not None}


def _build(sections: dict[str, Any], directory: Path) -> WebConfig:
    http = _section(sections.get("http_server_config"), "http_server_config", {"http2", "headers"})
    _boolean(http, "http2", "http_server_config", default=True)
    tls = _section(sections.get("tls_server_config"), "tls_server_config", _TLS_KEYS)
    return WebConfig(
        tls=_tls_context(tls, directory) if tls else None,
        allowed_sans=_allowed_sans(tls),
        headers=_headers(http.get("headers")),
        users=_users(sections.get("basic_auth_users")),
        rate_limit=_rate_limit(sections.get("rate_limit")),
    )


def _text(section: dict[str, Any], key: str, where: str) -> str:
    value = section.get(key, "")
    if not isinstance(value, str):
        raise _Wrong(f"{where}.{key} must be text")
    return value


def _texts(section: dict[str, Any], key: str, where: str) -> list[str]:
    value = section.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _Wrong(f"{where}.{key} must be a list of texts")
    return value


def _boolean(section: dict[str, Any], key: str, where: str, *, default: bool) -> bool:
    value = section.get(key, default)
    if not isinstance(value, bool):
        raise _Wrong(f"{where}.{key} must be true or false")
    return value


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


# --- headers, users, rate limit --------------------------------------------------------------------------------------

_HEADERS: dict[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
"""The only headers the toolkit lets be set, with the values it allows (none listed: any)."""

_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")
_BCRYPT = re.compile(r"\$2[abxy]\$(\d\d)\$[./A-Za-z0-9]{53}")
_HIGHEST_COST = 18
"""A check at this cost takes about ten seconds: with a higher one no scrape would ever come through."""


def _headers(value: object) -> tuple[tuple[str, str], ...]:
    where = "http_server_config.headers"
    section = _section(value, where, set(_HEADERS))
    for name in section:
        text, allowed = _text(section, name, where), _HEADERS[name]
        if text and allowed and text not in allowed:
            raise _Wrong(f"{where}.{name} must be {' or '.join(allowed)}")
        if text and not _HEADER_VALUE.fullmatch(text):
            raise _Wrong(f"{where}.{name} must be one line of ASCII text")
    return tuple((name, text) for name, text in section.items() if text)


def _users(value: object) -> dict[str, bytes]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _Wrong("basic_auth_users must map user names to bcrypt hashes")
    return {_user_name(user): _hash(hashed, user) for user, hashed in value.items()}


def _user_name(user: object) -> str:
    if not isinstance(user, str):
        raise _Wrong(f"basic_auth_users: the user name {user!r} must be in quotes")
    if ":" in user:
        raise _Wrong(f"basic_auth_users: the user name {user!r} must not have a colon")
    return user


def _hash(value: object, user: object) -> bytes:
    match = _BCRYPT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise _Wrong(f"basic_auth_users has no bcrypt hash for {user!r}; make one with: htpasswd -nBC 10 USER")
    if not 4 <= int(match[1]) <= _HIGHEST_COST:
        raise _Wrong(f"basic_auth_users has a bcrypt cost outside of 4 to {_HIGHEST_COST} for {user!r}")
    return match[0].encode()


_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d*)?(?:ns|us|µs|ms|s|m|h))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?)(ns|us|µs|ms|s|m|h)")


def _rate_limit(value: object) -> RateLimit | None:
    section = _section(value, "rate_limit", {"interval", "burst"})
    interval = _duration(section.get("interval", 0))
    burst = section.get("burst", 0)
    if type(burst) is not int or burst < 0:
        raise _Wrong("rate_limit.burst must be a whole number")
    if interval and not burst:
        raise _Wrong("rate_limit.burst must be at least 1, or no request would ever be answered")
    return RateLimit(interval, burst) if interval else None


def _duration(value: object) -> float:
    if value in (0, "0") and not isinstance(value, bool):
        return 0.0
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        raise _Wrong("rate_limit.interval must be a duration with its unit, such as 100ms or 1s, or 0 for no limit")
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(value))


# --- TLS -------------------------------------------------------------------------------------------------------------

_TLS_KEYS = {
    "cert",
    "key",
    "client_ca",
    "cert_file",
    "key_file",
    "client_ca_file",
    "client_auth_type",
    "client_allowed_sans",
    "min_version",
    "max_version",
    "cipher_suites",
    "prefer_server_cipher_suites",
    "curve_preferences",
}
_FILE_KEYS = ("cert_file", "key_file", "client_ca_file")
_CLIENT_AUTH = {
    "": ssl.CERT_NONE,
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_UNVERIFIED = {"RequestClientCert", "RequireAnyClientCert", "RequireClientCert"}
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}
_TLS13_SUITES = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
}
"""Go's names (those of tls.CipherSuites) and OpenSSL's."""


def _named_files(sections: dict[str, Any], directory: Path) -> list[Path]:
    tls = sections.get("tls_server_config")
    names = [tls.get(key) for key in _FILE_KEYS] if isinstance(tls, dict) else []
    return [directory / name for name in names if isinstance(name, str) and name]


def _tls_context(section: dict[str, Any], directory: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    _set_versions(context, section)
    _set_ciphers(context, section)
    _set_curve(context, section)
    _set_client_auth(context, section, directory)
    _load_identity(context, section, directory)
    return context


def _set_versions(context: ssl.SSLContext, section: dict[str, Any]) -> None:
    lowest, highest = _version(section, "min_version", "TLS12"), _version(section, "max_version", "TLS13")
    if lowest > highest:
        raise _Wrong("tls_server_config.min_version is above max_version")
    context.minimum_version, context.maximum_version = lowest, highest


def _version(section: dict[str, Any], key: str, default: str) -> ssl.TLSVersion:
    name = _text(section, key, "tls_server_config") or default
    if name not in _VERSIONS:
        raise _Wrong(f"tls_server_config.{key} must be TLS12 or TLS13: older versions are not offered")
    return _VERSIONS[name]


def _set_ciphers(context: ssl.SSLContext, section: dict[str, Any]) -> None:
    if _boolean(section, "prefer_server_cipher_suites", "tls_server_config", default=True):
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    names = _texts(section, "cipher_suites", "tls_server_config")
    for name in names:
        if name not in _SUITES and name not in _TLS13_SUITES:
            raise _Wrong(
                f"tls_server_config.cipher_suites: {name!r} is not known; use Go's names, such as {min(_SUITES)}"
            )
    chosen = [_SUITES[name] for name in names if name in _SUITES]
    if names and not chosen:
        raise _Wrong(
            "tls_server_config.cipher_suites names TLS 1.3 suites only, which are always on; say min_version: TLS13"
        )
    if chosen:
        context.set_ciphers(":".join(chosen))


def _set_curve(context: ssl.SSLContext, section: dict[str, Any]) -> None:
    names = _texts(section, "curve_preferences", "tls_server_config")
    for name in names:
        if name not in _CURVES:
            raise _Wrong(f"tls_server_config.curve_preferences: {name!r} is not one of {', '.join(_CURVES)}")
    if len(names) > 1:
        raise _Wrong("tls_server_config.curve_preferences may name one curve only here: Python's ssl takes no list")
    if names:
        context.set_ecdh_curve(_CURVES[names[0]])


def _set_client_auth(context: ssl.SSLContext, section: dict[str, Any], directory: Path) -> None:
    where = "tls_server_config"
    policy = _text(section, "client_auth_type", where)
    if policy in _UNVERIFIED:
        raise _Wrong(
            f"{where}.client_auth_type {policy} takes certificates that nobody verified, which Python's ssl cannot do;"
            " use RequireAndVerifyClientCert or VerifyClientCertIfGiven"
        )
    if policy not in _CLIENT_AUTH:
        raise _Wrong(
            f"{where}.client_auth_type {policy!r} is not known; use RequireAndVerifyClientCert or NoClientCert"
        )
    context.verify_mode = _CLIENT_AUTH[policy]
    inline, named = _text(section, "client_ca", where), _text(section, "client_ca_file", where)
    if inline and named:
        raise _Wrong(f"{where} has both client_ca and client_ca_file")
    if (inline or named) and context.verify_mode is ssl.CERT_NONE:
        raise _Wrong(f"{where} has a client CA but no client_auth_type that would use it")
    if context.verify_mode is ssl.CERT_NONE:
        return
    with _said_of(f"{where}.{'client_ca_file' if named else 'client_ca'}", "holds no usable CA certificate"):
        if named:
            context.load_verify_locations(cafile=directory / named)
        elif inline:
            context.load_verify_locations(cadata=inline)
        else:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)


def _allowed_sans(section: dict[str, Any]) -> frozenset[str] | None:
    if "client_allowed_sans" not in section:
        return None
    if section.get("client_auth_type") != "RequireAndVerifyClientCert":
        raise _Wrong("tls_server_config.client_allowed_sans needs client_auth_type RequireAndVerifyClientCert")
    return frozenset(_texts(section, "client_allowed_sans", "tls_server_config"))


def _load_identity(context: ssl.SSLContext, section: dict[str, Any], directory: Path) -> None:
    trouble = _said_of("tls_server_config", "has a certificate and a key that cannot be used together")
    with _pem_path(section, "cert", directory) as cert, _pem_path(section, "key", directory) as key, trouble:
        context.load_cert_chain(cert, key, password=_refuse_passphrase)


def _refuse_passphrase() -> str:
    raise _Wrong("tls_server_config: the key is encrypted; a key without a passphrase is needed")


@contextmanager
def _pem_path(section: dict[str, Any], key: str, directory: Path) -> Iterator[str]:
    """A path to the PEM text of `cert` or `key`. Text from inside the file stays in memory, in an unnamed file."""
    where = "tls_server_config"
    inline, named = _text(section, key, where), _text(section, f"{key}_file", where)
    if bool(inline) == bool(named):
        raise _Wrong(f"{where} needs {key}_file or {key}, " + ("not both" if inline else "and has neither"))
    if named:
        path = directory / named
        with _said_of(f"{where}.{key}_file {str(path)!r}", "is not a file"):
            path.open("rb").close()
        yield str(path)
        return
    fd = os.memfd_create(f"gpusight-{key}", os.MFD_CLOEXEC)
    try:
        os.write(fd, inline.encode())
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


@contextmanager
def _said_of(key: str, trouble: str) -> Iterator[None]:
    try:
        yield
    except ssl.SSLError as error:
        raise _Wrong(f"{key} {trouble} ({(error.reason or 'not PEM').lower().replace('_', ' ')})") from None
    except OSError as error:
        raise _Wrong(f"{key} cannot be read: {_reason(error)}") from None


def has_allowed_san(certificate: Mapping[str, Any] | None, allowed: frozenset[str]) -> bool:
    """Whether a verified client certificate (as ssl's getpeercert tells it) bears one of the names."""
    given = (certificate or {}).get("subjectAltName", ())
    return any(_san(kind, value) in allowed for kind, value in given)


def _san(kind: str, value: str) -> str:
    return str(ipaddress.ip_address(value)) if kind == "IP Address" else value


# --- who may in ------------------------------------------------------------------------------------------------------

Verdict = Literal["allowed", "denied", "busy"]


class Credentials:
    """Checks passwords without letting strangers spend the machine's time.

    One bcrypt runs at a time, in a thread; after a wrong password the next one waits, so that guessing takes a quarter
    of one core at most. A few checks may queue, fewer from one address. Right passwords are remembered, by a keyed
    digest, and skip the queue.
    """

    def __init__(self, *, max_waiting: int = 16, max_per_peer: int = 4, max_remembered: int = 256) -> None:
        self._max_waiting = max_waiting
        self._max_per_peer = max_per_peer
        self._max_remembered = max_remembered
        self._remembered: OrderedDict[bytes, None] = OrderedDict()
        self._checks: dict[bytes, asyncio.Task[bool]] = {}
        self._by_peer: Counter[str] = Counter()
        self._turn = asyncio.Lock()
        self._secret = secrets.token_bytes(32)
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gpusight-bcrypt")

    async def judge(self, users: Mapping[str, bytes], authorization: str, peer: str) -> Verdict:
        login = parse_basic(authorization)
        if login is None:
            return "denied"
        user, password = login
        key = self._digest(user, users.get(user, b""), password)
        if key in self._remembered:
            self._remembered.move_to_end(key)
            return "allowed"
        check = self._checks.get(key)
        if check is None:
            if len(self._checks) >= self._max_waiting or self._by_peer[peer] >= self._max_per_peer:
                return "busy"
            check = self._start(key, lambda: check_password(users, user, password), peer)
        return "allowed" if await asyncio.shield(check) else "denied"

    def _start(self, key: bytes, check: Callable[[], bool], peer: str) -> asyncio.Task[bool]:
        task = self._checks[key] = asyncio.create_task(self._check(key, check))
        self._by_peer[peer] += 1

        def done(_task: asyncio.Task[bool]) -> None:
            del self._checks[key]
            self._by_peer[peer] -= 1
            self._by_peer += Counter()  # drops what fell to zero

        task.add_done_callback(done)
        return task

    async def _check(self, key: bytes, check: Callable[[], bool]) -> bool:
        loop = asyncio.get_running_loop()
        async with self._turn:
            started = loop.time()
            is_right = await loop.run_in_executor(self._worker, check)
            if is_right:
                self._remember(key)
            else:
                await asyncio.sleep(min(3 * (loop.time() - started), 1.0))
        return is_right

    def _remember(self, key: bytes) -> None:
        self._remembered[key] = None
        if len(self._remembered) > self._max_remembered:
            self._remembered.popitem(last=False)

    def _digest(self, *parts: str | bytes) -> bytes:
        digest = hashlib.blake2b(key=self._secret)
        for part in parts:
            raw = part.encode() if isinstance(part, str) else part
            digest.update(len(raw).to_bytes(8, "big") + raw)
        return digest.digest()


def parse_basic(authorization: str) -> tuple[str, bytes] | None:
    """User and password of an Authorization header, or None where there are none."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (user.decode(), password) if colon else None
    except (binascii.Error, ValueError):
        return None


def check_password(users: Mapping[str, bytes], user: str, password: bytes) -> bool:
    """Whether it is the user's password. A wrong answer takes the same time whatever was wrong, user or password."""
    costs = [_cost(hashed) for hashed in users.values()]
    known = users.get(user)
    is_right = _matches(password, known or _decoy(max(costs, default=10))) and known is not None
    if known is not None and not is_right:
        for cost in range(_cost(known), max(costs)):  # 2^c and 2^c + 2^(c+1) + ... + 2^(max-1) make 2^max
            _matches(password, _decoy(cost))
    return is_right


def _matches(password: bytes, hashed: bytes) -> bool:
    try:
        return bcrypt.checkpw(password[:72], hashed)  # bcrypt looks no further than 72 bytes
    except ValueError:
        return False


def _cost(hashed: bytes) -> int:
    return int(hashed[4:6])


def _decoy(cost: int) -> bytes:
    """A hash that no password has in practice, as dear to check as one of that cost."""
    return b"$2b$%02d$" % cost + b"." * 53


class TokenBucket:
    """The rate limit's memory."""

    def __init__(self, limit: RateLimit, now: float) -> None:
        self.limit = limit
        self._tokens = float(limit.burst)
        self._at = now

    def take(self, now: float) -> bool:
        self._tokens = min(self.limit.burst, self._tokens + (now - self._at) / self.limit.interval)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
