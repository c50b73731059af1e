"""What an exporter answers: request in, response out, no sockets.

Scrapes that ask for the same thing at the same time share one collection and one page. What the clients may cost is
bounded: so many different pages in the making, so many clients waiting for them, and the rest is told to come back.
"""

import asyncio
import gzip
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from itertools import chain, islice
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from gpusight.catalog.own import SCRAPES_REJECTED, SERIES_DROPPED
from gpusight.catalog.spec import FamilySpec
from gpusight.exposition.blocks import FamilyBlock, group
from gpusight.exposition.landing import landing_page
from gpusight.exposition.negotiate import accepts_gzip, choose_dialect
from gpusight.exposition.text import OPENMETRICS, TEXT, Dialect, Renderer, encode
from gpusight.model.time import Clock

T = TypeVar("T")
log = logging.getLogger("gpusight.web")

PLAIN = "text/plain; charset=utf-8"
REASONS = ("auth", "busy", "connections", "timeout")
"""Why a request can be turned away; each is counted from the start, so that rates are right."""

_TIMEOUT_OFFSET = 0.5
_SHORTEST_TIMEOUT = 0.1
_GATHER_GRACE = 5.0
_COMPLAIN_EVERY = 60.0
_WORTH_ZIPPING = 1024
_LARGE_PAGE = 10_000
"""Series from which on a page is made in a thread: below, it costs a few milliseconds at most."""
_LARGE_BODY = 64 * 1024
_NAMED_PAGES = 10
"""How many paths a sentence names."""


class UnknownCollector(ValueError):  # noqa: N818  (said of the request, not of the program)
    """A `collect[]` that names no collector of this exporter; the message is shown to the client."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, its body already read and dropped. Header names are lower case."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] | None = None

    def header(self, name: str) -> str:
        return (self.headers or {}).get(name, "")


@dataclass(frozen=True, slots=True)
class Response:
    """One response. Content-Length is among the headers, so that HEAD can announce what GET would send."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def with_headers(self, extra: Sequence[tuple[str, str]]) -> "Response":
        given = {name.lower() for name, _ in extra}
        kept = (header for header in self.headers if header[0].lower() not in given)
        return replace(self, headers=(*kept, *extra)) if extra else self


def make_response(status: int, content_type: str, body: bytes, *headers: tuple[str, str]) -> Response:
    return Response(status, (("Content-Type", content_type), ("Content-Length", str(len(body))), *headers), body)


def plain(status: int, sentence: str, *headers: tuple[str, str]) -> Response:
    """A line of text; browsers are told to take it for nothing else."""
    text = (sentence or HTTPStatus(status).phrase).removesuffix("\n") + "\n"
    return make_response(
        status, PLAIN, text.encode("utf-8", "backslashreplace"), ("X-Content-Type-Options", "nosniff"), *headers
    )


@dataclass(frozen=True, slots=True)
class ScrapeRequest:
    """What one scrape wants: family names and collectors (empty means all), and how long collectors may take."""

    names: frozenset[str]
    collectors: frozenset[str]
    timeout: float

    @property
    def is_filtered(self) -> bool:
        return bool(self.names or self.collectors)


class Scrape(NamedTuple):
    """What a collection found; `headers_for` are families announced even without a sample."""

    blocks: Sequence[FamilyBlock]
    headers_for: Sequence[FamilySpec] = ()


Gather = Callable[[ScrapeRequest], Awaitable[Scrape]]
OwnBlocks = Callable[[], Iterable[FamilyBlock]]


class Endpoint:
    """The pages of one exporter role: one with all of its metrics, or several with a part each."""

    def __init__(
        self,
        gather: Gather | Mapping[str, Gather],
        *,
        role: str,
        title: str,
        version: str,
        is_ready: Callable[[], bool],
        clock: Clock,
        links: Sequence[tuple[str, str]] = (),
        notes: Sequence[str] = (),
        max_requests: int = 40,
        max_waiting: int = 1000,
        default_timeout: float = 10.0,
        health_text: str = "OK\n",
        telemetry_path: str = "/metrics",
        openmetrics: bool = True,
    ) -> None:
        self._is_ready = is_ready
        self._clock = clock
        self._default_timeout = default_timeout
        self._health_text = health_text
        self._openmetrics = openmetrics
        self._pages: _Flights[Response] = _Flights(max_requests, max_waiting)
        self._rejected = dict.fromkeys(REASONS, 0)
        self._own: list[OwnBlocks] = [self._rejections]
        self._complained = -math.inf
        workers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="gpusight-page")
        gathers = gather if isinstance(gather, Mapping) else {telemetry_path: gather}
        self._metrics = {path: _Page(path, each, _Press(workers)) for path, each in gathers.items()}
        self._no_page = "there is no such page here; / lists what there is"
        if telemetry_path not in self._metrics:
            self._no_page = f"there is no such page here, but {_listed(self._metrics)}; / lists them all"
        self._landing = landing_page(
            title=title,
            version=version,
            role=role,
            links=(*_links(self._metrics, telemetry_path), ("/-/healthy", "Health"), ("/-/ready", "Readiness"), *links),
            notes=notes,
        )
        self._routes: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/": self._show_landing,
            "/health": self._show_health,
            "/healthz": self._show_health,
            "/-/healthy": self._show_health,
            "/-/ready": self._show_readiness,
            **{path: partial(self._show_metrics, page) for path, page in self._metrics.items()},
        }

    def expose(self, blocks: OwnBlocks) -> None:
        """Put these blocks on every unfiltered page, too."""
        if blocks not in self._own:
            self._own.append(blocks)

    def reject(self, reason: str) -> None:
        """Count a request that was turned away."""
        self._rejected[reason] = self._rejected.get(reason, 0) + 1

    async def respond(self, request: Request) -> Response:
        """Never raises: what goes wrong in here is a 500."""
        try:
            response = await self._route(request)
        except Exception as error:
            self._complain("answering a request failed", error)
            response = plain(500, "collecting the metrics failed; this exporter's log says why")
        return replace(response, body=b"") if request.method == "HEAD" else response

    async def _route(self, request: Request) -> Response:
        show = self._routes.get(request.path)
        if show is None:
            return plain(404, self._no_page)
        if request.method not in ("GET", "HEAD"):
            return plain(405, "this page can only be read", ("Allow", "GET, HEAD"))
        return await show(request)

    async def _show_landing(self, _request: Request) -> Response:
        return make_response(200, "text/html; charset=utf-8", self._landing, ("X-Content-Type-Options", "nosniff"))

    async def _show_health(self, _request: Request) -> Response:
        return plain(200, self._health_text)

    async def _show_readiness(self, _request: Request) -> Response:
        if self._is_ready():
            return plain(200, "ready")
        return plain(503, "not ready: the first collection has not finished", ("Retry-After", "1"))

    async def _show_metrics(self, page: "_Page", request: Request) -> Response:
        wanted = parse_scrape(request, self._default_timeout)
        dialect = choose_dialect(request.header("accept")) if self._openmetrics else TEXT
        zipped = accepts_gzip(request.header("accept-encoding"))
        try:
            return await self._pages.join(
                (page.path, wanted, dialect, zipped), lambda: self._make_page(page, wanted, dialect, zipped)
            )
        except UnknownCollector as error:
            return plain(400, str(error))
        except _Full:
            self.reject("busy")
            return plain(503, "too many scrapes at once; try again in a second", ("Retry-After", "1"))
        except TimeoutError as error:
            self.reject("timeout")
            self._complain("the collectors did not answer in time", error)
            return plain(503, "the collectors did not answer in time", ("Retry-After", "5"))

    async def _make_page(self, page: "_Page", wanted: ScrapeRequest, dialect: Dialect, zipped: bool) -> Response:
        scrape = await page.scrapes.join(wanted, lambda: page.collect(wanted))
        body = await page.press.page(wanted, self._with_own(page, wanted, scrape), dialect)
        headers = [("Vary", "Accept, Accept-Encoding")]
        if zipped and len(body) >= _WORTH_ZIPPING:
            body = await page.press.zipped(body)
            headers.append(("Content-Encoding", "gzip"))
        return make_response(200, dialect.content_type, body, *headers)

    def _with_own(self, page: "_Page", wanted: ScrapeRequest, scrape: Scrape) -> Scrape:
        if wanted.collectors:
            own: Iterable[FamilyBlock] = ()
        else:
            own = chain.from_iterable(blocks() for blocks in (*self._own, page.press.losses))
        return _only(wanted.names, Scrape(group(chain(scrape.blocks, own)), scrape.headers_for))

    def _rejections(self) -> Iterable[FamilyBlock]:
        yield FamilyBlock(SCRAPES_REJECTED, ((reason,) for reason in self._rejected), self._rejected.values())

    def _complain(self, what: str, error: Exception) -> None:
        now = self._clock.monotonic()
        if now - self._complained >= _COMPLAIN_EVERY:
            self._complained = now
            log.error("%s; not logged again for %d s", what, _COMPLAIN_EVERY, exc_info=error)


def parse_scrape(request: Request, default_timeout: float) -> ScrapeRequest:
    """What `name[]`, `collect[]` and the scrape timeout header ask for."""
    asked: dict[str, set[str]] = {"name[]": set(), "collect[]": set()}
    for key, value in parse_qsl(request.query):
        asked.get(key, set()).add(value)
    timeout = scrape_timeout(request.header("x-prometheus-scrape-timeout-seconds"), default_timeout)
    return ScrapeRequest(frozenset(asked["name[]"]), frozenset(asked["collect[]"]), timeout)


def scrape_timeout(header: str, default: float) -> float:
    """Seconds for the collectors: what Prometheus grants, less the time to send the page; the default at most."""
    try:
        granted = float(header)
    except ValueError:
        return default
    if not (math.isfinite(granted) and granted > 0):
        return default
    return max(_SHORTEST_TIMEOUT, min(granted - _TIMEOUT_OFFSET, default))


def _only(names: frozenset[str], scrape: Scrape) -> Scrape:
    if not names:
        return scrape
    return Scrape(
        [block for block in scrape.blocks if not names.isdisjoint(names_of(block.spec))],
        [spec for spec in scrape.headers_for if not names.isdisjoint(names_of(spec))],
    )


def names_of(spec: FamilySpec) -> set[str]:
    """Every name under which a client may know the family: of itself and of its samples, in either format."""
    parts = ("_bucket", "_sum", "_count") if spec.kind == "histogram" else ()
    names = {name(spec) for dialect in (TEXT, OPENMETRICS) for name in (dialect.family_name, dialect.sample_name)}
    return names | {spec.name + part for part in parts}


class _Page:
    """What one path shows, and the collections for it that are under way."""

    def __init__(self, path: str, gather: Gather, press: "_Press") -> None:
        self.path = path
        self.press = press
        self.scrapes: _Flights[Scrape] = _Flights()
        self._gather = gather

    async def collect(self, wanted: ScrapeRequest) -> Scrape:
        # Collectors keep their deadline themselves; this one only ends what would hang for ever.
        async with asyncio.timeout(wanted.timeout + _GATHER_GRACE):
            return await self._gather(wanted)


def _links(paths: Iterable[str], telemetry_path: str) -> Iterable[tuple[str, str]]:
    """Pages beside the usual one go by their path."""
    return ((path, "Metrics" if path == telemetry_path else path) for path in paths)


def _listed(paths: Iterable[str]) -> str:
    """The first few, as words of a sentence."""
    first = list(islice(paths, _NAMED_PAGES + 1))
    return ", ".join(first[:_NAMED_PAGES]) + (" and others" if len(first) > _NAMED_PAGES else "")


class _Press:
    """Makes pages, the large ones in a thread, with one renderer per dialect for the full page."""

    def __init__(self, workers: ThreadPoolExecutor) -> None:
        self._renderers: dict[Dialect, Renderer] = {dialect: Renderer(dialect) for dialect in (TEXT, OPENMETRICS)}
        self._locks = {dialect: threading.Lock() for dialect in self._renderers}
        self._workers = workers

    async def page(self, wanted: ScrapeRequest, scrape: Scrape, dialect: Dialect) -> bytes:
        size = sum(len(block.keys) for block in scrape.blocks)
        make = self._one_shot if wanted.is_filtered else self._full
        return await self._run(size >= _LARGE_PAGE, lambda: make(scrape, dialect))

    async def zipped(self, body: bytes) -> bytes:
        return await self._run(len(body) >= _LARGE_BODY, lambda: gzip.compress(body, compresslevel=1, mtime=0))

    def losses(self) -> Iterable[FamilyBlock]:
        lost = sum(renderer.duplicates for renderer in self._renderers.values())
        yield FamilyBlock(SERIES_DROPPED, (("duplicate",),), (lost,))

    async def _run(self, is_large: bool, work: Callable[[], bytes]) -> bytes:
        if not is_large:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._workers, work)

    def _one_shot(self, scrape: Scrape, dialect: Dialect) -> bytes:
        return encode(scrape.blocks, dialect=dialect, headers_for=scrape.headers_for)

    def _full(self, scrape: Scrape, dialect: Dialect) -> bytes:
        with self._locks[dialect]:
            renderer = self._renderers[dialect]
            try:
                return renderer.render(scrape.blocks, headers_for=scrape.headers_for)
            except BaseException:
                # What it remembers may be half a page now.
                fresh = self._renderers[dialect] = Renderer(dialect)
                fresh.duplicates = renderer.duplicates
                raise


class _Full(Exception):  # noqa: N818
    """No room for one more."""


class _Flights(Generic[T]):
    """Work under way, each kind once: whoever asks for the same joins. A limit of 0 is none."""

    def __init__(self, max_flights: int = 0, max_waiting: int = 0) -> None:
        self._max_flights = max_flights or math.inf
        self._max_waiting = max_waiting or math.inf
        self._flights: dict[Hashable, asyncio.Task[T]] = {}
        self._waiting = 0

    async def join(self, key: Hashable, start: Callable[[], Awaitable[T]]) -> T:
        if self._waiting >= self._max_waiting:
            raise _Full
        task = self._flights.get(key) or self._take_off(key, start)
        self._waiting += 1
        try:
            return await asyncio.shield(task)  # one client's leaving must not end it for the others
        finally:
            self._waiting -= 1

    def _take_off(self, key: Hashable, start: Callable[[], Awaitable[T]]) -> asyncio.Task[T]:
        if len(self._flights) >= self._max_flights:
            raise _Full

        async def fly() -> T:
            return await start()

        task = self._flights[key] = asyncio.create_task(fly())
        task.add_done_callback(lambda done: self._land(key, done))
        return task

    def _land(self, key: Hashable, task: asyncio.Task[T]) -> None:
        del self._flights[key]
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not report it when all clients have gone
