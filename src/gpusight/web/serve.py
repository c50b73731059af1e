"""The app on its addresses: uvicorn, with deadlines, a cap on connections, and TLS that follows its file."""

import asyncio
import contextlib
import logging
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fastapi import FastAPI
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from gpusight.exposition.http import raise_open_files_limit
from gpusight.exposition.listen import bind_all, bound_address
from gpusight.exposition.webconfig import WebConfig, WebConfigFile, has_allowed_san
from gpusight.web.gate import LARGEST_HEAD
from gpusight.web.guard import Crowd, GuardLimits, Watch, guard_class

log = logging.getLogger("gpusight.web")

_KEEP_ALIVE = 75
_NO_CONFIG = WebConfig()
_NOT_HTTP_BODY = b'{"error":{"code":"bad_request","message":"This is not a valid HTTP request.","detail":null}}'
_NOT_HTTP = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_NOT_HTTP_BODY), _NOT_HTTP_BODY)
)


class WebServer:
    """A running server. `addresses` tells where it listens, with real ports."""

    def __init__(self, server: "_Server", addresses: list[str], crowd: Crowd, task: "asyncio.Task[None]") -> None:
        self.addresses = addresses
        self.crowd = crowd
        self._server = server
        self._task = task

    async def close(self) -> None:
        """Stop listening, let answers under way finish for a while, then cut everything."""
        self._server.should_exit = True
        try:
            await self._task
        finally:
            self.crowd.cut_all()

    async def wait(self) -> None:
        """Until it is closed, or fails."""
        await asyncio.shield(self._task)


async def serve_app(
    app: FastAPI,
    *,
    listen: Sequence[str],
    limits: GuardLimits = GuardLimits(),  # noqa: B008  (frozen)
    on_refusal: Callable[[], None] = lambda: None,
    shutdown_seconds: int = 5,
) -> WebServer:
    """Serve what create_app made, on all of the addresses. Raises ListenError, and what the app's start raises.

    `on_refusal` is called for each connection that finds no room: everybody is being served.
    """
    raise_open_files_limit()
    sockets = bind_all(listen)
    addresses = [bound_address(sock) for sock in sockets]
    crowd = Crowd(limits, on_refusal)
    config = Config(
        app,
        http=_Front(crowd, app.state.web_config),  # type: ignore[arg-type]  # called like a class
        ws="none",
        lifespan="on",
        log_config=None,
        log_level=logging.ERROR,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=shutdown_seconds,
        h11_max_incomplete_event_size=LARGEST_HEAD,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=sockets))
    started = asyncio.create_task(server.has_started.wait())
    await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
    started.cancel()
    if task.done():
        for sock in sockets:
            sock.close()
        await task
    return WebServer(server, addresses, crowd, task)


class _Server(Server):
    """Leaves signals to whoever runs the process, and says when it is up."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.has_started = asyncio.Event()

    async def startup(self, sockets: Any = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit:
            raise RuntimeError("the web application could not start; the log says why") from None
        self.has_started.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Front:
    """Makes the protocol for each connection, with TLS or without, as the web configuration has it at that moment."""

    def __init__(self, crowd: Crowd, web_config: WebConfigFile | None) -> None:
        class Guarded(_Connection):
            """Guarded by this server's crowd, not by another's."""

        guard_class(Guarded, lambda: crowd)
        self._protocol_class = Guarded
        self._crowd = crowd
        self._web_config = web_config

    def __call__(self, **given: Any) -> asyncio.BaseProtocol:
        protocol = self._protocol_class(**given)
        config = self._web_config.current() if self._web_config else _NO_CONFIG
        return protocol if config.tls is None else _Tls(protocol, config, self._crowd)


class _Connection(H11Protocol):
    """uvicorn's, with our words for what is not HTTP, and its share in TLS."""

    shaking: Watch | None = None
    allowed_sans: frozenset[str] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if self.shaking is not None:
            self.shaking.gone()
        super().connection_made(transport)
        if self.allowed_sans is not None:
            certificate = transport.get_extra_info("peercert")
            if not has_allowed_san(certificate, self.allowed_sans):
                log.debug("%s: the client certificate bears none of the allowed names", self.client)
                transport.abort()

    def send_400_response(self, msg: str) -> None:
        del msg
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_NOT_HTTP)
            self.transport.close()
        else:  # an answer is under way already
            self.transport.abort()


class _Tls(SSLProtocol):
    """asyncio's TLS with a small buffer; while it shakes hands, the connection counts as a newcomer."""

    max_size = 16 * 1024

    def __init__(self, connection: _Connection, config: WebConfig, crowd: Crowd) -> None:
        super().__init__(
            asyncio.get_running_loop(),
            connection,
            config.tls,  # type: ignore[arg-type]  # it is one, see above
            None,  # type: ignore[arg-type]  # no waiter
            server_side=True,
            ssl_handshake_timeout=crowd.limits.handshake,  # type: ignore[arg-type]  # wants int
            ssl_shutdown_timeout=crowd.limits.write,
        )
        connection.allowed_sans = config.allowed_sans
        self._connection = connection
        self._crowd = crowd

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.shaking = Watch(self._crowd, transport, self, is_tls=True)  # type: ignore[arg-type]
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._connection.shaking is not None:
            self._connection.shaking.gone()
        super().connection_lost(exc)
