"""Roll-ups, retention, and the bound on disk."""

import random
from pathlib import Path

import pytest

from gpusight.model.series import Span
from gpusight.model.time import ManualClock
from gpusight.store.embedded import Batch, EmbeddedStore
from gpusight.store.embedded_file import size_on_disk
from gpusight.store.embedded_upkeep import Retention
from tests.store.embedding import NODE, START, UTIL, batch, embedded, gpu, key, window


def fill(store: EmbeddedStore, clock: ManualClock, steps: int, every: float = 60.0) -> None:
    """One GPU whose utilization in percent is the number of the hour, and another that has blanks only."""
    for _ in range(steps // _TOGETHER):
        batches = []
        for _ in range(_TOGETHER):
            hour = (clock.now() - START) // 3600
            batches.append(batch(store, clock.now(), {"a": hour, "blank": 2147483632.0}))
            clock.advance(every)
        store.append(batches)
    store.maintain()


_TOGETHER = 10
"""Scrapes per transaction; the file does not know the difference."""


def counts(store: EmbeddedStore) -> dict[str, int]:
    tables = ("scrapes", "samples", "rollups", "series")
    return {name: store._connected().execute(f"SELECT count(*) FROM {name}").fetchall()[0][0] for name in tables}


def test_charts_go_on_in_roll_ups_where_raw_samples_are_gone(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with embedded(tmp_path, clock, retention=Retention(raw=7200, rollups=86400)) as store:
        fill(store, clock, 5 * 60)
        points = store.range(key("a"), "utilization", Span(clock.now(), 5 * 3600, 300))
        values = [round(point.value * 100) for point in points]
        warned = store.read([], Span(clock.now(), 4 * 3600, 300)).warnings
        trusted = store.read([], Span(clock.now(), 3600, 300)).warnings
    assert counts_of(values) == pytest.approx(dict.fromkeys(range(5), 12), abs=1)
    assert values == sorted(values)
    assert [point.time for point in points] == [START + 300 * (1 + step) for step in range(60)]
    assert len(warned) == 1
    assert trusted == ()


def counts_of(values: list[int]) -> dict[int, int]:
    return {value: values.count(value) for value in set(values)}


def test_raw_samples_and_roll_ups_go_when_they_are_old_enough(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with embedded(tmp_path, clock, retention=Retention(raw=3600, rollups=7200)) as store:
        fill(store, clock, 5 * 60)
        left = counts(store)
        assert 59 <= left["scrapes"] <= 66
        assert left["samples"] == 2 * left["scrapes"]
        assert 23 <= left["rollups"] <= 25, "one GPU in two hours; blanks make no roll-up"
        clock.advance(8000)
        store.maintain()
        assert counts(store) == {"scrapes": 0, "samples": 0, "rollups": 0, "series": 0}
        store.append([batch(store, clock.now(), {"a": 50.0})])
        assert window(store, Span(clock.now(), 60, 30)).columns["last"] == {key("a"): 0.5}


def test_a_series_keeps_its_number_over_restarts(tmp_path: Path) -> None:
    for step in range(3):
        with embedded(tmp_path) as store:
            store.append([batch(store, START + 30 * step, {"a": 1.0, "b": 1.0})])
    with embedded(tmp_path) as store:
        assert counts(store)["series"] == 2
        assert window(store, Span(START + 60, 90, 30)).columns["count"][key("a")] == 3


def test_a_reference_outlives_the_series_that_it_stood_for(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with embedded(tmp_path, clock, retention=Retention(raw=600, rollups=600)) as store:
        ref = store.ref(NODE, UTIL, gpu("a"))
        store.append([Batch(NODE, START, [ref], [1.0])])
        clock.advance(5000)
        store.maintain()
        assert counts(store)["series"] == 0
        store.append([Batch(NODE, clock.now(), [ref], [50.0])])
        assert window(store, Span(clock.now(), 60, 30)).columns["last"] == {key("a"): 0.5}


def test_a_back_fill_of_a_day_is_rolled_up(tmp_path: Path) -> None:
    clock = ManualClock(START + 86400)
    with embedded(tmp_path, clock) as store:
        store.append([batch(store, START + 60 * minute, {"a": 10.0}, simulated=True) for minute in range(24 * 60)])
        store.maintain()
        assert counts(store)["rollups"] == 24 * 12 - 1
        row = store._connected().execute("SELECT samples, total, least, most, latest FROM rollups LIMIT 1").fetchone()
        assert row == (5, 50.0, 10.0, 10.0, 10.0)


def test_the_file_stays_within_its_bytes(tmp_path: Path) -> None:
    """More comes in than fits; the oldest goes, the newest stays."""
    limit = 8 << 20
    rng = random.Random(1)
    clock = ManualClock(START)
    names = [str(i) for i in range(4000)]
    largest = 0
    with embedded(tmp_path, clock, retention=Retention(max_bytes=limit)) as store:
        refs = [store.ref(NODE, UTIL, gpu(name)) for name in names]
        for _ in range(60):
            moments = [clock.now() + 60 * each for each in range(3)]
            store.append([Batch(NODE, moment, refs, [rng.random() * 100 for _ in names]) for moment in moments])
            largest = max(largest, size_on_disk(tmp_path / "samples.duckdb"))
            clock.advance(180)
        last = clock.now() - 60
        assert len(window(store, Span(last, 600, 60)).columns["last"]) == len(names)
        assert counts(store)["scrapes"] < 150
    assert largest <= limit, f"{largest / limit:.2f} of what is allowed"


def test_roll_ups_are_dropped_only_when_little_is_left_of_the_raw_samples(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with embedded(tmp_path, clock, retention=Retention(max_bytes=1)) as store:
        for _ in range(50):
            store.append([batch(store, clock.now(), {"a": 1.0})])
            clock.advance(300)
        store.maintain()
        left = counts(store)
    assert left["rollups"] == 0
    assert 0 < left["scrapes"] <= 13, "the last hour at most"
