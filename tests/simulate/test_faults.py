"""Faults, from the schedule and from a control file that another process rewrites."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest

from gpusight.model.time import ManualClock
from gpusight.simulate.faults import FaultControl, FaultPlan, inject, scheduled
from gpusight.simulate.nvml import SimulatedNode
from gpusight.simulate.spec import Fault
from tests.simulate.conftest import Start, fleet

TWO = {"model": "a100-80gb", "count": 2}


def code_of(call: Callable[..., Any], *arguments: Any) -> int:
    try:
        call(*arguments)
    except pynvml.NVMLError as error:
        return int(error.value)
    return 0


def power(index: int) -> int:
    """The return code of a question to a device."""
    return code_of(lambda: pynvml.nvmlDeviceGetPowerUsage(pynvml.nvmlDeviceGetHandleByIndex(index)))


@pytest.mark.parametrize(
    ("kind", "code"),
    [("gpu_lost", 15), ("reset_required", 16), ("no_permission", 4), ("unknown_error", 999), ("error", 21)],
)
def test_one_device_fails_for_a_while(start: Start, clock: ManualClock, kind: str, code: int) -> None:
    fault = {"kind": kind, "gpu": 1, "at": 10, "for": 5, **({"code": 21} if kind == "error" else {})}
    start(fleet(TWO, faults=[fault]))
    handle = pynvml.nvmlDeviceGetHandleByIndex(1)
    assert power(1) == 0
    clock.advance(10)
    assert power(1) == code
    assert code_of(pynvml.nvmlDeviceGetName, handle) == code, "a handle from before does not help"
    assert (
        code_of(pynvml.nvmlDeviceGetHandleByUUID, pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(0))) == 0
    )
    assert power(0) == 0
    assert pynvml.nvmlDeviceGetCount() == 2
    clock.advance(5)
    assert power(1) == 0


def test_one_function_is_not_supported(start: Start) -> None:
    fault = {"kind": "not_supported", "function": "nvmlDeviceGetMemoryInfo", "gpu": 0}
    start(fleet(TWO, faults=[fault]))
    first, second = (pynvml.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
    assert code_of(pynvml.nvmlDeviceGetMemoryInfo, first) == 3
    assert code_of(pynvml.nvmlDeviceGetMemoryInfo, first, pynvml.nvmlMemory_v2) == 3, "in all its versions"
    assert code_of(pynvml.nvmlDeviceGetMemoryInfo, second) == 0
    assert code_of(pynvml.nvmlDeviceGetPowerUsage, first) == 0


def test_a_function_that_an_older_driver_lacks(start: Start) -> None:
    start(fleet(TWO, faults=[{"kind": "function_not_found", "function": "nvmlDeviceGetCurrentClocksEventReasons"}]))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    assert pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle) == 1


@pytest.mark.parametrize(("kind", "code"), [("init_failure", 9), ("version_mismatch", 18)])
def test_the_driver_cannot_be_opened(start: Start, clock: ManualClock, kind: str, code: int) -> None:
    start(fleet(TWO, faults=[{"kind": kind, "for": 30}]), init=False)
    assert code_of(pynvml.nvmlInit) == code
    clock.advance(31)
    assert code_of(pynvml.nvmlInit) == 0
    pynvml.nvmlShutdown()


def test_a_call_on_the_node_can_fail_too(start: Start) -> None:
    start(fleet(TWO, faults=[{"kind": "unknown_error", "function": "nvmlDeviceGetCount"}]))
    assert code_of(pynvml.nvmlDeviceGetCount) == 999
    assert power(0) == 0


def test_unplugged_device_changes_count_and_order(start: Start, clock: ManualClock) -> None:
    node = start(fleet(TWO, faults=[{"kind": "unplugged", "gpu": 0, "at": 10}]))
    gone = pynvml.nvmlDeviceGetHandleByIndex(0)
    clock.advance(10)
    assert pynvml.nvmlDeviceGetCount() == 1
    assert pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(0)) == node.placed.gpus[1].uuid
    assert code_of(pynvml.nvmlDeviceGetName, gone) == 15


def test_overheated_device_slows_down(start: Start, clock: ManualClock) -> None:
    start(fleet(TWO, workloads=[{"kind": "training", "gpus": [0]}], faults=[{"kind": "overheat", "gpu": 0, "at": 60}]))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    before = pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)
    clock.advance(61)
    assert pynvml.nvmlDeviceGetTemperature(handle, 0) > 89
    assert pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) < before
    assert pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle) & pynvml.nvmlClocksEventReasonHwThermalSlowdown


def test_ecc_errors_are_counted_and_rows_remapped(start: Start, clock: ManualClock) -> None:
    start(fleet(TWO, faults=[{"kind": "ecc", "gpu": 0, "code": 3, "at": 5}]))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0) == 0
    clock.advance(6)
    assert pynvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0) == 3
    assert pynvml.nvmlDeviceGetMemoryErrorCounter(handle, 1, 0, pynvml.NVML_MEMORY_LOCATION_DEVICE_MEMORY) == 3
    assert pynvml.nvmlDeviceGetRemappedRows(handle) == (0, 3, 1, 0)


# --- XIDs


def listen(*indexes: int) -> Any:
    events = pynvml.nvmlEventSetCreate()
    for index in indexes:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
    return events


def test_xid_is_told_once_to_each_listener(start: Start, clock: ManualClock) -> None:
    xids = [{"kind": "xid", "gpu": 1, "code": code, "at": at} for code, at in ((63, -5), (79, 10), (79, 10), (48, 20))]
    node = start(fleet(TWO, faults=xids))
    events, others = listen(0, 1), listen(0)
    assert code_of(pynvml.nvmlEventSetWait, events, 0) == pynvml.NVML_ERROR_TIMEOUT, "what was before does not count"
    clock.advance(15)
    for _ in range(2):
        data = pynvml.nvmlEventSetWait(events, 0)
        assert (data.eventType, data.eventData) == (pynvml.nvmlEventTypeXidCriticalError, 79)
        assert pynvml.nvmlDeviceGetUUID(data.device) == node.placed.gpus[1].uuid
    assert code_of(pynvml.nvmlEventSetWait, events, 0) == pynvml.NVML_ERROR_TIMEOUT
    assert code_of(pynvml.nvmlEventSetWait, others, 0) == pynvml.NVML_ERROR_TIMEOUT
    clock.advance(10)
    assert pynvml.nvmlEventSetWait(events, 0).eventData == 48
    pynvml.nvmlEventSetFree(events)
    assert code_of(pynvml.nvmlEventSetWait, events, 0) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert [code for _, code in node.gpu(1).xids] == [63, 79, 79, 48]


def test_waiting_takes_its_time_and_wakes_for_an_event(start: Start, tmp_path: Path) -> None:
    control = tmp_path / "faults.json"
    start(fleet(TWO), control)
    events = listen(0)
    began = time.monotonic()
    assert code_of(pynvml.nvmlEventSetWait, events, 100) == pynvml.NVML_ERROR_TIMEOUT
    assert time.monotonic() - began >= 0.1
    timer = threading.Timer(0.05, inject, (control, [{"kind": "xid", "gpu": 0, "code": 31}]))
    timer.start()
    assert pynvml.nvmlEventSetWait(events, 10_000).eventData == 31
    timer.join()


def test_events_that_are_not_supported(start: Start) -> None:
    start(fleet(TWO))
    events = pynvml.nvmlEventSetCreate()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetSupportedEventTypes(handle) & pynvml.nvmlEventTypeXidCriticalError
    assert code_of(pynvml.nvmlDeviceRegisterEvents, handle, pynvml.nvmlEventTypeAll, events) == 3


# --- Calls that do not come back


def test_a_blocked_device_leaves_the_others_alone(start: Start, tmp_path: Path) -> None:
    control = tmp_path / "faults.yaml"
    start(fleet(TWO), control)
    inject(control, [{"kind": "block", "gpu": 1}])
    done = threading.Event()

    def ask() -> None:
        power(1)
        done.set()

    thread = threading.Thread(target=ask)
    thread.start()
    assert not done.wait(0.1)
    assert power(0) == 0, "the interpreter is free while the call sleeps"
    assert not done.is_set()
    inject(control, [])
    assert done.wait(5), "the fault went away"
    thread.join()


def test_a_block_ends_by_itself(start: Start) -> None:
    start(fleet(TWO, faults=[{"kind": "block", "gpu": 0, "seconds": 0.06, "function": "nvmlDeviceGetPowerUsage"}]))
    began = time.monotonic()
    assert power(0) == 0
    assert time.monotonic() - began >= 0.05


def test_crash_takes_the_process_down() -> None:
    code = """
import pynvml
from gpusight.model.time import SystemClock
from gpusight.simulate.nvml import SimulatedNode, install
spec = {"nodes": [{"name": "n", "gpus": [{"model": "t4"}]}], "faults": [{"kind": "crash", "gpu": 0}]}
install(SimulatedNode(spec, None, SystemClock()))
pynvml.nvmlInit()
print(pynvml.nvmlDeviceGetCount(), flush=True)
pynvml.nvmlDeviceGetHandleByIndex(0)
print("still here")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.strip() == "1"
    assert done.returncode == -6


# --- The control file


def test_a_control_file_is_obeyed_as_it_changes(start: Start, tmp_path: Path) -> None:
    control = tmp_path / "faults.yaml"
    start(fleet(TWO), control)
    assert power(0) == 0
    control.write_text("faults:\n  - {kind: gpu_lost, gpu: 0}\n", "utf-8")
    assert power(0) == 15
    inject(control, [Fault("unknown_error", gpu=1), {"kind": "gpu_lost", "gpu": 0, "node": "elsewhere"}])
    assert (power(0), power(1)) == (0, 999)
    control.unlink()
    assert (power(0), power(1)) == (0, 0)


def test_a_control_file_from_another_process(start: Start, tmp_path: Path) -> None:
    control = tmp_path / "faults.json"
    start(fleet(TWO), control)
    code = f"""
from pathlib import Path
from gpusight.simulate.faults import inject
inject(Path({str(control)!r}), [{{"kind": "gpu_lost", "gpu": 1}}])
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert (power(0), power(1)) == (0, 15)


def test_a_broken_control_file_changes_nothing(start: Start, tmp_path: Path) -> None:
    control = tmp_path / "faults.yaml"
    node = start(fleet(TWO), control)
    inject(control, [{"kind": "gpu_lost", "gpu": 0}])
    assert power(0) == 15
    for text in ("", "faults: [", "faults: [{kind: nonsense}]", "[1]", "just words"):
        control.write_text(text, "utf-8")
        assert power(0) == 15
        assert "faults.yaml" in node.faults.problem
    control.write_text("faults: []", "utf-8")
    assert power(0) == 0
    assert node.faults.problem == ""


def test_faults_begin_when_they_are_seen(tmp_path: Path) -> None:
    control = tmp_path / "f"
    faults = FaultControl(FaultPlan(), "n", control)
    lost = Fault("gpu_lost", gpu=0, lasts=10)
    inject(control, [lost])
    assert faults.plan(100).is_active("gpu_lost", 0, 100)
    inject(control, [lost, Fault("xid", gpu=0, code=79)])
    assert faults.plan(105).is_active("gpu_lost", 0, 105), "it keeps its date when the file is written again"
    assert not faults.plan(111).is_active("gpu_lost", 0, 111)
    assert faults.plan(111).xids(0, 111) == ((105, 79),)


def test_what_has_happened_stays(tmp_path: Path) -> None:
    control = tmp_path / "f"
    faults = FaultControl(FaultPlan(), "n", control)
    xid, ecc = Fault("xid", gpu=0, code=79), Fault("ecc", gpu=0, code=2)
    inject(control, [xid, xid, ecc])
    faults.plan(1)
    inject(control, [])
    assert faults.plan(2).xids(0, 2) == ((1, 79), (1, 79))
    assert faults.plan(2).ecc_errors(0, 2) == 2
    inject(control, [xid])
    assert faults.plan(3).xids(0, 3) == ((1, 79), (1, 79), (3, 79)), "one that comes back is a new one"
    inject(control, [Fault("xid", gpu=0, code=48), xid])
    assert faults.plan(3).xids(0, 3)[-1] == (3, 48), "told in the order in which they came"


def test_schedule_of_one_node() -> None:
    faults = (Fault("gpu_lost", gpu=0), Fault("gpu_lost", gpu=1, node="a"), Fault("gpu_lost", gpu=2, node="b"))
    assert [f.gpu for f in scheduled(faults, "a").faults] == [0, 1]


def test_faulty_fleet_goes_wrong_and_gets_well(start: Start, clock: ManualClock) -> None:
    node = start("faulty")
    seen = {}
    for second in range(0, 480, 10):
        seen[second] = [0 if i == 3 else power(i) for i in range(8)]
        clock.advance(10)
    assert seen[130][1] == 15
    assert seen[310][6] == 999
    assert seen[370][7] == 16
    assert seen[0] == seen[470] == [0] * 8
    assert [code for _, code in node.gpu(2).xids] == [63]


def test_without_a_control_file_nothing_is_looked_up(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
    node = SimulatedNode("default", None, clock)
    monkeypatch.setattr(os, "stat", lambda *_: pytest.fail("asked the file system"))
    node.gpu(0)
