"""Several nodes behind one binding: each device is its own node's, and so is what befalls it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pynvml
import pytest

from gpusight.model.time import ManualClock
from gpusight.simulate.nvml import SimulatedNode, install
from gpusight.simulate.spec import load_spec


@contextmanager
def installed(clock: ManualClock, faults: Sequence[Mapping[str, Any]] = ()) -> Iterator[list[SimulatedNode]]:
    """Three nodes, with two, one and three devices."""
    gpus = {
        "a": [{"model": "h100", "count": 2}],
        "b": [{"model": "a100-80gb", "mig": ["3g.40gb", "2g.20gb"]}],
        "c": [{"model": "t4", "count": 3}],
    }
    workloads = [{"namespace": "x", "pod": node, "kind": "spinner", "node": node, "gpus": [0]} for node in ("a", "c")]
    nodes = [{"name": name, "gpus": devices} for name, devices in gpus.items()]
    spec = load_spec({"nodes": nodes, "workloads": workloads, "faults": list(faults)})
    made = [SimulatedNode(spec, name, clock, started_at=clock.now()) for name in gpus]
    uninstall = install(*made)
    try:
        pynvml.nvmlInit()
        yield made
    finally:
        uninstall()


def handles() -> list[Any]:
    return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]


def test_devices_stand_node_after_node(clock: ManualClock) -> None:
    with installed(clock) as nodes:
        expected = [gpu.uuid for node in nodes for gpu in node.placed.gpus]
        found = handles()
        assert [pynvml.nvmlDeviceGetUUID(handle) for handle in found] == expected
        assert len(set(expected)) == 6
        assert [pynvml.nvmlDeviceGetMinorNumber(handle) for handle in found] == [0, 1, 0, 0, 1, 2]
        assert [pynvml.nvmlDeviceGetUtilizationRates(found[index]).gpu for index in (0, 1, 3, 4)] == [100, 0, 100, 0]


def test_instances_belong_to_their_device(clock: ManualClock) -> None:
    with installed(clock) as nodes:
        parent = handles()[2]
        instances = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, index) for index in range(2)]
        cut = nodes[1].placed.gpus[0].mig or ()
        assert [pynvml.nvmlDeviceGetUUID(each) for each in instances] == [each.uuid for each in cut]
        back = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instances[1])
        assert pynvml.nvmlDeviceGetUUID(back) == nodes[1].placed.gpus[0].uuid


def test_a_fault_is_of_one_node(clock: ManualClock) -> None:
    with installed(clock, [{"kind": "gpu_lost", "node": "c", "gpu": 0}]):
        assert pynvml.nvmlDeviceGetHandleByIndex(0)
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            pynvml.nvmlDeviceGetHandleByIndex(3)
        assert pynvml.nvmlDeviceGetHandleByIndex(4)


def test_an_unplugged_device_is_lost_and_the_others_keep_their_numbers(clock: ManualClock) -> None:
    with installed(clock, [{"kind": "unplugged", "node": "a", "gpu": 0}]) as nodes:
        assert pynvml.nvmlDeviceGetCount() == 6
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            pynvml.nvmlDeviceGetHandleByIndex(0)
        second = pynvml.nvmlDeviceGetHandleByIndex(1)
        assert pynvml.nvmlDeviceGetUUID(second) == nodes[0].placed.gpus[1].uuid


def test_a_node_without_a_driver_fails_alone(clock: ManualClock) -> None:
    with installed(clock, [{"kind": "init_failure", "node": "b"}]):
        assert pynvml.nvmlDeviceGetHandleByIndex(0)
        with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
            pynvml.nvmlDeviceGetHandleByIndex(2)


def test_without_any_driver_there_is_none(clock: ManualClock) -> None:
    faults = [{"kind": "init_failure", "node": name} for name in "abc"]
    with pytest.raises(pynvml.NVMLError_DriverNotLoaded), installed(clock, faults):
        pass


def test_an_xid_is_told_of_the_device_that_it_befell(clock: ManualClock) -> None:
    faults = [
        {"kind": "xid", "node": "c", "gpu": 1, "at": 10, "code": 31},
        {"kind": "xid", "node": "a", "gpu": 1, "at": 20, "code": 79},
    ]
    with installed(clock, faults) as nodes:
        events = pynvml.nvmlEventSetCreate()
        for handle in handles():
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
        told: list[tuple[str, int] | None] = []
        for _ in range(3):
            clock.advance(10)
            try:
                event = pynvml.nvmlEventSetWait_v2(events, 0)
            except pynvml.NVMLError_Timeout:
                told.append(None)
            else:
                told.append((pynvml.nvmlDeviceGetUUID(event.device), event.eventData))
        assert told == [(nodes[2].placed.gpus[1].uuid, 31), (nodes[0].placed.gpus[1].uuid, 79), None]
