"""A proxy before a real Prometheus that spoils its answers on command."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

JSON = "application/json"


class Answer(NamedTuple):
    status: int
    content_type: str
    body: bytes


def _results(answer: Answer) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    document = json.loads(answer.body)
    data = document.get("data")
    return document, data["result"] if isinstance(data, dict) and "result" in data else []


def _changed(answer: Answer, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Answer:
    document, results = _results(answer)
    if results:
        document["data"]["result"] = change(results)
    return answer._replace(body=json.dumps(document).encode())


def _nan(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for each in results:
        if "value" in each:
            each["value"][1] = "NaN"
        if "values" in each:
            each["values"] = [[at, "NaN"] for at, _ in each["values"]]
    return results


def _stale_duplicate_first(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Before each series one of an exporter that is gone, standing at 0."""
    ghosts = [
        {"metric": each["metric"] | {"instance": "gone:9400"}, "value": [1, "0"]} for each in results if "value" in each
    ]
    return ghosts + results


def _error(status: int) -> Callable[[Answer], Answer]:
    body = json.dumps({"status": "error", "errorType": "internal", "error": "broken on purpose"}).encode()
    return lambda _: Answer(status, JSON, body)


FAULTS: Mapping[str, Callable[[Answer], Answer]] = {
    "500": _error(500),
    "503": _error(503),
    "empty": lambda answer: _changed(answer, lambda _: []),
    "nan": lambda answer: _changed(answer, _nan),
    "html": lambda _: Answer(200, "text/html", b"<html><body>Sign in</body></html>"),
    "duplicate": lambda answer: _changed(answer, _stale_duplicate_first),
    "truncated": lambda answer: answer._replace(body=answer.body[: len(answer.body) // 2]),
    "warnings": lambda answer: answer._replace(
        body=json.dumps(json.loads(answer.body) | {"warnings": ["partial response: a store is down"]}).encode()
    ),
}
"""What can be done to an answer; `stall` holds it back instead."""


class FaultProxy:
    """`fault` is the one in force; `only` restricts it to requests whose path and query contain it."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.fault = ""
        self.only = ""
        self.url = ""
        self.released = threading.Event()

    def answer(self, method: str, target: str, body: bytes | None, content_type: str) -> Answer:
        asked = target.encode() + (body or b"")
        fault = self.fault if self.only.encode() in asked else ""
        if fault == "stall":
            self.released.wait(30)
        headers = {"Content-Type": content_type} if body else {}
        request = urllib.request.Request(f"{self.upstream}{target}", data=body, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                found = Answer(response.status, response.headers.get("Content-Type", JSON), response.read())
        except urllib.error.HTTPError as error:
            found = Answer(error.code, error.headers.get("Content-Type", JSON), error.read())
        return FAULTS[fault](found) if fault in FAULTS else found


@contextmanager
def fault_proxy(upstream: str) -> Iterator[FaultProxy]:
    proxy = FaultProxy(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._pass(None)

        def do_POST(self) -> None:
            self._pass(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

        def _pass(self, body: bytes | None) -> None:
            answer = proxy.answer(self.command, self.path, body, self.headers.get("Content-Type", ""))
            with suppress(OSError):
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.content_type)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    proxy.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.released.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
