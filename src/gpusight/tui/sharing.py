"""The share scheduler's queue, where a page has it: how many hold a GPU and wait for it, and its clients."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpusight.catalog import sharing
from gpusight.catalog.spec import FamilySpec
from gpusight.tui import show
from gpusight.tui.page import Samples
from gpusight.tui.snapshot import Column, Row, Section, column, key_for, used_of

Labels = Mapping[str, str]

_OF_GPU: Mapping[str, FamilySpec] = {
    "running_clients": sharing.RUNNING_CLIENTS,
    "request_queue_clients": sharing.REQUEST_QUEUE,
    "wait_queue_clients": sharing.WAIT_QUEUE,
    "memory_bytes": sharing.RUNNING_MEMORY,
    "memory_limit_bytes": sharing.MEMORY_SAFE_LIMIT,
    "overloaded": sharing.MEMORY_OVERLOADED,
}
_OF_CLIENT: Mapping[str, FamilySpec] = {
    "memory_bytes": sharing.CLIENT_MANAGED,
    "memory_quota_bytes": sharing.CLIENT_MEMORY_QUOTA,
    "compute_quota_percent": sharing.CLIENT_CORE_QUOTA_EFFECTIVE,
    "compute_usage_ratio": sharing.CLIENT_CORE_USAGE,
    "throttled": sharing.CLIENT_THROTTLED,
    "pending_drop": sharing.CLIENT_PENDING_DROP,
}
FAMILIES: tuple[FamilySpec, ...] = (sharing.CLIENT_INFO, *_OF_GPU.values(), *_OF_CLIENT.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    namespace: str
    pod: str
    client_id: str
    host_pid: str
    status: str
    memory_bytes: float | None
    memory_limit_bytes: float | None
    compute_quota_percent: float | None
    compute_usage_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedGpu:
    uuid: str
    index: str
    status: str
    running_clients: float | None
    request_queue_clients: float | None
    wait_queue_clients: float | None
    memory_bytes: float | None
    memory_limit_bytes: float | None
    clients: tuple[Client, ...]


def read_sharing(samples: Samples) -> tuple[SharedGpu, ...]:
    """Nothing where the page has no such families."""
    gpus = _values(samples, _OF_GPU, ("gpu_uuid",))
    about = {(labels.get("gpu_uuid", ""), labels.get("client_id", "")): labels for labels in _clients(samples)}
    values = _values(samples, _OF_CLIENT, ("gpu_uuid", "client_id"))
    indexes = {labels.get("gpu_uuid", ""): labels.get("gpu_index", "") for labels in _seen(samples)}
    uuids = dict.fromkeys([key[0] for key in gpus] + [uuid for uuid, _ in about])
    return tuple(
        _gpu(
            uuid,
            indexes.get(uuid, ""),
            gpus.get((uuid,), {}),
            [_client(about[key], values.get(key, {})) for key in about if key[0] == uuid],
        )
        for uuid in uuids
    )


def _clients(samples: Samples) -> Iterator[Labels]:
    return (sample.labels for sample in samples.of(sharing.CLIENT_INFO))


def _seen(samples: Samples) -> Iterable[Labels]:
    yield from _clients(samples)
    for spec in _OF_GPU.values():
        yield from (sample.labels for sample in samples.of(spec))


def _values(
    samples: Samples, families: Mapping[str, FamilySpec], labels: tuple[str, ...]
) -> dict[tuple[str, ...], dict[str, float]]:
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for name, spec in families.items():
        for key, value in samples.by(spec, labels).items():
            found.setdefault(key, {})[name] = value
    return found


def _gpu(uuid: str, index: str, values: Mapping[str, float], clients: Sequence[Client]) -> SharedGpu:
    return SharedGpu(
        uuid=uuid,
        index=index,
        status="overloaded" if values.get("overloaded") else "shared",
        running_clients=values.get("running_clients"),
        request_queue_clients=values.get("request_queue_clients"),
        wait_queue_clients=values.get("wait_queue_clients"),
        memory_bytes=values.get("memory_bytes"),
        memory_limit_bytes=values.get("memory_limit_bytes"),
        clients=tuple(clients),
    )


def _client(labels: Labels, values: Mapping[str, float]) -> Client:
    status = "yielding" if values.get("pending_drop") else "throttled" if values.get("throttled") else "client"
    return Client(
        namespace=labels.get("namespace", ""),
        pod=labels.get("pod", ""),
        client_id=labels.get("client_id", ""),
        host_pid=labels.get("host_pid", ""),
        status=status,
        memory_bytes=values.get("memory_bytes"),
        memory_limit_bytes=values.get("memory_quota_bytes") or None,  # 0 means none
        compute_quota_percent=values.get("compute_quota_percent"),
        compute_usage_ratio=values.get("compute_usage_ratio"),
    )


COLUMNS: tuple[Column, ...] = (
    column("running", 5, "running_clients", show.number),
    column("queued", 6, "request_queue_clients", show.number),
    column("waiting", 5, "wait_queue_clients", show.number),
    used_of("memory", 11, "memory_bytes", "memory_limit_bytes", show.gib, "G"),
    column("quota", 6, "compute_quota_percent", lambda value: show.number(value, unit="%")),
    column("used", 5, "compute_usage_ratio", show.percent),
)


def sharing_section(gpus: Sequence[SharedGpu]) -> Section:
    return Section("sharing", "status", 10, COLUMNS, tuple(row for gpu in gpus for row in _rows(gpu)))


def _rows(gpu: SharedGpu) -> Iterator[Row]:
    key = key_for("shared", gpu.uuid)
    name = f"{gpu.index} {gpu.uuid}".strip()
    yield Row(key, "", name, name, gpu.status, gpu)
    for client in gpu.clients:
        called = "/".join(part for part in (client.namespace, client.pod) if part) or client.client_id
        note = f"pid {client.host_pid}" if client.host_pid else ""
        own = key_for("client", gpu.uuid, client.client_id)
        yield Row(own, key, called, f"{gpu.index} {called}", client.status, client, note, client.client_id)
