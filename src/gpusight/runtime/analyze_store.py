"""Which store the analyzer reads, and, for the embedded one, what fills it."""

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from gpusight.errors import SettingsError, StartError
from gpusight.model.series import SeriesStore, StoreError
from gpusight.model.time import Clock
from gpusight.runtime.backfill import Grid, affordable, backfill, look
from gpusight.runtime.fleet_targets import fleet_targets
from gpusight.runtime.node_simulated import World
from gpusight.runtime.operations import NAMES as OPERATIONS
from gpusight.settings import Settings
from gpusight.store.embedded import Batch, EmbeddedStore
from gpusight.store.embedded_file import Limits
from gpusight.store.embedded_series import Target
from gpusight.store.embedded_upkeep import Retention
from gpusight.store.normalize import ScaleError, declared_scales
from gpusight.store.prometheus import PrometheusConfig, PrometheusStore
from gpusight.store.promql import ConditionError
from gpusight.store.scrape import Scraper
from gpusight.store.scrape_target import ScrapeTarget, target

_log = logging.getLogger("gpusight.analyze")
FILE_NAME = "samples.duckdb"
_PAST = 24 * 3600.0
_REHEARSED = 3 * 3600.0
_REHEARSE_EVERY = 600.0
_PATIENCE = 20.0
_DEMO_MEMORY = "128MB"
"""What the database may take beside a simulated fleet: a demonstration should be a light one."""
_SECOND_LOOK = 1.1


class Stores:
    """Makes the store that the settings name. The embedded one is opened once, whatever settings change."""

    def __init__(self, directory: Path, clock: Clock, world: World | None = None) -> None:
        self._directory = directory
        self._clock = clock
        self._world = world
        """The simulated one, if what is scraped is simulated."""
        self._embedded: EmbeddedStore | None = None
        self._scraper: Scraper | None = None
        self._targets: list[ScrapeTarget] = []
        self._looks: list[Batch] = []
        self._remembered: float | None = None
        """Up to when the past was written."""

    def store(self, settings: Settings) -> SeriesStore:
        try:
            if settings.get("store") == "prometheus":
                return PrometheusStore(prometheus_config(settings), self._clock)
            if self._embedded is None:
                self._embedded = self._open(settings)
                self._scraper = self._make_scraper(settings, self._embedded)
            else:
                self._embedded.use_condition(settings.get("query-condition"))
        except ConditionError as error:
            raise SettingsError(f"setting query-condition: {error}") from error
        return self._embedded

    def start(self) -> None:
        """Begin to scrape, and give the targets a moment to answer, so that the first round has something to judge."""
        if self._scraper is None:
            return
        self._catch_up()
        self._scraper.start()
        deadline = time.monotonic() + _PATIENCE
        while any(state.up is None for state in self._scraper.targets) and time.monotonic() < deadline:
            time.sleep(0.05)

    def remember(self) -> Sequence[float]:
        """Give a new store of a simulated world a past; the moments at which it is worth a look."""
        if self._world is None or self._embedded is None or self._embedded.simulated is not None:
            return ()
        self._looks = self._first_looks(self._embedded)
        end, began = self._clock.now(), time.monotonic()
        grid = affordable(self._looks, end - _PAST, end)
        written = backfill(self._embedded, self._looks, self._world.spec, grid, started_at=self._world.started_at)
        _log.info("%d samples of simulated history were written in %.1f s", written, time.monotonic() - began)
        self._remembered = end
        self._catch_up()
        end, count = self._clock.now(), int(min(_REHEARSED, end - grid.start - _REHEARSE_EVERY) / _REHEARSE_EVERY)
        return [end - number * _REHEARSE_EVERY for number in reversed(range(count))]

    def _catch_up(self) -> None:
        """What passed in the simulated world while its past was written: a good while, where time runs fast."""
        if self._world is None or self._embedded is None or self._remembered is None:
            return
        now = self._clock.now()
        grid = Grid(self._remembered, now)
        if now - self._remembered > grid.recent_step:
            backfill(self._embedded, self._looks, self._world.spec, grid, started_at=self._world.started_at)
            self._remembered = now

    def _first_looks(self, store: EmbeddedStore) -> list[Batch]:
        """Once every target answers, or patience ends; then once more, for what takes two readings to be known."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            looks = look(self._targets, store, self._clock)
            if all(batch.up for batch in looks) or time.monotonic() > deadline:
                time.sleep(_SECOND_LOOK)
                return look(self._targets, store, self._clock)
            time.sleep(0.2)

    def stop(self) -> None:
        if self._scraper is not None:
            self._scraper.close()
        if self._embedded is not None:
            self._embedded.close()

    def _open(self, settings: Settings) -> EmbeddedStore:
        retention = Retention(
            raw=settings.get("store.raw-retention"),
            rollups=settings.get("store.rollup-retention"),
            max_bytes=settings.get("store.max-size") << 20,
        )
        try:
            return EmbeddedStore(
                self._directory / FILE_NAME,
                self._clock,
                retention=retention,
                declared_scales=_scales(settings),
                cluster_label=settings.get("store.cluster-label"),
                condition=settings.get("query-condition"),
                limits=Limits() if self._world is None else Limits(memory=_DEMO_MEMORY),
            )
        except StoreError as error:
            raise StartError(str(error)) from error

    def _make_scraper(self, settings: Settings, sink: EmbeddedStore) -> Scraper:
        timeout, agent = settings.get("scrape.timeout"), settings.get("simulate.agent")
        self._targets = list(_targets(dict.fromkeys(settings.get("scrape.target")), timeout))
        if self._world is not None and agent is not None:
            self._targets += fleet_targets(self._world.spec, agent, timeout)
        if not self._targets:
            raise SettingsError(
                "the embedded store scrapes by itself: say what, as --scrape.target http://host:9394/metrics"
            )
        speed = self._world.scale[0] if self._world is not None and self._world.scale else 1.0
        try:
            return Scraper(
                self._targets,
                self._clock,
                settings.get("scrape.interval"),
                sink if self._world is None else _AllSimulated(sink),
                keep=OPERATIONS,
                speed=speed,
            )
        except ValueError as error:
            raise SettingsError(f"setting scrape.target: {error}") from error


class _AllSimulated:
    """Beside a simulated fleet all is part of the show, also a program that really computes."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.ref = store.ref
        self._append = store.append

    def append(self, batches: Sequence[Batch]) -> Mapping[Target, str]:
        return self._append([batch._replace(simulated=True) for batch in batches])


def _targets(urls: Iterable[str], timeout: float) -> Iterator[ScrapeTarget]:
    """Pages of one address are told apart by their paths."""
    found = [target(url, timeout=timeout) for url in urls]
    shared = Counter(each.name for each in found)
    for each in found:
        path = urlsplit(each.http.url).path.removesuffix("/metrics")
        yield replace(each, instance=f"{each.name.instance}{path}") if shared[each.name] > 1 else each


def prometheus_config(settings: Settings) -> PrometheusConfig:
    get = settings.get
    return PrometheusConfig(
        url=get("prom.url"),
        timeout=get("prom.timeout"),
        max_workers=get("max-workers"),
        condition=get("query-condition"),
        headers=dict(_headers(get("prom.header"))),
        bearer_token_file=get("prom.bearer-token-file"),
        username=get("prom.user") or "",
        password_file=get("prom.password-file"),
        ca_file=get("prom.ca-file"),
        cert_file=get("prom.cert-file"),
        key_file=get("prom.key-file"),
        insecure=get("prom.insecure"),
        scales=_scales(settings),
        cluster_label=get("store.cluster-label"),
    )


def _scales(settings: Settings) -> Mapping[str, float]:
    try:
        return declared_scales(settings.get("store.scale"))
    except ScaleError as error:
        raise SettingsError(f"setting store.scale: {error}") from error


def _headers(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise SettingsError("setting prom.header: a header is written as `Name: value`")
        yield name.strip(), value.strip()
