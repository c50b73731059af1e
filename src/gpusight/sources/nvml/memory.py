"""Memory of a device or MIG instance."""

from typing import Any, NamedTuple

import pynvml

from gpusight.model.units import Bytes
from gpusight.sources.nvml.calls import Calls


class Memory(NamedTuple):
    total: Bytes | None = None
    used: Bytes | None = None
    free: Bytes | None = None
    reserved: Bytes | None = None
    is_refused: bool = False
    """The driver says that there is no such thing, as on devices that share the host's memory."""


def read_memory(calls: Calls, handle: Any) -> Memory:
    """Drivers before 510 only have the first version, whose `used` includes what the driver reserves."""
    info = calls.attempt("nvmlDeviceGetMemoryInfo", handle, pynvml.nvmlMemory_v2)
    if info is None:
        info = calls.attempt("nvmlDeviceGetMemoryInfo", handle)
    if info is None:
        return Memory(is_refused=calls.last_code == pynvml.NVML_ERROR_NOT_SUPPORTED)
    total = calls.believe("memory_total", info.total, 1, 2**50)
    limit = total or 2**50
    return Memory(
        total,
        calls.believe("memory_used", info.used, 0, limit),
        calls.believe("memory_free", info.free, 0, limit),
        calls.believe("memory_reserved", getattr(info, "reserved", None), 0, limit),
    )
