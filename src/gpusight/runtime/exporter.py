"""What every exporter role has in common: its endpoint, from the first scrape to the signal that ends it."""

import asyncio
import logging
import platform
import signal
from collections.abc import Iterable, Sequence

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
    role: str, title: str, collectors: Sequence[Collector], settings: Settings, notes: Sequence[str] = ()
) -> int:
    """Serve the collectors until SIGINT or SIGTERM; the exit code."""
    try:
        return asyncio.run(_run(role, title, [*collectors, BuildInfo(role)], settings, notes))
    except (ListenError, WebConfigError) as error:
        raise StartError(str(error)) from error
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # asked to end already: a second time must not cut the tidying short


async def _run(role: str, title: str, collectors: Sequence[Collector], settings: Settings, notes: Sequence[str]) -> int:
    clock = SystemClock()
    ready = asyncio.Event()
    collector_set = CollectorSet(collectors, clock)
    endpoint = Endpoint(
        collector_set.gather,
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
    await collector_set.gather(_EVERYTHING)
    ready.set()
    await stopped.wait()
    _log.info("stopping")
    await server.close()
    return 0


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
