"""Counters of NVLinks become a rate."""

import pytest

from gpusight.model.time import ManualClock
from gpusight.sources.nvml.links import LinkTraffic
from tests.sources.test_nvml_helpers import bench


def test_a_rate_needs_two_readings() -> None:
    clock = ManualClock()
    traffic = LinkTraffic(clock.monotonic)
    assert traffic.rate([1000, 5000]) is None
    clock.advance(2.0)
    assert traffic.rate([1004, 5004]) == 4096


@pytest.mark.parametrize(
    ("seconds", "then"),
    [
        (2.0, [999, 5000]),
        (2.0, [None, 5004]),
        (601.0, [1004, 5004]),
    ],
    ids=["driver loaded anew", "one is not told", "too long ago"],
)
def test_no_rate_is_invented(seconds: float, then: list[int | None]) -> None:
    clock = ManualClock()
    traffic = LinkTraffic(clock.monotonic)
    traffic.rate([1000, 5000])
    clock.advance(seconds)
    assert traffic.rate(then) is None


def test_readings_at_once_tell_the_last_rate() -> None:
    clock = ManualClock()
    traffic = LinkTraffic(clock.monotonic)
    traffic.rate([0, 0])
    clock.advance(1.0)
    assert traffic.rate([10, 10]) == 20 * 1024
    clock.advance(0.05)
    assert traffic.rate([999, 999]) == 20 * 1024


def test_the_rate_of_a_device_is_what_its_links_carry() -> None:
    """Two GPUs that train together, and one without links."""
    with bench("a100-80gb", "a100-80gb", "t4", workloads=[{"gpus": [0, 1]}]) as node:
        node.clock.advance(100)
        carried = node.node.gpu(0).nvlink_total
        assert node.read(0).nvlink_bytes_per_second is None
        assert node.read(2).nvlink_bytes_per_second is None
        node.clock.advance(10)
        expected = 2 * (node.node.gpu(0).nvlink_total - carried) / 10
        assert node.read(0).nvlink_bytes_per_second == pytest.approx(expected, rel=1e-4)
        assert node.read(2).nvlink_bytes_per_second is None
