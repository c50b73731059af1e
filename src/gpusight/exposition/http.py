"""A small HTTP/1.1 server for exporters, on asyncio and h11, that bad clients cannot hold up.

Every wait for a client has a deadline and every buffer a bound. Connections are capped; at the cap, whoever has been
connected longest without having sent a whole request makes room. So a scrape gets through while thousands dawdle.
"""

import asyncio
import errno
import logging
import os
import re
import resource
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import cast

import h11

from gpusight.exposition.endpoint import Endpoint, Request, Response, plain
from gpusight.exposition.listen import bind_all, bound_address
from gpusight.exposition.webconfig import Credentials, TokenBucket, WebConfig, WebConfigFile, has_allowed_san
from gpusight.model.time import Clock

log = logging.getLogger("gpusight.web")

_ACCEPTS_AT_ONCE = 64
_BREATHER = 0.05
_PIECE = 64 * 1024
_DISCARDED_AT_MOST = 1 << 20
_OUT_OF_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_AUTHORITY = re.compile(r"^https?://[^/?#]*", re.IGNORECASE)
_HANDSHAKE = b"\x16"
_RECORD_HEAD = 5
_LARGEST_RECORD = _RECORD_HEAD + 16 * 1024
_NO_CONFIG = WebConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a client may take, in seconds, and how much it may hold."""

    handshake: float = 5.0
    """For all of the TLS handshake, counted from the connection."""
    head: float = 5.0
    """For the whole head of a request, counted from the connection or from the first byte of a later request."""
    body: float = 5.0
    idle: float = 120.0
    write: float = 30.0
    """For the whole response: who has not read it by then never will."""
    linger: float = 1.0
    """For a refused client to read why, before the connection is cut."""
    shutdown: float = 5.0
    head_bytes: int = 16 * 1024
    body_bytes: int = 16 * 1024
    connections: int | None = None
    """At most that many; None takes it from the limit on open files."""
    tls_connections: int = 512
    """At most that many with TLS: each takes some 65 KiB, many times as much as a plain one."""
    grace: float = 1.0
    """At the cap, so long a newcomer has to send its request before it must leave ahead of those who once did."""
    stalled_writers: int = 64
    """Responses waiting for their readers; one more cuts off the one that has waited longest."""


def raise_open_files_limit() -> int:
    """Let the process open as many files as it is allowed to; answers how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            return hard
    return soft


def connection_cap(open_files: int) -> int:
    """How many connections fit under a limit on open files, leaving a reserve for everything else."""
    return max(16, min(8192, open_files - max(128, open_files // 4)))


async def serve(
    endpoint: Endpoint,
    *,
    listen: Sequence[str],
    web_config: WebConfigFile | None,
    clock: Clock,
    limits: Limits = Limits(),  # noqa: B008  (frozen)
) -> "Server":
    """Serve the endpoint on all of the addresses until the server is closed. Raises ListenError."""
    return Server(endpoint, bind_all(listen), web_config, clock, limits)


class Server:
    """A running server. `addresses` tells where it listens, with real ports."""

    def __init__(
        self,
        endpoint: Endpoint,
        listeners: Sequence[socket.socket],
        web_config: WebConfigFile | None,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self.addresses = [bound_address(listener) for listener in listeners]
        self.limits = limits
        self.crowd = _Crowd(limits)
        self.is_closing = False
        self._endpoint = endpoint
        self._listeners = listeners
        self._web_config = web_config
        self._clock = clock
        self._credentials = Credentials()
        self._bucket: TokenBucket | None = None
        self._loop = asyncio.get_running_loop()
        self._connects: set[asyncio.Task[None]] = set()
        self._turnstile = _Turnstile()
        self._spare = _SpareFile()
        if web_config is not None:
            endpoint.expose(web_config.blocks)
        for listener in listeners:
            self._loop.add_reader(listener, self._accept, listener)

    async def close(self) -> None:
        """Stop listening, let responses under way finish for a while, then cut everything."""
        if self.is_closing:
            return
        self.is_closing = True
        for listener in self._listeners:
            self._loop.remove_reader(listener)
            listener.close()
        self._spare.release()
        while self.crowd.send_one_away():
            pass
        with suppress(TimeoutError):
            async with asyncio.timeout(self.limits.shutdown):
                await self.crowd.emptied()
        self.crowd.send_all_away()
        await asyncio.gather(*self._connects, return_exceptions=True)
        await self.crowd.emptied()

    def config(self) -> WebConfig:
        return self._web_config.current() if self._web_config else _NO_CONFIG

    async def answer(self, request: Request, peer: str, config: WebConfig) -> Response:
        response = await self._refusal(request, peer, config) or await self._endpoint.respond(request)
        date = formatdate(self._clock.now(), usegmt=True)
        return response.with_headers((("Date", date), *config.headers))

    async def _refusal(self, request: Request, peer: str, config: WebConfig) -> Response | None:
        if not self._is_within_rate(config):
            self._endpoint.reject("busy")
            return plain(429, "too many requests", ("Retry-After", "1"))
        if not config.users:
            return None
        verdict = await self._credentials.judge(config.users, request.header("authorization"), peer)
        if verdict == "allowed":
            return None
        self._endpoint.reject("auth")
        if verdict == "busy":
            return plain(503, "too many passwords to check; try again in a second", ("Retry-After", "1"))
        return plain(401, "a user name and a password are needed", ("WWW-Authenticate", 'Basic realm="gpusight"'))

    def _is_within_rate(self, config: WebConfig) -> bool:
        if config.rate_limit is None:
            self._bucket = None
            return True
        now = self._clock.monotonic()
        if self._bucket is None or self._bucket.limit != config.rate_limit:
            self._bucket = TokenBucket(config.rate_limit, now)
        return self._bucket.take(now)

    def _accept(self, listener: socket.socket) -> None:
        for count in range(_ACCEPTS_AT_ONCE):
            try:
                sock, address = listener.accept()
            except OSError as error:  # nobody there any more, or a caller that already hung up
                # Linux says "too many files" also when nobody is waiting: only the first time somebody surely is.
                if error.errno in _OUT_OF_RESOURCES and count == 0:
                    self._shed(listener)
                return
            sock.setblocking(False)
            self._welcome(sock, str(address[0]))

    def _shed(self, listener: socket.socket) -> None:
        """No file is left for the next in line: make an idler leave, or turn the caller away with the spare file."""
        if self.crowd.send_one_away():
            return
        self._endpoint.reject("connections")
        self._spare.release()
        with suppress(OSError):
            listener.accept()[0].close()
        if not self._spare.take():  # somebody else was faster
            self._loop.remove_reader(listener)
            self._loop.call_later(_BREATHER, self._listen_again, listener)

    def _listen_again(self, listener: socket.socket) -> None:
        if not self.is_closing:
            self._spare.take()
            self._loop.add_reader(listener, self._accept, listener)

    def _welcome(self, sock: socket.socket, peer: str) -> None:
        if self.crowd.is_full and not self.crowd.send_one_away():
            self._endpoint.reject("connections")
            sock.close()
            return
        config = self.config()
        connection = _Connection(self, sock, peer, config)
        self.crowd.enter(connection)
        task = self._loop.create_task(self._connect(connection, sock, config.tls))
        self._connects.add(task)
        task.add_done_callback(self._connects.discard)

    async def _connect(self, connection: "_Connection", sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        try:
            if tls is None:
                await self._loop.connect_accepted_socket(lambda: connection, sock)
                return
            if await self._may_shake_hands(connection, sock):
                self.crowd.shake(connection)
                layer = _Tls(connection, tls, self.limits)
                await self._loop.connect_accepted_socket(lambda: layer, sock)
                return
        except OSError as error:  # TimeoutError is one
            log.debug("%s: no connection came about: %s", connection.peer, error)
        sock.close()
        self.crowd.leave(connection)

    async def _may_shake_hands(self, connection: "_Connection", sock: socket.socket) -> bool:
        async with asyncio.timeout(self.limits.handshake):
            if not await _client_says_hello(sock):
                return False
            await self._turnstile.enter(connection.peer)
            return True


class _Tls(SSLProtocol):
    """asyncio's TLS with a small buffer: its own 256 KiB for each connection would make half-open ones dear.

    Nobody waits for the handshake: the connection is told when it is done, and here is noticed when it fails. (A waiter
    would keep a failed handshake in memory, in a cycle with its exception, until the next garbage collection.)
    """

    max_size = 16 * 1024

    def __init__(self, connection: "_Connection", tls: ssl.SSLContext, limits: Limits) -> None:
        super().__init__(
            asyncio.get_running_loop(),
            connection,
            tls,
            None,  # type: ignore[arg-type]  # no waiter
            server_side=True,
            ssl_handshake_timeout=max(limits.handshake - connection.age, 0.1),  # type: ignore[arg-type]  # wants int
            ssl_shutdown_timeout=limits.write,
        )
        self._connection = connection

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        if not self._connection.is_made:
            self._connection.connection_lost(exc)


class _Turnstile:
    """Lets a few handshakes begin per turn of the event loop: each address in turn, and its latest comer first.

    A handshake takes half a millisecond of computing. When more want to begin than can be served, one address must not
    hold up another, and whoever has waited for long is hardly worth it any more.
    """

    def __init__(self, at_once: int = 8) -> None:
        self._at_once = at_once
        self._waiting: OrderedDict[str, list[asyncio.Future[None]]] = OrderedDict()

    async def enter(self, peer: str) -> None:
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._turn)
        turn = loop.create_future()
        self._waiting.setdefault(peer, []).append(turn)
        await turn

    def _turn(self) -> None:
        left = self._at_once
        while self._waiting and left:
            peer, queue = self._waiting.popitem(last=False)
            turn = queue.pop()
            if queue:
                self._waiting[peer] = queue
            if not turn.done():  # who ran out of time is gone
                turn.set_result(None)
                left -= 1
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._turn)


async def _client_says_hello(sock: socket.socket) -> bool:
    """Wait for the whole first TLS record without taking it: before that, no memory is spent on the handshake."""
    head = await _peek(sock, _RECORD_HEAD)
    if head[:1].isalpha():
        _answer_in_the_clear(sock)
    if head[:1] != _HANDSHAKE or len(head) < _RECORD_HEAD:
        return False
    size = _RECORD_HEAD + int.from_bytes(head[3:], "big")
    return size <= _LARGEST_RECORD and len(await _peek(sock, size)) == size


async def _peek(sock: socket.socket, size: int) -> bytes:
    """The next so many bytes, left where they are; fewer at the end of the stream."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[None] = loop.create_future()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
    loop.add_reader(sock, _settle, arrived)
    try:
        await arrived
    finally:
        loop.remove_reader(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    return sock.recv(size, socket.MSG_PEEK)


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _answer_in_the_clear(sock: socket.socket) -> None:
    sock.recv(_PIECE)  # what stays unread would turn the close into a reset
    sock.send(_last_words(400, "this port speaks HTTPS, not HTTP", (), False))


class _SpareFile:
    """An open file kept to be given up when no other can be had."""

    def __init__(self) -> None:
        self._fd: int | None = None
        self.take()

    def take(self) -> bool:
        if self._fd is None:
            with suppress(OSError):
                self._fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return self._fd is not None

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class _Crowd:
    """Who is connected, each group from the longest to the shortest waiting."""

    def __init__(self, limits: Limits) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._cap = limits.connections or connection_cap(soft)
        self._tls_cap = limits.tls_connections
        self._max_stalled = limits.stalled_writers
        self._grace = limits.grace
        self._newcomers: dict[_Connection, None] = {}
        self._shaking: dict[_Connection, None] = {}
        self._idle: dict[_Connection, None] = {}
        self._busy: dict[_Connection, None] = {}
        self._groups = (self._newcomers, self._shaking, self._idle, self._busy)
        self._stalled: dict[_Connection, None] = {}
        self._open: set[_Connection] = set()
        self._on_empty = asyncio.Event()

    def __len__(self) -> int:
        return sum(map(len, self._groups))

    @property
    def is_full(self) -> bool:
        return len(self) >= self._cap

    def enter(self, connection: "_Connection") -> None:
        self._open.add(connection)
        self._newcomers[connection] = None

    def leave(self, connection: "_Connection") -> None:
        self.give_up(connection)
        self._open.discard(connection)
        if not self._open:
            self._on_empty.set()

    def shake(self, connection: "_Connection") -> None:
        """From here on it costs as much as a TLS connection does."""
        self._move(connection, self._shaking)
        if len(self) - len(self._newcomers) > self._tls_cap:
            self._send_away(self._shaking, self._idle)

    def serve(self, connection: "_Connection") -> None:
        self._move(connection, self._busy)

    def rest(self, connection: "_Connection") -> None:
        self._move(connection, self._idle)

    def give_up(self, connection: "_Connection") -> None:
        """It is about to be closed and counts no longer."""
        for group in (*self._groups, self._stalled):
            group.pop(connection, None)

    def stall(self, connection: "_Connection") -> None:
        self._stalled[connection] = None
        if len(self._stalled) > self._max_stalled:
            next(iter(self._stalled)).cut()

    def flow(self, connection: "_Connection") -> None:
        self._stalled.pop(connection, None)

    def send_one_away(self) -> bool:
        """Close who can be spared best; False if everybody is being served.

        That is the oldest newcomer; but one that has only just come may be an honest scrape, while to an idle client
        it makes no difference when it reconnects.
        """
        return self._send_away(self._newcomers or self._shaking, self._idle)

    def send_all_away(self) -> None:
        for connection in list(self._open):
            connection.cut()

    async def emptied(self) -> None:
        while self._open:
            self._on_empty.clear()
            await self._on_empty.wait()

    def _send_away(self, newcomers: "dict[_Connection, None]", idlers: "dict[_Connection, None]") -> bool:
        newcomer, idler = next(iter(newcomers), None), next(iter(idlers), None)
        if idler is not None and (newcomer is None or newcomer.age < self._grace):
            idler.cut()
        elif newcomer is not None:
            newcomer.cut()
        return newcomer is not None or idler is not None

    def _move(self, connection: "_Connection", group: "dict[_Connection, None]") -> None:
        for other in self._groups:
            other.pop(connection, None)
        group[connection] = None


class _Connection(asyncio.Protocol):
    """One client: reads a request, has it answered, writes the response, and so on until either side is done.

    Reading stops while a request is answered, so that a client cannot pile up more.
    """

    __slots__ = (
        "_body_left",
        "_config",
        "_discarded",
        "_has_ended",
        "_http",
        "_is_cut",
        "_is_idle",
        "_on_writable",
        "_request",
        "_server",
        "_since",
        "_sock",
        "_task",
        "_timer",
        "_transport",
        "peer",
    )

    def __init__(self, server: Server, sock: socket.socket, peer: str, config: WebConfig) -> None:
        self.peer = peer
        self._server = server
        self._sock = sock
        self._since = asyncio.get_running_loop().time()
        self._config = config
        self._transport: asyncio.Transport | None = None
        self._http: h11.Connection | None = None
        self._request: h11.Request | None = None
        self._body_left = 0
        self._discarded: int | None = None
        self._has_ended = self._is_cut = self._is_idle = False
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._on_writable: asyncio.Event | None = None

    @property
    def is_made(self) -> bool:
        return self._transport is not None

    @property
    def age(self) -> float:
        return asyncio.get_running_loop().time() - self._since

    # --- what asyncio calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(high=_PIECE)
        allowed = self._config.allowed_sans
        if allowed is not None and not has_allowed_san(transport.get_extra_info("peercert"), allowed):
            log.debug("%s: the client certificate bears none of the allowed names", self.peer)
            self._is_cut = True
        if self._is_cut:
            self.cut()
        else:
            self._wait(self._limits.head, self._head_expired)

    def data_received(self, data: bytes) -> None:
        if self._discarded is not None:
            self._discarded += len(data)
            if self._discarded > _DISCARDED_AT_MOST:
                self.cut()
            return
        if self._http is None:
            self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head_bytes)
        if self._is_idle:
            self._is_idle = False
            self._wait(self._limits.head, self._head_expired)
        self._http.receive_data(data)
        self._advance()

    def eof_received(self) -> bool:
        self._has_ended = True
        if self._http is None or self._discarded is not None:
            return False
        self._http.receive_data(b"")
        self._advance()
        return not self._is_tls  # a half-closed client still gets its answer; TLS has no such thing

    def connection_lost(self, _error: BaseException | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        self._server.crowd.leave(self)

    def pause_writing(self) -> None:
        self._on_writable = asyncio.Event()
        self._server.crowd.stall(self)

    def resume_writing(self) -> None:
        if self._on_writable is not None:
            self._on_writable.set()
            self._on_writable = None
        self._server.crowd.flow(self)

    # --- reading ---

    def _advance(self) -> None:
        """Take what has arrived as far as it goes."""
        assert self._http is not None  # noqa: S101
        try:
            while self._take(self._http.next_event()):
                pass
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, "this is not a valid HTTP request")

    def _take(self, event: object) -> bool:
        """True if more may follow at once."""
        match event:
            case h11.Request():
                return self._take_head(event)
            case h11.Data(data=data):
                return self._take_body(len(data))
            case h11.EndOfMessage():
                self._begin()
            case h11.ConnectionClosed():
                self._close()
        return False

    def _take_head(self, request: h11.Request) -> bool:
        self._request = request
        refusal = head_refusal(request, self._limits)
        if refusal is not None:
            self._refuse(*refusal)
            return False
        if self._http is not None and self._http.they_are_waiting_for_100_continue:
            self._begin()  # what they would send is of no interest
            return False
        self._body_left = self._limits.body_bytes
        if _has_body(request):
            self._wait(self._limits.body, self._body_expired)
        return True

    def _take_body(self, size: int) -> bool:
        self._body_left -= size
        if self._body_left < 0:
            self._refuse(413, "requests with a body have no business here")
        return self._body_left >= 0

    def _head_expired(self) -> None:
        if self._http is None:
            self.cut()
        else:
            self._refuse(408, "the request did not arrive in time")

    def _body_expired(self) -> None:
        self._refuse(408, "the body of the request did not arrive in time")

    # --- answering ---

    def _begin(self) -> None:
        self._calm()
        self._the_transport.pause_reading()
        self._server.crowd.serve(self)
        self._task = asyncio.get_running_loop().create_task(self._serve())

    async def _serve(self) -> None:
        try:
            if await self._answer():
                self._next()
            else:
                await self._drain()
                self._discard()
        except Exception:
            log.exception("a connection failed; the others go on")
            self.cut()

    async def _answer(self) -> bool:
        """Answer the request; True if the connection can be used again."""
        request, http = self._request, self._http
        if request is None or http is None:
            return False
        config = self._server.config()
        if config.tls is not None and not self._is_tls:
            self.cut()  # TLS was switched on: nothing more in the clear; the client finds out when it reconnects
            return False
        response = await self._server.answer(to_request(request), self.peer, config)
        if self._server.is_closing or config.tls is not self._config.tls or http.their_state is not h11.DONE:
            response = response.with_headers([("Connection", "close")])
        await self._send(response)
        return http.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}

    async def _send(self, response: Response) -> None:
        self._wait(self._limits.write, self.cut)
        for piece in self._frames(response):
            if self._the_transport.is_closing():
                return
            self._the_transport.write(piece)
            await self._writable()

    def _frames(self, response: Response) -> Iterator[bytes]:
        http = self._http
        if http is None:
            return
        is_head = self._request is not None and self._request.method == b"HEAD"
        body = b"" if is_head else response.body
        out = http.send(h11.Response(status_code=response.status, headers=_raw(response), reason=_phrase(response)))
        for start in range(0, len(body), _PIECE):
            data = http.send(h11.Data(data=body[start : start + _PIECE]))
            yield (out or b"") + (data or b"")
            out = b""
        yield (out or b"") + (http.send(h11.EndOfMessage()) or b"")

    async def _writable(self) -> None:
        if self._on_writable is not None:
            await self._on_writable.wait()

    async def _drain(self) -> None:
        if not self._is_tls:  # asyncio's TLS closes in good order by itself
            self._the_transport.set_write_buffer_limits(high=0)
            await self._writable()

    def _next(self) -> None:
        self._task = self._request = None
        self._server.crowd.rest(self)
        if self._http is None:
            return
        self._http.start_next_cycle()
        self._is_idle = True
        self._wait(self._limits.idle, self._close)
        self._the_transport.resume_reading()
        self._advance()
        if self._http.their_state is h11.IDLE and self._http.trailing_data[0]:
            self._is_idle = False  # the next head has begun
            self._wait(self._limits.head, self._head_expired)

    # --- ending ---

    def cut(self) -> None:
        """End it now, whatever it is doing."""
        self._is_cut = True
        self._server.crowd.give_up(self)
        if self._transport is not None:
            self._transport.abort()
        else:
            with suppress(OSError):  # still shaking hands: asyncio sees the end and tidies up
                self._sock.shutdown(socket.SHUT_RDWR)

    def _refuse(self, status: int, sentence: str) -> None:
        is_head = self._request is not None and self._request.method == b"HEAD"
        self._the_transport.write(_last_words(status, sentence, self._config.headers, is_head))
        self._discard()

    def _discard(self) -> None:
        """Say no more, but let the client read what was said: to close on unread input would take it back."""
        self._task = None
        if self._is_cut:
            return
        self._server.crowd.rest(self)
        if self._has_ended or not self._the_transport.can_write_eof():
            self._close()
            return
        self._discarded = 0
        try:
            self._the_transport.write_eof()
        except OSError:  # the client has reset the connection
            self.cut()
            return
        self._the_transport.resume_reading()
        self._wait(self._limits.linger, self.cut)

    def _close(self) -> None:
        self._the_transport.close()
        self._wait(self._limits.write, self.cut)

    # --- small things ---

    @property
    def _limits(self) -> Limits:
        return self._server.limits

    @property
    def _the_transport(self) -> asyncio.Transport:
        assert self._transport is not None  # noqa: S101
        return self._transport

    @property
    def _is_tls(self) -> bool:
        return self._config.tls is not None

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        """From now on this is the one thing that happens if nothing else does."""
        self._calm()
        self._timer = asyncio.get_running_loop().call_later(seconds, then)

    def _calm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def head_refusal(request: h11.Request, limits: Limits) -> tuple[int, str] | None:
    """Why a request is not even looked at, where h11 would let it pass."""
    if not request.http_version.startswith(b"1."):
        return 505, "this server speaks HTTP/1.1"
    size = len(request.target) + sum(len(name) + len(value) + 4 for name, value in request.headers)
    if size > limits.head_bytes:
        return 431, f"a request may have {limits.head_bytes} bytes of headers at most"
    lengths = [value for name, value in request.headers if name == b"content-length"]
    if _is_chunked(request) and (lengths or request.http_version < b"1.1"):
        return 400, "this is not a valid HTTP request"  # how long it is depends on whom you ask: smuggling
    if lengths and int(lengths[0]) > limits.body_bytes:
        return 413, "requests with a body have no business here"
    return None


def to_request(event: h11.Request) -> Request:
    headers: dict[str, str] = {}
    for raw_name, raw_value in event.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    target = _AUTHORITY.sub("", event.target.decode("ascii"), count=1)
    path, _, query = target.partition("?")
    return Request(event.method.decode("ascii"), path or "/", query, headers)


def _is_chunked(request: h11.Request) -> bool:
    return any(name == b"transfer-encoding" for name, _ in request.headers)


def _has_body(request: h11.Request) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in request.headers)


@lru_cache(maxsize=64)
def _last_words(status: int, sentence: str, headers: tuple[tuple[str, str], ...], is_head: bool) -> bytes:
    """A refusal, ready to send: thousands of slow clients are refused every few seconds, and that must cost little."""
    response = plain(status, sentence, ("Connection", "close")).with_headers(headers)
    lines = [b"HTTP/1.1 %d %s" % (status, _phrase(response)), *(b"%s: %s" % header for header in _raw(response))]
    return b"\r\n".join(lines) + b"\r\n\r\n" + (b"" if is_head else response.body)


def _raw(response: Response) -> list[tuple[bytes, bytes]]:
    return [(name.encode("ascii"), value.encode("latin-1", "replace")) for name, value in response.headers]


def _phrase(response: Response) -> bytes:
    return HTTPStatus(response.status).phrase.encode("ascii")
