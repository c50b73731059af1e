"""What adds up from reading to reading."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.collectors.totals import FORGET_AFTER, MAX_GAP, accumulate
from gpusight.collectors.view import NodeView, Totals, XidTotal
from gpusight.model.hardware import XidEvent
from gpusight.model.identity import GpuUuid
from gpusight.model.units import Ratio
from tests.collectors.views import NOW, UUID, a_gpu, a_holder, a_mig_gpu, a_name, a_share, a_view, hardware, owned

HELD = owned({UUID: [a_holder("one")]}, {1: a_holder("one")})


def run(views: Sequence[NodeView]) -> Totals:
    totals = Totals()
    for previous, view in zip((None, *views), views, strict=False):
        totals = accumulate(totals, previous, view)
    return totals


def at(seconds: float, *, ownership: Any = HELD, **readings: Any) -> NodeView:
    return replace(a_view(a_gpu(taken_at=NOW + seconds, **readings), ownership=ownership), now=NOW + seconds)


def with_xids(*events: tuple[str, int, float]) -> NodeView:
    return a_view(hardware=hardware(xids=tuple(XidEvent(GpuUuid(uuid), xid, when) for uuid, xid, when in events)))


# XID errors.


def test_xids_are_counted_by_device_and_code() -> None:
    totals = run([with_xids((UUID, 13, 5), (UUID, 13, 4)), with_xids(), with_xids(("GPU-b", 13, 6), (UUID, 79, 7))])
    assert totals.xids == {
        (UUID, 13): XidTotal(2, 5),
        (GpuUuid("GPU-b"), 13): XidTotal(1, 6),
        (UUID, 79): XidTotal(1, 7),
    }


def test_a_snapshot_seen_twice_counts_once() -> None:
    view = with_xids((UUID, 13, 5))
    totals = run([view, replace(view, now=view.now + 1), replace(view, now=view.now + 2)])
    assert totals.xids == {(UUID, 13): XidTotal(1, 5)}


def test_without_hardware_nothing_changes() -> None:
    totals = run([with_xids((UUID, 13, 5))])
    assert accumulate(totals, None, a_view()) is totals


# Throttled time.


def throttled(*steps: tuple[float, tuple[str, ...] | None]) -> dict[str, float]:
    totals = run([at(seconds, throttle_reasons=reasons) for seconds, reasons in steps])
    assert {uuid for uuid, _ in totals.throttle_seconds} <= {UUID}
    return {reason: seconds for (_, reason), seconds in totals.throttle_seconds.items() if seconds}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([(0, ("sync_boost",)), (10, ("sync_boost",))], {"sync_boost": 10}),
        ([(0, ()), (10, ("sync_boost",))], {"sync_boost": 5}),
        ([(0, ("sync_boost",)), (10, ()), (30, ())], {"sync_boost": 5}),
        ([(0, ("sync_boost",)), (10, ("other", "sync_boost"))], {"sync_boost": 10, "other": 5}),
        ([(0, None), (10, ("sync_boost",)), (20, None)], {"sync_boost": 5}),
        ([(0, ("sync_boost",)), (MAX_GAP + 1, ("sync_boost",))], {}),
        ([(10, ("sync_boost",)), (0, ("sync_boost",))], {}),
        ([(0, ("sync_boost",))], {}),
    ],
)
def test_throttled_time(steps: Any, expected: dict[str, float]) -> None:
    assert throttled(*steps) == expected


def test_every_reason_starts_at_zero() -> None:
    totals = run([at(0, throttle_reasons=())])
    assert set(totals.throttle_seconds.values()) == {0}
    assert len(totals.throttle_seconds) == 9
    assert run([at(0, throttle_reasons=None)]).throttle_seconds == {}


# Energy.


def energy(totals: Totals) -> tuple[float | None, float, float]:
    """The container's, the idle and the unattributed part."""
    spent = totals.container_energy.get((UUID, a_name("one")))
    return spent and spent.joules, totals.idle_energy[UUID], totals.unattributed_energy[UUID]


def half_busy(seconds: float, **readings: Any) -> NodeView:
    """Half of the time idle, the container in 0.3 of it, nobody known in the rest."""
    return at(seconds, utilization=Ratio(0.5), process_utilization=(a_share(1, 0.3),), **readings)


def test_energy_is_divided_like_time() -> None:
    views = [half_busy(0, energy_joules=1000.0), half_busy(10, energy_joules=2000.0)]
    assert energy(run(views[:1])) == (0, 0, 0)
    assert energy(run(views)) == pytest.approx((300, 500, 200))


def test_without_an_energy_counter_power_is_added_up() -> None:
    views = [half_busy(0, power_watts=100.0), half_busy(10, power_watts=200.0)]
    assert energy(run(views)) == pytest.approx((450, 750, 300))


def test_a_counter_that_starts_anew_counts_from_zero() -> None:
    views = [half_busy(0, energy_joules=9000.0), half_busy(10, energy_joules=100.0)]
    assert energy(run(views)) == pytest.approx((30, 50, 20))


def test_after_a_gap_nobody_is_charged() -> None:
    views = [half_busy(0, energy_joules=0.0), half_busy(MAX_GAP + 1, energy_joules=1000.0)]
    assert energy(run(views)) == (0, 0, 1000)
    views = [half_busy(0, power_watts=10.0), half_busy(MAX_GAP + 1, power_watts=10.0)]
    assert energy(run(views)) == (0, 0, 0)


def test_energy_of_a_device_that_does_not_say_how_busy_it_is_is_unattributed() -> None:
    owner = owned({"MIG-a": [a_holder("one")]})
    views = [a_view(replace(a_mig_gpu(), energy_joules=joules), ownership=owner) for joules in (100.0, 150.0)]
    assert energy(run(views)) == (None, 0, 50)


def test_a_device_without_energy_and_power_has_no_totals() -> None:
    totals = run([half_busy(0), half_busy(10)])
    assert (totals.container_energy, totals.idle_energy, totals.unattributed_energy) == ({}, {}, {})


def test_a_container_that_flickers_keeps_its_counter_and_one_that_is_gone_is_forgotten() -> None:
    views = [half_busy(0, energy_joules=0.0), half_busy(10, energy_joules=100.0)]
    away = [at(20, ownership=owned(), utilization=Ratio(0.0), energy_joules=110.0)]
    back = [half_busy(30, energy_joules=210.0)]
    assert energy(run([*views, *away, *back]))[0] == pytest.approx(30 + 30)
    late = [at(FORGET_AFTER + 30, ownership=owned(), utilization=Ratio(0.0), energy_joules=120.0)]
    assert run([*views, *away, *late]).container_energy == {}


readings = st.tuples(
    st.floats(0.1, 20),
    st.floats(0, 5000),
    st.none() | st.floats(0, 1),
    st.lists(st.tuples(st.integers(1, 3), st.floats(0, 1)), max_size=4),
)


@given(st.lists(readings, min_size=2, max_size=8))
def test_the_law_of_energy(steps: list[tuple[float, float, float | None, list[tuple[int, float]]]]) -> None:
    """Containers, idle and unattributed together are what the device used."""
    seconds, joules, views = 0.0, 0.0, []
    owner = owned({UUID: [a_holder("one"), a_holder("two")]}, {1: a_holder("one"), 2: a_holder("two")})
    for took, used, utilization, shares in steps:
        seconds, joules = seconds + took, joules + used
        busy = None if utilization is None else Ratio(utilization)
        sampled = tuple(a_share(pid, sm) for pid, sm in shares)
        views.append(at(seconds, ownership=owner, energy_joules=joules, utilization=busy, process_utilization=sampled))
    totals = run(views)
    parts = [spent.joules for spent in totals.container_energy.values()]
    whole = sum(parts) + totals.idle_energy[UUID] + totals.unattributed_energy[UUID]
    assert whole == pytest.approx(joules - steps[0][1], abs=1e-6)


def test_the_state_is_not_changed_in_place() -> None:
    first = half_busy(0, energy_joules=0.0, throttle_reasons=("other",))
    totals = accumulate(Totals(), None, first)
    copy = deepcopy(totals)
    after = accumulate(totals, first, half_busy(10, energy_joules=100.0, throttle_reasons=("other",)))
    assert totals == copy != after
