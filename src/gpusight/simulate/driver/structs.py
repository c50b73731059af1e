"""What a device tells in a struct, and its MIG instances."""

from ctypes import c_uint, c_void_p
from typing import Final

import pynvml

from gpusight.simulate.driver.library import (
    INVALID,
    NOT_FOUND,
    NOT_SUPPORTED,
    CallTable,
    Device,
    Library,
    Refused,
    need,
    put,
    struct_at,
)
from gpusight.simulate.driver.numbers import fan_percent
from gpusight.simulate.models import MIB

CALLS: Final = CallTable()


def _memory(library: Library, device: Device) -> tuple[int, int, int]:
    """Total, reserved, and used without reserved."""
    if device.gpu.model.is_unified_memory:
        raise Refused(NOT_SUPPORTED)
    state = library.gpu(device)
    if device.instance:
        return device.instance.profile.memory, 0, state.instance_memory(device.instance)
    return device.gpu.model.memory, device.gpu.model.reserved, state.memory_used


@CALLS.add("dp", "nvmlDeviceGetMemoryInfo", on_instances=True)
def _memory_info(library: Library, device: Device, out: int) -> None:
    info = struct_at(pynvml.c_nvmlMemory_t, out)
    total, reserved, used = _memory(library, device)
    info.total, info.used, info.free = total, used + reserved, total - used - reserved


@CALLS.add("dp", "nvmlDeviceGetMemoryInfo_v2", on_instances=True)
def _memory_info_v2(library: Library, device: Device, out: int) -> None:
    info = struct_at(pynvml.c_nvmlMemory_v2_t, out, pynvml.nvmlMemory_v2)
    total, reserved, used = _memory(library, device)
    info.total, info.reserved, info.used, info.free = total, reserved, used, total - used - reserved


@CALLS.add("dp", "nvmlDeviceGetBAR1MemoryInfo", on_instances=True)
def _bar1(_: Library, device: Device, out: int) -> None:
    total = need(device.gpu.model.bar1)
    info = struct_at(pynvml.c_nvmlBAR1Memory_t, out)
    info.bar1Total, info.bar1Used, info.bar1Free = total, 2 * MIB, total - 2 * MIB


@CALLS.add("dp", "nvmlDeviceGetUtilizationRates")
def _utilization(library: Library, device: Device, out: int) -> None:
    if device.gpu.mig is not None:
        raise Refused(NOT_SUPPORTED)
    rates = library.gpu(device).rates
    info = struct_at(pynvml.c_nvmlUtilization_t, out)
    info.gpu, info.memory = round(rates.busy * 100), round(rates.dram * 100)


@CALLS.add("dp", "nvmlDeviceGetPciInfo_v3")
def _pci_info(_: Library, device: Device, out: int) -> None:
    gpu = device.gpu
    info = struct_at(pynvml.nvmlPciInfo_t, out)
    info.busIdLegacy, info.busId = gpu.pci_bus_id[4:].encode(), gpu.pci_bus_id.encode()
    info.domain, info.bus, info.device = 0, gpu.pci_bus, 0
    info.pciDeviceId, info.pciSubSystemId = gpu.model.pci_device_id, 0x1467_10DE


@CALLS.add("dp", "nvmlDeviceGetTemperatureV")
def _temperature_v(library: Library, device: Device, out: int) -> None:
    info = struct_at(pynvml.c_nvmlTemperature_v1_t, out, pynvml.nvmlTemperature_v1)
    if info.sensorType != pynvml.NVML_TEMPERATURE_GPU:
        raise Refused(INVALID)
    info.temperature = int(library.gpu(device).celsius)


@CALLS.add("dp", "nvmlDeviceGetMarginTemperature")
def _margin(library: Library, device: Device, out: int) -> None:
    info = struct_at(pynvml.c_nvmlMarginTemperature_v1_t, out, pynvml.nvmlMarginTemperature_v1)
    info.marginTemperature = device.gpu.model.slowdown_celsius - int(library.gpu(device).celsius)


@CALLS.add("dp", "nvmlDeviceGetFanSpeedRPM")
def _fan_rpm(library: Library, device: Device, out: int) -> None:
    info = struct_at(pynvml.c_nvmlFanSpeedInfo_t, out, pynvml.nvmlFanSpeedInfo_v1)
    info.speed = need(fan_percent(library.gpu(device), info.fan)) * 30


@CALLS.add("dp", "nvmlDeviceIsMigDeviceHandle", on_instances=True)
def _is_instance(_: Library, device: Device, out: int) -> None:
    put(c_uint, out, int(device.instance is not None))


@CALLS.add("dup", "nvmlDeviceGetMigDeviceHandleByIndex")
def _instance_by_index(library: Library, device: Device, index: int, out: int) -> None:
    instances = library.instances[device.handle] if device.gpu.mig is not None else need(None)
    if index >= len(instances):
        raise Refused(NOT_FOUND)
    put(c_void_p, out, instances[index].handle)


@CALLS.add("dp", "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", on_instances=True)
def _parent(library: Library, device: Device, out: int) -> None:
    need(device.instance, INVALID)
    put(c_void_p, out, next(one.handle for one in library.whole if one.gpu is device.gpu))


@CALLS.add("dp", "nvmlDeviceGetGpuInstanceId", on_instances=True)
def _gpu_instance_id(_: Library, device: Device, out: int) -> None:
    put(c_uint, out, need(device.instance).gpu_instance_id)


@CALLS.add("dp", "nvmlDeviceGetComputeInstanceId", on_instances=True)
def _compute_instance_id(_: Library, device: Device, out: int) -> None:
    put(c_uint, out, need(device.instance).compute_instance_id)


@CALLS.add("dp", "nvmlDeviceGetAttributes", "nvmlDeviceGetAttributes_v2", on_instances=True)
def _attributes(_: Library, device: Device, out: int) -> None:
    profile = need(device.instance).profile
    info = struct_at(pynvml.c_nvmlDeviceAttributes, out)
    info.multiprocessorCount = profile.sm_count
    info.sharedCopyEngineCount = profile.slices
    info.sharedDecoderCount = profile.decoders
    info.gpuInstanceSliceCount = info.computeInstanceSliceCount = profile.slices
    info.memorySizeMB = profile.memory // MIB
