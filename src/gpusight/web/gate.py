"""What stands before every page: a request id, limits on what is sent, the web configuration's rules, no traceback."""

import asyncio
import logging
import re
import secrets
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpusight.exposition.webconfig import Credentials, TokenBucket, WebConfig, WebConfigFile
from gpusight.model.time import Clock
from gpusight.web.accept import prefers
from gpusight.web.encoding import JSON, JsonResponse
from gpusight.web.errors import error_response

log = logging.getLogger("gpusight.web")

LARGEST_BODY = 1 << 20
LARGEST_HEAD = 16 * 1024
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CSP = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:"
_SAFETY = {
    "Content-Security-Policy": _CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
}


_BROKEN = """<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>gpusight</title>
<link rel="stylesheet" href="/static/gpusight.css"><body class="alone"><main><h1>500</h1><p>{message}</p>
<p><code>{request_id}</code></p><p><a href="/">gpusight</a></p></main></body></html>
"""


class Envelope:
    """The outermost layer: names the request, answers HEAD as GET without a body, and turns a defect into a 500."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(Headers(scope=scope).get("x-request-id", ""))
        sender = _Sender(send, request_id, is_head=scope["method"] == "HEAD")
        if sender.is_head:
            scope = {**scope, "method": "GET", "gpusight.head": True}
        try:
            await self._app(scope, receive, sender)
        except asyncio.CancelledError:  # the server stops and waits no longer; the task ends here in any case
            if not sender.has_started:
                message = "The service is being stopped."
                await error_response(503, "stopping", message, headers={"Connection": "close"})(scope, receive, sender)
        except ClientDisconnect:
            log.debug("request %s: the client left before it was answered", request_id)
        except Exception:
            log.exception("request %s to %s failed", request_id, scope["path"])
            if sender.has_started:
                raise
            await _broken(scope, request_id)(scope, receive, sender)


def _broken(scope: Scope, request_id: str) -> Response:
    message = "Something is broken in here; the log has more under this request id."
    if prefers(Headers(scope=scope).get("accept", ""), "text/html", JSON):
        return HTMLResponse(_BROKEN.format(message=message, request_id=request_id), 500, {"Cache-Control": "no-store"})
    return error_response(500, "internal_error", message, detail={"request_id": request_id})


class _Sender:
    def __init__(self, send: Send, request_id: str, *, is_head: bool) -> None:
        self._send = send
        self._request_id = request_id
        self.is_head = is_head
        self.has_started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_started = True
            headers = MutableHeaders(scope=message)
            headers["X-Request-ID"] = self._request_id
            for name, value in _SAFETY.items():
                headers.setdefault(name, value)
        elif self.is_head:
            message = {**message, "body": b""}
        await self._send(message)


def _request_id(given: str) -> str:
    return given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)


class _TooLarge(Exception):  # noqa: N818
    """More body than anybody needs."""


class SizeLimits:
    """Refuses heads and bodies that are too large; a body without a length is counted as it comes."""

    def __init__(self, app: ASGIApp, *, body: int = LARGEST_BODY, head: int = LARGEST_HEAD) -> None:
        self._app = app
        self._body = body
        self._head = head

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        try:
            await self._app(scope, self._counted(receive), send)
        except _TooLarge:
            await self._too_large()(scope, receive, send)

    def _refusal(self, scope: Scope) -> JsonResponse | None:
        size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        if size > self._head:
            message = f"A request may have {self._head} bytes of address and headers at most."
            return error_response(431, "head_too_large", message, headers={"Connection": "close"})
        headers = Headers(scope=scope)
        length = headers.get("content-length", "")
        if length and "transfer-encoding" in headers:  # how long it is depends on whom you ask: smuggling
            message = "A body has a length or is chunked, not both."
            return error_response(400, "bad_request", message, headers={"Connection": "close"})
        return self._too_large() if length.isdecimal() and int(length) > self._body else None

    def _too_large(self) -> JsonResponse:
        message = f"A request may have {self._body} bytes of body at most."
        return error_response(413, "body_too_large", message, headers={"Connection": "close"})

    def _counted(self, receive: Receive) -> Receive:
        left = self._body

        async def counting() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise _TooLarge
            return message

        return counting


class WebConfigGate:
    """What the web configuration file demands of every request: users, a rate, headers, TLS.

    A bearer token or a session that is known opens the gate as well: there is but one Authorization header.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        web_config: WebConfigFile,
        clock: Clock,
        is_known: Callable[[Headers, str], bool],
        count: Callable[[str], None],
    ) -> None:
        self._app = app
        self._web_config = web_config
        self._clock = clock
        self._is_known = is_known
        self._count = count
        self._credentials: Credentials | None = None
        self._bucket: TokenBucket | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        config = self._web_config.current()

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in config.headers:
                    headers[name] = value
            await send(message)

        refusal = await self._refusal(scope, config)
        await (refusal or self._app)(scope, receive, with_headers)

    async def _refusal(self, scope: Scope, config: WebConfig) -> JsonResponse | None:
        if config.tls is not None and scope.get("scheme") == "http":
            # TLS was switched on: nothing more in the clear; the client finds out when it reconnects.
            return error_response(
                400, "https_only", "This port speaks HTTPS, not HTTP.", headers={"Connection": "close"}
            )
        if not self._is_within_rate(config):
            self._count("busy")
            return error_response(429, "too_many_requests", "Too many requests.", headers={"Retry-After": "1"})
        return await self._password_refusal(scope, config) if config.users else None

    async def _password_refusal(self, scope: Scope, config: WebConfig) -> JsonResponse | None:
        headers = Headers(scope=scope)
        peer = peer_of(scope)
        authorization = headers.get("authorization", "")
        if not authorization.lower().startswith("basic ") and self._is_known(headers, peer):
            return None
        if self._credentials is None:
            self._credentials = Credentials()
        verdict = await self._credentials.judge(config.users, authorization, peer)
        if verdict == "allowed":
            return None
        self._count("auth")
        if verdict == "busy":
            message = "Too many passwords to check; try again in a second."
            return error_response(503, "busy", message, headers={"Retry-After": "1"})
        message = "A user name and a password are needed."
        return error_response(
            401, "password_needed", message, headers={"WWW-Authenticate": 'Basic realm="gpusight", charset="UTF-8"'}
        )

    def _is_within_rate(self, config: WebConfig) -> bool:
        if config.rate_limit is None:
            self._bucket = None
            return True
        now = self._clock.monotonic()
        if self._bucket is None or self._bucket.limit != config.rate_limit:
            self._bucket = TokenBucket(config.rate_limit, now)
        return self._bucket.take(now)


def peer_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


def is_same_origin(headers: Headers) -> bool:
    """Whether a browser sent this on behalf of one of our own pages."""
    site = headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    origin = headers.get("origin")
    if origin is None:
        return site == "same-origin"
    try:
        return bool(origin) and urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""
    except ValueError:
        return False
