"""Rounds from recording rules that a real Prometheus evaluates: the same numbers, with fewer queries."""

import random
import time
from collections.abc import Iterator

import pytest

from gpusight.analysis.criteria import Criteria, asks
from gpusight.model.series import Aggregate, Quantity, Reading, Span, Windows
from gpusight.rules.recording import render_recording
from gpusight.store.digest import DIGESTS, FAMILIES, HELD, SOURCES, unjoined
from tests.store.fleet import STEP, WINDOW, aligned_now, held, history, key, row, store, window
from tests.support.prometheus import needs_prometheus
from tests.support.remote_write import STALE, Series, writable_prometheus, write

UTIL = "DCGM_FI_DEV_GPU_UTIL"
CONDITION = '{pod!=""}'
SAME_BUT_NOT_RECORDED = '{pod=~".+"}'
GPUS = 12
ASKS = tuple(asks(Criteria()))
AHEAD = 10
"""Looks that are written ahead of time, so that the present has samples while the tests run."""

TOLERANCE: dict[Quantity, float] = {
    bits.quantity: bits.unit / 2 for digest in DIGESTS for bits in digest if bits.is_value
}


def _values(family: str, number: int) -> list[float]:
    dice = random.Random(f"{family} {number}")
    if "UTIL" in family or "PROF" in family:
        most = 1.0 if family.endswith("ACTIVE") else 8e9 if family.endswith("BYTES") else 100.0
        steady = 0.0 if number % 3 == 0 else dice.uniform(0.02, 1) * most
        burst = [most if number == 3 and i in (18, 19) else steady for i in range(35)]
        return [round(value) if most == 100.0 else value for value in burst]
    return [
        float(dice.randrange(1, {"USAGE": 700, "CLOCK": 1980, "RVED": 900}.get(family[-5:].lstrip("E"), 40_000)))
    ] * 35


def _series(now: float) -> Iterator[Series]:
    end = now + AHEAD * STEP
    for number in range(GPUS):
        for family in FAMILIES:
            if family != "DCGM_FI_PROF_SM_ACTIVE" and not (number == 5 and "PROF" in family):
                yield history(family, held(number, f"pod-{number}"), _values(family, number), end)
    own = {"namespace": "gpu", "pod": "dcgm-exporter-x", "container": "exporter"}
    yield history(UTIL, held(40, **own), [0.0] * 35, end)
    yield history("up", {"job": "dcgm", "instance": "10.0.0.5:9400", **own}, [1.0] * 35, end)
    yield history(UTIL, held(41, "blank"), [2147483634.0] * 35, end)
    yield history(UTIL, held(42, "dead"), [9.0] * 20 + [STALE], now - 60)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    rules = render_recording(STEP, WINDOW, CONDITION, interval=1.0)
    with writable_prometheus(tmp_path_factory.mktemp("recorded"), rules) as address:
        write(address, _series(aligned_now()))
        yield address


def _read(url: str, condition: str, end: float, length: float = WINDOW) -> Reading:
    with store(url, condition=condition) as prometheus:
        return prometheus.read(ASKS, Span(end, length, STEP))


@pytest.fixture(scope="module")
def readings(url: str) -> tuple[Reading, Reading]:
    """From the recordings, and from the families, at one moment."""
    deadline = time.monotonic() + 30
    while True:
        now = time.time()
        recorded = _read(url, CONDITION, now)
        if recorded.queries < 12:
            return recorded, _read(url, SAME_BUT_NOT_RECORDED, now)
        assert time.monotonic() < deadline, "the rules were not evaluated"
        time.sleep(0.3)


pytestmark = needs_prometheus


def test_recordings_cost_fewer_queries(readings: tuple[Reading, Reading]) -> None:
    recorded, raw = readings
    assert recorded.queries == 1 + 1 + len(DIGESTS) + 1, "names, clocks, digests, exporters"
    assert raw.queries > 20
    assert recorded.failures == raw.failures == ()


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "DCGM_FI_PROF_SM_ACTIVE"])
def test_the_same_numbers(readings: tuple[Reading, Reading], family: str) -> None:
    recorded, raw = (window(reading, family) for reading in readings)
    assert recorded.columns.keys() == raw.columns.keys()
    assert (recorded.quantity, recorded.scope) == (raw.quantity, raw.scope)
    for aggregate, column in raw.columns.items():
        assert recorded.columns[aggregate].keys() == column.keys(), aggregate
        for each, value in column.items():
            assert recorded.columns[aggregate][each] == pytest.approx(value, abs=_tolerance(raw, aggregate)), aggregate


def _tolerance(windows: Windows, aggregate: Aggregate) -> float:
    if aggregate in ("mean", "max"):
        return TOLERANCE[windows.quantity] * 1.01
    return {"last_seen": 12.0, "last_active": STEP + 2}.get(aggregate, 1.0)


def test_a_burst_is_found(readings: tuple[Reading, Reading]) -> None:
    found = row(window(readings[0], UTIL), key(3, "pod-3"))
    assert found["active_count"] == 2
    assert found["max"] == pytest.approx(1.0)


def test_places_and_exporters_come_with_the_recordings(readings: tuple[Reading, Reading]) -> None:
    recorded, raw = readings
    assert recorded.places.items() >= raw.places.items()
    seen = window(recorded, UTIL).columns["last_seen"]
    assert key(40) in seen
    assert not any(each.pod == "dcgm-exporter-x" for each in seen)
    assert key(42, "dead") not in seen


def test_a_blank_is_no_value(readings: tuple[Reading, Reading]) -> None:
    utilization = window(readings[0], UTIL)
    assert utilization.columns["mean"].get(key(41, "blank")) is None
    assert utilization.rejected == 1


@pytest.mark.parametrize(
    ("condition", "length", "later"),
    [
        pytest.param('{namespace="team"}', WINDOW, 0, id="another condition"),
        pytest.param(CONDITION, 2 * WINDOW, 0, id="another window"),
        pytest.param(CONDITION, WINDOW, 200, id="recorded long ago"),
    ],
)
def test_recordings_for_another_question_are_not_used(
    readings: tuple[Reading, Reading], url: str, condition: str, length: float, later: float
) -> None:
    assert _read(url, condition, readings[0].span.end + later, length).queries > 20


def test_the_layout_fits_into_whole_numbers_that_a_sample_holds() -> None:
    for digest in DIGESTS:
        assert sum(bits.bits for bits in digest) <= 53
    assert {bits.quantity for digest in DIGESTS for bits in digest} == SOURCES.keys()
    wanted = {(ask.quantity, aggregate) for ask in ASKS for aggregate in ask.aggregates if ask.quantity in SOURCES}
    assert wanted <= HELD


def test_a_label_with_the_separator_makes_the_row_nobodys() -> None:
    assert unjoined({"k": "GPU-1||||||ns|p|c", "p": "node||H100|job|host:1", "cluster": "a"}) == {
        "cluster": "a",
        "UUID": "GPU-1",
        "GPU_I_ID": "",
        "vgpu": "",
        "exported_namespace": "",
        "exported_pod": "",
        "exported_container": "",
        "namespace": "ns",
        "pod": "p",
        "container": "c",
        "Hostname": "node",
        "hostname": "",
        "modelName": "H100",
        "job": "job",
        "instance": "host:1",
    }
    assert unjoined({"k": "GPU|1||||||ns|p|c"}) == {}
