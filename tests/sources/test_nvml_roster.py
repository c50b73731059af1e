"""What is remembered of devices from one snapshot to the next."""

import logging
from typing import Any

import pytest

from gpusight.model.hardware import DeviceDown, GpuReading
from gpusight.model.identity import GpuUuid
from gpusight.model.time import ManualClock
from gpusight.sources.nvml.roster import Roster


def _gpu(number: int, index: int | None = None) -> GpuReading:
    return GpuReading(GpuUuid(f"GPU-{number}"), number if index is None else index, "H100", 0.0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def roster(clock: ManualClock) -> Roster:
    made = Roster(clock, forget=600)
    assert made.settle([_gpu(0), _gpu(1), _gpu(2)], []) == ()
    return made


def test_a_lost_device_that_cannot_say_who_it_is_gets_its_name_back(roster: Roster) -> None:
    [down] = roster.settle([_gpu(0), _gpu(2)], [DeviceDown(1, "lost", 5.0, code=15)])
    assert down == DeviceDown(1, "lost", 5.0, GpuUuid("GPU-1"), "H100", 15)


def test_a_device_that_vanished_is_lost_for_a_while(roster: Roster, clock: ManualClock) -> None:
    clock.advance(10)
    [down] = roster.settle([_gpu(0), _gpu(2, index=1)], [])
    assert (down.reason, down.uuid, down.name, down.since) == ("lost", "GPU-1", "H100", clock.now())
    since = down.since
    clock.advance(500)
    [down] = roster.settle([_gpu(0), _gpu(2, index=1)], [])
    assert down.since == since
    clock.advance(90)
    assert roster.settle([_gpu(0), _gpu(2, index=1)], []) == ()
    assert roster.settle([_gpu(0), _gpu(2, index=1)], []) == ()


def test_a_device_that_comes_back_is_not_lost_any_more(roster: Roster, clock: ManualClock) -> None:
    assert len(roster.settle([_gpu(0)], [])) == 2
    clock.advance(30)
    assert roster.settle([_gpu(0), _gpu(1), _gpu(2)], []) == ()


def test_a_device_that_is_down_for_long_is_not_forgotten(roster: Roster, clock: ManualClock) -> None:
    for _ in range(5):
        clock.advance(300)
        [down] = roster.settle([_gpu(0), _gpu(2)], [DeviceDown(1, "blocked", clock.now(), GpuUuid("GPU-1"))])
    assert down.since == clock.now() - 4 * 300


def test_a_name_is_not_given_to_a_device_that_is_somewhere_else(roster: Roster) -> None:
    down = roster.settle([_gpu(0), _gpu(1, index=5), _gpu(2)], [DeviceDown(1, "error", 5.0)])
    assert [one.uuid for one in down] == [None]


def test_a_new_reason_is_a_new_beginning(roster: Roster) -> None:
    def settle(reason: Any, since: float) -> DeviceDown:
        [down] = roster.settle([_gpu(0), _gpu(2)], [DeviceDown(1, reason, since, GpuUuid("GPU-1"))])
        return down

    assert settle("blocked", 5.0).since == 5.0
    assert settle("blocked", 6.0).since == 5.0
    assert settle("lost", 7.0).since == 7.0


def test_each_change_is_logged_once(roster: Roster, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "gpusight.sources.nvml"):
        for _ in range(3):
            roster.settle([_gpu(0), _gpu(2)], [DeviceDown(1, "lost", 5.0, GpuUuid("GPU-1"))])
        for _ in range(3):
            roster.settle([_gpu(0), _gpu(1), _gpu(2)], [])
    assert [record.message for record in caplog.records] == [
        "GPU 1 (GPU-1) cannot be read: lost",
        "GPU 1 (GPU-1) is not down any more",
    ]
