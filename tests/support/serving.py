"""An exporter endpoint with made-up metrics, served on loopback."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from gpusight.catalog.spec import FamilySpec, Kind, Label
from gpusight.exposition.blocks import FamilyBlock
from gpusight.exposition.endpoint import Endpoint, Gather, Scrape, ScrapeRequest
from gpusight.exposition.http import Limits, Server, serve
from gpusight.exposition.webconfig import WebConfigFile
from gpusight.model.time import Clock, SystemClock


def family(name: str, kind: Kind = "gauge", *labels: str, buckets: tuple[float, ...] = ()) -> FamilySpec:
    return FamilySpec(
        name=name,
        kind=kind,
        unit="1",
        labels=tuple(Label(label, "a test's") for label in labels),
        help=f"{name} of a test.",
        origin="gpusight",
        endpoint="test",
        buckets=buckets,
    )


THINGS = family("test_things", "gauge", "thing")


def things(count: int = 3) -> FamilyBlock:
    return FamilyBlock(THINGS, ((f"thing-{i}",) for i in range(count)), range(count))


class Fixed:
    """A gather that always finds the same, and remembers what it was asked for."""

    def __init__(self, *blocks: FamilyBlock, headers_for: Sequence[FamilySpec] = ()) -> None:
        self.scrape = Scrape(blocks or (things(),), headers_for)
        self.asked: list[ScrapeRequest] = []

    async def __call__(self, request: ScrapeRequest) -> Scrape:
        self.asked.append(request)
        return self.scrape


def endpoint(gather: Gather | Mapping[str, Gather] | None = None, **options: Any) -> Endpoint:
    given: dict[str, Any] = {"role": "test", "title": "A test", "version": "1.2.3", "is_ready": lambda: True}
    return Endpoint(gather or Fixed(), **{**given, "clock": SystemClock(), **options})


class Running(NamedTuple):
    server: Server
    endpoint: Endpoint

    @property
    def port(self) -> int:
        return int(self.server.addresses[0].rpartition(":")[2])


@asynccontextmanager
async def serving(
    to_serve: Endpoint | None = None,
    *,
    listen: Sequence[str] = ("127.0.0.1:0",),
    web_config: WebConfigFile | Path | None = None,
    clock: Clock | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[Running]:
    """Serve in this event loop; everything is closed at the end."""
    served = to_serve or endpoint()
    config = WebConfigFile(web_config) if isinstance(web_config, Path) else web_config
    server = await serve(
        served, listen=listen, web_config=config, clock=clock or SystemClock(), limits=limits or Limits(shutdown=0.2)
    )
    try:
        yield Running(server, served)
    finally:
        await server.close()


@contextmanager
def serving_in_thread(to_serve: Endpoint, *, web_config: Path | None = None) -> Iterator[Running]:
    """Serve in a thread of its own, for clients that block."""
    started: list[Running] = []
    is_up = threading.Event()
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def run() -> None:
        async with serving(to_serve, web_config=web_config) as running:
            end = asyncio.Event()
            stop.append((asyncio.get_running_loop(), end))
            started.append(running)
            is_up.set()
            await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="serving")
    thread.start()
    assert is_up.wait(5), "the server did not start"
    try:
        yield started[0]
    finally:
        loop, end = stop[0]
        loop.call_soon_threadsafe(end.set)
        thread.join(10)
