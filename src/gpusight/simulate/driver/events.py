"""Event sets: XIDs, told once to each set that listens."""

import time
from ctypes import c_void_p, cast
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

import pynvml

from gpusight.simulate.driver.library import (
    NO_INSTANCE,
    NOT_SUPPORTED,
    WAIT_STEP_SECONDS,
    CallTable,
    Device,
    Library,
    Refused,
    put,
    struct_at,
)
from gpusight.simulate.driver.numbers import EVENT_TYPES
from gpusight.simulate.state import SimulatedNode

CALLS: Final = CallTable()

_XID: Final[int] = pynvml.nvmlEventTypeXidCriticalError


@dataclass(slots=True)
class _EventSet:
    """Devices listened to, each with how many of its XIDs were told already."""

    told: dict[Device, int] = field(default_factory=dict)
    looked: dict[SimulatedNode, int] = field(default_factory=dict)
    """By node, how many XIDs of its devices there were when it was last looked through without finding news."""
    lock: Lock = field(default_factory=Lock)


@CALLS.add("p", "nvmlEventSetCreate")
def _create(library: Library, out: int) -> None:
    put(c_void_p, out, library.keep(_EventSet()))


@CALLS.add("p", "nvmlEventSetFree")
def _free(library: Library, number: int | None) -> None:
    library.kept(_EventSet, number)
    library.objects.pop(number or 0, None)


@CALLS.add("dUp", "nvmlDeviceRegisterEvents")
def _register(library: Library, device: Device, types: int, number: int | None) -> None:
    events = library.kept(_EventSet, number)
    if types & ~EVENT_TYPES:
        raise Refused(NOT_SUPPORTED)
    if types & _XID:
        with events.lock:
            events.told.setdefault(device, len(_xids(device)))
            events.looked.pop(device.node, None)


@CALLS.add("ppu", "nvmlEventSetWait_v2", "nvmlEventSetWait")
def _wait(library: Library, number: int | None, out: int, milliseconds: int) -> int | None:
    """Blocks in real time, whatever the simulated clock does, as the driver would."""
    events = library.kept(_EventSet, number)
    for _ in range(int(milliseconds / 1000 / WAIT_STEP_SECONDS) + 1):
        found = _next_xid(library, events)
        if found is not None:
            _fill(out, *found)
            return None
        if library.is_closed or number not in library.objects:
            break
        time.sleep(min(WAIT_STEP_SECONDS, milliseconds / 1000))
    return int(pynvml.NVML_ERROR_TIMEOUT)


def _xids(device: Device) -> tuple[tuple[float, int], ...]:
    return device.node.plan().xids(device.gpu.index, device.node.seconds())


def _next_xid(library: Library, events: _EventSet) -> tuple[Device, int] | None:
    """Device and code of an XID that this set has not been told yet."""
    with events.lock:
        for node in library.nodes:
            count = node.plan().xid_count(node.seconds())
            if events.looked.get(node) != count:
                found = _news(events, node)
                if found is not None:
                    return found
                events.looked[node] = count
    return None


def _news(events: _EventSet, node: SimulatedNode) -> tuple[Device, int] | None:
    for device, told in events.told.items():
        if device.node is node and len(happened := _xids(device)) > told:
            events.told[device] = told + 1
            return device, happened[told][1]
    return None


def _fill(out: int, device: Device, code: int) -> None:
    data = struct_at(pynvml.c_nvmlEventData_t, out)
    data.device = cast(c_void_p(device.handle), pynvml.c_nvmlDevice_t)
    data.eventType, data.eventData = _XID, code
    data.gpuInstanceId = data.computeInstanceId = NO_INSTANCE
