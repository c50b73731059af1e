"""A device to a reading: every model of the simulated fleet, MIG, old drivers and values that cannot be true."""

import ctypes
from typing import Any

import pynvml
import pytest

from gpusight.model.hardware import GpuReading, RemappedRows
from gpusight.simulate.models import MODELS
from gpusight.sources.nvml.reader import Periods
from gpusight.sources.nvml.tables import THROTTLE_REASONS
from tests.sources.test_nvml_helpers import bench

MIB = 1024 * 1024
ALWAYS = {
    "uuid", "index", "name", "taken_at", "minor_number", "pci_bus_id", "brand", "is_unified_memory", "utilization",
    "memory_utilization", "encoder_utilization", "decoder_utilization", "power_watts", "sm_clock_hertz",
    "graphics_clock_hertz", "video_clock_hertz", "max_sm_clock_hertz", "temperature_celsius",
    "slowdown_temperature_celsius", "performance_state", "compute_mode", "persistence_mode", "throttle_reasons",
    "energy_joules", "pcie_generation", "pcie_width", "pcie_max_generation", "pcie_max_width", "pcie_replays",
    "pcie_tx_bytes_per_second", "pcie_rx_bytes_per_second", "processes", "process_utilization",
    "fan_ratios", "ecc", "nvlinks", "mig", "gpm",
}  # fmt: skip
MEMORY = {"memory_total", "memory_used", "memory_free", "memory_reserved", "bar1_total", "bar1_used"}
"""What a model with memory of its own tells beyond that."""


def _told(reading: GpuReading) -> set[str]:
    return {name for name in GpuReading.__slots__ if getattr(reading, name) is not None}


@pytest.mark.parametrize("key", sorted(MODELS))
def test_every_model_tells_what_it_can_and_nothing_else(key: str) -> None:
    model = MODELS[key]
    with bench(key, workloads=[{"pod": "p"}]) as made:
        made.read()
        made.clock.advance(2)
        reading = made.read()
    expected = ALWAYS | (set() if model.is_unified_memory else MEMORY | {"memory_clock_hertz"})
    expected |= {"serial"} if model.has_serial else set()
    expected |= {"power_limit_watts"} if model.min_power_limit else set()
    expected |= {"memory_temperature_celsius"} if model.has_memory_temperature else set()
    expected |= {"remapped_rows"} if model.has_remapped_rows else set()
    expected |= {"retired_pages_pending"} if model.has_retired_pages else set()
    expected |= {"mig_mode"} if model.mig else set()
    expected |= {"nvlink_bytes_per_second"} if model.nvlinks else set()
    assert _told(reading) == expected
    assert reading.name == model.name
    assert len(reading.fan_ratios) == model.fans
    assert len(reading.nvlinks) == model.nvlinks
    assert len(reading.ecc) == (4 if model.has_ecc else 0)
    assert bool(reading.gpm) is model.has_gpm
    assert reading.is_unified_memory is model.is_unified_memory
    assert made.reader().take_implausible() == {}


def test_units_are_base_units() -> None:
    with bench("h100", workloads=[{"pod": "p", "memory": 20_000}]) as made:
        made.read()
        made.clock.advance(2)
        reading, model = made.read(), MODELS["h100"]
    assert reading.memory_total == model.memory
    assert reading.memory_reserved == model.reserved
    assert reading.memory_used is not None
    assert 20_000 * MIB <= reading.memory_used < 21_000 * MIB
    assert reading.power_watts is not None
    assert model.idle_watts < reading.power_watts <= model.full_watts
    assert reading.power_limit_watts == model.full_watts
    assert reading.utilization is not None
    assert 0 <= reading.utilization <= 1
    assert reading.max_sm_clock_hertz == model.sm_clock * 1_000_000
    assert reading.slowdown_temperature_celsius == model.slowdown_celsius
    assert (reading.pcie_max_generation, reading.pcie_max_width) == (5, 16)
    assert reading.remapped_rows == RemappedRows(0, 0, is_pending=False, has_failed=False)
    assert (reading.brand, reading.compute_mode, reading.persistence_mode) == ("nvidia", "default", True)


def test_gpm_needs_two_samples_and_gives_ratios_and_rates() -> None:
    with bench("h100", workloads=[{"pod": "p"}]) as made:
        assert made.read().gpm == {}
        made.clock.advance(5)
        reading = made.read()
        gpm = dict(reading.gpm)
        made.clock.advance(0.05)
        assert made.read().gpm == gpm, "two samples closer than 0.1 s say nothing"
    rates = {name for name in gpm if name.endswith("_per_second")}
    assert gpm.keys() - rates == {
        "gr_engine_active", "sm_active", "sm_occupancy", "tensor_active", "dram_active",
        "fp64_active", "fp32_active", "fp16_active",
    }  # fmt: skip
    assert all(0 <= gpm[name] <= 1 for name in gpm.keys() - rates)
    assert gpm["sm_active"] > 0.1
    assert gpm["pcie_rx_bytes_per_second"] > 1e8
    assert reading.pcie_rx_bytes_per_second == gpm["pcie_rx_bytes_per_second"]


def test_mig_instances() -> None:
    gpu = {"model": "h100", "mig": ["3g.40gb", "2g.20gb", "1g.10gb"]}
    with bench(gpu, workloads=[{"pod": "p", "mig": 1}]) as made:
        made.read()
        made.clock.advance(2)
        reading = made.read()
        assert made.reader().take_implausible() == {}
        uuids = [instance.uuid for instance in made.node.placed.gpus[0].mig or ()]
    assert reading.mig_mode is True
    assert reading.utilization is None, "the driver does not tell it in MIG mode"
    assert [instance.uuid for instance in reading.mig] == uuids
    assert [instance.profile for instance in reading.mig] == ["3g.40gb", "2g.20gb", "1g.10gb"]
    assert [instance.gpu_slices for instance in reading.mig] == [3, 2, 1]
    assert [instance.sm_count for instance in reading.mig] == [60, 32, 16]
    assert all(instance.memory_total and instance.memory_used is not None for instance in reading.mig)
    busy = reading.mig[1]
    assert busy.gpm["sm_active"] > 0.1
    assert reading.mig[0].gpm["sm_active"] == 0
    assert reading.processes
    assert [(p.gpu_instance_id, p.compute_instance_id) for p in reading.processes] == [
        (busy.gpu_instance_id, busy.compute_instance_id)
    ]


def test_processes_of_mig_without_the_right_to_see_the_whole_device() -> None:
    """Asked of the device, the driver tells only the privileged; each instance tells its own."""
    gpu = {"model": "h100", "mig": ["3g.40gb", "2g.20gb"]}
    with bench(gpu, workloads=[{"pod": "p", "mig": 0}, {"pod": "q", "mig": 1}]) as made:
        everything = made.read().processes
        handle = made.reader().device.handle  # type: ignore[union-attr]
        real = pynvml.nvmlDeviceGetComputeRunningProcesses_v3

        def refuse(asked: Any) -> Any:
            if ctypes.cast(asked, ctypes.c_void_p).value == ctypes.cast(handle, ctypes.c_void_p).value:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)
            return real(asked)

        with pytest.MonkeyPatch.context() as patch:
            for kind in ("Compute", "Graphics", "MPSCompute"):
                patch.setattr(pynvml, f"nvmlDeviceGet{kind}RunningProcesses_v3", refuse)
                patch.setattr(pynvml, f"nvmlDeviceGet{kind}RunningProcesses_v2", refuse)
            assert set(made.read().processes or ()) == set(everything or ())
    assert len(everything or ()) == 2


def test_processes_and_their_shares() -> None:
    with bench("a100-40gb", workloads=[{"pod": f"p{i}", "kind": "training"} for i in range(3)]) as made:
        made.read()
        made.clock.advance(2)
        reading = made.read()
        assert reading.processes is not None
        assert len({process.pid for process in reading.processes}) == 3
        assert {process.kind for process in reading.processes} == {"compute"}
        assert all(process.memory and process.gpu_instance_id is None for process in reading.processes)
        assert reading.process_utilization is not None
        shares = {share.pid: share.sm for share in reading.process_utilization}
        assert shares.keys() == {process.pid for process in reading.processes}
        assert 0 < sum(shares.values()) <= 1.02
        assert made.read().process_utilization == (), "no new samples since the last ones"


def test_nobody_running_is_not_the_same_as_not_told() -> None:
    refusals = [
        {"kind": "not_supported", "gpu": 1, "function": f"nvmlDeviceGet{kind}RunningProcesses_v{version}"}
        for kind in ("Compute", "Graphics", "MPSCompute")
        for version in (2, 3)
    ]
    refusals.append({"kind": "not_supported", "gpu": 1, "function": "nvmlDeviceGetProcessUtilization"})
    with bench("t4", "t4", faults=refusals) as made:
        assert (made.read(0).processes, made.read(0).process_utilization) == ((), ())
        assert (made.read(1).processes, made.read(1).process_utilization) == (None, None)


def test_a_driver_without_the_second_memory_function() -> None:
    """The first version's `used` includes what the driver reserves."""
    fault = {"kind": "function_not_found", "gpu": 1, "function": "nvmlDeviceGetMemoryInfo_v2"}
    with bench("a100-40gb", "a100-40gb", faults=[fault]) as made:
        new, old = made.read(0), made.read(1)
    assert (old.memory_total, old.memory_free) == (new.memory_total, new.memory_free)
    assert old.memory_used == (new.memory_used or 0) + (new.memory_reserved or 0)
    assert old.memory_reserved is None
    assert not old.is_unified_memory


def test_memory_that_is_absent_for_a_moment_is_not_unified() -> None:
    faults = [{"kind": "error", "gpu": 0, "code": 10, "function": f"nvmlDeviceGetMemoryInfo{v}"} for v in ("", "_v2")]
    with bench("a100-40gb", faults=faults) as made:
        reading = made.read()
    assert (reading.memory_total, reading.is_unified_memory) == (None, False)


def test_an_old_driver_without_event_reasons_and_typed_temperatures() -> None:
    gone = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetTemperatureV")
    faults = [{"kind": "function_not_found", "gpu": 0, "function": function} for function in gone]
    with bench("t4", faults=faults) as made:
        reading = made.read()
    assert reading.throttle_reasons is not None
    assert reading.temperature_celsius is not None


def test_a_device_that_answers_nothing_is_down() -> None:
    with bench("t4", faults=[{"kind": "error", "gpu": 0, "code": 21}]) as made:
        device = made.node.placed.gpus[0]
        real = pynvml.nvmlDeviceGetHandleByIndex
        handle = ctypes.cast(ctypes.c_void_p(0x5500_0000), pynvml.c_nvmlDevice_t)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda _: handle)
            patch.setattr(pynvml, "nvmlDeviceGetUUID", lambda _: device.uuid)
            down = made.down()
        assert real is pynvml.nvmlDeviceGetHandleByIndex
    assert (down.reason, down.code, down.uuid) == ("error", 21, device.uuid)


@pytest.mark.parametrize(
    ("function", "value", "field"),
    [
        ("nvmlDeviceGetPowerUsage", 0xFFFFFFFF, "power_watts"),
        ("nvmlDeviceGetEnforcedPowerLimit", 0xFFFFFFFF, "power_limit_watts"),
        ("nvmlDeviceGetTotalEnergyConsumption", 2**64 - 1, "energy_joules"),
        ("nvmlDeviceGetTemperatureV", -274, "temperature_celsius"),
        ("nvmlDeviceGetTemperatureV", 4_000_000_000, "temperature_celsius"),
        ("nvmlDeviceGetClockInfo", 0xFFFFFFFF, "sm_clock_hertz"),
        ("nvmlDeviceGetPerformanceState", 32, "performance_state"),
        ("nvmlDeviceGetEncoderUtilization", [4_294_967_295, 0], "encoder_utilization"),
        ("nvmlDeviceGetCurrPcieLinkWidth", 0, "pcie_width"),
        ("nvmlDeviceGetPcieReplayCounter", 0xFFFFFFFF, "pcie_replays"),
        ("nvmlDeviceGetRemappedRows", (0xFFFFFFFF, 0, 0, 0), "remapped_rows"),
    ],
)
def test_values_that_cannot_be_true(function: str, value: Any, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Absent and counted; never the nearest value that could be."""
    with bench("a100-40gb") as made:
        monkeypatch.setattr(pynvml, function, lambda *_: value)
        assert getattr(made.read(), field) is None
        assert made.reader().take_implausible()[field] >= 1


def _struct(**members: int) -> Any:
    return type("Struct", (), members)()


def test_utilization_and_memory_that_cannot_be_true(monkeypatch: pytest.MonkeyPatch) -> None:
    with bench("a100-40gb") as made:
        total = 40960 * MIB
        memory = _struct(total=total, used=total + 1, free=2**64 - 1, reserved=0)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", lambda *_: memory)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetUtilizationRates", lambda _: _struct(gpu=4_294_967_295, memory=101))
        reading = made.read()
        assert (reading.utilization, reading.memory_utilization) == (None, None)
        assert (reading.memory_total, reading.memory_used, reading.memory_free) == (total, None, None)
        counted = made.reader().take_implausible()
    assert counted == {"utilization": 1, "memory_utilization": 1, "memory_used": 1, "memory_free": 1}


def test_process_values_that_cannot_be_true(monkeypatch: pytest.MonkeyPatch) -> None:
    with bench("a100-40gb") as made:
        stamp = int(made.clock.now() * 1e6) + 1
        samples = [
            _struct(pid=1, timeStamp=stamp, smUtil=3_000_000_000, memUtil=0, encUtil=0, decUtil=0),
            _struct(pid=2, timeStamp=stamp, smUtil=40, memUtil=10, encUtil=0, decUtil=0),
            _struct(pid=2, timeStamp=stamp + 1, smUtil=60, memUtil=30, encUtil=0, decUtil=0),
            _struct(pid=3, timeStamp=0, smUtil=60, memUtil=30, encUtil=0, decUtil=0),
        ]
        listed = [_struct(pid=2, usedGpuMemory=2**60, gpuInstanceId=0xFFFFFFFF, computeInstanceId=0xFFFFFFFF)]
        monkeypatch.setattr(pynvml, "nvmlDeviceGetProcessUtilization", lambda *_: samples)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses_v3", lambda _: listed)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetGraphicsRunningProcesses_v3", lambda _: listed)
        reading = made.read()
        assert made.reader().take_implausible() == {"process_utilization": 1, "process_memory": 2}
    assert reading.process_utilization is not None
    assert [(share.pid, share.sm, share.memory) for share in reading.process_utilization] == [(2, 0.5, 0.2)]
    assert reading.processes is not None
    assert [(process.pid, process.kind, process.memory) for process in reading.processes] == [(2, "compute", None)]


def test_clock_event_reasons_are_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with bench("a100-40gb") as made:
        for bits, words in (
            (0, ()),
            (0x4 | 0x40, ("sw_power_cap", "hw_thermal")),
            (sum(THROTTLE_REASONS), tuple(THROTTLE_REASONS.values())),
            (0x8000 | 0x1, ("gpu_idle", "other")),
        ):
            monkeypatch.setattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons", lambda _, bits=bits: bits)
            assert made.read().throttle_reasons == words


@pytest.mark.parametrize("uuid", [b"", b"\xff\xfe\xfd", b"x" * 96, b"two words", b'a"b'])
def test_a_device_that_does_not_say_who_it_is(uuid: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with bench("t4") as made:
        monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", pynvml.convertStrBytes(lambda _: uuid))
        down = made.down()
    assert (down.reason, down.uuid, down.index) == ("bad_identity", None, 0)


def test_other_texts_that_are_not_utf8_are_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    with bench("t4") as made:
        for function in ("nvmlDeviceGetName", "nvmlDeviceGetSerial"):
            monkeypatch.setattr(pynvml, function, pynvml.convertStrBytes(lambda _: b"\xff"))
        info = pynvml.nvmlPciInfo_t()
        ctypes.memmove(ctypes.addressof(info) + pynvml.nvmlPciInfo_t.busId.offset, b"\xff\xfe", 2)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetPciInfo_v3", lambda _: info)
        reading = made.read()
    assert (reading.name, reading.serial, reading.pci_bus_id) == ("unknown", None, None)


def _count(monkeypatch: pytest.MonkeyPatch, function: str) -> list[float]:
    real, asked = getattr(pynvml, function), []

    def counting(*args: Any) -> Any:
        asked.append(1.0)
        return real(*args)

    monkeypatch.setattr(pynvml, function, counting)
    return asked


def test_what_changes_seldom_is_asked_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """PCIe throughput blocks for 20 ms a call; names and limits hardly ever change."""
    asked = ("nvmlDeviceGetPcieThroughput", "nvmlDeviceGetName", "nvmlDeviceGetNvLinkState", "nvmlDeviceGetPowerUsage")
    throughput, names, links, power = (_count(monkeypatch, function) for function in asked)
    with bench("a100-40gb", workloads=[{"pod": "p"}]) as made:
        readings = []
        for _ in range(61):
            readings.append(made.read())
            made.clock.advance(1)
    assert len(power) == 61
    assert len(throughput) == 3 * 2
    assert len(names) == 2
    assert len(links) == 7 * 12 + 1, "there is no thirteenth link, and that is asked once"
    assert all(reading.pcie_rx_bytes_per_second is not None for reading in readings)


def test_a_change_of_mig_mode_asks_everything_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Utilization is refused in MIG mode and comes back with the next look at the mode."""
    with bench("a100-40gb", {"model": "a100-40gb", "mig": []}) as made:
        periods = Periods(now_and_then=1.0, refusal=1e9)
        reader = made.reader(0, periods)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetMigMode", lambda _: [1, 1])
        real = pynvml.nvmlDeviceGetUtilizationRates

        def refuse(_handle: Any) -> Any:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

        monkeypatch.setattr(pynvml, "nvmlDeviceGetUtilizationRates", refuse)
        first = reader.read()
        monkeypatch.setattr(pynvml, "nvmlDeviceGetMigMode", lambda _: [0, 0])
        monkeypatch.setattr(pynvml, "nvmlDeviceGetUtilizationRates", real)
        made.clock.advance(1)
        second = reader.read()
    assert isinstance(first, GpuReading)
    assert isinstance(second, GpuReading)
    assert (first.utilization, first.mig_mode) == (None, True)
    assert second.utilization is not None
    assert second.mig_mode is False


def test_identity_follows_the_uuid_when_indexes_move() -> None:
    fault = {"kind": "unplugged", "gpu": 0, "at": 10}
    with bench("t4", "a100-40gb", faults=[fault]) as made:
        first, second = made.read(0), made.read(1)
        made.clock.advance(20)
        moved = made.read(0)
        assert made.down(1).uuid is None, "there is no second device any more"
    assert (moved.uuid, moved.name, moved.index) == (second.uuid, second.name, 0)
    assert moved.uuid != first.uuid


@pytest.mark.parametrize("kind", ["gpu_lost", "reset_required", "no_permission", "unknown_error"])
def test_one_device_down_leaves_the_others_as_they_were(kind: str) -> None:
    with bench(*["h100"] * 3) as whole:
        expected = [whole.read(0), whole.read(2)]
    with bench(*["h100"] * 3, faults=[{"kind": kind, "gpu": 1, "at": 5}]) as made:
        assert [made.read(0), made.read(2)] == expected
        uuid = made.read(1).uuid
        made.clock.advance(10)
        down = made.down(1)
        assert made.read(0).uuid == expected[0].uuid
    assert down.reason == {"gpu_lost": "lost", "unknown_error": "error"}.get(kind, kind)
    assert down.uuid in {uuid, None}


def test_samples_of_a_device_that_left_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    made_samples, freed = _count(monkeypatch, "nvmlGpmSampleAlloc"), _count(monkeypatch, "nvmlGpmSampleFree")
    gpu = {"model": "h100", "mig": ["3g.40gb", "2g.20gb"]}
    with bench(gpu, "h100", faults=[{"kind": "unplugged", "gpu": 0, "at": 10}]) as made:
        for _ in range(3):
            made.read(0)
            made.clock.advance(1)
        assert (len(made_samples), len(freed)) == (2 * 3, 0), "two of the device, two of each instance"
        made.clock.advance(10)
        made.read(0)
        assert (len(made_samples), len(freed)) == (7, 6)
