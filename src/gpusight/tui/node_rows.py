"""GPUs of a node as a tree: GPU, MIG device, container, process."""

from collections import Counter
from collections.abc import Iterator, Sequence

from gpusight.tui import show
from gpusight.tui.node import Container, Gpu, Process
from gpusight.tui.snapshot import Column, Row, Section, column, key_for, used_of
from gpusight.tui.words import Words

COLUMNS: tuple[Column, ...] = (
    column("util", 5, "utilization_ratio", show.percent),
    used_of("memory", 11, "memory_used_bytes", "memory_limit_bytes", show.gib, "G"),
    used_of("power", 8, "power_watts", "power_limit_watts", show.number, "W"),
    column("temp", 5, "temperature_celsius", lambda value: show.number(value, unit="C")),
    column("clock", 5, "sm_clock_hertz", lambda value: show.number(value / 1e6)),
)


def node_section(gpus: Sequence[Gpu], words: Words) -> Section:
    rows = tuple(row for number, gpu in enumerate(gpus) for row in _gpu_rows(gpu, f"{number}", words))
    return Section("gpus", "status", 8, COLUMNS, rows)


def counts(gpus: Sequence[Gpu]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(gpu.status for gpu in gpus).items()))


def _gpu_rows(gpu: Gpu, place: str, words: Words) -> Iterator[Row]:
    key = key_for("gpu", gpu.uuid or place)
    name = f"{gpu.index} {gpu.model or gpu.uuid or show.UNKNOWN}"
    yield Row(key, "", name, name, gpu.status, gpu, gpu.down_reason, gpu.uuid)
    within: dict[str, str] = {}
    for device in gpu.mig_devices:
        own = within[device.mig_uuid] = key_for("mig", key, device.mig_uuid)
        called = f"MIG {device.profile} #{device.gpu_instance_id}"
        yield Row(own, key, called, f"{gpu.index} {called}", device.status, device, words=device.mig_uuid)
    for container in gpu.containers:
        parent = within.get(container.mig_uuids[0], key) if len(container.mig_uuids) == 1 else key
        yield from _container_rows(gpu, container, parent, key, words)
    for process in gpu.processes:
        yield _process_row(gpu, process, key, words)


def _container_rows(gpu: Gpu, container: Container, parent: str, of_gpu: str, words: Words) -> Iterator[Row]:
    name = "/".join(part for part in (container.namespace, container.pod, container.container) if part)
    key = key_for("container", of_gpu, container.namespace, container.pod, container.container)
    note = words("held by", how=container.how) if container.how else ""
    yield Row(key, parent, name, f"{gpu.index} {name}", container.status, container, note)
    for process in container.processes:
        yield _process_row(gpu, process, key, words)


def _process_row(gpu: Gpu, process: Process, parent: str, words: Words) -> Row:
    name = f"pid {process.pid}"
    note = words("slurm", job=process.slurm_job) if process.slurm_job else ""
    key = key_for("process", parent, process.pid)
    return Row(key, parent, name, f"{gpu.index} {name}", process.status, process, note)
