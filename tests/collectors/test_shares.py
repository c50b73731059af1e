"""The balance law: containers' shares, unattributed and idle make a device's whole time."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.collectors.shares import Shares, find_holdings, sole_holder, time_shares
from gpusight.collectors.view import NodeView
from gpusight.model.hardware import GpuReading
from gpusight.model.units import Ratio
from tests.collectors.views import (
    UUID,
    a_directory,
    a_gpu,
    a_holder,
    a_name,
    a_process,
    a_region,
    a_region_device,
    a_share,
    a_view,
    directories,
    owned,
)

ONE, TWO = a_name("one"), a_name("two")


def divided(view: NodeView) -> Shares | None:
    (gpu,) = view.gpus
    return time_shares(gpu, find_holdings(view).get(gpu.uuid, {}))


def busy(utilization: float | None, **readings: Any) -> GpuReading:
    return a_gpu(utilization=None if utilization is None else Ratio(utilization), **readings)


def of_processes(utilization: float, *shares: tuple[int, float]) -> GpuReading:
    return busy(utilization, process_utilization=tuple(a_share(pid, sm) for pid, sm in shares))


OWNERS = owned({UUID: [a_holder("one"), a_holder("two")]}, {1: a_holder("one"), 2: a_holder("two")})
SOLE = owned({UUID: [a_holder("one")]}, {1: a_holder("one")})


@pytest.mark.parametrize(
    ("gpu", "containers", "unattributed", "idle"),
    [
        (of_processes(0.5, (1, 0.3), (2, 0.2)), {ONE: 0.3, TWO: 0.2}, 0, 0.5),
        (of_processes(0.5, (1, 0.3)), {ONE: 0.3, TWO: 0}, 0.2, 0.5),
        (of_processes(0.5, (1, 0.1), (1, 0.1), (9, 0.2)), {ONE: 0.2, TWO: 0}, 0.3, 0.5),
        (of_processes(0.5, (1, 0.6), (2, 0.2), (9, 0.2)), {ONE: 0.3, TWO: 0.1}, 0.1, 0.5),
        (of_processes(1.0, (1, 1.0), (2, 1.0)), {ONE: 0.5, TWO: 0.5}, 0, 0),
        (of_processes(0.0, (1, 0.4)), {ONE: 0, TWO: 0}, 0, 1),
        (of_processes(0.0), {ONE: 0, TWO: 0}, 0, 1),
        (of_processes(0.7), {}, 0.7, 0.3),
        (of_processes(0.7, (1, 0.0)), {}, 0.7, 0.3),
        (busy(0.7), {}, 0.7, 0.3),
        (busy(1.3), {}, 1, 0),
    ],
)
def test_how_time_is_divided(gpu: GpuReading, containers: Any, unattributed: float, idle: float) -> None:
    shares = divided(a_view(gpu, ownership=OWNERS))
    assert shares is not None
    assert shares.containers == pytest.approx(containers)
    assert (shares.unattributed, shares.idle) == pytest.approx((unattributed, idle))


def test_nothing_is_divided_where_the_device_does_not_say_how_busy_it_is() -> None:
    assert divided(a_view(busy(None, process_utilization=(a_share(1, 0.5),)), ownership=OWNERS)) is None


@pytest.mark.parametrize(
    ("processes", "containers"),
    [(None, {ONE: 0.7}), ((), {ONE: 0.7}), ((a_process(1),), {ONE: 0.7}), ((a_process(1), a_process(9)), {})],
)
def test_a_sole_holder_gets_all_unless_a_stranger_is_there(processes: Any, containers: dict[Any, float]) -> None:
    shares = divided(a_view(busy(0.7, processes=processes), ownership=SOLE))
    assert shares is not None
    assert shares.containers == containers
    assert shares.unattributed == pytest.approx(0.7 - sum(containers.values()))


def with_regions(gpu: GpuReading, **percents: int | None) -> NodeView:
    return a_view(
        gpu,
        vgpu=directories(*(a_directory(pod, a_region(a_region_device(sm_percent=p))) for pod, p in percents.items())),
        ownership=owned(directories=[a_holder(pod, "hami_directory") for pod in percents]),
    )


@pytest.mark.parametrize(
    ("one", "two", "containers"),
    [
        (30, 20, {ONE: 0.3, TWO: 0.2}),
        (90, 90, {ONE: 0.4, TWO: 0.4}),
        (30, None, {ONE: 0.3}),
        (0, 0, {}),
        (None, None, {}),
    ],
)
def test_hamis_count_is_heard_where_the_driver_tells_nothing(one: Any, two: Any, containers: dict[Any, float]) -> None:
    shares = divided(with_regions(busy(0.8), one=one, two=two))
    assert shares is not None
    assert shares.containers == pytest.approx(containers)


def test_the_driver_is_heard_before_hami() -> None:
    shares = divided(with_regions(of_processes(0.8, (9, 0.6)), one=30, two=20))
    assert shares is not None
    assert shares.containers == {ONE: 0, TWO: 0}
    assert shares.unattributed == pytest.approx(0.8)


ratios = st.floats(0, 1)


@given(
    utilization=st.one_of(st.just(0.0), st.just(1.0), ratios),
    samples=st.none() | st.lists(st.tuples(st.integers(1, 6), ratios), max_size=12),
    owners=st.dictionaries(st.integers(1, 6), st.sampled_from("abc"), max_size=6),
    granted=st.lists(st.sampled_from("abcd"), max_size=4),
    regions=st.dictionaries(st.sampled_from("abcde"), st.none() | st.integers(0, 300), max_size=5),
    listed=st.none() | st.lists(st.integers(1, 8), max_size=8),
)
def test_the_law(
    utilization: float,
    samples: list[tuple[int, float]] | None,
    owners: dict[int, str],
    granted: list[str],
    regions: dict[str, int | None],
    listed: list[int] | None,
) -> None:
    gpu = busy(
        utilization,
        process_utilization=None if samples is None else tuple(a_share(pid, sm) for pid, sm in samples),
        processes=None if listed is None else tuple(map(a_process, listed)),
    )
    view = a_view(
        gpu,
        vgpu=directories(*(a_directory(pod, a_region(a_region_device(sm_percent=p))) for pod, p in regions.items())),
        ownership=owned(
            {UUID: [a_holder(pod) for pod in granted]},
            {pid: a_holder(pod, "cgroup") for pid, pod in owners.items()},
            [a_holder(pod, "hami_directory") for pod in regions],
        ),
    )
    shares = divided(view)
    assert shares is not None
    parts = [*shares.containers.values(), shares.unattributed, shares.idle]
    assert sum(parts) == pytest.approx(1, abs=1e-9)
    assert all(part >= 0 for part in parts)
    assert shares.idle == pytest.approx(1 - utilization)


def test_a_region_cannot_take_a_device_from_its_holder() -> None:
    """A container writes its own region: what it claims there does not count beside a grant."""
    hami = [a_holder("liar", "hami_directory")]
    view = a_view(
        a_gpu(),
        vgpu=directories(a_directory("liar", a_region())),
        ownership=owned({UUID: [a_holder("one")]}, directories=hami),
    )
    assert sole_holder(find_holdings(view)[UUID]) == ONE
    alone = a_view(a_gpu(), vgpu=view.vgpu, ownership=owned(directories=hami))
    assert sole_holder(find_holdings(alone)[UUID]) == a_name("liar")
