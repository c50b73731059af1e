"""An API server on loopback: a history of versions, pages, watches with bookmarks, and any fault on demand.

What it does right, it does as kube-apiserver does: a watch begins after the version it names, an object that leaves a
selector is DELETED for that watcher, an old version gets 410, all pages of a list show the same version. `Driver`
changes objects over HTTP, on this server or on a real one.
"""

import json
import ssl
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from gpusight.sources.kubernetes.access import Access, Fixed

Json = dict[str, Any]
Kind = Literal["list", "watch", "any"]


def pod(name: str, node: str = "node-1", namespace: str = "team", **more: Any) -> Json:
    """As small as the API accepts it."""
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "none"}], **more.pop("spec", {})}
    metadata = {"name": name, "namespace": namespace, **more.pop("metadata", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Pending"},
        **more,
    }


class Event(NamedTuple):
    """One change; `old` and `new` are the object before and after."""

    version: int
    key: tuple[str, str]
    old: Json | None
    new: Json | None


class Request(NamedTuple):
    """What was asked, and when on the monotonic clock."""

    at: float
    kind: str
    path: str
    query: Mapping[str, str]
    authorization: str


@dataclass(frozen=True)
class Fault:
    """Something to go wrong with the next request of a kind; `after` events in a watch."""

    what: str
    kind: Kind = "any"
    after: int = 0
    code: int = 500
    retry_after: str = ""


LIST_FAULTS = ("cut_body", "garbage_body", "not_a_list", "no_version", "endless_pages", "expire_pages")
WATCH_FAULTS = (
    "end", "cut", "half_line", "error_410", "error_500", "error_rubbish", "garbage_line", "unknown_type", "repeat",
    "step_back", "freeze", "no_metadata",
)  # fmt: skip
ANY_FAULTS = ("status", "drop", "html", "silence")


@dataclass
class _State:
    version: int = 100
    compacted: int = 0
    objects: dict[tuple[str, str], Json] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    pages: dict[str, tuple[int, list[Json]]] = field(default_factory=dict)
    bookmarks: int = 0


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Clients hang up."""


class FakeKube:
    """The server, from `with` to its end. May be changed by any thread."""

    def __init__(self, *, token: str = "", tls: ssl.SSLContext | None = None) -> None:
        self.token = token
        self.requests: list[Request] = []
        self.paths = {"/api/v1/pods"}
        """Where its objects are; every other path gets 404."""
        self.changed = threading.Condition(threading.RLock())
        self.is_closing = False
        self.state = _State()
        self._faults: deque[Fault] = deque()
        handler = type("Handler", (_Handler,), {"kube": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), name="fake kube", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.changed:
            self.is_closing = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    @property
    def access(self) -> Access:
        return Access(self.url, Fixed(f"Bearer {self.token}" if self.token else ""))

    # --- objects -----------------------------------------------------------------------------------------------------

    def put(self, given: Json) -> Json:
        """Create or replace; uid and version are ours to give."""
        with self.changed:
            meta = given["metadata"]
            key = (meta.get("namespace", ""), meta["name"])
            old = self.state.objects.get(key)
            new = deepcopy(given)
            new["metadata"]["uid"] = old["metadata"]["uid"] if old else str(uuid.uuid4())
            self._record(key, old, new)
            self.state.objects[key] = new
            return new

    def delete(self, name: str, namespace: str = "team") -> None:
        with self.changed:
            old = self.state.objects.pop((namespace, name), None)
            if old:
                self._record((namespace, name), old, None)

    def _record(self, key: tuple[str, str], old: Json | None, new: Json | None) -> None:
        self.state.version += 1
        if new:
            new["metadata"]["resourceVersion"] = str(self.state.version)
        self.state.events.append(Event(self.state.version, key, old, new))
        self.changed.notify_all()

    def compact(self) -> None:
        """Forget all history and all half-read lists."""
        with self.changed:
            self.state.compacted = self.state.version
            self.state.events.clear()
            self.state.pages.clear()

    def bookmark(self) -> None:
        """Send one to every watcher."""
        with self.changed:
            self.state.bookmarks += 1
            self.changed.notify_all()

    def names(self, selector: Mapping[str, str] | None = None) -> dict[tuple[str, str], tuple[str, str]]:
        """Key to uid and version of the objects that a selector shows."""
        with self.changed:
            shown = {key: each["metadata"] for key, each in self.state.objects.items() if matches(each, selector or {})}
            return {key: (meta["uid"], meta["resourceVersion"]) for key, meta in shown.items()}

    # --- faults ------------------------------------------------------------------------------------------------------

    def fail(self, *faults: Fault) -> None:
        with self.changed:
            self._faults.extend(faults)

    def heal(self) -> None:
        """No more faults."""
        with self.changed:
            self._faults.clear()

    def next_fault(self, kind: str) -> Fault | None:
        with self.changed:
            found = next((fault for fault in self._faults if fault.kind in {"any", kind}), None)
            if found:
                self._faults.remove(found)
            return found

    def waits_for(self, holds: Callable[[], bool], within: float) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.is_closing or holds(), within)


def matches(given: Json | None, query: Mapping[str, str]) -> bool:
    """Whether an object is in what `fieldSelector` and `labelSelector` (equality only) select."""
    if given is None:
        return False
    labels = given["metadata"].get("labels") or {}
    fields = {"spec.nodeName": given.get("spec", {}).get("nodeName", ""), "metadata.name": given["metadata"]["name"]}
    return all(
        known.get(key, "") == value
        for selector, known in ((query.get("fieldSelector"), fields), (query.get("labelSelector"), labels))
        for key, _, value in (term.partition("=") for term in (selector or "").split(",") if term)
    )


def status(code: int, message: str) -> Json:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}


class _Handler(BaseHTTPRequestHandler):
    kube: FakeKube
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        kind = "watch" if query.get("watch") == "true" else "list"
        authorization = self.headers.get("Authorization", "")
        self.kube.requests.append(Request(time.monotonic(), kind, url.path, query, authorization))
        self.close_connection = True
        if self.kube.token and authorization != f"Bearer {self.kube.token}":
            self._answer(401, status(401, "Unauthorized"))
        elif url.path not in self.kube.paths:
            self._answer(404, status(404, "the server could not find the requested resource"))
        elif not self._goes_wrong(fault := self.kube.next_fault(kind)):
            (self._watch if kind == "watch" else self._list)(query, fault)

    def _answer(self, code: int, body: Json | bytes, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def _goes_wrong(self, fault: Fault | None) -> bool:
        """Faults that need no look at the request."""
        if fault is None or fault.what not in ANY_FAULTS:
            return False
        if fault.what == "status":
            headers = {"Retry_After": fault.retry_after} if fault.retry_after else {}
            self._answer(fault.code, status(fault.code, "made to fail"), **headers)
        elif fault.what == "html":
            self._answer(200, b"<html>Sign in to the network</html>")
        elif fault.what == "silence":
            self.kube.waits_for(lambda: False, 20)
        return True

    # --- lists -------------------------------------------------------------------------------------------------------

    def _list(self, query: Mapping[str, str], fault: Fault | None) -> None:
        what = fault.what if fault else ""
        with self.kube.changed:
            found = self._page(query, what)
        if found is None:
            self._answer(410, status(410, "The provided continue parameter is too old"))
            return
        body = json.dumps(found).encode()
        if what == "cut_body":
            self._cut(body)
        else:
            self._answer(200, {"garbage_body": body[: len(body) // 2], "not_a_list": b'{"kind":"Pod"}'}.get(what, body))

    def _page(self, query: Mapping[str, str], what: str) -> Json | None:
        state = self.kube.state
        token = query.get("continue", "")
        if token:
            if token not in state.pages or what == "expire_pages":
                return None
            version, items = state.pages.pop(token)
        else:
            shown = [each for _, each in sorted(state.objects.items()) if matches(each, query)]
            version, items = state.version, deepcopy(shown)
        limit = int(query.get("limit", "0")) or len(items)
        meta = {"resourceVersion": "" if what == "no_version" else str(version)}
        if len(items) > limit or what == "endless_pages":
            meta["continue"] = token if what == "endless_pages" and token else str(uuid.uuid4())
            state.pages[meta["continue"]] = (version, items[limit:])
        return {"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": items[:limit] or None}

    def _cut(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2])

    # --- watches -----------------------------------------------------------------------------------------------------

    def _watch(self, query: Mapping[str, str], fault: Fault | None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        since = int(query.get("resourceVersion") or 0)
        ends_at = time.monotonic() + float(query.get("timeoutSeconds", "1800"))
        with suppress(OSError):
            self._stream(query, since, ends_at, fault)

    def _stream(self, query: Mapping[str, str], at: int, ends_at: float, fault: Fault | None) -> None:
        kube, sent, bookmarks = self.kube, 0, self.kube.state.bookmarks
        while not kube.is_closing:
            if fault and sent >= fault.after:
                if not self._break(fault, query):
                    return
                fault = None
            with kube.changed:
                is_too_old = at < kube.state.compacted
                news = [event for event in kube.state.events if event.version > at]
                last, marks = kube.state.version, kube.state.bookmarks
            if is_too_old:
                self._send("ERROR", status(410, "too old resource version"))
                self._end()
                return
            for event in news:
                at = event.version
                sent += self._send_event(event, query)
                if fault and sent >= fault.after:
                    break
            else:
                at = max(at, last)
                if marks != bookmarks:
                    bookmarks = marks
                    self._send("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(at)}})
                if time.monotonic() >= ends_at:
                    self._end()
                    return
                kube.waits_for(lambda: kube.state.version > at or kube.state.bookmarks != bookmarks, 0.05)  # noqa: B023

    def _send_event(self, event: Event, query: Mapping[str, str]) -> bool:
        before, after = matches(event.old, query), matches(event.new, query)
        if not before and not after:
            return False
        last = deepcopy(event.new or event.old or {})
        last["metadata"]["resourceVersion"] = str(event.version)
        self._send("DELETED" if not after else "MODIFIED" if before else "ADDED", last)
        return True

    def _send(self, kind: str, given: Any) -> None:
        self._chunk(json.dumps({"type": kind, "object": given}).encode() + b"\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _end(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def _break(self, fault: Fault, query: Mapping[str, str]) -> bool:
        """Do the wrong thing; whether the stream goes on."""
        events = [event for event in self.kube.state.events if event.new and matches(event.new, query)]
        something = pod("made-up") if not events else events[0].new
        if fault.what == "end":
            self._end()
        elif fault.what == "half_line":
            self._chunk(json.dumps({"type": "ADDED", "object": something}).encode()[:40])
            self._end()
        elif fault.what == "cut":
            self.wfile.write(b"fff\r\n{")
        elif fault.what == "freeze":
            self.kube.waits_for(lambda: False, 20)
        elif fault.what in {"error_410", "error_500"}:
            self._send("ERROR", status(int(fault.what[-3:]), "made to fail"))
        elif fault.what == "error_rubbish":
            self._send("ERROR", [1, 2])
        elif fault.what == "garbage_line":
            self._chunk(b'{"type": "ADDED", "object": {"metadata"\n')
        elif fault.what == "unknown_type":
            self._send("RENAMED", something)
        elif fault.what == "no_metadata":
            self._send("MODIFIED", {"spec": {}})
        elif fault.what in {"repeat", "step_back"} and events:
            event = events[-1 if fault.what == "repeat" else 0]
            self._send("MODIFIED", event.new)
            return True
        return fault.what in {"repeat", "step_back"}

    # --- changes -----------------------------------------------------------------------------------------------------

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(201, self.kube.put(given))

    def do_PATCH(self) -> None:
        """A merge patch of labels, which is all that tests need."""
        _, _, _, _, namespace, _, name = urlsplit(self.path).path.split("/")
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.kube.changed:
            held = deepcopy(self.kube.state.objects[namespace, name])
            held["metadata"].setdefault("labels", {}).update(given["metadata"]["labels"])
            self._answer(200, self.kube.put(held))

    def do_DELETE(self) -> None:
        _, _, _, _, namespace, _, name = urlsplit(self.path).path.split("/")
        self.kube.delete(name, namespace)
        self._answer(200, status(200, "deleted"))


class Driver:
    """Changes pods through the API, on any server."""

    def __init__(self, access: Access, namespace: str) -> None:
        self._access = access
        self.namespace = namespace

    def create(self, name: str, node: str) -> None:
        self._ask("POST", "", pod(name, node, self.namespace))

    def label(self, name: str, **labels: str) -> None:
        self._ask("PATCH", f"/{name}", {"metadata": {"labels": labels}})

    def delete(self, name: str) -> None:
        self._ask("DELETE", f"/{name}?{urlencode({'gracePeriodSeconds': 0})}")

    def _ask(self, method: str, path: str, body: Json | None = None) -> None:
        server = urlsplit(self._access.server)
        host, port = server.hostname or "", server.port
        tls = self._access.tls_context() if server.scheme == "https" else None
        connection = HTTPSConnection(host, port, context=tls) if tls else HTTPConnection(host, port)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Content-Type": kind, **self._access.credentials.headers()}
        try:
            connection.request(
                method, f"/api/v1/namespaces/{self.namespace}/pods{path}", json.dumps(body) if body else None, headers
            )
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status < 300, text[:500]
        finally:
            connection.close()


@contextmanager
def fake_kube(**options: Any) -> Iterator[FakeKube]:
    with FakeKube(**options) as kube:
        yield kube
