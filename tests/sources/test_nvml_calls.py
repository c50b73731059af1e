"""What a return code means, for every code and for calls of every sort."""

from functools import cache
from typing import Any

import pynvml
import pytest

from gpusight.model.hardware import DeviceDown, GpuReading
from gpusight.model.time import ManualClock
from gpusight.sources.nvml import tables
from gpusight.sources.nvml.calls import CONSEQUENCES, BackendFailed, Calls, DeviceFailed, consequence, is_identity
from tests.sources.test_nvml_helpers import bench

CODES = sorted({getattr(pynvml, name) for name in dir(pynvml) if name.startswith("NVML_ERROR_")})
DEMANDED = ("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID")
OPTIONAL = {
    "nvmlDeviceGetPowerUsage": "power_watts",
    "nvmlDeviceGetUtilizationRates": "utilization",
    "nvmlDeviceGetSerial": "serial",
    "nvmlDeviceGetRemappedRows": "remapped_rows",
    "nvmlDeviceGetFieldValues": "memory_temperature_celsius",
    "nvmlDeviceGetMigMode": "mig_mode",
    "nvmlDeviceGetPciInfo_v3": "pci_bus_id",
    "nvmlDeviceGetCurrentClocksEventReasons": None,
    "nvmlDeviceGetComputeRunningProcesses_v3": None,
    "nvmlDeviceGetProcessUtilization": None,
    "nvmlDeviceGetMemoryInfo_v2": None,
    "nvmlGpmSampleGet": None,
    "nvmlDeviceGetNvLinkState": None,
    "nvmlDeviceGetTotalEccErrors": None,
}
"""Functions that a reading can do without, and the field that is absent then; None where another takes its place."""


def _read(function: str, code: int) -> GpuReading | DeviceDown | BackendFailed:
    """Device 1 of two, whose calls of this function return this code."""
    fault = {"kind": "error", "gpu": 1, "function": function, "code": code}
    with bench("h100", "h100", faults=[fault]) as made:
        made.clock.advance(1)
        try:
            return made.reader(1).read()
        except BackendFailed as failure:
            return failure


def test_the_table_knows_every_code_of_the_binding() -> None:
    """31 errors and success; a code that comes with a later binding fails here."""
    assert set(CODES) <= CONSEQUENCES.keys()
    assert len(CODES) == 31


def test_an_unknown_code_takes_its_device_down() -> None:
    assert consequence(4711).kind == "device"
    assert _read("nvmlDeviceGetPowerUsage", 4711) == DeviceDown(
        1, "error", 1_700_000_001.0, _uuid(1), "NVIDIA H100 80GB HBM3", 4711
    )


@pytest.mark.parametrize("code", CODES)
def test_a_question_that_is_not_vital(code: int) -> None:
    """No value, or the device or NVML down: always what the table says, never a number that is not there."""
    for function, field in OPTIONAL.items():
        result = _read(function, code)
        kind = consequence(code).kind
        if kind == "backend":
            assert isinstance(result, BackendFailed)
            assert (result.reason, result.code) == (consequence(code).backend, code)
        elif kind == "device":
            assert isinstance(result, DeviceDown)
            assert (result.reason, result.code, result.uuid) == (consequence(code).device, code, _uuid(1))
        else:
            assert isinstance(result, GpuReading)
            assert field is None or getattr(result, field) is None
            assert result.temperature_celsius is not None


@pytest.mark.parametrize("code", CODES)
def test_a_question_that_is_vital(code: int) -> None:
    """Without a handle or a name there is nothing to read."""
    for function in DEMANDED:
        result = _read(function, code)
        if consequence(code).kind == "backend":
            assert isinstance(result, BackendFailed)
        else:
            assert isinstance(result, DeviceDown)
            assert (result.reason, result.code) == (consequence(code).device, code)


@pytest.mark.parametrize(
    ("code", "reason"),
    [(15, "lost"), (28, "lost"), (16, "reset_required"), (17, "no_permission"), (999, "error"), (8, "error")],
)
def test_reasons_of_devices(code: int, reason: str) -> None:
    assert (consequence(code).kind, consequence(code).device) == ("device", reason)


@pytest.mark.parametrize(
    ("code", "reason"), [(1, "error"), (9, "no_driver"), (12, "no_library"), (18, "version_mismatch")]
)
def test_reasons_of_the_backend(code: int, reason: str) -> None:
    assert (consequence(code).kind, consequence(code).backend) == ("backend", reason)


def test_what_is_not_supported_is_not_asked_again_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = ManualClock(), []

    def answer(_handle: object, which: int) -> int:
        asked.append(which)
        if which == 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return 5

    monkeypatch.setattr(pynvml, "nvmlDeviceGetClockInfo", answer)
    calls = Calls(clock.monotonic, refusal_seconds=300)
    for _ in range(3):
        assert calls.attempt("nvmlDeviceGetClockInfo", object(), 1) is None
        assert calls.last_code == pynvml.NVML_ERROR_NOT_SUPPORTED
        assert calls.attempt("nvmlDeviceGetClockInfo", object(), 2) == 5
    assert asked == [1, 2, 2, 2]
    clock.advance(300)
    calls.attempt("nvmlDeviceGetClockInfo", object(), 1)
    assert asked[-1] == 1
    calls.forget()
    calls.attempt("nvmlDeviceGetClockInfo", object(), 1)
    assert asked[-2:] == [1, 1]


def test_what_has_no_data_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([pynvml.NVML_ERROR_NO_DATA, pynvml.NVML_ERROR_TIMEOUT, pynvml.NVML_ERROR_NOT_FOUND])

    def answer(_handle: object) -> int:
        code = next(answers, None)
        if code is not None:
            raise pynvml.NVMLError(code)
        return 7

    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", answer)
    calls = Calls(ManualClock().monotonic)
    assert [calls.attempt("nvmlDeviceGetPowerUsage", None) for _ in range(4)] == [None, None, None, 7]


def test_a_function_that_the_binding_does_not_know_is_absent() -> None:
    assert Calls(ManualClock().monotonic).attempt("nvmlDeviceGetSomethingNew", None) is None


@pytest.mark.parametrize(("value", "believed"), [(0, 0), (100, 100), (101, None), (-1, None), (2**32 - 1, None)])
def test_values_out_of_range_are_absent_and_counted(value: int, believed: int | None) -> None:
    calls = Calls(ManualClock().monotonic)
    assert calls.believe("utilization", value, 0, 100) == believed
    assert calls.take_implausible() == ({} if believed is not None else {"utilization": 1})
    assert calls.take_implausible() == {}


def test_no_value_is_not_implausible() -> None:
    calls = Calls(ManualClock().monotonic)
    assert calls.believe("utilization", None, 0, 100) is None
    assert calls.implausible == {}


@pytest.mark.parametrize(
    ("uuid", "is_good"),
    [("GPU-03cd1cf6-11f6-5ecc-feb0-af07406e1838", True), ("", False), ("x" * 96, False), ("a b", False), ('"', False)],
)
def test_identities(uuid: str, is_good: bool) -> None:
    assert is_identity(uuid) is is_good


def test_every_function_that_is_asked_for_exists_in_the_binding() -> None:
    probes = (*tables.EVERY_SWEEP, *tables.NOW_AND_THEN, *tables.RARELY, *tables.THROUGHPUT)
    named = {function for probe in probes for function in probe.functions}
    named |= {function for _, functions in tables.PROCESS_LISTS for function in functions}
    named |= set(tables.THROTTLE_FUNCTIONS)
    assert [function for function in sorted(named) if not hasattr(pynvml, function)] == []


def test_a_demand_that_fails_names_the_reason() -> None:
    with bench("t4"), pytest.raises(DeviceFailed, match="error"):
        Calls(ManualClock().monotonic).demand("nvmlDeviceGetHandleByIndex", 5)


@cache
def _uuid(index: int) -> Any:
    with bench("h100", "h100") as made:
        return made.node.placed.gpus[index].uuid
