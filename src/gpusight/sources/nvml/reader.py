"""One device to one reading."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import reduce
from typing import Any, NamedTuple

import pynvml

from gpusight.model.hardware import DeviceDown, EccCount, GpuReading, NvLink, RemappedRows
from gpusight.model.identity import GpuUuid
from gpusight.model.time import Clock
from gpusight.sources.nvml import tables
from gpusight.sources.nvml.calls import BackendFailed, Calls, DeviceFailed, address, is_identity
from gpusight.sources.nvml.gpm import GpmSampler, is_supported
from gpusight.sources.nvml.links import LinkTraffic
from gpusight.sources.nvml.memory import Memory, read_memory
from gpusight.sources.nvml.mig import MigReader
from gpusight.sources.nvml.processes import UtilizationSamples, read_processes
from gpusight.sources.nvml.tables import Probe

_Values = dict[str, Any]


class Periods(NamedTuple):
    """Seconds for which an answer stands before it is asked for again."""

    now_and_then: float = 10.0
    rarely: float = 60.0
    throughput: float = 30.0
    """Each of its two calls blocks for 20 ms."""
    refusal: float = 300.0


class DeviceReader:
    """Whatever device stands at an index: asked who it is in every sweep, since indexes move and UUIDs do not."""

    def __init__(self, index: int, clock: Clock, periods: Periods | None = None) -> None:
        self.index = index
        self._clock = clock
        self._periods = periods or Periods()
        self.device: Device | None = None
        self.calls = Calls(clock.monotonic)

    def read(self) -> GpuReading | DeviceDown:
        """May block for as long as the driver likes; raises BackendFailed where no device can be read."""
        uuid: GpuUuid | None = None
        try:
            handle = self.calls.demand("nvmlDeviceGetHandleByIndex", self.index)
            uuid = _checked(self.calls.demand("nvmlDeviceGetUUID", handle))
            return self._device(handle, uuid).read(self.index)
        except DeviceFailed as failure:
            return self.down(failure, uuid)

    def down(self, failure: DeviceFailed, uuid: GpuUuid | None) -> DeviceDown:
        name = self.device.name if self.device and self.device.uuid == uuid else None
        return DeviceDown(self.index, failure.reason, self._clock.now(), uuid, name, failure.code)

    def take_implausible(self) -> dict[str, int]:
        """How many values of each field were not believed since this was last asked."""
        return self.device.calls.take_implausible() if self.device else {}

    def _device(self, handle: Any, uuid: GpuUuid) -> "Device":
        if self.device is None or self.device.uuid != uuid or address(self.device.handle) != address(handle):
            if self.device:
                self.device.close()
            self.device = Device(handle, uuid, self._clock, self._periods)
        return self.device


def _checked(uuid: str) -> GpuUuid:
    if not is_identity(uuid):
        raise DeviceFailed("bad_identity")
    return GpuUuid(uuid)


class _Held:
    """Answers that are not asked for in every sweep."""

    def __init__(self, clock: Clock, period: float, read: Callable[[], _Values]) -> None:
        self._clock = clock
        self._period = period
        self._read = read
        self._due = float("-inf")
        self._values: _Values = {}

    def get(self) -> _Values:
        now = self._clock.monotonic()
        if now >= self._due:
            self._values = self._read()
            self._due = now + self._period
        return self._values


class Device:
    """One device by its handle, with what is remembered of it between sweeps."""

    def __init__(self, handle: Any, uuid: GpuUuid, clock: Clock, periods: Periods) -> None:
        self.handle = handle
        self.uuid = uuid
        self.calls = Calls(clock.monotonic, periods.refusal)
        self._clock = clock
        self._rarely = _Held(clock, periods.rarely, self._read_rarely)
        self._now_and_then = _Held(clock, periods.now_and_then, self._read_now_and_then)
        self._throughput = _Held(clock, periods.throughput, self._read_throughput)
        self._gpm = GpmSampler(self.calls, clock.monotonic)
        self._mig = MigReader(self.calls, clock.monotonic)
        self._samples = UtilizationSamples(self.calls, clock.now())
        self._traffic = LinkTraffic(clock.monotonic)
        self._has_gpm = False
        self._mig_mode: bool | None = None
        self.name: str | None = None

    def read(self, index: int) -> GpuReading:
        held = {**self._rarely.get(), **self._now_and_then.get()}
        fresh = self._read_every_sweep()
        memory = read_memory(self.calls, self.handle)
        if all(value is None for value in (memory.total, *fresh.values())):
            raise DeviceFailed("error", self.calls.last_code)
        mig = self._mig.read(self.handle, has_gpm=self._has_gpm) if self._mig_mode else ()
        gpm = self._gpm.read(self.handle) if self._has_gpm else {}
        return GpuReading(
            uuid=self.uuid,
            index=index,
            name=self.name or "unknown",
            taken_at=self._clock.now(),
            memory_total=memory.total,
            memory_used=memory.used,
            memory_free=memory.free,
            memory_reserved=memory.reserved,
            is_unified_memory=memory.is_refused,
            mig_mode=self._mig_mode,
            mig=mig,
            processes=self._read_processes(memory),
            process_utilization=self._samples.read(self.handle),
            gpm=gpm,
            **self._pcie_rates(gpm),
            **held,
            **fresh,
        )

    def close(self) -> None:
        """Give back what the library holds for it; a device that is gone may refuse even that."""
        with suppress(DeviceFailed, BackendFailed):
            self._gpm.close()
            self._mig.close()

    def _read_every_sweep(self) -> _Values:
        values = self._probe(tables.EVERY_SWEEP)
        rates = self.calls.attempt("nvmlDeviceGetUtilizationRates", self.handle)
        if rates is not None:
            values["utilization"] = self._ratio("utilization", rates.gpu)
            values["memory_utilization"] = self._ratio("memory_utilization", rates.memory)
        values["throttle_reasons"] = _throttle_words(self.calls.first(tables.THROTTLE_FUNCTIONS, self.handle))
        fields = self._fields()
        values["memory_temperature_celsius"] = self._memory_temperature(fields.get(tables.MEMORY_TEMPERATURE_FIELD))
        values["nvlink_bytes_per_second"] = self._traffic.rate([fields.get(id_) for id_ in tables.LINK_TRAFFIC_FIELDS])
        return values

    def _read_now_and_then(self) -> _Values:
        self._follow_mig_mode()
        values = self._probe(tables.NOW_AND_THEN)
        values["compute_mode"] = self._word("nvmlDeviceGetComputeMode", tables.COMPUTE_MODES)
        values["fan_ratios"] = self._fans()
        values["ecc"] = self._ecc()
        values["remapped_rows"] = self._remapped_rows()
        values["nvlinks"] = tuple(self._nvlinks())
        bar1 = self.calls.attempt("nvmlDeviceGetBAR1MemoryInfo", self.handle)
        if bar1 is not None:
            values["bar1_total"] = self.calls.believe("bar1_total", bar1.bar1Total, 1, 2**50)
            values["bar1_used"] = self.calls.believe("bar1_used", bar1.bar1Used, 0, bar1.bar1Total)
        return values

    def _read_rarely(self) -> _Values:
        self.name = self.calls.attempt("nvmlDeviceGetName", self.handle) or self.name
        self._has_gpm = is_supported(self.calls, self.handle)
        values = self._probe(tables.RARELY)
        values["serial"] = self.calls.attempt("nvmlDeviceGetSerial", self.handle)
        values["brand"] = self._word("nvmlDeviceGetBrand", tables.BRANDS)
        values["pci_bus_id"] = self._pci_bus_id()
        return values

    def _read_throughput(self) -> _Values:
        return self._probe(tables.THROUGHPUT)

    def _pcie_rates(self, gpm: dict[str, float]) -> _Values:
        """From GPM where it is: a mean since the last sweep, without blocking, instead of a look at 20 ms."""
        fields = [probe.field for probe in tables.THROUGHPUT]
        if all(field in gpm for field in fields):
            return {field: gpm[field] for field in fields}
        return self._throughput.get()

    def _probe(self, probes: Iterable[Probe]) -> _Values:
        return {probe.field: self._ask(probe) for probe in probes}

    def _ask(self, probe: Probe) -> Any:
        answer = self.calls.first(probe.functions, self.handle, *probe.args)
        if answer is not None and probe.pick:
            answer = probe.pick(answer)
        answer = self.calls.believe(probe.field, answer, probe.low, probe.high)
        return None if answer is None else probe.convert(answer)

    def _ratio(self, field: str, percent: int) -> float | None:
        value = self.calls.believe(field, percent, 0, 100)
        return None if value is None else value / 100

    def _word(self, function: str, words: Mapping[int, str]) -> str | None:
        return words.get(self.calls.attempt(function, self.handle))

    def _pci_bus_id(self) -> str | None:
        info = self.calls.attempt("nvmlDeviceGetPciInfo_v3", self.handle)
        try:
            return None if info is None else str(info.busId)
        except UnicodeDecodeError:  # the binding decodes when the member is looked at
            self.calls.disbelieve("pci_bus_id")
            return None

    def _fields(self) -> dict[int, Any]:
        """By id, those that the device has."""
        answers = self.calls.attempt("nvmlDeviceGetFieldValues", self.handle, tables.FIELDS) or ()
        return {
            answer.fieldId: getattr(answer.value, tables.FIELD_VALUE_TYPES.get(answer.valueType, "uiVal"))
            for answer in answers
            if answer.nvmlReturn == pynvml.NVML_SUCCESS
        }

    def _memory_temperature(self, value: Any) -> float | None:
        believed = self.calls.believe("memory_temperature_celsius", value, -50, 200)
        return None if believed is None else float(believed)

    def _fans(self) -> tuple[float, ...]:
        count = self.calls.believe("fan_ratios", self.calls.attempt("nvmlDeviceGetNumFans", self.handle), 0, 32) or 0
        speeds = (self.calls.attempt("nvmlDeviceGetFanSpeed_v2", self.handle, fan) for fan in range(count))
        # NVML documents that a fan may turn faster than its nominal full speed.
        believed = (self.calls.believe("fan_ratios", speed, 0, 200) for speed in speeds)
        return tuple(speed / 100 for speed in believed if speed is not None)

    def _ecc(self) -> tuple[EccCount, ...]:
        found = []
        for kind, span, error_type, counter_type in tables.ECC_COUNTS:
            count = self.calls.attempt("nvmlDeviceGetTotalEccErrors", self.handle, error_type, counter_type)
            if self.calls.believe("ecc", count, 0, 2**63) is not None:
                found.append(EccCount(kind, span, count))
        return tuple(found)

    def _remapped_rows(self) -> RemappedRows | None:
        rows = self.calls.attempt("nvmlDeviceGetRemappedRows", self.handle)
        if rows is None or self.calls.believe("remapped_rows", max(rows), 0, 2**32 - 2) is None:
            return None
        correctable, uncorrectable, pending, failed = rows
        return RemappedRows(correctable, uncorrectable, bool(pending), bool(failed))

    def _nvlinks(self) -> Iterable[NvLink]:
        for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
            state = self.calls.attempt("nvmlDeviceGetNvLinkState", self.handle, link)
            if state is None:
                return
            errors = {name: self._link_errors(link, kinds) for name, kinds in tables.NVLINK_ERRORS.items()}
            yield NvLink(link, bool(state), **errors)

    def _link_errors(self, link: int, kinds: tuple[int, ...]) -> int | None:
        counts = [self.calls.attempt("nvmlDeviceGetNvLinkErrorCounter", self.handle, link, kind) for kind in kinds]
        believed = [self.calls.believe("nvlink_errors", count, 0, 2**63) for count in counts]
        return None if None in believed else sum(believed)

    def _follow_mig_mode(self) -> None:
        """What a device refuses depends on the mode: after a change everything is asked again."""
        mode = self.calls.attempt("nvmlDeviceGetMigMode", self.handle)
        is_on = None if mode is None else mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE
        if self._mig_mode is not None and is_on != self._mig_mode:
            self.calls.forget()
        self._mig_mode = is_on

    def _read_processes(self, memory: Memory) -> Any:
        processes = read_processes(self.calls, self.handle, memory.total)
        return self._mig.read_processes() if processes is None and self._mig_mode else processes


def _throttle_words(bits: int | None) -> tuple[str, ...] | None:
    if bits is None:
        return None
    known = reduce(int.__or__, tables.THROTTLE_REASONS)
    words = [word for bit, word in tables.THROTTLE_REASONS.items() if bits & bit]
    return (*words, "other") if bits & ~known else tuple(words)
