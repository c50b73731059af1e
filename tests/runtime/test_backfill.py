"""The past that is written in bulk is what the agent would have shown, series by series and value by value."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from gpusight.exposition.parser import PageParser
from gpusight.model.series import Ask, Span, StoreError
from gpusight.model.time import ManualClock
from gpusight.runtime.backfill import Grid, affordable, backfill
from gpusight.runtime.backfill_families import CONSTANT, ENERGY_OF_HOLDER, OF_DEVICE, OF_HOLDER
from gpusight.simulate.spec import load_spec
from gpusight.store.embedded import Batch, EmbeddedStore
from gpusight.store.embedded_series import SeriesRef, Target, labels_of
from gpusight.store.normalize import BY_FAMILY
from gpusight.store.scrape_target import keeper
from tests.support.simulated import STARTED_AT, node_in_past

TARGET = Target("gpusight", "node")
EXTRA = {"job": "gpusight", "instance": "node", "cluster": "there"}
KNOWN = CONSTANT | OF_DEVICE.keys() | OF_HOLDER.keys()
Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    made = EmbeddedStore(tmp_path / "samples.duckdb", ManualClock(STARTED_AT))
    yield made
    made.close()


def batch(store: EmbeddedStore, text: str) -> Batch:
    def learn(family: str, labels: Mapping[str, str]) -> SeriesRef:
        return store.ref(TARGET, family, {**EXTRA, **labels})

    page = PageParser(learn, keeper(())).parse(text.encode())
    assert not page.faults
    return Batch(TARGET, STARTED_AT, page.series, page.values, simulated=True)


def values(found: Batch) -> Values:
    refs = ((ref.family, frozenset(labels_of(ref.labels).items())) for ref in found.series)
    return dict(zip(refs, found.values, strict=True))


def written(store: EmbeddedStore, seconds: float) -> Values:
    with store._asking() as cursor:
        rows = cursor.execute(
            "SELECT family, labels, value FROM samples JOIN scrapes ON samples.scrape = scrapes.id"
            " JOIN series ON samples.series = series.id WHERE moment = ?",
            [STARTED_AT + seconds],
        ).fetchall()
    return {(family, frozenset(labels_of(labels).items())): value for family, labels, value in rows}


def without_energy(found: Values) -> Values:
    return {key: value for key, value in found.items() if key[0] != ENERGY_OF_HOLDER}


NODES = [
    ("default", "gpu-node-1"),
    ("mig", "mig-node-1"),
    ("demo", "bj-h100-02"),
    ("demo", "bj-a100-01"),
    ("demo", "sh-a100-mig-01"),
    ("demo", "sh-v100-01"),
    ("demo", "sh-rtx-01"),
    ("demo", "campus-h100-mig-01"),
    ("demo", "campus-gb10-01"),
]


@pytest.mark.parametrize(("fleet", "name"), NODES)
def test_the_past_is_what_the_agent_would_have_shown(
    store: EmbeddedStore, tmp_path: Path, fleet: str, name: str
) -> None:
    spec = load_spec(fleet)
    moments = (-49_980.0, -28_740.0, -12_300.0, -4_860.0, -600.0, -120.0)
    with node_in_past(spec, name, tmp_path / "node") as node:
        shown = {}
        for t in moments:
            node.page(t - 60)  # rates are over the time since the reading before
            shown[t] = values(batch(store, node.page(t)))
        node.page(-60.0)
        look = batch(store, node.page(0.0))
    grid = Grid(STARTED_AT - 54_000, STARTED_AT, 60.0, 60.0)
    count = backfill(store, [look], spec, grid, started_at=STARTED_AT)
    assert count > len(grid.moments) * len(look.series) / 2
    for t in moments:
        expected, found = without_energy(shown[t]), without_energy(written(store, t))
        assert found.keys() == expected.keys(), t
        for key, value in expected.items():
            assert found[key] == pytest.approx(value, rel=1e-9, abs=1e-9), (t, key)


def test_every_family_that_the_analyzer_reads_of_a_node_has_a_past(store: EmbeddedStore, tmp_path: Path) -> None:
    seen = set()
    for fleet, name in NODES:
        with node_in_past(load_spec(fleet), name, tmp_path / name) as node:
            node.page(-15.0)
            seen |= {ref.family for ref in batch(store, node.page(0.0)).series}
    assert seen <= KNOWN
    assert len(seen & BY_FAMILY.keys()) > 40


def test_the_energy_of_containers_rises_as_the_agent_counts_it(store: EmbeddedStore, tmp_path: Path) -> None:
    spec = load_spec("default")
    with node_in_past(spec, "gpu-node-1", tmp_path / "node") as node:
        before, after = (values(batch(store, node.page(t))) for t in (-6000.0, -5940.0))
        look = batch(store, node.page(0.0))
    backfill(store, [look], spec, Grid(STARTED_AT - 6000, STARTED_AT), started_at=STARTED_AT)
    past_before, past_after = written(store, -6000.0), written(store, -5940.0)
    rises = {key: after[key] - before[key] for key in after if key[0] == ENERGY_OF_HOLDER}
    assert any(rises.values())
    for key, rise in rises.items():
        assert past_after[key] - past_before[key] == pytest.approx(rise, rel=1e-6)
        assert written(store, -15.0)[key] >= past_after[key]


def two_pods(second: float) -> dict[str, object]:
    """One holds the GPU alone until the second comes."""
    pods = [("first", -5000.0), ("second", second)]
    return {
        "nodes": [{"name": "n", "gpus": [{"model": "t4"}]}],
        "workloads": [
            {"namespace": "a", "pod": pod, "kind": "training", "node": "n", "gpus": [0], "starts": starts}
            for pod, starts in pods
        ],
    }


def test_no_pod_is_named_before_it_was_there(store: EmbeddedStore, tmp_path: Path) -> None:
    spec = load_spec(two_pods(-1800.0))
    with node_in_past(spec, "n", tmp_path / "node") as node:
        node.page(-15.0)
        look = batch(store, node.page(0.0))
    backfill(store, [look], spec, Grid(STARTED_AT - 7200, STARTED_AT), started_at=STARTED_AT)

    def holders(t: float, family: str) -> set[str]:
        return {dict(labels).get("pod", "") for name, labels in written(store, t) if name == family}

    alone, container = "DCGM_FI_DEV_GPU_UTIL", "gpusight_container_gpu_utilization_ratio"
    assert [holders(t, alone) for t in (-6000.0, -3600.0, -60.0)] == [{""}, {"first"}, {""}]
    assert [holders(t, container) for t in (-6000.0, -3600.0, -60.0)] == [set(), {"first"}, {"first", "second"}]


def test_a_lost_gpu_has_no_samples(store: EmbeddedStore, tmp_path: Path) -> None:
    spec = load_spec(
        {
            "nodes": [{"name": "n", "gpus": [{"model": "t4", "count": 2}]}],
            "faults": [{"kind": "gpu_lost", "gpu": 1, "at": -1200, "for": 600}],
        }
    )
    with node_in_past(spec, "n", tmp_path / "node") as node:
        look = batch(store, node.page(0.0))
    backfill(store, [look], spec, Grid(STARTED_AT - 1800, STARTED_AT), started_at=STARTED_AT)
    counts = [sum(name == "DCGM_FI_DEV_GPU_UTIL" for name, _ in written(store, t)) for t in (-1500.0, -900.0, -300.0)]
    assert counts == [2, 1, 2]


def test_history_and_live_samples_are_one_series(store: EmbeddedStore, tmp_path: Path) -> None:
    spec = load_spec(two_pods(-1800.0))
    with node_in_past(spec, "n", tmp_path / "node") as node:
        node.page(-15.0)
        look = batch(store, node.page(0.0))
    backfill(store, [look], spec, Grid(STARTED_AT - 3600, STARTED_AT), started_at=STARTED_AT)
    assert store.simulated
    store.append([look])
    read = store.read([Ask("utilization", ("count", "last_seen"))], Span(STARTED_AT, 600, 30))
    for window in read.windows:
        assert set(window.columns["count"].values()) == {20}, window.family
        assert set(window.columns["last_seen"].values()) == {STARTED_AT}


def test_a_store_of_real_samples_takes_no_past(store: EmbeddedStore, tmp_path: Path) -> None:
    spec = load_spec(two_pods(-1800.0))
    with node_in_past(spec, "n", tmp_path / "node") as node:
        look = batch(store, node.page(0.0))
    store.append([look._replace(simulated=False, moment=STARTED_AT - 100_000)])
    with pytest.raises(StoreError, match="holds real samples"):
        backfill(store, [look], spec, Grid(STARTED_AT - 600, STARTED_AT), started_at=STARTED_AT)
    assert not written(store, -60.0)


def test_series_of_other_machines_are_left_alone(store: EmbeddedStore) -> None:
    look = batch(store, 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-real"} 1\nup_and_away 1\n')
    assert backfill(store, [look], load_spec("demo"), Grid(STARTED_AT - 600, STARTED_AT), started_at=STARTED_AT) == 0


@pytest.mark.parametrize("series", [1, 3_000, 40_000, 4_000_000])
def test_a_large_fleet_gets_a_past_that_it_can_afford(series: int) -> None:
    refs = [SeriesRef(TARGET, "f", "{}")] * series
    grid = affordable([Batch(TARGET, 0.0, refs, ())], STARTED_AT - 86_400, STARTED_AT, most=6_000_000)
    moments = grid.moments
    assert moments == sorted(set(moments))
    assert STARTED_AT - 86_400 <= moments[0] <= moments[-1] < STARTED_AT
    assert max(b - a for a, b in pairwise(moments)) < 300  # else there are gaps between looks
    assert series * len(moments) <= 6_000_000 or len(moments) == 60
    assert (grid == Grid(STARTED_AT - 86_400, STARTED_AT)) == (series <= 3_000)
