"""Who asks, and what they may see and change: bearer tokens, and sessions of the page made from them."""

import base64
import hashlib
import hmac
import ipaddress
import logging
import math
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct

from gpusight.model.time import Clock
from gpusight.web.tokens import Role, Token, TokenFile, hash_token, new_token

__all__ = ["Auth", "AuthError", "Identity", "Read", "hash_token", "new_token"]

log = logging.getLogger("gpusight.web")

Read = Literal["open", "token"]
COOKIE = "gpusight_session"
_LONGEST_CREDENTIAL = 4096


class Identity(Struct, frozen=True, kw_only=True):
    """Somebody who asks. `namespaces` is what they may see, None is everything."""

    name: str
    role: Role
    namespaces: frozenset[str] | None
    by: Literal["nobody", "token", "session"]


ANYBODY = Identity(name="anonymous", role="read", namespaces=None, by="nobody")


class AuthError(Exception):
    """Not let in. `retry_after` is set when the reason is too many wrong attempts."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class _Claim(Struct, frozen=True):
    name: str
    ends: float


class Auth:
    """Checks credentials. Thread-safe as far as one event loop needs."""

    def __init__(
        self,
        *,
        clock: Clock,
        tokens: TokenFile | None = None,
        read: Read = "open",
        session_secret: bytes | None = None,
        session_seconds: float = 12 * 3600,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """Replicas that shall know each other's sessions share `session_secret`."""
        self.read = read
        self.session_seconds = session_seconds
        self.on_failure = on_failure
        self._clock = clock
        self._tokens = tokens
        self._secret = session_secret or secrets.token_bytes(32)
        self._attempts = Attempts(clock)

    def describe(self) -> str:
        """For the log at the start."""
        who = "everybody" if self.read == "open" else "holders of a token"
        change = "holders of an admin token" if self._tokens else "nobody, there is no token file"
        return f"reads are for {who}, changes for {change}; /metrics and health are open"

    @property
    def has_tokens(self) -> bool:
        return self._tokens is not None

    def identify(self, authorization: str, cookie: str, peer: str) -> Identity | None:
        """Who the credentials belong to, None without any. Raises AuthError for wrong ones."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer":
            return _identity(self._check(token.strip(), peer), "token")
        if cookie:
            return self._of_session(cookie)
        return None

    def login(self, token: str, peer: str) -> tuple[Identity, str]:
        """The holder of the token and a cookie's value that stands for it."""
        entry = self._check(token, peer)
        claim = msgspec.json.encode(_Claim(entry.name, self._clock.now() + self.session_seconds))
        return _identity(entry, "session"), f"{_text(claim)}.{_text(self._sign(claim, entry))}"

    def _check(self, token: str, peer: str) -> Token:
        self._attempts.admit(peer, token)
        entry = self._tokens.find(token) if self._tokens and token and len(token) <= _LONGEST_CREDENTIAL else None
        if entry is None:
            raise self._failed("This token is not known here.", peer, token)
        return entry

    def _of_session(self, cookie: str) -> Identity:
        # No limit on attempts here: a signature cannot be guessed, and honest ones fail after every restart.
        claim, signature = _split(cookie[:_LONGEST_CREDENTIAL])
        try:
            said = msgspec.json.decode(claim, type=_Claim)
        except (msgspec.DecodeError, UnicodeDecodeError):
            claim, said = b"", _Claim("", 0.0)
        entry = self._tokens.named(said.name) if self._tokens else None
        if entry is None or not hmac.compare_digest(self._sign(claim, entry), signature):
            self.on_failure()
            raise AuthError("This session is not known here; log in again.")
        if self._clock.now() >= said.ends:
            raise AuthError("This session has ended; log in again.")
        return _identity(entry, "session")

    def _sign(self, claim: bytes, entry: Token) -> bytes:
        """Bound to the token's hash as well: with the token goes its session."""
        return hmac.digest(self._secret, b"session\0" + entry.sha256.encode() + b"\0" + claim, "sha256")

    def _failed(self, message: str, peer: str, credential: str) -> AuthError:
        self.on_failure()
        if self._attempts.failed(peer, credential):
            log.warning("a wrong credential from %s; further ones are counted and not logged for a minute", peer)
        return AuthError(message)


def _identity(entry: Token, by: Literal["token", "session"]) -> Identity:
    return Identity(name=entry.name, role=entry.role, namespaces=entry.namespaces, by=by)


class _Peer:
    __slots__ = ("at", "last", "left", "logged")

    def __init__(self, left: float, at: float) -> None:
        self.left = left
        self.at = at
        self.last = b""
        self.logged = -math.inf


class Attempts:
    """How many wrong credentials an address has left. The same wrong one again is a broken client, not a guess."""

    def __init__(self, clock: Clock, *, burst: int = 10, seconds_each: float = 10.0, max_peers: int = 4096) -> None:
        self._clock = clock
        self._burst = burst
        self._seconds_each = seconds_each
        self._max_peers = max_peers
        self._peers: OrderedDict[str, _Peer] = OrderedDict()

    def admit(self, peer: str, credential: str) -> None:
        """Raises AuthError when the address has none left: then nothing is looked at, right or wrong."""
        found = self._peers.get(_network(peer))
        if found is None or found.last == _digest(credential):
            return
        self._refill(found)
        if found.left < 1:
            wait = math.ceil((1 - found.left) * self._seconds_each)
            raise AuthError("Too many wrong credentials from this address; wait a little.", retry_after=wait)

    def failed(self, peer: str, credential: str) -> bool:
        """Note a wrong one; whether it is worth a line in the log."""
        now = self._clock.monotonic()
        found = self._peers.setdefault(_network(peer), _Peer(self._burst, now))
        self._peers.move_to_end(_network(peer))
        if len(self._peers) > self._max_peers:
            self._peers.popitem(last=False)
        self._refill(found)
        digest = _digest(credential)
        if digest != found.last:
            found.left -= 1
            found.last = digest
        is_news = now - found.logged >= 60
        if is_news:
            found.logged = now
        return is_news

    def _refill(self, found: _Peer) -> None:
        now = self._clock.monotonic()
        found.left = min(self._burst, found.left + (now - found.at) / self._seconds_each)
        found.at = now


def _network(peer: str) -> str:
    """One household is one: an IPv6 client owns a whole /64."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv6Address):
        return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def _digest(credential: str) -> bytes:
    return hashlib.sha256(credential.encode("utf-8", "surrogatepass")).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _split(cookie: str) -> tuple[bytes, bytes]:
    claim, _, signature = cookie.partition(".")
    try:
        return _bytes(claim), _bytes(signature)
    except ValueError:
        return b"", b""


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
