"""News for pages that are open: a stream of events that tells when a round has finished, and how old the data is."""

import asyncio
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gpusight.model.time import Clock
from gpusight.web.access import Reader
from gpusight.web.context import of
from gpusight.web.encoding import JsonResponse, encode_json
from gpusight.web.errors import ApiError
from gpusight.web.openapi import answers_with
from gpusight.web.service import Analyzer, RoleStatus

router = APIRouter(prefix="/api/v1", tags=["API"])

STOP = "gpusight.stop"
"""Where a stream leaves in its scope how to end it: whoever stops the server calls that."""
_LOOK_EVERY = 1.0
_BEAT_EVERY = 15.0
_LONGEST = 900.0
"""Seconds after which a stream ends and the browser comes again: nobody holds a place for ever."""


class Streams:
    """Who listens: so many at most."""

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self.open = 0

    def enter(self) -> None:
        if self.open >= self._most:
            message = "Too many pages listen already; ask /api/v1/round from time to time instead."
            raise ApiError(503, "busy", message, headers={"Retry-After": "30"})
        self.open += 1

    def leave(self) -> None:
        self.open -= 1


@router.get("/events", include_in_schema=False)
async def events(request: Request, _identity: Reader) -> Response:
    """Server-sent events: `round` at once, after each round, and every 15 seconds."""
    if request.scope.get("gpusight.head"):  # its answer has no body: nothing to wait for
        return Response(media_type="text/event-stream")
    streams: Streams = request.app.state.streams
    streams.enter()
    return _Stream(streams, of(request).analyzer, request.app.state.clock)


@router.get("/roles", **answers_with(list[RoleStatus]))
async def roles(request: Request, identity: Reader) -> Response:
    """What runs here, and how it is. Tokens that are bound to namespaces see none of it."""
    found = of(request).analyzer.roles() if identity.namespaces is None else ()
    return JsonResponse(found, headers={"Cache-Control": "no-store"})


def news(analyzer: Analyzer, clock: Clock) -> dict[str, Any]:
    found, health = analyzer.round(), analyzer.health()
    return {
        "round": found.number if found else 0,
        "at": found.at if found else None,
        "age": round(max(0.0, clock.now() - found.at.timestamp()), 1) if found else None,
        "interval": health.interval,
        "status": health.status,
        "old": health.analysis_timeout,
    }


class _Stream(Response):
    def __init__(self, streams: Streams, analyzer: Analyzer, clock: Clock) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(headers=headers, media_type="text/event-stream")
        del self.headers["content-length"]
        self._streams = streams
        self._analyzer = analyzer
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stop = asyncio.Event()
        scope[STOP] = stop.set
        listening = asyncio.create_task(_until_gone(receive, stop))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send(_body(b"retry: 3000\n\n"))
            async with asyncio.timeout(_LONGEST):
                await self._tell(send, stop)
        except TimeoutError:
            pass
        finally:
            self._streams.leave()
            listening.cancel()
        await send(_body(b"", more=False))

    async def _tell(self, send: Send, stop: asyncio.Event) -> None:
        last: Any = None
        quiet = 0.0
        while not stop.is_set():
            said = news(self._analyzer, self._clock)
            key = said["round"], said["status"], said["old"]
            if key != last or quiet >= _BEAT_EVERY:
                await send(_body(b"event: round\ndata: " + encode_json(said) + b"\n\n"))
                last, quiet = key, 0.0
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _LOOK_EVERY)
            quiet += _LOOK_EVERY


async def _until_gone(receive: Receive, stop: asyncio.Event) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    stop.set()


def _body(data: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}
