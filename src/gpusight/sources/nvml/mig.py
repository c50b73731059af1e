"""MIG instances of a device. They come and go without a reset, so they are looked for in every sweep."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from gpusight.model.hardware import GpuProcess, MigReading
from gpusight.model.identity import MigUuid
from gpusight.sources.nvml.calls import Calls, address, is_identity
from gpusight.sources.nvml.gpm import GpmSampler
from gpusight.sources.nvml.memory import read_memory
from gpusight.sources.nvml.processes import read_processes

_MOST: Final = 64
"""Instances per device that are looked for; hardware has 7, or 8 compute instances in some."""


class _Instance:
    """What of one instance does not change while it lives."""

    def __init__(self, handle: Any, uuid: MigUuid, calls: Calls) -> None:
        self.handle = handle
        self.uuid = uuid
        self.calls = calls
        self.gpu_instance_id: int = calls.attempt("nvmlDeviceGetGpuInstanceId", handle)
        self.compute_instance_id: int = calls.attempt("nvmlDeviceGetComputeInstanceId", handle)
        attributes = calls.attempt("nvmlDeviceGetAttributes_v2", handle)
        self.gpu_slices = attributes and calls.believe("gpu_slices", attributes.gpuInstanceSliceCount, 1, 64)
        self.sm_count = attributes and calls.believe("sm_count", attributes.multiprocessorCount, 1, 4096)
        self.profile = _profile(calls.attempt("nvmlDeviceGetName", handle), attributes)

    def read(self, gpm: Mapping[str, float]) -> MigReading:
        memory = read_memory(self.calls, self.handle)
        return MigReading(
            self.uuid,
            self.gpu_instance_id,
            self.compute_instance_id,
            self.profile,
            memory_total=memory.total,
            memory_used=memory.used,
            memory_free=memory.free,
            gpu_slices=self.gpu_slices,
            sm_count=self.sm_count,
            gpm=dict(gpm),
        )


class MigReader:
    """The instances of one device."""

    def __init__(self, calls: Calls, monotonic: Callable[[], float]) -> None:
        self._calls = calls
        self._monotonic = monotonic
        self._instances: dict[MigUuid, _Instance] = {}
        self._samplers: dict[int, GpmSampler] = {}

    def read(self, device: Any, *, has_gpm: bool) -> tuple[MigReading, ...]:
        self._instances = self._find(device)
        gpm = self._read_gpm(device) if has_gpm else {}
        return tuple(i.read(gpm.get(i.gpu_instance_id, {})) for i in self._instances.values())

    def read_processes(self) -> tuple[GpuProcess, ...] | None:
        """Each instance's own list: without privileges the device's is not told."""
        lists = [(i, read_processes(i.calls, i.handle, None)) for i in self._instances.values()]
        if all(listed is None for _, listed in lists):
            return None
        return tuple(_placed(process, instance) for instance, listed in lists for process in listed or ())

    def close(self) -> None:
        for sampler in self._samplers.values():
            sampler.close()

    def _find(self, device: Any) -> dict[MigUuid, _Instance]:
        found: dict[MigUuid, _Instance] = {}
        for index in range(min(self._calls.attempt("nvmlDeviceGetMaxMigDeviceCount", device) or 0, _MOST)):
            handle = self._calls.attempt("nvmlDeviceGetMigDeviceHandleByIndex", device, index)
            uuid = handle and self._calls.attempt("nvmlDeviceGetUUID", handle)
            if uuid and is_identity(uuid):
                found[uuid] = self._known(handle, uuid)
        return {uuid: instance for uuid, instance in found.items() if instance.gpu_instance_id is not None}

    def _known(self, handle: Any, uuid: MigUuid) -> _Instance:
        """A recreated instance may get the old UUID under another handle."""
        known = self._instances.get(uuid)
        if known and address(known.handle) == address(handle):
            return known
        return _Instance(handle, uuid, self._calls.sibling())

    def _read_gpm(self, device: Any) -> dict[int, dict[str, float]]:
        """By GPU instance: compute instances of the same one share its counters."""
        wanted = {instance.gpu_instance_id for instance in self._instances.values()}
        for gone in self._samplers.keys() - wanted:
            self._samplers.pop(gone).close()
        for new in wanted - self._samplers.keys():
            self._samplers[new] = GpmSampler(self._calls, self._monotonic, new)
        return {number: sampler.read(device) for number, sampler in self._samplers.items()}


def _placed(process: GpuProcess, instance: _Instance) -> GpuProcess:
    """A list asked of an instance may leave out which one it is."""
    if process.gpu_instance_id is not None:
        return process
    return GpuProcess(process.pid, process.kind, process.memory, instance.gpu_instance_id, instance.compute_instance_id)


def _profile(name: str | None, attributes: Any) -> str:
    """`1g.5gb`, or `1c.2g.10gb` for a part of a GPU instance's compute."""
    if name and " MIG " in name:
        return name.rpartition(" MIG ")[2]
    if attributes is None:
        return ""
    gpu, compute = attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount
    part = f"{compute}c." if compute < gpu else ""
    return f"{part}{gpu}g.{round(attributes.memorySizeMB / 1024)}gb"
