"""Numbers and texts of a device: one row per function."""

from collections.abc import Callable, Mapping
from ctypes import c_int, c_uint, c_ulonglong
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from gpusight.simulate.driver.library import INVALID, Call, CallTable, Device, Library, Refused, need, put, put_text
from gpusight.simulate.models import GpuModel
from gpusight.simulate.state import GpuState

EVENT_TYPES: Final = 0x1F
"""Single- and double-bit errors, P-state, XID and clock changes."""

_ALL_REASONS: Final = 0x1FF
_SAMPLING_MICROSECONDS: Final = 167_000


@dataclass(frozen=True, slots=True)
class Row:
    """Numbers that a function writes: one, or as many as there are out-parameters. None is not supported."""

    get: Callable[..., Any]
    arguments: int = 0
    outs: int = 1
    kind: Any = c_uint


def _power_limit(model: GpuModel) -> int | None:
    return None if model.min_power_limit is None else round(model.full_watts * 1000)


def _clock(s: GpuState, which: int) -> int | None:
    return _pick(which, s.sm_clock, s.sm_clock, s.memory_clock or None, s.video_clock)


def _max_clock(s: GpuState, which: int) -> int | None:
    model = s.gpu.model
    return _pick(which, model.sm_clock, model.sm_clock, model.memory_clock, model.video_clock)


def _pick(which: int, *values: int | None) -> int | None:
    if which >= len(values):
        raise Refused(INVALID)
    return values[which]


def _threshold(s: GpuState, which: int) -> int | None:
    model = s.gpu.model
    hottest_memory = 95 if model.has_memory_temperature else None
    return {0: model.shutdown_celsius, 1: model.slowdown_celsius, 2: hottest_memory, 3: model.max_celsius}.get(which)


def fan_percent(s: GpuState, fan: int = 0) -> int | None:
    return _pick(fan, *[round(s.fan * 100)] * s.gpu.model.fans) if s.gpu.model.fans else None


def ecc_errors(s: GpuState, kind: int, span: int) -> int | None:
    if not s.gpu.model.has_ecc:
        return None
    if kind == pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED:
        return s.ecc_corrected + (5 if span == pynvml.NVML_AGGREGATE_ECC else 0)
    return s.ecc_uncorrected + (s.ecc_uncorrected_before if span == pynvml.NVML_AGGREGATE_ECC else 0)


def _memory_errors(s: GpuState, kind: int, span: int, location: int) -> int | None:
    """All of the simulated errors happen in device memory."""
    total = ecc_errors(s, kind, span)
    if total is None or location not in {1, 2, 7}:
        return None
    return total if location == pynvml.NVML_MEMORY_LOCATION_DEVICE_MEMORY else 0


def _of_link(get: Callable[..., Any]) -> Callable[..., Any]:
    """A device without links supports none of it; one with links knows its own."""

    def answer(s: GpuState, link: int, *arguments: int) -> Any:
        links = s.gpu.model.nvlinks
        if links and link >= links:
            raise Refused(INVALID)
        return get(s, link, *arguments) if links else None

    return answer


def _if_not_mig(get: Callable[[GpuState], Any]) -> Callable[[GpuState], Any]:
    return lambda s: get(s) if s.gpu.mig is None else None


def _mig_mode(s: GpuState) -> tuple[int, int] | None:
    mode = int(s.gpu.mig is not None)
    return (mode, mode) if s.gpu.model.mig else None


def _ecc_mode(s: GpuState) -> tuple[int, int] | None:
    return (1, 1) if s.gpu.model.has_ecc else None


def remapped_rows(s: GpuState) -> tuple[int, int, int, int] | None:
    return (0, s.remapped_rows, int(s.is_remap_pending), 0) if s.gpu.model.has_remapped_rows else None


def retired_pages_pending(s: GpuState) -> int | None:
    return int(s.is_remap_pending) if s.gpu.model.has_retired_pages else None


def _throughput(s: GpuState, counter: int) -> int:
    """KB/s over the last 20 ms, in the real thing."""
    return int((s.rates.pcie_tx if counter == pynvml.NVML_PCIE_UTIL_TX_BYTES else s.rates.pcie_rx) / 1000)


def _link_generation(s: GpuState) -> int:
    """An idle link falls back to its first generation, except where the P-state never changes."""
    model = s.gpu.model
    return model.pcie_generation if s.processes or model.idle_pstate == 0 else 1


ROWS: Final[Mapping[str, Row]] = {
    "nvmlDeviceGetMinorNumber": Row(lambda s: s.gpu.index),
    "nvmlDeviceGetIndex": Row(lambda s: s.gpu.index),
    "nvmlDeviceGetBoardId": Row(lambda s: s.gpu.pci_bus << 8),
    "nvmlDeviceGetMultiGpuBoard": Row(lambda _: 0),
    "nvmlDeviceGetBrand": Row(lambda s: s.gpu.model.brand),
    "nvmlDeviceGetArchitecture": Row(lambda s: s.gpu.model.architecture),
    "nvmlDeviceGetNumGpuCores": Row(lambda s: s.gpu.model.cores),
    "nvmlDeviceGetMemoryBusWidth": Row(lambda s: s.gpu.model.memory_bus_bits or None),
    "nvmlDeviceGetBusType": Row(lambda _: pynvml.NVML_BUS_TYPE_PCIE),
    "nvmlDeviceGetCudaComputeCapability": Row(lambda s: s.gpu.model.compute_capability, outs=2, kind=c_int),
    "nvmlDeviceGetDisplayMode": Row(lambda _: 0),
    "nvmlDeviceGetDisplayActive": Row(lambda _: 0),
    "nvmlDeviceGetPersistenceMode": Row(lambda _: 1),
    "nvmlDeviceGetComputeMode": Row(lambda _: pynvml.NVML_COMPUTEMODE_DEFAULT),
    "nvmlDeviceGetAccountingMode": Row(lambda _: 0),
    "nvmlDeviceGetPerformanceState": Row(lambda s: s.pstate),
    "nvmlDeviceGetPowerState": Row(lambda s: s.pstate),
    "nvmlDeviceGetPowerUsage": Row(lambda s: round(s.power * 1000)),
    "nvmlDeviceGetPowerManagementMode": Row(lambda s: None if _power_limit(s.gpu.model) is None else 1),
    "nvmlDeviceGetPowerManagementLimit": Row(lambda s: _power_limit(s.gpu.model)),
    "nvmlDeviceGetPowerManagementDefaultLimit": Row(lambda s: _power_limit(s.gpu.model)),
    "nvmlDeviceGetEnforcedPowerLimit": Row(lambda s: _power_limit(s.gpu.model)),
    "nvmlDeviceGetPowerManagementLimitConstraints": Row(
        lambda s: (limit := _power_limit(s.gpu.model)) and (round(s.gpu.model.min_power_limit * 1000), limit), outs=2
    ),
    "nvmlDeviceGetTotalEnergyConsumption": Row(
        lambda s: int(s.energy * 1000) if s.gpu.model.has_energy else None, kind=c_ulonglong
    ),
    "nvmlDeviceGetClockInfo": Row(_clock, arguments=1),
    "nvmlDeviceGetMaxClockInfo": Row(_max_clock, arguments=1),
    "nvmlDeviceGetMaxCustomerBoostClock": Row(_max_clock, arguments=1),
    "nvmlDeviceGetTemperature": Row(lambda s, sensor: _pick(sensor, int(s.celsius)), arguments=1),
    "nvmlDeviceGetTemperatureThreshold": Row(_threshold, arguments=1),
    "nvmlDeviceGetNumFans": Row(lambda s: s.gpu.model.fans),
    "nvmlDeviceGetFanSpeed": Row(fan_percent),
    "nvmlDeviceGetFanSpeed_v2": Row(fan_percent, arguments=1),
    "nvmlDeviceGetEncoderUtilization": Row(
        _if_not_mig(lambda s: (round(s.rates.encoder * 100), _SAMPLING_MICROSECONDS)), outs=2
    ),
    "nvmlDeviceGetDecoderUtilization": Row(
        _if_not_mig(lambda s: (round(s.rates.decoder * 100), _SAMPLING_MICROSECONDS)), outs=2
    ),
    "nvmlDeviceGetCurrentClocksEventReasons": Row(lambda s: s.throttle, kind=c_ulonglong),
    "nvmlDeviceGetCurrentClocksThrottleReasons": Row(lambda s: s.throttle, kind=c_ulonglong),
    "nvmlDeviceGetSupportedClocksEventReasons": Row(lambda _: _ALL_REASONS, kind=c_ulonglong),
    "nvmlDeviceGetSupportedClocksThrottleReasons": Row(lambda _: _ALL_REASONS, kind=c_ulonglong),
    "nvmlDeviceGetSupportedEventTypes": Row(lambda _: EVENT_TYPES, kind=c_ulonglong),
    "nvmlDeviceGetEccMode": Row(_ecc_mode, outs=2),
    "nvmlDeviceGetDefaultEccMode": Row(lambda s: 1 if s.gpu.model.has_ecc else None),
    "nvmlDeviceGetTotalEccErrors": Row(ecc_errors, arguments=2, kind=c_ulonglong),
    "nvmlDeviceGetMemoryErrorCounter": Row(_memory_errors, arguments=3, kind=c_ulonglong),
    "nvmlDeviceGetRemappedRows": Row(remapped_rows, outs=4),
    "nvmlDeviceGetRetiredPagesPendingStatus": Row(retired_pages_pending),
    "nvmlDeviceGetCurrPcieLinkGeneration": Row(_link_generation),
    "nvmlDeviceGetMaxPcieLinkGeneration": Row(lambda s: s.gpu.model.pcie_generation),
    "nvmlDeviceGetGpuMaxPcieLinkGeneration": Row(lambda s: s.gpu.model.pcie_generation),
    "nvmlDeviceGetCurrPcieLinkWidth": Row(lambda s: s.gpu.model.pcie_width),
    "nvmlDeviceGetMaxPcieLinkWidth": Row(lambda s: s.gpu.model.pcie_width),
    "nvmlDeviceGetPcieReplayCounter": Row(lambda s: s.pcie_replays),
    "nvmlDeviceGetPcieThroughput": Row(_throughput, arguments=1),
    "nvmlDeviceGetNvLinkState": Row(_of_link(lambda _s, _link: 1), arguments=1),
    "nvmlDeviceGetNvLinkVersion": Row(_of_link(lambda s, _link: s.gpu.model.nvlink_version), arguments=1),
    "nvmlDeviceGetNvLinkCapability": Row(_of_link(lambda _s, _link, _which: 1), arguments=2),
    "nvmlDeviceGetNvLinkRemoteDeviceType": Row(
        _of_link(lambda _s, _link: pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH), arguments=1
    ),
    "nvmlDeviceGetNvLinkErrorCounter": Row(_of_link(lambda _s, _link, _which: 0), arguments=2, kind=c_ulonglong),
    "nvmlDeviceGetMigMode": Row(_mig_mode, outs=2),
    "nvmlDeviceGetMaxMigDeviceCount": Row(lambda s: 0 if s.gpu.mig is None else 7),
}


def _row_call(row: Row) -> Call:
    def run(library: Library, device: Device, *arguments: Any) -> None:
        value = need(row.get(library.gpu(device), *arguments[: row.arguments]))
        for address, number in zip(arguments[row.arguments :], (value,) if row.outs == 1 else value, strict=True):
            put(row.kind, address, number)

    return Call("d" + "u" * row.arguments + "p" * row.outs, run)


def _name(device: Device) -> str:
    model = device.gpu.model.name
    return f"{model} MIG {device.instance.profile.name}" if device.instance else model


TEXTS: Final[Mapping[str, Callable[[Device], str | None]]] = {
    "nvmlDeviceGetName": _name,
    "nvmlDeviceGetUUID": lambda d: d.instance.uuid if d.instance else d.gpu.uuid,
    "nvmlDeviceGetSerial": lambda d: d.gpu.serial if d.gpu.model.has_serial else None,
    "nvmlDeviceGetVbiosVersion": lambda _: "92.00.45.00.03",
    "nvmlDeviceGetBoardPartNumber": lambda d: f"900-2{d.gpu.model.pci_device_id >> 20:04X}-0000-000",
    "nvmlDeviceGetInforomImageVersion": lambda _: "G500.0200.00.05",
}
_TEXTS_OF_INSTANCES: Final = frozenset({"nvmlDeviceGetName", "nvmlDeviceGetUUID"})


def _text_call(name: str, get: Callable[[Device], str | None]) -> Call:
    def run(_: Library, device: Device, out: int, size: int) -> None:
        put_text(out, size, need(get(device)))

    return Call("dpu", run, on_instances=name in _TEXTS_OF_INSTANCES)


CALLS: Final = CallTable(
    {name: _row_call(row) for name, row in ROWS.items()} | {name: _text_call(name, get) for name, get in TEXTS.items()}
)
