"""The driver itself, and the ways to a device."""

from ctypes import c_int, c_uint, c_void_p
from typing import Final

from gpusight.simulate.driver.library import (
    INVALID,
    NOT_FOUND,
    UNINITIALIZED,
    CallTable,
    Device,
    Library,
    Refused,
    need,
    put,
    put_text,
    text_at,
)

CALLS: Final = CallTable()

DRIVER_VERSION: Final = "580.65.06"
CUDA_VERSION: Final = 13000
NVML_VERSION: Final = f"13.{DRIVER_VERSION}"


@CALLS.add("u", "nvmlInitWithFlags", needs_init=False)
def _init_with_flags(library: Library, _flags: int) -> int | None:
    return _init(library)


@CALLS.add("", "nvmlInit_v2", needs_init=False)
def _init(library: Library) -> int | None:
    codes = [node.plan().of_init(node.seconds()) for node in library.nodes]
    code = codes[0] if all(codes) else None
    if code is None:
        with library.lock:
            library.inits += 1
    return code


@CALLS.add("", "nvmlShutdown", needs_init=False)
def _shutdown(library: Library) -> int | None:
    with library.lock:
        if not library.inits:
            return UNINITIALIZED
        library.inits -= 1
    return None


@CALLS.add("pu", "nvmlSystemGetDriverVersion")
def _driver_version(_: Library, out: int, size: int) -> None:
    put_text(out, size, DRIVER_VERSION)


@CALLS.add("pu", "nvmlSystemGetNVMLVersion")
def _nvml_version(_: Library, out: int, size: int) -> None:
    put_text(out, size, NVML_VERSION)


@CALLS.add("p", "nvmlSystemGetCudaDriverVersion", "nvmlSystemGetCudaDriverVersion_v2")
def _cuda_version(_: Library, out: int) -> None:
    put(c_int, out, CUDA_VERSION)


@CALLS.add("upu", "nvmlSystemGetProcessName")
def _process_name(library: Library, pid: int, out: int, size: int) -> None:
    load = next((load for node in library.nodes for load in node.placed.loads if load.pid == pid), None)
    put_text(out, size, f"/usr/bin/{need(load, NOT_FOUND).workload.container}")


@CALLS.add("p", "nvmlDeviceGetCount", "nvmlDeviceGetCount_v2")
def _count(library: Library, out: int) -> None:
    put(c_uint, out, len(library.visible()))


@CALLS.add("up", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByIndex_v2")
def _by_index(library: Library, index: int, out: int) -> None:
    visible = library.visible()
    if index >= len(visible):
        raise Refused(INVALID)
    _hand_out(library, visible[index], out, "nvmlDeviceGetHandleByIndex_v2")


@CALLS.add("pp", "nvmlDeviceGetHandleByUUID")
def _by_uuid(library: Library, wanted: int, out: int) -> None:
    text = text_at(wanted)
    for device in library.devices.values():
        if text == (device.instance.uuid if device.instance else device.gpu.uuid):
            library.meet_fault(device, "nvmlDeviceGetHandleByUUID")
            put(c_void_p, out, device.handle)
            return
    raise Refused(NOT_FOUND)


@CALLS.add("pp", "nvmlDeviceGetHandleByPciBusId", "nvmlDeviceGetHandleByPciBusId_v2")
def _by_bus_id(library: Library, wanted: int, out: int) -> None:
    text = text_at(wanted).upper()
    found = (one for one in library.visible() if text in {one.gpu.pci_bus_id, one.gpu.pci_bus_id[4:]})
    _hand_out(library, next(found, None), out, "nvmlDeviceGetHandleByPciBusId_v2")


@CALLS.add("pp", "nvmlDeviceGetHandleBySerial")
def _by_serial(library: Library, wanted: int, out: int) -> None:
    text = text_at(wanted)
    found = (one for one in library.visible() if one.gpu.model.has_serial and one.gpu.serial == text)
    _hand_out(library, next(found, None), out, "nvmlDeviceGetHandleBySerial")


def _hand_out(library: Library, device: Device | None, out: int, function: str) -> None:
    if device is None:
        raise Refused(NOT_FOUND)
    library.meet_fault(device, function)
    if refusal := library.refusal(device):
        raise Refused(refusal)
    put(c_void_p, out, device.handle)
