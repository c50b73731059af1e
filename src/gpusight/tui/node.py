"""What a node agent's page says of its GPUs, who holds them and which processes are on them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpusight.catalog import hardware, own
from gpusight.catalog.spec import FamilySpec
from gpusight.tui.page import Key, Samples, key_of, merged

OLD_AFTER = 45.0
"""Seconds: a node reads its GPUs every 15 s by default when nobody asks, and anew when somebody does."""

_GPU = ("uuid",)
_MIG = ("uuid", "gpu_instance_id")
_OWNER = ("namespace", "pod", "container")
_CONTAINER = ("uuid", *_OWNER)
_PROCESS = ("uuid", "pid", *_OWNER, "slurm_job")

FAMILIES: tuple[FamilySpec, ...] = (
    hardware.GPU_INFO,
    hardware.LAST_READING,
    hardware.UTILIZATION,
    hardware.MEMORY_USED,
    hardware.MEMORY_TOTAL,
    hardware.POWER,
    hardware.POWER_LIMIT,
    hardware.TEMPERATURE,
    hardware.SM_CLOCK,
    hardware.MIG_MODE,
    hardware.MIG_INFO,
    hardware.MIG_MEMORY_USED,
    hardware.MIG_MEMORY_TOTAL,
    hardware.MIG_SM_ACTIVE,
    hardware.CONTAINER_UTILIZATION,
    hardware.CONTAINER_MEMORY_USED,
    hardware.CONTAINER_MEMORY_LIMIT,
    hardware.HOLDER_INFO,
    hardware.PROCESS_MEMORY_USED,
    hardware.PROCESS_UTILIZATION,
    own.BUILD_INFO,
    own.SIMULATED,
    own.NVML_UP,
    own.DEVICE_UP,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    pid: str
    slurm_job: str
    status: str
    utilization_ratio: float | None
    memory_used_bytes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    namespace: str
    pod: str
    container: str
    mig_uuids: tuple[str, ...]
    how: str
    """Where the node knows it from; empty if it does not say."""
    status: str
    utilization_ratio: float | None
    memory_used_bytes: float | None
    memory_limit_bytes: float | None
    processes: tuple[Process, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigDevice:
    mig_uuid: str
    profile: str
    gpu_instance_id: str
    status: str
    utilization_ratio: float | None
    """The share of cycles in which its multiprocessors had work: MIG has no other utilization."""
    memory_used_bytes: float | None
    memory_limit_bytes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    uuid: str
    index: str
    node: str
    model: str
    status: str
    down_reason: str
    reading_age_seconds: float | None
    utilization_ratio: float | None
    memory_used_bytes: float | None
    memory_limit_bytes: float | None
    power_watts: float | None
    power_limit_watts: float | None
    temperature_celsius: float | None
    sm_clock_hertz: float | None
    mig_devices: tuple[MigDevice, ...]
    containers: tuple[Container, ...]
    processes: tuple[Process, ...]
    """Of no container that is known."""


def read_gpus(samples: Samples, now: float) -> tuple[Gpu, ...]:
    """`now` is the node's own idea of the time."""
    reader = _Reader(samples, now)
    found = {labels.get("uuid", ""): labels for labels, _ in samples.of(hardware.GPU_INFO)}
    gpus = [reader.gpu(uuid, labels, "") for uuid, labels in found.items() if uuid not in reader.down]
    gpus += [reader.gpu(*down) for down in reader.lost(found)]
    return tuple(sorted(gpus, key=lambda gpu: (not gpu.index.isdecimal(), len(gpu.index), gpu.index)))


def newest_reading(samples: Samples) -> float | None:
    return max((value for _, value in samples.of(hardware.LAST_READING)), default=None)


class _Reader:
    def __init__(self, samples: Samples, now: float) -> None:
        self._samples = samples
        self._now = now
        self._tables: dict[str, dict[Key, float]] = {}
        self.down = {labels.get("uuid", ""): labels for labels, up in samples.of(own.DEVICE_UP) if up == 0}
        self._mig = _grouped(labels for labels, _ in samples.of(hardware.MIG_INFO))
        self._holders = _grouped(labels for labels, _ in samples.of(hardware.HOLDER_INFO))
        self._containers = _by_gpu(
            merged(
                dict.fromkeys((key_of(labels, _CONTAINER) for labels, _ in samples.of(hardware.HOLDER_INFO)), 1.0),
                samples.by(hardware.CONTAINER_MEMORY_USED, _CONTAINER),
                samples.by(hardware.CONTAINER_UTILIZATION, _CONTAINER),
            )
        )
        self._processes = _by_gpu(
            merged(
                samples.by(hardware.PROCESS_MEMORY_USED, _PROCESS), samples.by(hardware.PROCESS_UTILIZATION, _PROCESS)
            )
        )

    def lost(self, found: Mapping[str, Mapping[str, str]]) -> Iterable[tuple[str, Mapping[str, str], str]]:
        """GPUs that cannot be read, also several of which not even the uuid is known."""
        for labels, up in self._samples.of(own.DEVICE_UP):
            if up == 0:
                uuid = labels.get("uuid", "")
                yield uuid, {**found.get(uuid, {}), **labels}, labels.get("reason", "")

    def gpu(self, uuid: str, labels: Mapping[str, str], down_reason: str) -> Gpu:
        key = (uuid,)
        read = self._value(hardware.LAST_READING, _GPU, key)
        age = None if read is None else max(0.0, self._now - read)
        utilization = self._value(hardware.UTILIZATION, _GPU, key)
        containers = tuple(self._container(key) for key in self._containers.get(uuid, ()))
        owned = {(each.namespace, each.pod, each.container) for each in containers}
        return Gpu(
            uuid=uuid,
            index=labels.get("gpu", ""),
            node=labels.get("node", ""),
            model=labels.get("name", ""),
            status=self._status(key, down=uuid in self.down, age=age, utilization=utilization),
            down_reason=down_reason,
            reading_age_seconds=age,
            utilization_ratio=utilization,
            memory_used_bytes=self._value(hardware.MEMORY_USED, _GPU, key),
            memory_limit_bytes=self._value(hardware.MEMORY_TOTAL, _GPU, key),
            power_watts=self._value(hardware.POWER, _GPU, key),
            power_limit_watts=self._value(hardware.POWER_LIMIT, _GPU, key),
            temperature_celsius=self._value(hardware.TEMPERATURE, _GPU, key),
            sm_clock_hertz=self._value(hardware.SM_CLOCK, _GPU, key),
            mig_devices=tuple(self._mig_device(uuid, each) for each in self._mig.get(uuid, ())),
            containers=containers,
            processes=tuple(self._process(key) for key in self._processes.get(uuid, ()) if key[2:5] not in owned),
        )

    def _status(self, key: Key, *, down: bool, age: float | None, utilization: float | None) -> str:
        if down:
            return "down"
        if age is not None and age > OLD_AFTER:
            return "old"
        if utilization is None and self._value(hardware.MIG_MODE, _GPU, key):
            return "mig"
        return _activity(utilization)

    def _mig_device(self, uuid: str, labels: Mapping[str, str]) -> MigDevice:
        key = key_of(labels, _MIG)
        active = self._value(hardware.MIG_SM_ACTIVE, _MIG, key)
        return MigDevice(
            mig_uuid=labels.get("mig_uuid", ""),
            profile=labels.get("profile", ""),
            gpu_instance_id=labels.get("gpu_instance_id", ""),
            status="down" if uuid in self.down else _activity(active),
            utilization_ratio=active,
            memory_used_bytes=self._value(hardware.MIG_MEMORY_USED, _MIG, key),
            memory_limit_bytes=self._value(hardware.MIG_MEMORY_TOTAL, _MIG, key),
        )

    def _container(self, key: Key) -> Container:
        uuid, *owner = key
        holds = [labels for labels in self._holders.get(uuid, ()) if key_of(labels, _CONTAINER) == key]
        utilization = self._value(hardware.CONTAINER_UTILIZATION, _CONTAINER, key)
        processes = [each for each in self._processes.get(uuid, ()) if each[2:5] == tuple(owner)]
        return Container(
            namespace=owner[0],
            pod=owner[1],
            container=owner[2],
            mig_uuids=tuple(labels["mig_uuid"] for labels in holds if "mig_uuid" in labels),
            how=next((labels.get("how", "") for labels in holds), ""),
            status=_activity(utilization),
            utilization_ratio=utilization,
            memory_used_bytes=self._value(hardware.CONTAINER_MEMORY_USED, _CONTAINER, key),
            memory_limit_bytes=self._value(hardware.CONTAINER_MEMORY_LIMIT, _CONTAINER, key),
            processes=tuple(map(self._process, processes)),
        )

    def _process(self, key: Key) -> Process:
        utilization = self._value(hardware.PROCESS_UTILIZATION, _PROCESS, key)
        return Process(
            pid=key[1],
            slurm_job=key[5],
            status=_activity(utilization),
            utilization_ratio=utilization,
            memory_used_bytes=self._value(hardware.PROCESS_MEMORY_USED, _PROCESS, key),
        )

    def _value(self, spec: FamilySpec, labels: tuple[str, ...], key: Key) -> float | None:
        table = self._tables.get(spec.name)
        if table is None:
            table = self._tables[spec.name] = self._samples.by(spec, labels)
        return table.get(key)


def _activity(utilization: float | None) -> str:
    if utilization is None:
        return "unknown"
    return "busy" if utilization > 0 else "idle"


def _grouped(rows: Iterable[Mapping[str, str]]) -> dict[str, list[Mapping[str, str]]]:
    groups: dict[str, list[Mapping[str, str]]] = {}
    for labels in rows:
        groups.setdefault(labels.get("uuid", ""), []).append(labels)
    return groups


def _by_gpu(keys: Iterable[Key]) -> dict[str, list[Key]]:
    groups: dict[str, list[Key]] = {}
    for key in keys:
        groups.setdefault(key[0], []).append(key)
    return groups
