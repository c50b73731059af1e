"""XIDs: each exactly once."""

from collections import Counter
from typing import Any

import pynvml
import pytest

from gpusight.model.hardware import XidEvent
from gpusight.model.identity import GpuUuid
from gpusight.model.time import ManualClock
from gpusight.sources.nvml import xid
from gpusight.sources.nvml.xid import XidLog, XidWatcher
from tests.sources.test_nvml_helpers import bench

A, B = GpuUuid("GPU-a"), GpuUuid("GPU-b")


def test_events_come_out_once_and_in_order() -> None:
    log = XidLog()
    log.add(A, 31, 1.0)
    log.add(B, 79, 2.0)
    assert log.take() == (XidEvent(A, 31, 1.0), XidEvent(B, 79, 2.0))
    assert log.take() == ()


def test_a_storm_is_counted_exactly_in_little_memory() -> None:
    log, expected = XidLog(most=100), Counter[tuple[str, int]]()
    for number in range(5_000):
        uuid, xid = (A, 13) if number % 3 else (B, 31 + number % 7)
        expected[uuid, xid] += 1
        log.add(uuid, xid, float(number))
    assert len(log._events) <= 100
    assert len(log._repeats) <= 8
    found, answers = Counter[tuple[str, int]](), 0
    while taken := log.take():
        assert len(taken) <= 100
        found.update((event.uuid, event.xid) for event in taken)
        answers += 1
    assert found == expected
    assert answers == 50


def _handles(made: Any) -> dict[GpuUuid, Any]:
    handles = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount()))
    return {pynvml.nvmlDeviceGetUUID(handle): handle for handle in handles}


def test_the_watcher_names_the_device_without_asking_it() -> None:
    """A device that just fell off the bus may not answer who it is."""
    faults = [{"kind": "xid", "gpu": 1, "code": 79, "at": 5}, {"kind": "gpu_lost", "gpu": 1, "at": 5}]
    with bench("t4", "t4", faults=faults) as made:
        log, handles = XidLog(), _handles(made)
        watcher = XidWatcher(log, lambda: handles, made.clock)
        events = pynvml.nvmlEventSetCreate()
        assert watcher._listen(events)
        made.clock.advance(6)
        assert watcher._wait(events)
        assert log.take() == (XidEvent(list(handles)[1], 79, made.clock.now()),)


def test_a_device_that_cannot_be_listened_to_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xid, "_WAIT_MILLISECONDS", 10)
    faults = [
        {"kind": "error", "gpu": 0, "function": "nvmlDeviceRegisterEvents", "code": 15, "for": 5},
        {"kind": "xid", "gpu": 1, "code": 31, "at": 1},
        {"kind": "xid", "gpu": 0, "code": 13, "at": 8},
    ]
    with bench("t4", "t4", faults=faults) as made:
        log, handles = XidLog(), _handles(made)
        watcher, events = XidWatcher(log, lambda: handles, ManualClock()), pynvml.nvmlEventSetCreate()
        for seconds in (0, 2, 4, 4):
            made.clock.advance(seconds)
            assert watcher._listen(events)
            watcher._wait(events)
        assert [event.xid for event in log.take()] == [31, 13]


def test_waiting_that_is_refused_is_not_spun_on() -> None:
    with bench("t4") as made:
        watcher = XidWatcher(XidLog(), dict, made.clock)
        events = pynvml.nvmlEventSetCreate()
        pynvml.nvmlEventSetFree(events)
        assert not watcher._listen(events)
        assert not watcher._wait(events)
