"""Which store the analyzer reads, and, for the embedded one, what fills it."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gpusight.errors import SettingsError, StartError
from gpusight.model.series import SeriesStore, StoreError
from gpusight.model.time import Clock
from gpusight.settings import Settings
from gpusight.store.embedded import EmbeddedStore
from gpusight.store.embedded_upkeep import Retention
from gpusight.store.normalize import ScaleError, declared_scales
from gpusight.store.prometheus import PrometheusConfig, PrometheusStore
from gpusight.store.scrape import Scraper
from gpusight.store.scrape_target import target

_log = logging.getLogger("gpusight.analyze")
FILE_NAME = "samples.duckdb"


class Stores:
    """Makes the store that the settings name. The embedded one is opened once, whatever settings change."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._embedded: EmbeddedStore | None = None
        self._scraper: Scraper | None = None

    def store(self, settings: Settings) -> SeriesStore:
        if settings.get("store") == "prometheus":
            return PrometheusStore(prometheus_config(settings), self._clock)
        if self._embedded is None:
            self._embedded = self._open(settings)
            self._scraper = self._make_scraper(settings, self._embedded)
        return self._embedded

    def start(self) -> None:
        if self._scraper is not None:
            self._scraper.start()

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
            )
        except StoreError as error:
            raise StartError(str(error)) from error

    def _make_scraper(self, settings: Settings, sink: EmbeddedStore) -> Scraper:
        urls = settings.get("scrape.target")
        if not urls:
            raise SettingsError(
                "the embedded store scrapes by itself: say what, as --scrape.target http://host:9394/metrics"
            )
        timeout = settings.get("scrape.timeout")
        targets = [target(url, timeout=timeout) for url in dict.fromkeys(urls)]
        try:
            return Scraper(targets, self._clock, settings.get("scrape.interval"), sink)
        except ValueError as error:
            raise SettingsError(f"setting scrape.target: {error}") from error


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
