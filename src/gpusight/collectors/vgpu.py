"""HAMi's vGPU monitor: what the host's GPUs and HAMi's containers use, in one or several of HAMi's dialects.

Beyond HAMi it shows containers that did not touch their GPU yet (asked for in its issues #281, #1794 and #1814), and it
really exposes what the seed's table promises: that version of HAMi stopped after two families.
"""

import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from gpusight import __version__
from gpusight.catalog import labels as label
from gpusight.catalog import vgpu as catalog
from gpusight.catalog.hami import present
from gpusight.catalog.spec import FamilySpec, Label
from gpusight.catalog.vgpu import VgpuFamilies
from gpusight.collectors.grants import find_grants
from gpusight.collectors.shares import find_holdings, find_untouched
from gpusight.collectors.view import ContainerName, Look, NodeView, name_of, percent
from gpusight.exposition.blocks import LabelValues, Number, Sample
from gpusight.model.hardware import GpuReading, MigReading
from gpusight.model.vgpu import RegionDevice

DIALECTS: Mapping[str, VgpuFamilies] = catalog.BY_DIALECT | {
    f"{version}-legacy": families for version, families in catalog.LEGACY.items()
}
"""What may be chosen; a `-legacy` one is what its version adds when old names are asked for."""

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

    def collect(self) -> Iterable[Sample]:
        return collect(self.look(), self.options)


def collect(view: NodeView, options: VgpuOptions = DEFAULT) -> Iterator[Sample]:
    """The same facts in every chosen dialect; a family that two dialects share comes once."""
    samples: dict[tuple[FamilySpec, LabelValues], Sample] = {}
    specs = _specs(options)
    for quantity, labels, value in _facts(view, options):
        for spec, names in specs[quantity]:
            key = tuple(map(labels.__getitem__, names))
            samples.setdefault((spec, key), Sample(spec, key, value))
    yield from samples.values()


def _specs(options: VgpuOptions) -> dict[str, list[tuple[FamilySpec, tuple[str, ...]]]]:
    """What the chosen dialects call each quantity, and their labels."""
    found = {
        quantity: filter(None, dict.fromkeys(getattr(families, quantity) for families in options.families))
        for quantity in VgpuFamilies._fields
    }
    return {quantity: [(spec, spec.label_names) for spec in specs] for quantity, specs in found.items()}


# Facts: a number of a quantity, with its labels in every spelling.


class _Fact(NamedTuple):
    quantity: str
    """A field of VgpuFamilies."""
    labels: Mapping[str, str | None]
    value: Number


def _facts(view: NodeView, options: VgpuOptions) -> Iterator[_Fact]:
    yield _Fact("build_info", _BUILD, 1)
    for gpu in view.gpus:
        yield from _host(view, gpu)
    yield from _containers(view, options)
    if options.untouched:
        yield from _untouched(view)
    yield from _mig_info(view)


def _spelled(spellings: Sequence[tuple[tuple[Label, ...], str | None]]) -> dict[str, str | None]:
    values = {one.name: value for labels, value in spellings for one in labels}
    return {**values, label.ZONE.name: label.ZONE_VALUE}


def _known(quantity: str, labels: Mapping[str, str | None], value: Number | None) -> Iterator[_Fact]:
    if value is not None:
        yield _Fact(quantity, labels, value)


# The host's devices.


def _used_and_reserved(gpu: GpuReading) -> int | None:
    """HAMi reads the first version of NVML's memory call, which counts the driver's own memory as used."""
    return None if gpu.memory_used is None else gpu.memory_used + (gpu.memory_reserved or 0)


_HOST: Sequence[tuple[str, Callable[[GpuReading], Number | None]]] = (
    ("host_memory_used", _used_and_reserved),
    ("host_utilization", lambda gpu: percent(gpu.utilization)),
    ("host_memory_controller_utilization", lambda gpu: percent(gpu.memory_utilization)),
)


def _host(view: NodeView, gpu: GpuReading) -> Iterator[_Fact]:
    labels = _spelled(
        (
            ((label.NODEID, label.NODE), view.node),
            ((label.DEVICEIDX, label.DEVICE_INDEX), str(gpu.index)),
            ((label.DEVICEUUID, label.DEVICE_UUID), gpu.uuid),
            # HAMi's monitor always puts the vendor first, even before "NVIDIA A100".
            ((label.DEVICETYPE, label.DEVICE_TYPE), f"NVIDIA-{gpu.name}"),
        )
    )
    for quantity, read in _HOST:
        yield from _known(quantity, labels, read(gpu))


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


def _containers(view: NodeView, options: VgpuOptions) -> Iterator[_Fact]:
    for entry in view.vgpu.containers if view.vgpu else ():
        holder = view.ownership.of_directory.get((entry.pod_uid, entry.container))
        name = name_of(holder) if holder else None
        if name is None or entry.region is None:
            continue
        last = entry.region.last_kernel_at
        elapsed = None if last is None else max(view.now - last, 0.0)
        for device in entry.region.devices:
            labels = _container_labels(name, device.index, device.uuid) | _parts(device, options)
            for quantity, read in _CONTAINER:
                yield from _known(quantity, labels, read(device))
            yield from _known("last_kernel", labels, elapsed)


def _container_labels(name: ContainerName, index: int, uuid: str) -> dict[str, str | None]:
    return _spelled(
        (
            ((label.PODNAMESPACE, label.NAMESPACE), name.namespace),
            ((label.PODNAME, label.POD), name.pod),
            ((label.CTRNAME, label.CONTAINER), name.container),
            ((label.VDEVICEID, label.VDEVICE_INDEX), str(index)),
            ((label.DEVICEUUID, label.DEVICE_UUID), uuid),
        )
    )


def _parts(device: RegionDevice, options: VgpuOptions) -> dict[str, str | None]:
    if not options.value_labels:
        return dict.fromkeys(MEASURED_LABELS)
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


def _untouched(view: NodeView) -> Iterator[_Fact]:
    """Only where HAMi prepared the container and its scheduler's annotation tells device and limit."""
    untouched = find_untouched(view)
    for key, grants in find_grants(view).items():
        holder = view.ownership.of_directory.get(key)
        if holder and key in untouched and (name := name_of(holder)):
            for grant in grants:
                labels = _container_labels(name, grant.place, grant.uuid)
                yield _Fact("memory_used", labels, 0)
                yield _Fact("memory_limit", labels, grant.memory)


# MIG.


def _mig_info(view: NodeView) -> Iterator[_Fact]:
    """Numbered per container, in the order of devices and instances."""
    holdings = find_holdings(view)
    of_container: dict[ContainerName, list[tuple[str, MigReading]]] = {}
    for gpu in sorted(view.gpus, key=lambda gpu: gpu.index):
        for name, holding in holdings.get(gpu.uuid, {}).items():
            held = [mig for mig in gpu.mig if mig.uuid in holding.migs]
            of_container.setdefault(name, []).extend((gpu.uuid, mig) for mig in held)
    for name, migs in of_container.items():
        for place, (uuid, mig) in enumerate(migs):
            yield _Fact("mig_info", _container_labels(name, place, uuid) | _mig_labels(mig), 1)


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

_BUILD: Mapping[str, str] = {
    label.VERSION.name: __version__,
    label.REVISION.name: "unknown",
    label.BUILD_DATE.name: "unknown",
    label.GO_VERSION.name: "",
    label.COMPILER.name: sys.implementation.name,
    label.PLATFORM.name: f"{sys.platform}/{_GO_NAMES.get(platform.machine(), platform.machine())}",
}
