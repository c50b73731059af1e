"""An engine on loopback that says what a test tells it to, in any state of health."""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Said:
    """One answer over the wire. `pause` comes before it; `trickle` between its bytes; `cut` after so many bytes."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    pause: float = 0.0
    trickle: float = 0.0
    cut: int | None = None


def vector(rows: Sequence[tuple[Labels, object]], **extra: object) -> Said:
    result = [{"metric": dict(labels), "value": [0, str(value)]} for labels, value in rows]
    return said({"status": "success", "data": {"resultType": "vector", "result": result}, **extra})


def names(*families: str) -> Said:
    return said({"status": "success", "data": list(families)})


def said(answer: object, status: int = 200) -> Said:
    return Said(json.dumps(answer).encode(), status)


Script = Callable[[str, Mapping[str, str]], Said]
"""Path and parameters to what is said."""


@dataclass
class Scripted:
    url: str
    asked: list[tuple[str, str, dict[str, str], dict[str, str]]] = field(default_factory=list)
    """Method, path, parameters and headers of each request."""

    def queries(self) -> list[str]:
        return [parameters["query"] for _, _, parameters, _ in self.asked if "query" in parameters]


@contextmanager
def scripted(script: Script, *, refuses_posts: bool = False, tls: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    engine = Scripted("")
    gone = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            self._answer(url.path, dict(parse_qsl(url.query)))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            if refuses_posts:
                engine.asked.append((self.command, self.path, {}, dict(self.headers)))
                self._send(Said(b"", 405))
            else:
                self._answer(self.path, dict(parse_qsl(body.decode())))

        def _answer(self, path: str, parameters: dict[str, str]) -> None:
            engine.asked.append((self.command, path, parameters, dict(self.headers)))
            self._send(script(path, parameters))

        def _send(self, answer: Said) -> None:
            if answer.pause and gone.wait(answer.pause):
                return
            body = answer.body if answer.cut is None else answer.body[: answer.cut]
            self.send_response_only(answer.status)
            headers = {"Date": self.date_time_string(), "Content-Length": str(len(answer.body)), **answer.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if answer.trickle:
                for byte in body:
                    self.wfile.write(bytes([byte]))
                    if gone.wait(answer.trickle):
                        return
            else:
                self.wfile.write(body)
            if answer.cut is not None:
                self.close_connection = True

        def log_message(self, *_: object) -> None: ...

        def handle(self) -> None:
            with suppress(ConnectionError, ssl.SSLError):
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    engine.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="scripted")
    thread.start()
    try:
        yield engine
    finally:
        gone.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


UUIDS = ("GPU-00000000-0000-4000-8000-00000000000a", "GPU-00000000-0000-4000-8000-00000000000b")


def busy_fleet(now: float | None = None) -> Script:
    """Two GPUs of dcgm-exporter at 95 %, in the hands of two pods."""
    moment = time.time() if now is None else now

    def script(path: str, parameters: Mapping[str, str]) -> Said:
        if path.endswith("/values"):
            return names("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "up", "something_else")
        query = parameters["query"]
        rows = [
            ({"UUID": uuid, "namespace": "team", "pod": f"pod-{i}", "container": "main"}, i)
            for i, uuid in enumerate(UUIDS)
        ]
        if query.startswith("max by") and "timestamp(DCGM" in query and "over_time" not in query:
            full = [
                (
                    {**labels, "Hostname": "node-1", "modelName": "H100", "job": "dcgm", "instance": "10.0.0.1:9400"},
                    moment,
                )
                for labels, _ in rows
            ]
            return vector(full)
        if "(up{" in query:
            return vector(
                [({"job": "dcgm", "instance": "10.0.0.1:9400", "namespace": "gpu", "pod": "dcgm-exporter-x"}, 1)]
            )
        if "count_over_time" in query:
            return vector([(labels, 20) for labels, _ in rows])
        if "DCGM_FI_DEV_FB_USED" in query:
            return vector([(labels, 40960) for labels, _ in rows])
        return vector([(labels, 95) for labels, _ in rows])

    return script
