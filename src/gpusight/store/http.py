"""Asking an HTTP API that may be slow, sick or hostile: kept-alive connections, one deadline for all of a request.

See docs/decisions/0013-store-http.md for why this is the standard library's client.
"""

import base64
import io
import ipaddress
import re
import socket
import ssl
import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlencode, urlsplit

from gpusight.model.time import Clock

_FORM = "application/x-www-form-urlencoded"
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SHOWN = 200
"""Characters of a server's own words that we repeat."""


class HttpError(Exception):
    """No usable answer; one sentence that names the server and the fault, without credentials."""

    def __init__(self, message: str, *, status: int | None = None, timed_out: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.timed_out = timed_out


class Reply(NamedTuple):
    body: bytes
    date: str
    """The server's own clock, as its `Date` header says."""


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """How to reach and to convince the server. Credentials in the URL become basic authentication."""

    url: str = field(repr=False)
    timeout: float = 30.0
    """Seconds for one request, from the connection to the last byte."""
    max_bytes: int = 512 * 2**20
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    bearer_token_file: Path | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    password_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    insecure: bool = False
    """Do not verify the server's certificate."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{shown_url(self.url)!r} is not the address of an HTTP server: write http://HOST:PORT")
        if self.key_file and not self.cert_file:
            raise ValueError("a TLS key is of no use without its certificate")
        for name, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(name) or not _is_header_value(value):
                raise ValueError(f"the HTTP header {name!r} has characters that no header may have")


def shown_url(url: str) -> str:
    """The URL as anybody may see it: no credentials, no query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


class HttpClient:
    """One connection per thread that asks."""

    def __init__(self, config: HttpConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._url = urlsplit(config.url)
        self._base = self._url.path.rstrip("/")
        self.shown = shown_url(config.url)
        self._tls = _tls_context(config) if self._url.scheme == "https" else None
        self._mine = threading.local()
        self._all: set[HTTPConnection] = set()
        self._lock = threading.Lock()
        self._posts = True
        self._gzip = not _is_loopback(self._url.hostname or "")

    def get(self, path: str, parameters: Mapping[str, str]) -> Reply:
        return self._ask("GET", f"{path}?{urlencode(parameters, quote_via=quote)}", None)

    def ask(self, path: str, parameters: Mapping[str, str]) -> Reply:
        """By POST, as queries may be longer than a URL; by GET where the server does not want that."""
        if self._posts:
            try:
                return self._ask("POST", path, urlencode(parameters).encode())
            except HttpError as error:
                if error.status != 405:
                    raise
                self._posts = False
        return self.get(path, parameters)

    def close(self) -> None:
        with self._lock:
            connections, self._all = self._all, set()
        for connection in connections:
            connection.close()

    def _ask(self, method: str, target: str, body: bytes | None) -> Reply:
        deadline = self._clock.monotonic() + self._config.timeout
        fresh = getattr(self._mine, "connection", None) is None
        try:
            return self._exchange(method, target, body, deadline)
        except (ConnectionError, HTTPException) as error:
            # a kept connection that the server has closed meanwhile: once more, on a new one
            if fresh or isinstance(error, TimeoutError):
                raise self._fault(error) from None
        except (OSError, ValueError) as error:
            raise self._fault(error) from None
        try:
            return self._exchange(method, target, body, deadline)
        except (OSError, HTTPException, ValueError) as error:
            raise self._fault(error) from None

    def _exchange(self, method: str, target: str, body: bytes | None, deadline: float) -> Reply:
        connection = self._connection(deadline)
        try:
            connection.request(method, self._base + target, body, self._headers(body))
            connection.response_class = _until(deadline, self._clock)
            response = connection.getresponse()
            data = self._read(response)
            if response.will_close:
                self._drop(connection)
        except BaseException:
            self._drop(connection)
            raise
        if response.status != 200:
            raise HttpError(self._refusal(response, data), status=response.status)
        return Reply(data, response.headers.get("Date", ""))

    def _connection(self, deadline: float) -> HTTPConnection:
        left = deadline - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError
        connection: HTTPConnection | None = getattr(self._mine, "connection", None)
        if connection is None:
            connection = self._made(left)
            self._mine.connection = connection
            with self._lock:
                self._all.add(connection)
        connection.timeout = left
        if connection.sock is not None:
            connection.sock.settimeout(left)
        return connection

    def _made(self, timeout: float) -> HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._tls is None:
            return HTTPConnection(host, port, timeout=timeout)
        return HTTPSConnection(host, port, timeout=timeout, context=self._tls)

    def _drop(self, connection: HTTPConnection) -> None:
        connection.close()
        self._mine.connection = None
        with self._lock:
            self._all.discard(connection)

    def _headers(self, body: bytes | None) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "gpusight", **self._config.headers}
        headers["Accept-Encoding"] = "gzip" if self._gzip else "identity"
        if body is not None:
            headers["Content-Type"] = _FORM
        if authorization := _authorization(self._config):
            headers["Authorization"] = authorization
        return headers

    def _read(self, response: HTTPResponse) -> bytes:
        most = self._config.max_bytes
        data = response.read(most + 1)
        if len(data) > most:
            raise ValueError(f"its answer is larger than {most // 2**20} MiB")
        if response.length:  # read() with a size does not complain of a body that ends early
            raise ValueError("its answer ends in the middle")
        if response.headers.get("Content-Encoding", "").lower() == "gzip":
            data = _unpacked(data, most)
        return data

    def _refusal(self, response: HTTPResponse, data: bytes) -> str:
        if 300 <= response.status < 400:
            return f"{self.shown} answered {response.status} with a redirect, which is not followed"
        words = printable(data[: 4 * _SHOWN].decode("utf-8", "replace"))
        return f"{self.shown} answered {response.status} {printable(response.reason)}" + (f": {words}" if words else "")

    def _fault(self, error: Exception) -> HttpError:
        if isinstance(error, TimeoutError):
            return HttpError(f"{self.shown} did not answer in full within {self._config.timeout:g} s", timed_out=True)
        if isinstance(error, ConnectionRefusedError):
            return HttpError(f"{self.shown} refuses the connection")
        if isinstance(error, ValueError):
            return HttpError(f"{self.shown} gave no usable answer: {printable(str(error))}")
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
        return HttpError(f"{self.shown} cannot be asked: {printable(words)}")


class _TimedReader(io.RawIOBase):
    """A socket's bytes, each read with what is left of the deadline: a trickle does not win time."""

    def __init__(self, sock: socket.socket, deadline: float, clock: Clock) -> None:
        self._sock = sock
        self._bytes = sock.makefile("rb", buffering=0)
        self._deadline = deadline
        self._clock = clock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._bytes.readinto(buffer)

    def close(self) -> None:
        self._bytes.close()
        super().close()


class _TimedSocket:
    """What HTTPResponse needs of a socket."""

    def __init__(self, reader: _TimedReader) -> None:
        self._reader = reader

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._reader, 2**17)


def _until(deadline: float, clock: Clock) -> Any:
    def response(sock: socket.socket, method: str | None = None) -> HTTPResponse:
        return HTTPResponse(_TimedSocket(_TimedReader(sock, deadline, clock)), method=method)  # type: ignore[arg-type]

    return response


def _unpacked(data: bytes, most: int) -> bytes:
    try:
        unpacker = zlib.decompressobj(wbits=31)
        plain = unpacker.decompress(data, most)
    except zlib.error as error:
        raise ValueError(f"its answer is not gzip: {error}") from None
    if unpacker.unconsumed_tail:
        raise ValueError(f"its answer is larger than {most // 2**20} MiB")
    if not unpacker.eof:
        raise ValueError("its answer ends in the middle")
    return plain


def _authorization(config: HttpConfig) -> str:
    if config.bearer_token_file is not None:
        token = _secret(config.bearer_token_file)
        if not _is_header_value(token):
            raise ValueError(f"the token in {config.bearer_token_file} has characters that no header may have")
        return f"Bearer {token}"
    parts = urlsplit(config.url)
    user = config.username or unquote(parts.username or "")
    if not user:
        return ""
    password = _secret(config.password_file) if config.password_file else config.password
    pair = f"{user}:{password or unquote(parts.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def _secret(path: Path) -> str:
    """Read anew for every request: tokens are rotated. Their text is in no message."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeError):
        raise ValueError(f"the file {path} cannot be read") from None


def _is_header_value(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _tls_context(config: HttpConfig) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(config.ca_file) if config.ca_file else None)
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if config.cert_file:
        context.load_cert_chain(config.cert_file, config.key_file)
    return context


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def printable(text: str) -> str:
    """A stranger's words on one line, shortened."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
