"""The processes on a device and how much of it they use."""

from collections.abc import Callable
from ctypes import Structure, c_uint, c_ulonglong
from typing import Any, Final

import pynvml

from gpusight.simulate.driver.library import (
    NO_INSTANCE,
    NOT_FOUND,
    NOT_SUPPORTED,
    TOO_SMALL,
    CallTable,
    Device,
    Library,
    Refused,
    put,
    put_list,
    struct_at,
)
from gpusight.simulate.state import ProcessState

CALLS: Final = CallTable()

_SAMPLE_SECONDS: Final = 1 / 6
"""The driver takes about six samples a second."""


class _ProcessInfoV1(Structure):
    """The oldest form, which the binding no longer has."""

    _fields_ = (("pid", c_uint), ("usedGpuMemory", c_ulonglong))


def _compute_processes(struct: Any) -> Callable[..., int | None]:
    def run(library: Library, device: Device, size: int, out: int | None) -> int | None:
        processes = [p for p in library.gpu(device).processes if device.instance in {None, p.load.instance}]
        return put_list(struct, size, out, _fill_process, processes)

    return run


def _fill_process(entry: Any, process: ProcessState) -> None:
    entry.pid, entry.usedGpuMemory = process.pid, process.memory
    if not isinstance(entry, _ProcessInfoV1):
        instance = process.load.instance
        entry.gpuInstanceId = instance.gpu_instance_id if instance else NO_INSTANCE
        entry.computeInstanceId = instance.compute_instance_id if instance else NO_INSTANCE


def _no_processes(_library: Library, _device: Device, size: int, _out: int | None) -> None:
    put(c_uint, size, 0)


_VERSIONS: Final = {"": _ProcessInfoV1, "_v2": pynvml.c_nvmlProcessInfo_v2_t, "_v3": pynvml.c_nvmlProcessInfo_v3_t}
for _suffix, _struct in _VERSIONS.items():
    CALLS.add("dpp", f"nvmlDeviceGetComputeRunningProcesses{_suffix}", on_instances=True)(_compute_processes(_struct))
    for _kind in ("Graphics", "MPSCompute"):
        CALLS.add("dpp", f"nvmlDeviceGet{_kind}RunningProcesses{_suffix}", on_instances=True)(_no_processes)


def _samples(library: Library, device: Device, last_seen: int) -> list[tuple[int, ProcessState]]:
    """The newest sample of each process that ran, if it is newer than what the caller has; stamped in microseconds."""
    if device.gpu.mig is not None:
        raise Refused(NOT_SUPPORTED)
    state = library.gpu(device)
    taken = (device.node.started_at + state.t) // _SAMPLE_SECONDS * _SAMPLE_SECONDS
    stamp = int(taken * 1_000_000)
    return [(stamp, process) for process in state.processes if process.sm > 0] if stamp > last_seen else []


def _fill_sample(entry: Any, sample: tuple[int, ProcessState]) -> None:
    entry.timeStamp, process = sample
    entry.pid = process.pid
    entry.smUtil, entry.memUtil = max(1, round(process.sm * 100)), round(process.dram * 100)
    entry.encUtil, entry.decUtil = round(process.encoder * 100), round(process.decoder * 100)


@CALLS.add("dppU", "nvmlDeviceGetProcessUtilization")
def _process_utilization(library: Library, device: Device, out: int | None, size: int, last_seen: int) -> int | None:
    samples = _samples(library, device, last_seen)
    code = put_list(pynvml.c_nvmlProcessUtilizationSample_t, size, out, _fill_sample, samples)
    return code if samples else NOT_FOUND


@CALLS.add("dp", "nvmlDeviceGetProcessesUtilizationInfo")
def _processes_utilization(library: Library, device: Device, out: int) -> int | None:
    info = struct_at(pynvml.c_nvmlProcessesUtilizationInfo_v1_t, out, pynvml.ProcessesUtilizationInfo_v1)
    samples = _samples(library, device, info.lastSeenTimeStamp)
    given, info.processSamplesCount = info.processSamplesCount, len(samples)
    if not samples:
        return NOT_FOUND
    if not info.procUtilArray or given < len(samples):
        return TOO_SMALL
    for index, sample in enumerate(samples):
        _fill_sample(info.procUtilArray[index], sample)
    return None
