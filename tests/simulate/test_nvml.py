"""The real pynvml functions over the simulated driver."""

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

import pynvml
import pytest

from gpusight.model.time import ManualClock, SystemClock
from gpusight.simulate.fleet import DRIVER_LOADED, SimGpu
from gpusight.simulate.models import MODELS, GpuModel
from gpusight.simulate.nvml import SimulatedNode, install
from tests.simulate.conftest import Start, fleet

MIB = 1 << 20
TRAINING = {"kind": "training", "gpus": [0]}


def one(start: Start, model: str, *workloads: dict[str, Any], **gpu: Any) -> tuple[SimulatedNode, Any]:
    node = start(fleet({"model": model, **gpu}, workloads=workloads))
    return node, pynvml.nvmlDeviceGetHandleByIndex(0)


def refused(code: int, call: Callable[..., Any], *arguments: Any) -> bool:
    with pytest.raises(pynvml.NVMLError) as caught:
        call(*arguments)
    return bool(caught.value.value == code)


def not_supported(call: Callable[..., Any], *arguments: Any) -> bool:
    return refused(pynvml.NVML_ERROR_NOT_SUPPORTED, call, *arguments)


def test_the_node(start: Start) -> None:
    start("default")
    assert pynvml.nvmlDeviceGetCount() == 8
    assert pynvml.nvmlSystemGetDriverVersion() == "580.65.06"
    assert pynvml.nvmlSystemGetNVMLVersion().startswith("13.")
    assert pynvml.nvmlSystemGetCudaDriverVersion() == pynvml.nvmlSystemGetCudaDriverVersion_v2() == 13000


@pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))
def test_identity_of_each_model(start: Start, model: GpuModel) -> None:
    node, handle = one(start, model.key, TRAINING)
    gpu = node.placed.gpus[0]
    assert pynvml.nvmlDeviceGetName(handle) == model.name
    assert pynvml.nvmlDeviceGetUUID(handle) == gpu.uuid
    assert pynvml.nvmlDeviceGetMinorNumber(handle) == pynvml.nvmlDeviceGetIndex(handle) == 0
    assert pynvml.nvmlDeviceGetBrand(handle) == model.brand
    assert pynvml.nvmlDeviceGetArchitecture(handle) == model.architecture
    assert pynvml.nvmlDeviceGetCudaComputeCapability(handle) == model.compute_capability
    assert pynvml.nvmlDeviceGetNumGpuCores(handle) == model.cores
    pci = pynvml.nvmlDeviceGetPciInfo(handle)
    assert (pci.busId, pci.busIdLegacy) == ("00000000:07:00.0", "0000:07:00.0")
    assert pci.pciDeviceId == model.pci_device_id
    if model.has_serial:
        assert pynvml.nvmlDeviceGetSerial(handle) == gpu.serial
    else:
        assert not_supported(pynvml.nvmlDeviceGetSerial, handle)


@pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))
def test_power_heat_and_clocks_of_each_model(start: Start, clock: ManualClock, model: GpuModel) -> None:
    _, handle = one(start, model.key, TRAINING)
    clock.advance(100)
    idle, full = model.idle_watts * 1000, model.full_watts * 1000
    assert idle < pynvml.nvmlDeviceGetPowerUsage(handle) <= full
    before = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    clock.advance(10)
    assert idle * 10 < pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) - before <= full * 10
    if model.min_power_limit is None:
        assert not_supported(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        assert not_supported(pynvml.nvmlDeviceGetPowerManagementLimitConstraints, handle)
    else:
        assert pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) == full
        assert pynvml.nvmlDeviceGetPowerManagementLimit(handle) == full
        assert pynvml.nvmlDeviceGetPowerManagementLimitConstraints(handle) == [model.min_power_limit * 1000, full]
    sensor = pynvml.NVML_TEMPERATURE_GPU
    assert pynvml.nvmlDeviceGetTemperature(handle, sensor) == pynvml.nvmlDeviceGetTemperatureV(handle, sensor)
    assert model.idle_celsius < pynvml.nvmlDeviceGetTemperature(handle, sensor) < model.slowdown_celsius
    slowdown = pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    assert pynvml.nvmlDeviceGetTemperatureThreshold(handle, slowdown) == model.slowdown_celsius
    assert 0 < pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) <= model.sm_clock
    assert pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM) == model.sm_clock
    if model.memory_clock is None:
        assert not_supported(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM)
    else:
        assert pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM) == model.memory_clock
    assert refused(pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.nvmlDeviceGetClockInfo, handle, 9)
    assert pynvml.nvmlDeviceGetPerformanceState(handle) == 0


@pytest.mark.parametrize("model", [m for m in MODELS.values() if not m.is_unified_memory], ids=lambda m: m.key)
def test_memory_in_both_versions(start: Start, model: GpuModel) -> None:
    """What version 1 calls used includes what the driver reserves."""
    _, handle = one(start, model.key, TRAINING)
    old = pynvml.nvmlDeviceGetMemoryInfo(handle)
    new = pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
    assert old.total == new.total == model.memory
    assert new.reserved == model.reserved
    assert old.used == new.used + new.reserved
    assert old.free == new.free == new.total - new.used - new.reserved
    bar1 = pynvml.nvmlDeviceGetBAR1MemoryInfo(handle)
    assert bar1.bar1Total == bar1.bar1Used + bar1.bar1Free == model.bar1


def test_unified_memory_is_not_told(start: Start) -> None:
    node, handle = one(start, "gb10", {**TRAINING, "memory": 4096})
    assert not_supported(pynvml.nvmlDeviceGetMemoryInfo, handle)
    assert not_supported(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    assert not_supported(pynvml.nvmlDeviceGetBAR1MemoryInfo, handle)
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(handle)[0].usedGpuMemory == 4096 * MIB
    assert pynvml.nvmlDeviceGetUtilizationRates(handle).gpu == round(100 * node.gpu(0).rates.busy)


@pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))
def test_what_each_model_supports(start: Start, model: GpuModel) -> None:
    _, handle = one(start, model.key)
    calls: list[tuple[bool, Callable[..., Any], tuple[Any, ...]]] = [
        (model.has_ecc, pynvml.nvmlDeviceGetEccMode, ()),
        (model.has_ecc, pynvml.nvmlDeviceGetTotalEccErrors, (0, 0)),
        (model.has_ecc, pynvml.nvmlDeviceGetMemoryErrorCounter, (0, 0, 2)),
        (model.has_remapped_rows, pynvml.nvmlDeviceGetRemappedRows, ()),
        (model.has_retired_pages, pynvml.nvmlDeviceGetRetiredPagesPendingStatus, ()),
        (model.fans > 0, pynvml.nvmlDeviceGetFanSpeed, ()),
        (model.fans > 0, pynvml.nvmlDeviceGetFanSpeed_v2, (0,)),
        (model.fans > 0, pynvml.nvmlDeviceGetFanSpeedRPM, ()),
        (model.nvlinks > 0, pynvml.nvmlDeviceGetNvLinkState, (0,)),
        (model.nvlinks > 0, pynvml.nvmlDeviceGetNvLinkErrorCounter, (0, 0)),
        (bool(model.mig), pynvml.nvmlDeviceGetMigMode, ()),
        (True, pynvml.nvmlDeviceGetEncoderUtilization, ()),
        (True, pynvml.nvmlDeviceGetDecoderUtilization, ()),
        (True, pynvml.nvmlDeviceGetPersistenceMode, ()),
        (True, pynvml.nvmlDeviceGetComputeMode, ()),
        (True, pynvml.nvmlDeviceGetBoardId, ()),
        (True, pynvml.nvmlDeviceGetPcieReplayCounter, ()),
        (True, pynvml.nvmlDeviceGetPcieThroughput, (pynvml.NVML_PCIE_UTIL_RX_BYTES,)),
        (True, pynvml.nvmlDeviceGetSupportedEventTypes, ()),
        (True, pynvml.nvmlDeviceGetMarginTemperature, ()),
    ]
    for is_supported, call, arguments in calls:
        if is_supported:
            call(handle, *arguments)
        else:
            assert not_supported(call, handle, *arguments), call.__name__
    assert pynvml.nvmlDeviceGetNumFans(handle) == model.fans
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(handle) == 0
    assert pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice == model.has_gpm
    generation, width = pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handle), pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle)
    assert (generation, width) == (model.pcie_generation, model.pcie_width)
    assert pynvml.nvmlDeviceGetCurrPcieLinkGeneration(handle) <= generation
    if model.nvlinks:
        assert pynvml.nvmlDeviceGetNvLinkState(handle, model.nvlinks - 1) == 1
        assert refused(pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.nvmlDeviceGetNvLinkState, handle, model.nvlinks)


def test_why_clocks_are_what_they_are(start: Start, clock: ManualClock) -> None:
    start(fleet({"model": "h100", "count": 2}, workloads=[TRAINING]))
    clock.advance(30)
    busy, idle = (pynvml.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
    for call in (pynvml.nvmlDeviceGetCurrentClocksEventReasons, pynvml.nvmlDeviceGetCurrentClocksThrottleReasons):
        assert call(busy) == pynvml.nvmlClocksEventReasonSwPowerCap
        assert call(idle) == pynvml.nvmlClocksEventReasonGpuIdle
    assert pynvml.nvmlDeviceGetUtilizationRates(busy).gpu > 80
    assert pynvml.nvmlDeviceGetUtilizationRates(idle).gpu == 0


def test_handles_by_every_name(start: Start) -> None:
    node = start("default")
    for gpu in node.placed.gpus:
        by_index = pynvml.nvmlDeviceGetHandleByIndex(gpu.index)
        for found in (
            pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid),
            pynvml.nvmlDeviceGetHandleByPciBusId(gpu.pci_bus_id),
            pynvml.nvmlDeviceGetHandleByPciBusId(gpu.pci_bus_id[4:].lower()),
        ):
            assert address(found) == address(by_index)
    assert refused(pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.nvmlDeviceGetHandleByIndex, 8)
    assert refused(pynvml.NVML_ERROR_NOT_FOUND, pynvml.nvmlDeviceGetHandleByUUID, "GPU-nowhere")
    assert refused(pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.nvmlDeviceGetName, ctypes.c_void_p(1234))
    assert refused(pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.nvmlDeviceGetName, None)


def address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


# --- MIG


def test_mig_device_tells_no_utilization(start: Start) -> None:
    _, handle = one(start, "a100-80gb", {**TRAINING, "mig": 0}, mig=["3g.40gb", "2g.20gb"])
    assert pynvml.nvmlDeviceGetMigMode(handle) == [1, 1]
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(handle) == 7
    for call in (
        pynvml.nvmlDeviceGetUtilizationRates,
        pynvml.nvmlDeviceGetEncoderUtilization,
        pynvml.nvmlDeviceGetDecoderUtilization,
    ):
        assert not_supported(call, handle)
    assert not_supported(pynvml.nvmlDeviceGetProcessUtilization, handle, 0)
    assert pynvml.nvmlDeviceGetPowerUsage(handle) > 0


def test_mig_instances(start: Start) -> None:
    node, handle = one(start, "a100-80gb", {**TRAINING, "mig": 0}, mig=["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"])
    instances = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, i) for i in range(4)]
    assert refused(pynvml.NVML_ERROR_NOT_FOUND, pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, 4)
    assert [pynvml.nvmlDeviceGetGpuInstanceId(i) for i in instances] == [1, 3, 7, 8]
    assert {pynvml.nvmlDeviceGetComputeInstanceId(i) for i in instances} == {0}
    mig = node.placed.gpus[0].mig
    assert mig is not None
    assert [pynvml.nvmlDeviceGetUUID(i) for i in instances] == [instance.uuid for instance in mig]
    assert pynvml.nvmlDeviceGetName(instances[0]) == "NVIDIA A100-SXM4-80GB MIG 3g.40gb"
    assert [pynvml.nvmlDeviceIsMigDeviceHandle(i).value for i in (handle, *instances)] == [0, 1, 1, 1, 1]
    assert address(pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instances[2])) == address(handle)
    assert address(pynvml.nvmlDeviceGetHandleByUUID(mig[1].uuid)) == address(instances[1])
    attributes = pynvml.nvmlDeviceGetAttributes(instances[0])
    assert (attributes.multiprocessorCount, attributes.gpuInstanceSliceCount) == (42, 3)
    assert attributes.memorySizeMB == 40192
    memory = [pynvml.nvmlDeviceGetMemoryInfo(i) for i in instances]
    assert [m.total // MIB for m in memory] == [40192, 19968, 9728, 9728]
    assert memory[0].used > 10_000 * MIB > 100 * MIB > memory[1].used
    assert not_supported(pynvml.nvmlDeviceGetPowerUsage, instances[0])
    assert not_supported(pynvml.nvmlDeviceGetAttributes, handle)
    assert not_supported(pynvml.nvmlDeviceGetGpuInstanceId, handle)
    (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    assert (process.gpuInstanceId, process.computeInstanceId) == (1, 0)
    assert len(pynvml.nvmlDeviceGetComputeRunningProcesses(instances[0])) == 1
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(instances[1]) == []


def test_instances_where_there_are_none(start: Start) -> None:
    start(fleet({"model": "a100-80gb"}, {"model": "a100-80gb", "mig": []}, {"model": "t4"}))
    plain, empty, never = (pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(3))
    assert pynvml.nvmlDeviceGetMigMode(plain) == [0, 0]
    assert pynvml.nvmlDeviceGetMigMode(empty) == [1, 1]
    assert not_supported(pynvml.nvmlDeviceGetMigMode, never)
    assert not_supported(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, plain, 0)
    assert refused(pynvml.NVML_ERROR_NOT_FOUND, pynvml.nvmlDeviceGetMigDeviceHandleByIndex, empty, 0)


# --- Processes


def test_processes_agree_with_memory(start: Start, clock: ManualClock) -> None:
    node = start("eight-gpus-40-containers")
    clock.advance(300)
    for gpu in node.placed.gpus:
        handle = pynvml.nvmlDeviceGetHandleByIndex(gpu.index)
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        assert [p.pid for p in processes] == [p.pid for p in node.gpu(gpu.index).processes]
        assert len(processes) == 5
        total = sum(p.usedGpuMemory for p in processes)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
        assert memory.used - 8 * MIB < total <= memory.used
        assert {p.gpuInstanceId for p in processes} == {0xFFFFFFFF}
        older = pynvml.nvmlDeviceGetComputeRunningProcesses_v2(handle)
        assert [(p.pid, p.usedGpuMemory) for p in older] == [(p.pid, p.usedGpuMemory) for p in processes]
        assert pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle) == []
        assert pynvml.nvmlDeviceGetMPSComputeRunningProcesses(handle) == []


def test_the_oldest_process_list(start: Start) -> None:
    """Its entries have no instance ids: a driver that wrote the newer ones would overrun the caller's array."""
    node, handle = one(start, "t4", TRAINING)
    size, memory = ctypes.c_uint(1), (ctypes.c_ulonglong * 3)(0, 0, 0xDEAD)
    assert pynvml.nvmlLib.nvmlDeviceGetComputeRunningProcesses(handle, ctypes.byref(size), memory) == 0
    assert (memory[0] & 0xFFFFFFFF, memory[2]) == (node.gpu(0).processes[0].pid, 0xDEAD)


def test_process_name(start: Start) -> None:
    node, _ = one(start, "t4", {**TRAINING, "container": "trainer"})
    assert pynvml.nvmlSystemGetProcessName(node.placed.loads[0].pid) == "/usr/bin/trainer"
    assert refused(pynvml.NVML_ERROR_NOT_FOUND, pynvml.nvmlSystemGetProcessName, 1)


def test_process_utilization_since_last_seen(start: Start, clock: ManualClock) -> None:
    share = {"memory_limit": 1000, "cores": 50}
    idle = {"kind": "forgotten", "gpus": [0], "share": share}
    node, handle = one(start, "t4", {**TRAINING, "share": share}, idle)
    clock.advance(30)
    (sample,) = pynvml.nvmlDeviceGetProcessUtilization(handle, 0)
    assert sample.pid == node.gpu(0).processes[0].pid, "who did not run has no sample"
    assert 35 <= sample.smUtil <= 50
    assert abs(sample.timeStamp / 1e6 - clock.now()) < 0.5
    assert refused(pynvml.NVML_ERROR_NOT_FOUND, pynvml.nvmlDeviceGetProcessUtilization, handle, sample.timeStamp), (
        "nothing new"
    )
    clock.advance(1)
    (later,) = pynvml.nvmlDeviceGetProcessUtilization(handle, sample.timeStamp)
    assert later.timeStamp > sample.timeStamp
    (newer,) = pynvml.nvmlDeviceGetProcessesUtilizationInfo(handle, 0)
    assert (newer.pid, newer.smUtil, newer.timeStamp) == (later.pid, later.smUtil, later.timeStamp)


def test_process_utilization_of_nobody(start: Start) -> None:
    _, handle = one(start, "t4")
    assert refused(pynvml.NVML_ERROR_NOT_FOUND, pynvml.nvmlDeviceGetProcessUtilization, handle, 0)
    assert refused(pynvml.NVML_ERROR_NOT_FOUND, pynvml.nvmlDeviceGetProcessesUtilizationInfo, handle, 0)


# --- Field values


def test_field_values_have_codes_of_their_own(start: Start, clock: ManualClock) -> None:
    start(fleet({"model": "a100-80gb", "count": 2}, {"model": "t4"}, workloads=[{"kind": "training", "gpus": [0, 1]}]))
    clock.advance(100)
    wanted = [
        pynvml.NVML_FI_DEV_MEMORY_TEMP,
        pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION,
        pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT,
        (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 0xFFFFFFFF),
        (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 0),
        pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES,
        9999,
    ]
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    temperature, energy, links, all_links, one_link, bytes_, unknown = pynvml.nvmlDeviceGetFieldValues(handle, wanted)
    assert 40 < temperature.value.uiVal < 100
    assert energy.valueType == pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
    assert energy.value.ullVal == pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    assert links.value.uiVal == 12
    assert all_links.value.ullVal // 12 == one_link.value.ullVal > 0
    assert bytes_.value.ullVal > 0
    assert unknown.nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED
    codes = [v.nvmlReturn for v in pynvml.nvmlDeviceGetFieldValues(pynvml.nvmlDeviceGetHandleByIndex(2), wanted)]
    assert codes == [3, 0, 0, 3, 3, 0, 3]


# --- GPM


def gpm(handle: Any, clock: ManualClock, seconds: float, *ids: int, instance: int | None = None) -> list[Any]:
    samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]
    for index, sample in enumerate(samples):
        if instance is None:
            pynvml.nvmlGpmSampleGet(handle, sample)
        else:
            pynvml.nvmlGpmMigSampleGet(handle, instance, sample)
        clock.advance(seconds if index == 0 else 0)
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version, request.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, len(ids)
    request.sample1, request.sample2 = samples
    for index, metric in enumerate(ids):
        request.metrics[index].metricId = metric
    pynvml.nvmlGpmMetricsGet(request)
    for sample in samples:
        pynvml.nvmlGpmSampleFree(sample)
    return list(request.metrics[: len(ids)])


def test_gpm_gives_averages_between_samples(start: Start, clock: ManualClock) -> None:
    _, handle = one(start, "h100", TRAINING)
    busy, sm, tensor, unknown = gpm(
        handle, clock, 10, pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL, pynvml.NVML_GPM_METRIC_SM_UTIL,
        pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL, 400,
    )  # fmt: skip
    assert busy.value > sm.value > tensor.value > 10
    assert unknown.nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED


def test_gpm_shows_that_a_spinner_does_nothing(start: Start, clock: ManualClock) -> None:
    _, handle = one(start, "h100", {"kind": "spinner", "gpus": [0]})
    busy, sm = gpm(handle, clock, 1, pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL, pynvml.NVML_GPM_METRIC_SM_UTIL)
    assert busy.value == pytest.approx(100)
    assert sm.value < 1


def test_gpm_of_an_instance(start: Start, clock: ManualClock) -> None:
    idle = {"kind": "forgotten", "gpus": [0], "mig": 1}
    _, handle = one(start, "h100", {**TRAINING, "mig": 0}, idle, mig=["1g.10gb", "2g.20gb"])
    (busy,) = gpm(handle, clock, 5, pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL, instance=7)
    (nothing,) = gpm(handle, clock, 5, pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL, instance=3)
    assert busy.value > 80
    assert nothing.value == 0
    sample = pynvml.nvmlGpmSampleAlloc()
    assert refused(pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.nvmlGpmMigSampleGet, handle, 5, sample)


def test_gpm_where_there_is_none(start: Start) -> None:
    _, handle = one(start, "a100-80gb", TRAINING)
    assert not_supported(pynvml.nvmlGpmSampleGet, handle, pynvml.nvmlGpmSampleAlloc())
    assert refused(pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.nvmlGpmSampleGet, handle, None)
    assert refused(pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.nvmlGpmSampleFree, None)
    request = pynvml.c_nvmlGpmMetricsGet_t()
    assert refused(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, pynvml.nvmlGpmMetricsGet, request)


# --- Counters, misuse, cost


def test_counters_are_monotone_through_the_binding(start: Start, clock: ManualClock) -> None:
    node = start("default")
    handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(8)]
    last = [0] * 8
    for _ in range(50):
        clock.advance(3.7)
        now = [pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) for handle in handles]
        assert all(after > before for before, after in zip(last, now, strict=True))
        last = now
    idle = MODELS["a100-80gb"].idle_watts
    assert last[7] == pytest.approx(1000 * idle * (node.seconds() - DRIVER_LOADED), rel=1e-6)


def test_what_an_old_driver_does_not_have(start: Start) -> None:
    _, handle = one(start, "t4")
    assert refused(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.nvmlDeviceGetTopologyNearestGpus, handle, 0)
    assert refused(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.nvmlUnitGetCount)


def test_nothing_before_init_nor_after_shutdown(start: Start) -> None:
    start("default", init=False)
    assert refused(pynvml.NVML_ERROR_UNINITIALIZED, pynvml.nvmlDeviceGetCount)
    assert refused(pynvml.NVML_ERROR_UNINITIALIZED, pynvml.nvmlShutdown)
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    pynvml.nvmlShutdown()
    assert refused(pynvml.NVML_ERROR_UNINITIALIZED, pynvml.nvmlDeviceGetName, handle)


def test_uninstall_restores_what_was_there(clock: ManualClock) -> None:
    before = pynvml.nvmlLib
    outer = install(SimulatedNode("default", None, clock))
    first = pynvml.nvmlLib
    inner = install(SimulatedNode("gb10", None, clock))
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == 1
    inner()
    assert pynvml.nvmlLib is first
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == 8
    outer()
    assert pynvml.nvmlLib is before


def test_wrong_sizes_and_versions(start: Start) -> None:
    _, handle = one(start, "t4", TRAINING)
    short = ctypes.create_string_buffer(4)
    assert pynvml.nvmlLib.nvmlDeviceGetName(handle, short, 4) == pynvml.NVML_ERROR_INSUFFICIENT_SIZE
    assert refused(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, pynvml.nvmlDeviceGetMemoryInfo, handle, 7)
    assert pynvml.nvmlLib.nvmlDeviceGetPowerUsage(handle, None) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_error_texts(start: Start) -> None:
    start("default")
    assert pynvml.nvmlErrorString(15) == "GPU is lost"
    assert pynvml.nvmlErrorString(777) == "Unknown Error"


def sweep(gpu: SimGpu) -> int:
    """What a full agent asks of one device."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(gpu.index)
    plain = (
        "Name", "UUID", "PowerUsage", "EnforcedPowerLimit", "TotalEnergyConsumption", "UtilizationRates", "EccMode",
        "MemoryInfo", "BAR1MemoryInfo", "EncoderUtilization", "DecoderUtilization", "PerformanceState",
        "CurrentClocksEventReasons", "RemappedRows", "CurrPcieLinkGeneration", "CurrPcieLinkWidth",
        "PcieReplayCounter", "MigMode", "ComputeRunningProcesses", "GraphicsRunningProcesses", "PersistenceMode",
    )  # fmt: skip
    for name in plain:
        try:
            getattr(pynvml, f"nvmlDeviceGet{name}")(handle)
        except pynvml.NVMLError_NotSupported:
            continue
    for link in range(gpu.model.nvlinks):
        pynvml.nvmlDeviceGetNvLinkState(handle, link)
    return len(plain) + gpu.model.nvlinks + 1


def test_a_sweep_is_cheap_and_safe_from_many_threads(clock: ManualClock) -> None:
    """One thread per device. The bound is loose, for machines that do something else as well."""
    node = SimulatedNode("eight-gpus-40-containers", None, SystemClock())
    uninstall = install(node)
    pynvml.nvmlInit()
    failures: list[BaseException] = []

    def run(gpu: SimGpu) -> None:
        try:
            for _ in range(10):
                sweep(gpu)
        except BaseException as error:
            failures.append(error)

    try:
        threads = [threading.Thread(target=run, args=(gpu,)) for gpu in node.placed.gpus]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert (time.perf_counter() - began) / 10 < 0.25
    finally:
        pynvml.nvmlShutdown()
        uninstall()
