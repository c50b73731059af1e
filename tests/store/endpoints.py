"""Endpoints with metrics on loopback that can misbehave."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar


class Endpoint:
    """`answer` is called for every request; by default it sends `text`."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.answer: Callable[[BaseHTTPRequestHandler], None] = self.send_text
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.port = 0
        self.released = threading.Event()
        """Set at the end, so that no handler stalls for ever."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def send_text(self, handler: BaseHTTPRequestHandler) -> None:
        self.send(handler, self.text.encode())

    def send(self, handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
        handler.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    def send_gzip(self, handler: BaseHTTPRequestHandler) -> None:
        self.send(handler, gzip.compress(self.text.encode()), Content_Encoding="gzip")

    def stall(self, handler: BaseHTTPRequestHandler) -> None:
        self.released.wait(30)

    def trickle(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not self.released.wait(0.02):
            handler.wfile.write(b"#")
            handler.wfile.flush()

    def flood(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not self.released.is_set():
            handler.wfile.write(b"a 1\n" * 10_000)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        """Clients that hang up are what the tests are about."""


@contextmanager
def endpoint(text: str = "") -> Iterator[Endpoint]:
    made = Endpoint(text)

    class Handler(BaseHTTPRequestHandler):
        timeout: ClassVar[float] = 10

        def do_GET(self) -> None:
            made.requests.append((self.path, dict(self.headers)))
            with suppress(OSError):
                made.answer(self)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with _Server(("127.0.0.1", 0), Handler) as server:
        made.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield made
        finally:
            made.released.set()
            server.shutdown()
            thread.join()
