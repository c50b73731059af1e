"""HAMi's vGPU monitor: what the host's GPUs and HAMi's containers use, in one or several of HAMi's dialects.

Beyond HAMi it shows containers that did not touch their GPU yet (asked for in its issues #281, #1794 and #1814), and it
really exposes what the seed's table promises: that version of HAMi stopped after two families.
"""

import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

from gpusight import __version__
from gpusight.catalog import labels as label
from gpusight.catalog import vgpu as catalog
from gpusight.catalog.hami import present
from gpusight.catalog.spec import FamilySpec, Label
from gpusight.catalog.vgpu import VgpuFamilies
from gpusight.collectors.columns import Keys, column, kept
from gpusight.collectors.grants import Grant, find_grants
from gpusight.collectors.shares import find_holdings, find_untouched
from gpusight.collectors.view import ContainerName, Look, NodeView, name_of, percent
from gpusight.exposition.blocks import FamilyBlock, LabelValues, Number
from gpusight.model.hardware import GpuReading, MigReading
from gpusight.model.vgpu import RegionDevice

DIALECTS: Mapping[str, VgpuFamilies] = catalog.BY_DIALECT | {
    f"{version}-legacy": families for version, families in catalog.LEGACY.items()
}
"""What may be chosen; a `-legacy` one is what its version adds when old names are asked for."""

_Labels = Mapping[str, str | None]
MEASURED_LABELS = frozenset(
    one.name
    for one in (
        *(label.CONTEXT, label.MODULE_BYTES, label.DATA, label.OFFSET),
        *(label.CONTEXT_SIZE, label.MODULE_SIZE, label.BUFFER_SIZE),
    )
)


@dataclass(frozen=True, slots=True)
class VgpuOptions:
    """What is exposed.

    `value_labels` fills the labels in which HAMi puts parts of memory; else that family goes without them, because
    every new value would start a new series (HAMi's issue #1623). `untouched` shows containers before their first CUDA
    call, with usage 0 and their limit.
    """

    dialects: tuple[str, ...] = ("seed", "v2.10")
    value_labels: bool = False
    untouched: bool = True

    def __post_init__(self) -> None:
        if not self.dialects:
            raise ValueError(f"no HAMi dialect is chosen; there are: {', '.join(DIALECTS)}")
        for name in self.dialects:
            if name not in DIALECTS:
                raise ValueError(f"no HAMi dialect is called {name!r}; there are: {', '.join(DIALECTS)}")
        _refuse_clashes(self.dialects)

    @property
    def families(self) -> tuple[VgpuFamilies, ...]:
        return tuple(DIALECTS[name] for name in dict.fromkeys(self.dialects))


def _refuse_clashes(dialects: Iterable[str]) -> None:
    """One page cannot have two families of one name."""
    seen: dict[str, tuple[str, FamilySpec]] = {}
    for dialect in dialects:
        for spec in present(DIALECTS[dialect]):
            other, first = seen.setdefault(spec.name, (dialect, spec))
            if first is not spec:
                raise ValueError(
                    f"the HAMi dialects {other} and {dialect} cannot be exposed together: both have a family"
                    f" {spec.name}, and its labels or its type differ; choose one of them"
                )


DEFAULT = VgpuOptions()


@dataclass(frozen=True, slots=True)
class VgpuCollector:
    """Collects what `look` sees."""

    name: ClassVar[str] = "vgpu"
    look: Look
    options: VgpuOptions = DEFAULT

    def collect(self) -> Iterable[FamilyBlock]:
        return collect(self.look(), self.options)


def collect(view: NodeView, options: VgpuOptions = DEFAULT) -> Iterator[FamilyBlock]:
    """The same facts in every chosen dialect; a family that two dialects share comes once."""
    specs = _specs(options.dialects)
    for facts in (_BUILD_FACTS, _host(view), _containers(view, options), _mig_info(view)):
        keys = {names: _keys(facts.labels, names) for names in _label_names(specs, facts.columns)}
        for quantity, values in facts.columns.items():
            for spec in specs[quantity]:
                yield from _block(spec, keys[spec.label_names], values)


@lru_cache(maxsize=16)
def _specs(dialects: tuple[str, ...]) -> Mapping[str, tuple[FamilySpec, ...]]:
    """What the chosen dialects call each quantity."""
    families = [DIALECTS[name] for name in dict.fromkeys(dialects)]
    return {
        quantity: tuple(filter(None, dict.fromkeys(getattr(each, quantity) for each in families)))
        for quantity in VgpuFamilies._fields
    }


def _label_names(specs: Mapping[str, Iterable[FamilySpec]], quantities: Iterable[str]) -> set[tuple[str, ...]]:
    return {spec.label_names for quantity in quantities for spec in specs[quantity]}


def _keys(labels: Sequence[_Labels], names: tuple[str, ...]) -> Keys:
    return kept(tuple([tuple([row[name] for name in names]) for row in labels]))


def _block(spec: FamilySpec, keys: Keys, values: Sequence[Number | None]) -> Iterator[FamilyBlock]:
    """Of two directories of one name, such as a recreated pod leaves, the first that says anything counts."""
    if len(set(keys)) != len(keys):
        first: dict[LabelValues, Number] = {}
        for key, value in zip(keys, values, strict=True):
            if value is not None:
                first.setdefault(key, value)
        keys, values = tuple(first), tuple(first.values())
    yield from column(spec, keys, values)


# Facts: numbers of several quantities, by row, with the labels of each row in every spelling.


class _Facts(NamedTuple):
    labels: Sequence[_Labels]
    columns: Mapping[str, Sequence[Number | None]]
    """By quantity, a field of VgpuFamilies, a value for each row."""


def _spelled(spellings: Sequence[tuple[tuple[Label, ...], str | None]]) -> dict[str, str | None]:
    values = {one.name: value for labels, value in spellings for one in labels}
    return {**values, label.ZONE.name: label.ZONE_VALUE}


# The host's devices.


def _used_and_reserved(gpu: GpuReading) -> int | None:
    """HAMi reads the first version of NVML's memory call, which counts the driver's own memory as used."""
    return None if gpu.memory_used is None else gpu.memory_used + (gpu.memory_reserved or 0)


_HOST: Sequence[tuple[str, Callable[[GpuReading], Number | None]]] = (
    ("host_memory_used", _used_and_reserved),
    ("host_utilization", lambda gpu: percent(gpu.utilization)),
    ("host_memory_controller_utilization", lambda gpu: percent(gpu.memory_utilization)),
)


def _host(view: NodeView) -> _Facts:
    labels = [_host_labels(view.node, gpu.index, gpu.uuid, gpu.name) for gpu in view.gpus]
    return _Facts(labels, {quantity: [read(gpu) for gpu in view.gpus] for quantity, read in _HOST})


@lru_cache(maxsize=64)
def _host_labels(node: str, index: int, uuid: str, name: str) -> _Labels:
    return _spelled(
        (
            ((label.NODEID, label.NODE), node),
            ((label.DEVICEIDX, label.DEVICE_INDEX), str(index)),
            ((label.DEVICEUUID, label.DEVICE_UUID), uuid),
            # HAMi's monitor always puts the vendor first, even before "NVIDIA A100".
            ((label.DEVICETYPE, label.DEVICE_TYPE), f"NVIDIA-{name}"),
        )
    )


# Containers with HAMi's library at work.

_CONTAINER: Sequence[tuple[str, Callable[[RegionDevice], Number | None]]] = (
    ("memory_used", lambda device: device.used),
    ("memory_limit", lambda device: device.limit),
    ("container_memory", lambda device: device.used),
    ("utilization", lambda device: device.sm_percent),
    ("memory_context", lambda device: device.context),
    ("memory_module", lambda device: device.module),
    ("memory_buffer", lambda device: device.buffer),
)


class _Row(NamedTuple):
    """A container on one of its devices."""

    name: ContainerName
    device: RegionDevice
    last_kernel: float | None


def _containers(view: NodeView, options: VgpuOptions) -> _Facts:
    rows = list(_rows(view))
    labels = [_container_labels(row.name, row.device.index, row.device.uuid) for row in rows]
    if options.value_labels:
        labels = [each | _parts(row.device) for each, row in zip(labels, rows, strict=True)]
    columns = {quantity: [read(row.device) for row in rows] for quantity, read in _CONTAINER}
    columns["last_kernel"] = [row.last_kernel for row in rows]
    untouched = list(_untouched(view)) if options.untouched else []
    return _and_untouched(_Facts(labels, columns), untouched)


def _rows(view: NodeView) -> Iterator[_Row]:
    for entry in view.vgpu.containers if view.vgpu else ():
        holder = view.ownership.of_directory.get((entry.pod_uid, entry.container))
        name = name_of(holder) if holder else None
        if name is None or entry.region is None:
            continue
        last = entry.region.last_kernel_at
        elapsed = None if last is None else max(view.now - last, 0.0)
        for device in entry.region.devices:
            yield _Row(name, device, elapsed)


@lru_cache(maxsize=4096)
def _container_labels(name: ContainerName, index: int, uuid: str) -> dict[str, str | None]:
    """With no parts of memory as labels."""
    spelled = _spelled(
        (
            ((label.PODNAMESPACE, label.NAMESPACE), name.namespace),
            ((label.PODNAME, label.POD), name.pod),
            ((label.CTRNAME, label.CONTAINER), name.container),
            ((label.VDEVICEID, label.VDEVICE_INDEX), str(index)),
            ((label.DEVICEUUID, label.DEVICE_UUID), uuid),
        )
    )
    return {**dict.fromkeys(MEASURED_LABELS), **spelled}


def _parts(device: RegionDevice) -> dict[str, str | None]:
    return _spelled(
        (
            ((label.CONTEXT, label.CONTEXT_SIZE), _text(device.context)),
            ((label.MODULE_BYTES, label.MODULE_SIZE), _text(device.module)),
            ((label.DATA, label.BUFFER_SIZE), _text(device.buffer)),
            ((label.OFFSET,), _text(_rest(device))),
        )
    )


def _rest(device: RegionDevice) -> int | None:
    """As HAMi computes it: what is in none of the three parts."""
    if device.used is None or device.context is None or device.module is None or device.buffer is None:
        return None
    return max(device.used - device.context - device.module - device.buffer, 0)


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


# Containers before their first CUDA call.


def _untouched(view: NodeView) -> Iterator[tuple[ContainerName, Grant]]:
    """Only where HAMi prepared the container and its scheduler's annotation tells device and limit."""
    untouched = find_untouched(view)
    for key, grants in find_grants(view).items():
        holder = view.ownership.of_directory.get(key)
        if holder and key in untouched and (name := name_of(holder)):
            yield from ((name, grant) for grant in grants)


def _and_untouched(facts: _Facts, untouched: Sequence[tuple[ContainerName, Grant]]) -> _Facts:
    """What they use is 0, what they may use is known, and there is nothing else to say of them."""
    if not untouched:
        return facts
    labels = [*facts.labels, *(_container_labels(name, grant.place, grant.uuid) for name, grant in untouched)]
    nothing: list[Number | None] = [None] * len(untouched)
    said: Mapping[str, list[Number | None]] = {
        "memory_used": [0] * len(untouched),
        "memory_limit": [grant.memory for _, grant in untouched],
    }
    return _Facts(labels, {name: [*values, *said.get(name, nothing)] for name, values in facts.columns.items()})


# MIG.


def _mig_info(view: NodeView) -> _Facts:
    """Numbered per container, in the order of devices and instances."""
    holdings = find_holdings(view)
    of_container: dict[ContainerName, list[tuple[str, MigReading]]] = {}
    for gpu in sorted(view.gpus, key=lambda gpu: gpu.index):
        for name, holding in holdings.get(gpu.uuid, {}).items() if gpu.mig else ():
            held = [mig for mig in gpu.mig if mig.uuid in holding.migs]
            of_container.setdefault(name, []).extend((gpu.uuid, mig) for mig in held)
    labels = [
        _container_labels(name, place, uuid) | _mig_labels(mig)
        for name, migs in of_container.items()
        for place, (uuid, mig) in enumerate(migs)
    ]
    return _Facts(labels, {"mig_info": [1] * len(labels)})


def _mig_labels(mig: MigReading) -> dict[str, str | None]:
    instance = str(mig.gpu_instance_id)
    return _spelled(
        (
            ((label.INSTANCEID, label.INSTANCE_ID, label.GPU_INSTANCE_ID), instance),
            ((label.COMPUTE_INSTANCE_ID,), str(mig.compute_instance_id)),
            ((label.MIG_UUID,), mig.uuid),
            ((label.PROFILE,), mig.profile),
        )
    )


# The build.

_GO_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}

_BUILD: _Labels = {
    label.VERSION.name: __version__,
    label.REVISION.name: "unknown",
    label.BUILD_DATE.name: "unknown",
    label.GO_VERSION.name: "",
    label.COMPILER.name: sys.implementation.name,
    label.PLATFORM.name: f"{sys.platform}/{_GO_NAMES.get(platform.machine(), platform.machine())}",
}

_BUILD_FACTS = _Facts([_BUILD], {"build_info": [1]})
