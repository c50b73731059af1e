"""Who holds a context on a device, and how much of its time each takes."""

from typing import Any, Final

import pynvml

from gpusight.model.hardware import GpuProcess, ProcessUtilization
from gpusight.model.identity import HostPid
from gpusight.model.units import Ratio
from gpusight.sources.nvml.calls import Calls
from gpusight.sources.nvml.tables import PROCESS_LISTS

_SAMPLES: Final = "nvmlDeviceGetProcessUtilization"
_NOBODY: Final = frozenset({pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_NO_DATA})
"""What the driver says when there is no sample since the given time."""
_NO_INSTANCE: Final = 0xFFFFFFFF
_SECOND: Final = 1_000_000
"""In the microseconds of NVML's samples."""


def read_processes(calls: Calls, handle: Any, memory_total: int | None) -> tuple[GpuProcess, ...] | None:
    """Every process once, or None where the driver tells no list.

    A process that computes and draws stands in two of NVML's lists with the same memory: it is told as compute.
    """
    found: dict[tuple[int, int | None, int | None], GpuProcess] = {}
    is_told = False
    for kind, functions in PROCESS_LISTS:
        listed = calls.first(functions, handle)
        is_told = is_told or listed is not None
        for item in listed or ():
            gpu_instance, compute_instance = _instance(item.gpuInstanceId), _instance(item.computeInstanceId)
            memory = calls.believe("process_memory", item.usedGpuMemory, 0, memory_total or 2**63)
            process = GpuProcess(HostPid(item.pid), kind, memory, gpu_instance, compute_instance)
            found.setdefault((item.pid, gpu_instance, compute_instance), process)
    return tuple(found.values()) if is_told else None


def _instance(number: int) -> int | None:
    return None if number == _NO_INSTANCE else number


class UtilizationSamples:
    """The shares of processes since the read before this one."""

    def __init__(self, calls: Calls, now: float) -> None:
        self._calls = calls
        self._seen = int((now - 1) * _SECOND)
        """Time of the newest sample read. Not 0 at first: that gives the mean of all that the driver remembers."""

    def read(self, handle: Any) -> tuple[ProcessUtilization, ...] | None:
        """The mean over each process's samples; empty when nobody ran."""
        samples = self._calls.attempt(_SAMPLES, handle, self._seen, key=(_SAMPLES,))
        if samples is None:
            return () if self._calls.last_code in _NOBODY else None
        by_pid: dict[int, list[Any]] = {}
        for sample in self._fresh(samples):
            if self._is_plausible(sample):
                by_pid.setdefault(sample.pid, []).append(sample)
        return tuple(_mean(HostPid(pid), own) for pid, own in by_pid.items())

    def _fresh(self, samples: list[Any]) -> list[Any]:
        """Without those that drivers leave from earlier, or never filled in."""
        fresh = [sample for sample in samples if sample.timeStamp > self._seen]
        self._seen = max((sample.timeStamp for sample in fresh), default=self._seen)
        return fresh

    def _is_plausible(self, sample: Any) -> bool:
        if max(sample.smUtil, sample.memUtil, sample.encUtil, sample.decUtil) <= 100:
            return True
        self._calls.disbelieve("process_utilization")
        return False


def _mean(pid: HostPid, samples: list[Any]) -> ProcessUtilization:
    share = 1 / (100 * len(samples))
    return ProcessUtilization(
        pid,
        sm=Ratio(sum(sample.smUtil for sample in samples) * share),
        memory=Ratio(sum(sample.memUtil for sample in samples) * share),
        encoder=Ratio(sum(sample.encUtil for sample in samples) * share),
        decoder=Ratio(sum(sample.decUtil for sample in samples) * share),
    )
