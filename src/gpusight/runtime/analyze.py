"""`gpusight analyze`: who really uses the GPUs they hold."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path

from fastapi import FastAPI

from gpusight import __version__
from gpusight.analysis.tenancy import PriceList, Tenancy
from gpusight.collectors.run import CollectorSet
from gpusight.collectors.utilization import UtilizationCollector
from gpusight.collectors.verdicts import VerdictCollector
from gpusight.errors import StartError
from gpusight.exposition.endpoint import Endpoint
from gpusight.exposition.listen import ListenError
from gpusight.exposition.webconfig import WebConfigError, WebConfigFile
from gpusight.journal.leader import leadership
from gpusight.journal.open import open_journal
from gpusight.journal.retention import Retention
from gpusight.model.history import JournalError
from gpusight.model.time import Clock, ScaledClock, SystemClock
from gpusight.runtime import logs
from gpusight.runtime.analyze_config import data_dir, journal_location
from gpusight.runtime.analyze_files import read_prices, read_tenants
from gpusight.runtime.analyze_replay import StoreReplay
from gpusight.runtime.analyze_service import AnalyzerService
from gpusight.runtime.analyze_store import Stores
from gpusight.runtime.exporter import BuildInfo, stop_on_signals
from gpusight.runtime.node_simulated import World, find_world
from gpusight.runtime.roles import role_named
from gpusight.runtime.tenants import TenantsWatch
from gpusight.settings import Settings, resolve
from gpusight.sources.kubernetes.access import AccessError, find_access
from gpusight.sources.kubernetes.client import ApiClient
from gpusight.web.app import create_app
from gpusight.web.auth import Auth
from gpusight.web.serve import serve_app
from gpusight.web.tokens import TokenFile, TokenFileError

_log = logging.getLogger("gpusight.analyze")


class Analyze:
    """The analyzer put together: an ASGI app, and the threads that feed it."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], clock: Clock) -> None:
        world = find_world(settings) if settings.get("simulate") is not None else None
        world_clock: Clock = world.clock if world is not None else clock
        directory = data_dir(settings, environ)
        location = journal_location(settings, directory)
        self._journal = open_journal(location, retention=Retention(), clock=clock)
        self._stores = Stores(directory, world_clock, world)
        self._tenants = _tenants(settings, environ, clock)
        self.service = AnalyzerService(
            settings,
            self._stores.store,
            self._journal,
            leadership(location),
            _pace(world, clock),
            self._tenants.tenancy,
            _prices(settings),
        )
        self.service.endpoint_of = _endpoint(self.service, settings, clock)
        self.auth = Auth(clock=clock, tokens=_tokens(settings), read=settings.get("auth.read"))
        self.app: FastAPI = create_app(
            self.service,
            auth=self.auth,
            clock=clock,
            web_config=_web_config(settings, clock),
            replay=StoreReplay(settings, clock),
        )

    def start(self) -> None:
        self._tenants.start()
        self.service.rehearse(self._stores.remember())
        self._stores.start()
        self.service.start()

    def stop(self) -> None:
        self.service.stop()
        self._tenants.stop()
        self._stores.stop()
        self._journal.close()


def run(settings: Settings) -> int:
    """Serve until SIGINT or SIGTERM; the exit code."""
    with _as_start_errors():
        analyze = Analyze(settings, os.environ, SystemClock())
    try:
        with _as_start_errors():
            return asyncio.run(_serve(analyze, settings))
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # asked to end already: a second time must not cut the tidying short
        analyze.stop()


def build_from_environment() -> Analyze:
    """For servers that import the app by name: every setting comes from the environment."""
    role = role_named("analyze")
    settings = resolve({}, os.environ, (role.name,), role.defaults)
    logs.configure(settings.get("log.level"), settings.get("log.format"))
    return Analyze(settings, os.environ, SystemClock())


async def _serve(analyze: Analyze, settings: Settings) -> int:
    stopped = stop_on_signals()
    server = await serve_app(
        analyze.app,
        listen=settings.get("web.listen-address"),
        on_refusal=lambda: analyze.service.endpoint.reject("connections"),
    )
    for address in server.addresses:
        _log.info("gpusight %s analyze listens on %s", __version__, address)
    _log.info("%s", analyze.auth.describe())
    threading.Thread(
        target=_start, args=(analyze, asyncio.get_running_loop(), stopped), name="start", daemon=True
    ).start()
    waiting = asyncio.create_task(stopped.wait())
    serving = asyncio.create_task(server.wait())
    await asyncio.wait({waiting, serving}, return_when=asyncio.FIRST_COMPLETED)
    _log.info("stopping")
    waiting.cancel()
    await server.close()
    return 0


def _start(analyze: Analyze, loop: asyncio.AbstractEventLoop, stopped: asyncio.Event) -> None:
    """In a thread of its own, which nobody waits for: who wants to stop need not see a long start through."""
    try:
        analyze.start()
    except Exception:
        if not stopped.is_set():
            _log.exception("the analyzer cannot start its rounds")
            loop.call_soon_threadsafe(stopped.set)


class _as_start_errors:  # noqa: N801 - reads as the statement it is
    """What keeps the role from starting, as a sentence."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        known = (JournalError, ListenError, WebConfigError, TokenFileError, AccessError)
        if isinstance(error, known):
            raise StartError(str(error)) from error


def _pace(world: World | None, clock: Clock) -> Clock:
    """The clock by which rounds come: that of the simulated world, where time may run faster."""
    return ScaledClock(*world.scale) if world is not None and world.scale is not None else clock


def _endpoint(service: AnalyzerService, settings: Settings, clock: Clock) -> Endpoint:
    collectors = CollectorSet(
        [
            UtilizationCollector(service.round, service.work),
            VerdictCollector(service.round, service.standing),
            BuildInfo("analyze"),
        ],
        clock,
    )
    return Endpoint(
        collectors.gather,
        role="analyze",
        title="gpusight analyze",
        version=__version__,
        is_ready=service.ready,
        clock=clock,
        max_requests=settings.get("web.max-requests"),
        openmetrics=settings.get("web.openmetrics"),
    )


def _web_config(settings: Settings, clock: Clock) -> WebConfigFile | None:
    path: Path | None = settings.get("web.config.file")
    return WebConfigFile(path, clock) if path is not None else None


def _tokens(settings: Settings) -> TokenFile | None:
    path: Path | None = settings.get("auth.token-file")
    return TokenFile(path) if path is not None else None


def _prices(settings: Settings) -> PriceList:
    path: Path | None = settings.get("prices.file")
    return read_prices(path) if path is not None else PriceList()


def _tenants(settings: Settings, environ: Mapping[str, str], clock: Clock) -> TenantsWatch:
    path: Path | None = settings.get("tenants.file")
    declared = read_tenants(path) if path is not None else Tenancy()
    client = None
    if settings.get("tenants.from-kubernetes"):
        client = ApiClient(find_access(environ, clock, kubeconfig=settings.get("k8s.kubeconfig")), clock)
    return TenantsWatch(declared, client, settings.get("tenants.team-label"))
