"""The analyzer's web application.

`create_app` makes it from an analyzer; `app` is for `uvicorn gpusight.web.app:app`: it has itself made by the
composition root when the server starts, from the environment.
"""

import inspect
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import Any

from fastapi import FastAPI, Request
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gpusight import __version__
from gpusight.errors import GpusightError
from gpusight.exposition.webconfig import WebConfigFile
from gpusight.model.time import Clock
from gpusight.web import api, compat, live, openapi, pages
from gpusight.web.auth import COOKIE, Auth, AuthError
from gpusight.web.context import Context
from gpusight.web.encoding import JsonResponse
from gpusight.web.errors import install_handlers
from gpusight.web.gate import Envelope, SizeLimits, WebConfigGate
from gpusight.web.guard import GuardLimits, guard_plain_uvicorn
from gpusight.web.pages.shell import error_page
from gpusight.web.replay import ReplayRunner
from gpusight.web.service import Analyzer
from gpusight.web.views import Views
from gpusight.web.work import Workers

log = logging.getLogger("gpusight.web")


def create_app(
    analyzer: Analyzer,
    *,
    auth: Auth,
    clock: Clock,
    web_config: WebConfigFile | None = None,
    replay: ReplayRunner | None = None,
    workers: Workers | None = None,
    version: str = __version__,
) -> FastAPI:
    """The application over one analyzer. `web_config` also rules the sockets that serve_app opens for it."""
    working = workers or Workers()
    app = FastAPI(
        title="gpusight analyze",
        version=version,
        description="Who really uses the GPUs they hold.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        lifespan=_closing(working),
    )
    app.state.auth = auth
    app.state.clock = clock
    app.state.web_config = web_config
    app.state.context = Context(analyzer, Views(analyzer, working), working, replay, version)
    auth.on_failure = lambda: analyzer.endpoint.reject("auth")
    app.state.streams = live.Streams()
    install_handlers(app, error_page)
    for router in (compat.router, api.router, live.router, pages.router):
        app.include_router(router)
    app.add_api_route("/api/v1/openapi.json", _describe, include_in_schema=False)
    app.add_api_route("/openapi.json", _describe, include_in_schema=False)
    openapi.install(app)
    _add_layers(app, analyzer, auth, clock, web_config)
    return app


def _add_layers(app: FastAPI, analyzer: Analyzer, auth: Auth, clock: Clock, web_config: WebConfigFile | None) -> None:
    """The last one added is the outermost."""
    if web_config is not None:
        analyzer.endpoint.expose(web_config.blocks)
        app.add_middleware(
            WebConfigGate,
            web_config=web_config,
            clock=clock,
            is_known=lambda headers, peer: _is_known(auth, headers, peer),
            count=analyzer.endpoint.reject,
        )
    app.add_middleware(SizeLimits)
    app.add_middleware(Envelope)


def _is_known(auth: Auth, headers: Headers, peer: str) -> bool:
    cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
    try:
        return auth.identify(headers.get("authorization", ""), cookie, peer) is not None
    except AuthError:
        return False


async def _describe(request: Request) -> Response:
    return JsonResponse(request.app.openapi())


def _closing(workers: Workers) -> Any:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            workers.close()

    return lifespan


class EnvironmentApp:
    """An application that is made when its server starts, by `build_from_environment` of the composition root.

    That answers an object with `app` (what create_app made), `start()` and `stop()`, coroutines or not.
    """

    def __init__(self, root: str = "gpusight.runtime.analyze", limits: GuardLimits | None = None) -> None:
        self._root = root
        self._limits = limits
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self._app is not None:
            await self._app(scope, receive, send)
        else:
            raise RuntimeError("the application was not started: run uvicorn with --lifespan on")

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with AsyncExitStack() as stack:
            try:
                self._app = await self._start(stack)
            except Exception as error:
                message = str(error) if isinstance(error, GpusightError) else f"the start failed: {error!r}"
                await send({"type": "lifespan.startup.failed", "message": message})
                return
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _start(self, stack: AsyncExitStack) -> ASGIApp:
        guard_plain_uvicorn(self._limits)
        built = import_module(self._root).build_from_environment()
        inner: FastAPI = built.app
        await stack.enter_async_context(inner.router.lifespan_context(inner))
        stack.push_async_callback(_finish, built.stop)
        await _finish(built.start)
        return inner


async def _finish(call: Any) -> None:
    result = call()
    if inspect.isawaitable(result):
        await result


app = EnvironmentApp()
