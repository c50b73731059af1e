"""A fleet in a real process, its past written into a store, and live scrapes that go on from there."""

import time
from pathlib import Path

from gpusight.model.series import Ask, PodKey, Span
from gpusight.model.time import ScaledClock
from gpusight.runtime.backfill import Grid, affordable, backfill, look
from gpusight.runtime.fleet_targets import fleet_targets
from gpusight.simulate.spec import load_spec
from gpusight.store.embedded import EmbeddedStore
from gpusight.store.scrape import Scraper
from tests.e2e.test_fleet import running_fleet


def test_a_new_store_knows_the_last_hours_at_once(tmp_path: Path) -> None:
    clock = ScaledClock(1.0, time.time(), time.monotonic())
    flags = ("--simulate.clock", str(clock), "--nvml.timeout", "10s", "--collect.max-age", "100ms")
    with running_fleet(tmp_path, *flags) as role:
        spec = load_spec(tmp_path / "fleet.yaml")
        targets = fleet_targets(spec, role.url)
        store = EmbeddedStore(tmp_path / "samples.duckdb", clock)
        looks = look(targets, store, clock)
        assert all(each.up for each in looks)
        now = clock.now()
        assert affordable(looks, now - 86_400, now) == Grid(now - 86_400, now)
        backfill(store, looks, spec, Grid(now - 7200, now), started_at=clock.wall)
        scraper = Scraper(targets, clock, 15.0, store)
        scraper.scrape_once()
        scraper.close()
        read = store.read([Ask("memory_used", ("count", "last", "last_seen"))], Span(clock.now(), 6000, 60))
        store.close()
    assert not read.failures
    assert read.owners.keys() == read.started.keys()
    assert read.owners[PodKey("west", "b", "serve-6d5f7c9b84-x2x4k")][:2] == ("Deployment", "serve")
    assert {key.cluster for window in read.windows for key in window.columns["last"]} == {"east", "west"}
    for window in read.windows:
        assert set(window.columns["last_seen"]) == set(window.columns["last"])
        assert min(window.columns["count"].values()) == 100, window.family
