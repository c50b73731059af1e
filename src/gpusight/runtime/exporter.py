"""What every exporter role has in common: its endpoint, from the first scrape to the signal that ends it."""

import asyncio
import logging
import platform
import signal
from collections.abc import Iterable, Mapping, Sequence

from gpusight import __version__
from gpusight.catalog.own import BUILD_INFO
from gpusight.collectors.run import Collector, CollectorSet
from gpusight.errors import StartError
from gpusight.exposition.blocks import Sample
from gpusight.exposition.endpoint import Endpoint, ScrapeRequest
from gpusight.exposition.http import Server, raise_open_files_limit, serve
from gpusight.exposition.listen import ListenError
from gpusight.exposition.webconfig import WebConfigError, WebConfigFile
from gpusight.model.time import Clock, SystemClock
from gpusight.settings import Settings

_log = logging.getLogger("gpusight")
_EVERYTHING = ScrapeRequest(names=frozenset(), collectors=frozenset(), timeout=10.0)


class BuildInfo:
    """Which build serves this page."""

    name = "build"

    def __init__(self, role: str) -> None:
        self._sample = Sample(BUILD_INFO, (__version__, "unknown", platform.python_version(), role), 1)

    def collect(self) -> Iterable[Sample]:
        return [self._sample]


def run_exporter(
    role: str,
    title: str,
    collectors: Sequence[Collector] | Mapping[str, Sequence[Collector]],
    settings: Settings,
    notes: Sequence[str] = (),
    clock: Clock | None = None,
) -> int:
    """Serve the collectors until SIGINT or SIGTERM; the exit code.

    Where they are given by path, each path has a page of its own. `clock` says the time on the pages; what concerns
    clients and their deadlines is real.
    """
    pages = collectors if isinstance(collectors, Mapping) else {"/metrics": collectors}
    try:
        return asyncio.run(_run(role, title, pages, settings, notes, clock or SystemClock()))
    except (ListenError, WebConfigError) as error:
        raise StartError(str(error)) from error
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # asked to end already: a second time must not cut the tidying short


async def _run(
    role: str,
    title: str,
    pages: Mapping[str, Sequence[Collector]],
    settings: Settings,
    notes: Sequence[str],
    page_clock: Clock,
) -> int:
    clock = SystemClock()
    ready = asyncio.Event()
    sets = {path: CollectorSet([*collectors, BuildInfo(role)], page_clock) for path, collectors in pages.items()}
    endpoint = Endpoint(
        {path: each.gather for path, each in sets.items()},
        role=role,
        title=title,
        version=__version__,
        is_ready=ready.is_set,
        clock=clock,
        notes=notes,
        max_requests=settings.get("web.max-requests"),
        openmetrics=settings.get("web.openmetrics"),
    )
    stopped = stop_on_signals()
    raise_open_files_limit()
    server = await _listen(endpoint, settings, clock)
    for address in server.addresses:
        _log.info("gpusight %s %s listens on %s", __version__, role, address)
    warming = asyncio.create_task(_warm_up(sets.values(), ready))
    await stopped.wait()
    warming.cancel()
    _log.info("stopping")
    await server.close()
    return 0


async def _warm_up(sets: Iterable[CollectorSet], ready: asyncio.Event) -> None:
    """Every page once: then clients find nothing that is slow for being asked the first time."""
    for each in sets:
        await each.gather(_EVERYTHING)
    ready.set()


async def _listen(endpoint: Endpoint, settings: Settings, clock: Clock) -> Server:
    path = settings.get("web.config.file")
    web_config = WebConfigFile(path, clock) if path is not None else None
    return await serve(endpoint, listen=settings.get("web.listen-address"), web_config=web_config, clock=clock)


def stop_on_signals() -> asyncio.Event:
    """Set by SIGINT and SIGTERM."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    loop.add_signal_handler(signal.SIGHUP, _log.info, "nothing to reload: the web configuration is re-read by itself")
    return stopped
