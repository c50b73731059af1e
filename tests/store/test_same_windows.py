"""The same pages give the same windows, whether a real Prometheus scrapes them or we do."""

import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from gpusight.model.series import Aggregate, Ask, Owner, PodKey, Reading, SeriesKey, Span, Windows
from gpusight.model.time import SystemClock
from gpusight.store.embedded import EmbeddedStore
from gpusight.store.prometheus import PrometheusConfig, PrometheusStore
from gpusight.store.scrape import Scraper
from gpusight.store.scrape_target import target
from tests.store.embedding import key
from tests.store.endpoints import Endpoint, endpoint
from tests.support.prometheus import Prometheus, needs_prometheus, temporary_prometheus

STEP = 0.25
PHASES = 3
PHASE = 2.0
"""Seconds for which a page stays as it is: many scrapes, so that both scrapers see every value."""

ALL: tuple[Aggregate, ...] = ("count", "mean", "min", "max", "last", "last_seen", "active_count", "last_active")
ASKS = (
    Ask("utilization", ALL, active_above=0.3),
    Ask("memory_used", ALL),
    Ask("power", ("count", "mean", "min", "max", "last_seen")),
    Ask("energy", ("increase", "last_seen")),
)
HELD = key("held", namespace="team", pod="train-0", container="main")
BUSY, BLANK, GONE = key("busy"), key("blank"), key("gone")


def page(phase: int, seconds: float) -> str:
    """Changes by phase: a busy GPU, a held one, one that ends, one whose memory is blank at first, then for ever."""
    held = 'UUID="GPU-held",Hostname="n",modelName="M",namespace="team",pod="train-0",container="main"'
    lines = [
        f'DCGM_FI_DEV_GPU_UTIL{{UUID="GPU-busy",Hostname="n",modelName="M"}} {(20, 90, 60)[phase]}',
        f"DCGM_FI_DEV_GPU_UTIL{{{held}}} {(50, 0, 0)[phase]}",
        f"DCGM_FI_DEV_FB_USED{{{held}}} {(100, 100, 300)[phase]}",
        'DCGM_FI_DEV_FB_USED{UUID="GPU-blank"} 2147483632',
        f'DCGM_FI_DEV_POWER_USAGE{{UUID="GPU-busy"}} {(100, 400, 250.5)[phase]}',
        f'DCGM_FI_DEV_POWER_USAGE{{UUID="GPU-blank"}} {("NaN", 80, 90)[phase]}',
        f'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{UUID="GPU-busy"}} {1e6 + 50_000 * seconds}',
        'kube_pod_owner{namespace="team",pod="train-0",owner_kind="ReplicaSet",owner_name="train-1"} 1',
        'kube_replicaset_owner{namespace="team",replicaset="train-1",owner_kind="Deployment",owner_name="train"} 1',
        'kube_pod_start_time{namespace="team",pod="train-0"} 1700000000',
    ]
    if phase < 2:
        lines.append('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-gone"} 70')
    return "\n".join(lines) + "\n"


class Phases:
    """An endpoint whose page is empty until the phases begin; the last one stays."""

    def __init__(self, served: Endpoint) -> None:
        self._served = served
        self._began: float | None = None
        served.answer = self._answer

    def begin(self) -> None:
        self._began = time.monotonic()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        if self._began is None:
            self._served.text = ""
        else:
            seconds = time.monotonic() - self._began
            self._served.text = page(min(int(seconds / PHASE), PHASES - 1), seconds)
        self._served.send_text(handler)


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Reading]]:
    """One span over all phases, from both stores."""
    directory = tmp_path_factory.mktemp("same")
    with endpoint() as served:
        jobs = [{"job_name": "gpus", "honor_labels": True, "static_configs": [{"targets": [served.address]}]}]
        with temporary_prometheus(directory, jobs) as prometheus:
            yield _read_both(directory, served, prometheus)


def _read_both(directory: Path, served: Endpoint, prometheus: Prometheus) -> Mapping[str, Reading]:
    clock = SystemClock()
    phases = Phases(served)
    ours = EmbeddedStore(directory / "samples.duckdb", clock)
    theirs = PrometheusStore(PrometheusConfig(url=prometheus.url), clock)
    scraper = Scraper([target(served.address, job="gpus", timeout=2)], clock, STEP, ours)
    try:
        scraper.start()
        prometheus.wait_until(lambda api: bool(api.query("up == 1")) and scraper.targets[0].up is True)
        phases.begin()
        time.sleep(PHASES * PHASE)
        span = Span(clock.now(), PHASES * PHASE + 2, STEP)
        time.sleep(2 * STEP)  # what began before the span's end is written by both
        return {"ours": ours.read(ASKS, span), "theirs": theirs.read(ASKS, span)}
    finally:
        scraper.close()
        theirs.close()
        ours.close()


pytestmark = needs_prometheus


def windows(reading: Reading) -> dict[str, Windows]:
    return {each.family: each for each in reading.windows}


def pairs(readings: Mapping[str, Reading], aggregate: Aggregate) -> dict[tuple[str, SeriesKey], tuple[float, float]]:
    """Ours and theirs of each series; both must know the same ones."""
    ours, theirs = windows(readings["ours"]), windows(readings["theirs"])
    found = {}
    for family, window in ours.items():
        mine, other = window.columns.get(aggregate, {}), theirs[family].columns.get(aggregate, {})
        assert mine.keys() == other.keys(), f"{aggregate} of {family}"
        found.update({(family, key): (mine[key], other[key]) for key in mine})
    return found


def test_the_same_families_in_the_same_order(readings: Mapping[str, Reading]) -> None:
    assert [each.family for each in readings["ours"].windows] == [each.family for each in readings["theirs"].windows]
    for reading in readings.values():
        assert not reading.failures
        assert not reading.warnings


@pytest.mark.parametrize("aggregate", ["min", "max", "last"])
def test_the_same_values(readings: Mapping[str, Reading], aggregate: Aggregate) -> None:
    found = pairs(readings, aggregate)
    assert found
    for ours, theirs in found.values():
        assert ours == pytest.approx(theirs)


@pytest.mark.parametrize("aggregate", ["count", "active_count"])
def test_the_same_counts(readings: Mapping[str, Reading], aggregate: Aggregate) -> None:
    """Up to one: their scrapes lie up to one step apart. What is active changes with the phases, twice at most."""
    found = pairs(readings, aggregate)
    assert found
    for where, (ours, theirs) in found.items():
        assert ours == pytest.approx(theirs, abs=1 if aggregate == "count" else 2), where


@pytest.mark.parametrize("aggregate", ["last_seen", "last_active"])
def test_the_same_times(readings: Mapping[str, Reading], aggregate: Aggregate) -> None:
    found = pairs(readings, aggregate)
    assert found
    for ours, theirs in found.values():
        assert ours == pytest.approx(theirs, abs=3 * STEP)


def test_nearly_the_same_means_and_increases(readings: Mapping[str, Reading]) -> None:
    for aggregate in ("mean", "increase"):
        for ours, theirs in pairs(readings, aggregate).values():
            assert ours == pytest.approx(theirs, rel=0.2)


def test_what_is_blank_or_gone_is_so_in_both(readings: Mapping[str, Reading]) -> None:
    for reading in readings.values():
        found = windows(reading)
        assert GONE not in found["DCGM_FI_DEV_GPU_UTIL"].columns["last_seen"]
        assert GONE in found["DCGM_FI_DEV_GPU_UTIL"].columns["max"]
        assert BLANK in found["DCGM_FI_DEV_FB_USED"].columns["last_seen"]
        assert BLANK not in found["DCGM_FI_DEV_FB_USED"].columns["mean"]
        assert found["DCGM_FI_DEV_FB_USED"].rejected == 1
        assert found["DCGM_FI_DEV_POWER_USAGE"].columns["min"][BLANK] == 80
        assert found["DCGM_FI_DEV_GPU_UTIL"].columns["last"][BUSY] == pytest.approx(0.6)


def test_the_same_owners_and_places(readings: Mapping[str, Reading]) -> None:
    pod = PodKey("", "team", "train-0")
    for reading in readings.values():
        assert reading.owners == {pod: Owner("Deployment", "train", "kube_pod_owner")}
        assert reading.started == {pod: 1_700_000_000}
    assert readings["ours"].places == readings["theirs"].places
    assert HELD in windows(readings["ours"])["DCGM_FI_DEV_GPU_UTIL"].columns["last"]
