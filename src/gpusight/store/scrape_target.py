"""One endpoint with metrics: asked, parsed, and what is known of it since."""

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from gpusight.exposition.parser import Limits, Page, PageParser
from gpusight.model.time import Clock
from gpusight.store import normalize, owners
from gpusight.store.embedded import Batch
from gpusight.store.embedded_series import SeriesRef, Target
from gpusight.store.embedded_windows import LOOKBACK
from gpusight.store.http import HttpClient, HttpConfig, HttpError, Reply

SIMULATED = "gpusight_simulated"
KEPT = frozenset({*normalize.BY_FAMILY, *normalize.INFO_FAMILIES, *owners.FAMILIES, SIMULATED, "gpusight_holder_info"})
"""Families that the store is filled with, beside those that a setting names."""

_ACCEPT = "text/plain;version=0.0.4, text/plain;q=0.5, application/openmetrics-text;version=1.0.0;q=0.3, */*;q=0.1"
"""The old format first: OpenMetrics makes exporters rename their counters."""


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """Where to scrape, and the labels that its series get where the page has none of that name."""

    http: HttpConfig
    job: str = "gpusight"
    instance: str = ""
    """Host and port unless it is given."""
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def name(self) -> Target:
        return Target(self.job, self.instance or _host_and_port(self.http.url))


def target(url: str, **options: object) -> ScrapeTarget:
    """A target from what a user writes: `host:9400` is enough. `options` are those of HttpConfig and ScrapeTarget."""
    full = url if "://" in url else f"http://{url}"
    if urlsplit(full).path in {"", "/"}:
        full = urlsplit(full)._replace(path="/metrics").geturl()
    own = {name: options.pop(name) for name in ("job", "instance", "labels") if name in options}
    return ScrapeTarget(HttpConfig(full, **options), **own)  # type: ignore[arg-type]


def keeper(extra: Iterable[str]) -> Callable[[str], bool]:
    """Whether a family is kept; `extra` are names, or beginnings of names that end in `*`."""
    names = KEPT | {each for each in extra if not each.endswith("*")}
    beginnings = tuple(each[:-1] for each in extra if each.endswith("*"))
    return lambda name: name in names or (bool(beginnings) and name.startswith(beginnings))


class TargetState(NamedTuple):
    """What is known of a target; `up` is None before its first scrape."""

    url: str
    name: Target
    up: bool | None = None
    error: str = ""
    scraped_at: float | None = None
    seconds: float = 0.0
    samples: int = 0
    faults: Mapping[str, int] = MappingProxyType({})
    """Lines of the last page that gave no sample, by reason."""


class Refs(Protocol):
    """Where series get what stands for them."""

    def ref(self, target: Target, family: str, labels: Mapping[str, str]) -> SeriesRef: ...


class ScrapeError(Exception):
    """The page is not one; the message is a sentence."""


class _Client(HttpClient):
    def page(self, path_and_query: str) -> Reply:
        return self._ask("GET", path_and_query, None)


class Scraped:
    """One target through time. Not to be scraped by two threads at once; `state` may be read by any."""

    def __init__(
        self, config: ScrapeTarget, refs: Refs, wanted: Callable[[str], bool], limits: Limits, wire_clock: Clock
    ) -> None:
        self._name = config.name
        self._labels = {**config.labels, "job": self._name.job, "instance": self._name.instance}
        self._refs = refs
        self._wire_clock = wire_clock
        parts = urlsplit(config.http.url)
        self._page = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
        headers = {"Accept": _ACCEPT, "Connection": "close", **config.http.headers}
        server = parts._replace(path="", query="", fragment="").geturl()
        self._client = _Client(replace(config.http, url=server, headers=headers), wire_clock)
        self._parser: PageParser[SeriesRef] = PageParser(self._learn, wanted, limits)
        self._simulated: SeriesRef | None = None
        self.state = TargetState(self._client.shown + parts.path, self._name)

    def scrape(self, moment: float) -> Batch:
        """One scrape as of that time. A failure is a batch too: it ends the target's series."""
        start = self._wire_clock.monotonic()
        try:
            page = self._parsed(self._client.page(self._page).body)
            series, values = _in_time(page, moment)
            batch = Batch(self._name, moment, series, values, simulated=self._is_simulated(page))
            error, faults = "", {str(fault): count for fault, count in page.faults.items()}
        except (HttpError, ScrapeError) as problem:
            batch, error, faults = Batch(self._name, moment, up=False), str(problem), {}
        self.state = self.state._replace(
            up=batch.up,
            error=error,
            scraped_at=moment,
            seconds=self._wire_clock.monotonic() - start,
            samples=len(batch.series),
            faults=MappingProxyType(faults),
        )
        return batch

    def refuse(self, why: str) -> None:
        """The store did not take the last batch."""
        self.state = self.state._replace(up=False, error=why)

    def close(self) -> None:
        self._client.close()

    def _learn(self, family: str, labels: dict[str, str]) -> SeriesRef:
        """The page's own labels win, as with `honor_labels: true`."""
        ref = self._refs.ref(self._name, family, {**self._labels, **labels})
        if family == SIMULATED:
            self._simulated = ref
        return ref

    def _parsed(self, body: bytes) -> Page[SeriesRef]:
        page = self._parser.parse(body, openmetrics=body.rstrip().endswith(b"# EOF"))
        if not page.complete:
            raise ScrapeError(f"{self.state.url} gave a page of more than {page.lines} lines, which is too long")
        if page.faults and not page.series:
            raise ScrapeError(f"{self.state.url} gave something that is no page of metrics")
        return page

    def _is_simulated(self, page: Page[SeriesRef]) -> bool:
        return self._simulated in page.series and page.values[page.series.index(self._simulated)] == 1


def _in_time(page: Page[SeriesRef], moment: float) -> tuple[list[SeriesRef], list[float]]:
    """Samples without those whose own time is too far off to show now. The rest count as of the scrape."""
    far = {index for index, time in page.times.items() if abs(moment - time) >= LOOKBACK}
    if not far:
        return page.series, page.values
    page.faults["timestamp"] += len(far)
    kept = [index for index in range(len(page.series)) if index not in far]
    return [page.series[index] for index in kept], [page.values[index] for index in kept]


def _host_and_port(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    with suppress(ValueError):
        host = f"[{ipaddress.IPv6Address(host)}]"
    return f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
