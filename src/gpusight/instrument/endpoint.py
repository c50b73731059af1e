"""/metrics and /health of a program, in a daemon thread of its own.

One event loop and hard deadlines, so that slow or silent clients cost the program neither threads nor a scrape.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable

from gpusight import __version__
from gpusight.exposition.text import TEXT
from gpusight.instrument.metrics import GpuMetrics

_log = logging.getLogger("gpusight.instrument")
_HEAD_LIMIT = 8192
_DEADLINE = 5.0
_MOST_CONNECTIONS = 500
_LANDING = f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>GPU operations</title></head>
<body><h1>GPU operations</h1><p>This program is instrumented with gpusight {__version__}.</p>
<ul><li><a href="/metrics">/metrics</a>: for Prometheus</li><li><a href="/health">/health</a></li></ul></body></html>
"""


class MetricsServer:
    """A running endpoint: `port` and `url` tell where; `error` says why it could not start, and is None when it did."""

    def __init__(self, metrics: GpuMetrics, host: str | None, port: int) -> None:
        self.port: int | None = None
        self.url: str | None = None
        self.error: str | None = None
        self._metrics = metrics
        self._stop: Callable[[], object] | None = None
        self._thread: threading.Thread | None = None
        try:
            listener = _bind(host, port)
        except (OSError, OverflowError, TypeError) as error:
            self.error = f"cannot serve metrics on {host or '*'}:{port}: {error}"
            _log.warning("%s; the program goes on without its metrics endpoint", self.error)
            metrics.count_error("serve")
            return
        self.port = listener.getsockname()[1]
        self.url = f"http://{_url_host(host)}:{self.port}/metrics"
        self._start(listener)

    def close(self) -> None:
        """Stop listening; safe to call twice."""
        if self._stop is not None and self._thread is not None:
            self._stop()
            self._thread.join(_DEADLINE)
            self._stop = None

    def _start(self, listener: socket.socket) -> None:
        loop = asyncio.new_event_loop()
        stopped = asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(stopped.set)
        connections = _Connections(self._metrics)

        def run() -> None:
            with listener, asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(connections.serve(listener, stopped))

        self._thread = threading.Thread(target=run, name="gpusight-metrics", daemon=True)
        self._thread.start()


def _bind(host: str | None, port: int) -> socket.socket:
    if host:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=128)
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128)
    return socket.create_server(("", port), backlog=128)


def _url_host(host: str | None) -> str:
    if host in (None, "", "0.0.0.0", "::"):
        return "localhost"
    return f"[{host}]" if host and ":" in host else str(host)


class _Connections:
    """Answers requests, one per connection; when there are too many connections the oldest goes."""

    def __init__(self, metrics: GpuMetrics) -> None:
        self._metrics = metrics
        self._open: dict[asyncio.StreamWriter, None] = {}

    async def serve(self, listener: socket.socket, stopped: asyncio.Event) -> None:
        server = await asyncio.start_server(self._answer, sock=listener, limit=_HEAD_LIMIT)
        async with server:
            await stopped.wait()
        for writer in list(self._open):
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._make_room(writer)
        try:
            async with asyncio.timeout(_DEADLINE):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._response(head))
                await writer.drain()
                writer.write_eof()
                await reader.read(_HEAD_LIMIT)  # the client closes, or the deadline does
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass
        finally:
            self._open.pop(writer, None)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    def _make_room(self, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= _MOST_CONNECTIONS:
            next(iter(self._open)).transport.abort()
        self._open[writer] = None

    def _response(self, head: bytes) -> bytes:
        line = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(line) != 3 or not line[2].startswith("HTTP/1."):
            return _http("400 Bad Request", "text/plain; charset=utf-8", "bad request\n")
        method, target, _ = line
        if method not in ("GET", "HEAD"):
            return _http("405 Method Not Allowed", "text/plain; charset=utf-8", "use GET or HEAD\n", allow=True)
        status, kind, body = self._page(target.partition("?")[0])
        return _http(status, kind, body, head_only=method == "HEAD")

    def _page(self, path: str) -> tuple[str, str, str]:
        plain = "text/plain; charset=utf-8"
        match path:
            case "/metrics":
                return "200 OK", TEXT.content_type, self._metrics.export_prometheus()
            case "/health" | "/healthz" | "/-/healthy" | "/-/ready":
                return "200 OK", plain, "OK"
            case "/":
                return "200 OK", "text/html; charset=utf-8", _LANDING
            case _:
                return "404 Not Found", plain, "not found; /metrics has the metrics\n"


def _http(status: str, kind: str, body: str, *, head_only: bool = False, allow: bool = False) -> bytes:
    content = body.encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(content)}", "Connection: close"]
    if allow:
        lines.append("Allow: GET, HEAD")
    return "\r\n".join([*lines, "", ""]).encode() + (b"" if head_only else content)
