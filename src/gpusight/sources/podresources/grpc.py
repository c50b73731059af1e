"""One gRPC call with one answer over a Unix socket: HTTP/2 by the `h2` package, gRPC's few rules by us.

Each call has a connection of its own: connecting costs 0.1 ms, and a kubelet that was restarted needs no special care.
The deadline covers everything from connecting to the last byte, and no more is kept than the message may be long.
"""

import errno
import socket
from collections.abc import Iterable
from typing import Literal
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)

from gpusight.model.time import Clock

CallFailure = Literal[
    "no_socket", "no_permission", "refused", "timeout", "disconnected", "not_grpc", "status", "compressed", "too_large",
    "malformed", "error",
]  # fmt: skip
"""Why there is no answer. `status`: the server said no, see `code`."""

_PREFIX = 5
_PIECE = 64 * 1024
_OVERHEAD = 1 << 20
"""What frames, headers and pings around a message may add to it."""
_LONGEST_REMARK = 300
_FAILURES: dict[int, CallFailure] = {
    errno.ENOENT: "no_socket",
    errno.ENOTDIR: "no_socket",
    errno.EACCES: "no_permission",
    errno.EPERM: "no_permission",
    errno.ECONNREFUSED: "refused",
    errno.EPIPE: "disconnected",
    errno.ECONNRESET: "disconnected",
}
_CODES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip


class CallError(Exception):
    """A call without an answer; the message is a sentence."""

    def __init__(self, reason: CallFailure, message: str, code: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.code = code
        """gRPC's own word, where the server gave one."""


def call(path: str, method: str, request: bytes, *, within: float, largest: int, clock: Clock) -> bytes:
    """The answer of `method`, such as `/v1.PodResourcesLister/List`. Raises CallError, nothing else."""
    exchange = _Exchange(method, clock, clock.monotonic() + within, largest)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            return exchange.run(sock, path, request)
    except CallError:
        raise
    except TimeoutError:
        raise CallError("timeout", f"no answer within {within:g} s") from None
    except OSError as error:
        raise CallError(_FAILURES.get(error.errno or 0, "error"), error.strerror or str(error)) from error
    except Exception as error:  # h2's own, and what garbage may make it stumble over
        raise CallError("not_grpc", _one_line(f"the server does not speak HTTP/2: {error}")) from error


class _Exchange:
    """A request under way and what has come back of it."""

    def __init__(self, method: str, clock: Clock, ends_at: float, largest: int) -> None:
        self._method = method
        self._clock = clock
        self._ends_at = ends_at
        self._largest = largest
        self._http2 = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self._stream = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._is_over = False

    def run(self, sock: socket.socket, path: str, request: bytes) -> bytes:
        sock.settimeout(self._time_left())
        sock.connect(path)
        self._ask(request)
        received = 0
        while not self._is_over:
            self._send(sock)
            sock.settimeout(self._time_left())
            data = sock.recv(_PIECE)
            if not data:
                raise CallError("disconnected", "the server hung up before the answer was complete")
            received += len(data)
            if received > self._largest + _OVERHEAD:
                raise self._too_large()
            self._take(self._http2.receive_data(data))
        return self._message()

    def _time_left(self) -> float:
        left = self._ends_at - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _ask(self, request: bytes) -> None:
        self._http2.initiate_connection()
        self._stream = self._http2.get_next_available_stream_id()
        self._http2.send_headers(
            self._stream,
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", self._method),
                (":authority", "localhost"),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("user-agent", "gpusight"),
                ("grpc-timeout", f"{max(1, int(self._time_left() * 1000))}m"),
            ],
        )
        self._http2.send_data(self._stream, b"\0" + len(request).to_bytes(4, "big") + request, end_stream=True)

    def _send(self, sock: socket.socket) -> None:
        data = self._http2.data_to_send()
        if data:
            sock.settimeout(self._time_left())
            sock.sendall(data)

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, ConnectionTerminated) and event.error_code != ErrorCodes.NO_ERROR:
                raise CallError("disconnected", f"the server ended the connection with error {event.error_code}")
            if getattr(event, "stream_id", None) == self._stream:
                self._take_own(event)

    def _take_own(self, event: Event) -> None:
        if isinstance(event, ResponseReceived | TrailersReceived):
            self._headers |= {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers or ()}
        elif isinstance(event, DataReceived):
            self._body += event.data or b""
            if len(self._body) > self._largest + _PREFIX:
                raise self._too_large()
            self._http2.acknowledge_received_data(event.flow_controlled_length or 0, self._stream)
        elif isinstance(event, StreamReset):
            raise CallError("disconnected", f"the server broke the call off with error {event.error_code}")
        elif isinstance(event, StreamEnded):
            self._is_over = True

    def _message(self) -> bytes:
        """The one message of the answer, when headers and trailers say that it is one."""
        self._check_status()
        if len(self._body) < _PREFIX:
            raise CallError("malformed", "the answer has no message")
        size = int.from_bytes(self._body[1:_PREFIX], "big")
        if self._body[0] != 0:
            raise CallError("compressed", "the answer is compressed, though we did not offer to read that")
        if size > self._largest:
            raise self._too_large()
        if size != len(self._body) - _PREFIX:
            raise CallError("malformed", "the answer is not exactly one message")
        return bytes(self._body[_PREFIX:])

    def _check_status(self) -> None:
        status = self._headers.get(":status", "")
        kind = self._headers.get("content-type", "")
        if status != "200" or not kind.startswith("application/grpc"):
            raise CallError("not_grpc", _one_line(f"the server answers HTTP {status} {kind}"))
        number = self._headers.get("grpc-status", "")
        if number == "0":
            return
        code = _CODES[int(number)] if number.isascii() and number.isdigit() and int(number) < len(_CODES) else number
        if not number:
            raise CallError("malformed", "the answer ends without a status")
        remark = unquote(self._headers.get("grpc-message", ""), errors="replace")
        raise CallError("status", _one_line(f"the server answers {code}: {remark}"), code)

    def _too_large(self) -> CallError:
        return CallError("too_large", f"the answer is larger than {self._largest} bytes")


def _one_line(text: str) -> str:
    """What the server says, fit for a log."""
    return "".join(char if char.isprintable() else " " for char in text[:_LONGEST_REMARK]).strip()
