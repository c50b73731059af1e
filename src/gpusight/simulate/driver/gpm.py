"""GPM: two samples of a device or an instance, and the averages between them."""

from collections.abc import Callable, Mapping
from ctypes import c_void_p, cast
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from gpusight.simulate.driver.library import (
    INVALID,
    NOT_SUPPORTED,
    CallTable,
    Device,
    Library,
    Refused,
    need,
    put,
    struct_at,
)
from gpusight.simulate.fleet import MigInstance, Rates
from gpusight.simulate.models import MIB
from gpusight.simulate.state import average

CALLS: Final = CallTable()

_SHORTEST_SECONDS: Final = 0.1
"""Two samples of the same moment give what the last moments gave."""

METRICS: Final[Mapping[int, Callable[[Rates], float]]] = {
    pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL: lambda r: 100 * r.busy,
    pynvml.NVML_GPM_METRIC_SM_UTIL: lambda r: 100 * r.sm,
    pynvml.NVML_GPM_METRIC_SM_OCCUPANCY: lambda r: 100 * r.occupancy,
    pynvml.NVML_GPM_METRIC_INTEGER_UTIL: lambda r: 30 * r.sm,
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: lambda r: 100 * r.tensor,
    pynvml.NVML_GPM_METRIC_DFMA_TENSOR_UTIL: lambda _: 0.0,
    pynvml.NVML_GPM_METRIC_HMMA_TENSOR_UTIL: lambda r: 100 * r.tensor,
    pynvml.NVML_GPM_METRIC_DMMA_TENSOR_UTIL: lambda _: 0.0,
    pynvml.NVML_GPM_METRIC_IMMA_TENSOR_UTIL: lambda _: 0.0,
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: lambda r: 100 * r.dram,
    pynvml.NVML_GPM_METRIC_FP64_UTIL: lambda _: 0.0,
    pynvml.NVML_GPM_METRIC_FP32_UTIL: lambda r: 12 * r.sm,
    pynvml.NVML_GPM_METRIC_FP16_UTIL: lambda r: 8 * r.sm,
    pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC: lambda r: r.pcie_tx / MIB,
    pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC: lambda r: r.pcie_rx / MIB,
    pynvml.NVML_GPM_METRIC_NVDEC_0_UTIL: lambda r: 100 * r.decoder,
    pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC: lambda r: r.nvlink / MIB,
    pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC: lambda r: r.nvlink / MIB,
}


@dataclass(slots=True)
class _Sample:
    device: Device | None = None
    instance: MigInstance | None = None
    t: float = 0.0


@CALLS.add("dp", "nvmlGpmQueryDeviceSupport")
def _support(_: Library, device: Device, out: int) -> None:
    info = struct_at(pynvml.c_nvmlGpmSupport_t, out, pynvml.NVML_GPM_SUPPORT_VERSION)
    info.isSupportedDevice = int(device.gpu.model.has_gpm)


@CALLS.add("p", "nvmlGpmSampleAlloc")
def _alloc(library: Library, out: int) -> None:
    put(c_void_p, out, library.keep(_Sample()))


@CALLS.add("p", "nvmlGpmSampleFree")
def _free(library: Library, number: int | None) -> None:
    library.kept(_Sample, number)
    library.objects.pop(number or 0, None)


@CALLS.add("dp", "nvmlGpmSampleGet")
def _sample_device(library: Library, device: Device, number: int | None) -> None:
    _take(library, device, None, number)


@CALLS.add("dup", "nvmlGpmMigSampleGet")
def _sample_instance(library: Library, device: Device, instance_id: int, number: int | None) -> None:
    found = (instance for instance in device.gpu.mig or () if instance.gpu_instance_id == instance_id)
    _take(library, device, need(next(found, None), INVALID), number)


def _take(library: Library, device: Device, instance: MigInstance | None, number: int | None) -> None:
    sample = library.kept(_Sample, number)
    if not device.gpu.model.has_gpm:
        raise Refused(NOT_SUPPORTED)
    sample.device, sample.instance, sample.t = device, instance, device.node.seconds()


@CALLS.add("p", "nvmlGpmMetricsGet")
def _metrics(library: Library, out: int) -> None:
    info = struct_at(pynvml.c_nvmlGpmMetricsGet_t, out, pynvml.NVML_GPM_METRICS_GET_VERSION)
    first, second = (library.kept(_Sample, cast(p, c_void_p).value) for p in (info.sample1, info.sample2))
    if first.device is None or first.device is not second.device or first.instance is not second.instance:
        raise Refused(INVALID)
    library.meet_fault(first.device, "nvmlGpmMetricsGet")
    start = min(first.t, second.t - _SHORTEST_SECONDS)
    rates = average(first.device.gpu, start, second.t, first.instance)
    for index in range(info.numMetrics):
        _fill(info.metrics[index], rates)


def _fill(metric: Any, rates: Rates) -> None:
    get = METRICS.get(metric.metricId)
    metric.nvmlReturn = 0 if get else NOT_SUPPORTED
    metric.value = get(rates) if get else 0.0
