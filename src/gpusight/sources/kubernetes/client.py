"""One GET to the Kubernetes API, with bounds on everything, on the standard library's HTTP and TLS.

`http.client` in the caller's thread, because a watch is one long answer read line by line, and because it costs 1.7 MiB
where httpx costs 11. Each request has a connection of its own: a node makes one every few minutes. Redirects are not
followed. Another thread may end a request at any time.
"""

import json
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Literal, Self
from urllib.parse import urlencode, urlsplit

from gpusight.model.time import Clock
from gpusight.sources.kubernetes.access import Access, AccessError

ApiFailure = Literal[
    "unreachable", "timeout", "tls", "no_credentials", "unauthorized", "forbidden", "not_found", "expired", "throttled",
    "server_error", "disconnected", "too_large", "bad_answer", "stopped",
]  # fmt: skip
"""Why there is no answer. `expired`: the version asked for is too old (410)."""

_PIECE = 64 * 1024
_LARGEST_REMARK = 4096
_LONGEST_WAIT = 300.0
_FAILURES: dict[int, ApiFailure] = {
    401: "unauthorized", 403: "forbidden", 404: "not_found", 410: "expired", 429: "throttled",
}  # fmt: skip


class ApiError(Exception):
    """A request without a usable answer; the message is a sentence."""

    def __init__(self, reason: ApiFailure, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after = min(max(retry_after or 0.0, 0.0), _LONGEST_WAIT)
        """Seconds that the server asks us to wait, within reason."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and bytes."""

    connect: float = 10.0
    body: int = 64 << 20
    line: int = 8 << 20
    """One event of a watch; etcd holds no object larger than 1.5 MiB."""
    requests: int = 5
    """At most that many in any `per` seconds."""
    per: float = 1.0


class Pacer:
    """Spreads the requests of all threads so that never more than `most` begin within `per` seconds."""

    def __init__(self, clock: Clock, most: int, per: float) -> None:
        self._clock = clock
        self._per = per
        self._lock = threading.Lock()
        self._begun: deque[float] = deque(maxlen=most)

    def book(self) -> float:
        """Take the next free place; how many seconds to wait for it."""
        with self._lock:
            now = self._clock.monotonic()
            is_full = len(self._begun) == self._begun.maxlen
            at = max(now, self._begun[0] + self._per) if is_full else now
            self._begun.append(at)
            return at - now


class ApiClient:
    """Asks one API server. May be shared by threads."""

    def __init__(
        self,
        access: Access,
        clock: Clock,
        limits: Limits = Limits(),  # noqa: B008  (frozen)
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._access = access
        self._limits = limits
        self._pause = pause
        self._pacer = Pacer(clock, limits.requests, limits.per)

    def get(self, path: str, query: Mapping[str, str] | None = None, within: float = 60.0) -> bytes:
        """A whole answer."""
        with self.exchange(path, query or {}, idle=within, within=within) as answer:
            return answer.body()

    def exchange(self, path: str, query: Mapping[str, str], *, idle: float, within: float) -> "Exchange":
        """A request to come: it begins when it is entered, and ends when the server is silent for `idle` seconds."""
        base = urlsplit(self._access.server).path  # where a gateway serves several clusters
        target = f"{base}{path}?{urlencode(query)}" if query else f"{base}{path}"
        return Exchange(self._access, target, self._limits, idle, within, self._wait_for_turn)

    def _wait_for_turn(self) -> None:
        delay = self._pacer.book()
        if delay > 0:
            self._pause(delay)


class Exchange:
    """A request and its answer. Raises ApiError only. `abort` may come from any thread, at any time."""

    def __init__(
        self, access: Access, target: str, limits: Limits, idle: float, within: float, wait_for_turn: Callable[[], None]
    ) -> None:
        self._access = access
        self._target = target
        self._limits = limits
        self._idle = idle
        self._wait_for_turn = wait_for_turn
        self._within = within
        self._lock = threading.Lock()
        self._ended: ApiError | None = None
        self._handle: socket.socket | None = None
        """The connection's socket once more, for other threads to shut: TLS objects are not made for that."""
        self._connection: HTTPConnection | None = None
        self._response: HTTPResponse | None = None
        self._timer = threading.Timer(within, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        try:
            with self._translated():
                self._response = self._begin()
                if self._response.status == 401 and self._access.credentials.renew():
                    self._disconnect()
                    self._response = self._begin()
                self._check(self._response)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def abort(self) -> None:
        self._end(ApiError("stopped", "the request was stopped"))

    def body(self) -> bytes:
        content = bytearray()
        for piece in self._pieces():
            content += piece
            if len(content) > self._limits.body:
                raise ApiError("too_large", f"the answer is larger than {self._limits.body} bytes")
        return bytes(content)

    def lines(self) -> Iterator[bytes]:
        """Whole lines, as they come. Half a line at the end is not one."""
        buffer = bytearray()
        for piece in self._pieces():
            buffer += piece
            if b"\n" in piece:
                *lines, rest = buffer.split(b"\n")
                yield from map(bytes, filter(None, lines))
                buffer = rest
            if len(buffer) > self._limits.line:
                raise ApiError("too_large", f"an event is larger than {self._limits.line} bytes")

    def _pieces(self) -> Iterator[bytes]:
        while True:
            with self._translated():
                piece = self._response.read1(_PIECE) if self._response else b""
                if not piece:
                    self._check_end()
                    return
            yield piece

    def _check_end(self) -> None:
        """The end may be one that we made, or come before the length that was promised."""
        if self._ended:
            raise self._ended
        if self._response and self._response.length:
            raise ApiError("disconnected", "the answer broke off")

    def _begin(self) -> HTTPResponse:
        self._wait_for_turn()
        headers = {"Accept": "application/json", "User-Agent": "gpusight", **self._access.credentials.headers()}
        self._connection = connection = self._connect()
        connection.request("GET", self._target, headers=headers)
        return connection.getresponse()

    def _connect(self) -> HTTPConnection:
        server = urlsplit(self._access.server)
        is_tls = server.scheme == "https"
        host, port = server.hostname or "", server.port or (443 if is_tls else 80)
        context = self._access.tls_context() if is_tls else None
        connection = HTTPConnection(host, port)
        sock = socket.create_connection((host, port), self._limits.connect)
        try:
            self._publish(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if context:
                sock = context.wrap_socket(sock, server_hostname=self._access.server_name or host)
            sock.settimeout(self._idle)
        except BaseException:
            sock.close()
            raise
        connection.sock = sock
        return connection

    def _publish(self, sock: socket.socket) -> None:
        with self._lock:
            if self._ended:
                raise self._ended
            self._handle = sock.dup()

    def _check(self, response: HTTPResponse) -> None:
        if response.status == 200:
            return
        remark = _remark(response.read1(_LARGEST_REMARK))
        reason = _FAILURES.get(response.status, "server_error" if response.status >= 500 else "bad_answer")
        message = f"the API server answers {response.status}{': ' if remark else ''}{remark}"
        raise ApiError(reason, message, _seconds(response.headers.get("Retry-After")))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Every way in which a request can go wrong, as an ApiError."""
        try:
            yield
        except (ApiError, GeneratorExit):
            raise
        except Exception as error:
            raise self._ended or _as_api_error(error) from error

    def _expire(self) -> None:
        self._end(ApiError("timeout", f"the request took longer than {self._within:g} s"))

    def _end(self, why: ApiError) -> None:
        with self._lock:
            self._ended = self._ended or why
            if self._handle:
                with suppress(OSError):
                    self._handle.shutdown(socket.SHUT_RDWR)

    def _disconnect(self) -> None:
        with self._lock:
            if self._handle:
                self._handle.close()
                self._handle = None
        if self._response:
            self._response.close()
        if self._connection:
            self._connection.close()

    def _close(self) -> None:
        self._timer.cancel()
        self._disconnect()


def _as_api_error(error: Exception) -> ApiError:
    what = str(error) or type(error).__name__
    if isinstance(error, AccessError):
        return ApiError("no_credentials", what)
    if isinstance(error, ssl.SSLError):
        return ApiError("tls", f"no secure connection to the API server: {what}")
    if isinstance(error, TimeoutError):
        return ApiError("timeout", "the API server is silent")
    if isinstance(error, ConnectionResetError | BrokenPipeError | HTTPException):  # RemoteDisconnected is the first
        return ApiError("disconnected", f"the connection to the API server broke: {what}")
    if isinstance(error, OSError):
        return ApiError("unreachable", f"the API server cannot be reached: {what}")
    return ApiError("bad_answer", f"the API server's answer makes no sense: {what}")


def _remark(body: bytes) -> str:
    """The message of a Status object, or the beginning of whatever came instead."""
    with suppress(ValueError, AttributeError):
        return str(json.loads(body).get("message", ""))[:300]
    return body[:100].decode("utf-8", "replace")


def _seconds(text: str | None) -> float | None:
    if text and text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    return None
