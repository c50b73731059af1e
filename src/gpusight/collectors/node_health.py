"""How the reading of the node goes: which sources answer, which devices are down, what found no owner."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, get_args

from gpusight.catalog import own as catalog
from gpusight.catalog.spec import FamilySpec
from gpusight.collectors.view import Look, NodeView, NvmlHealth, SourceHealth, name_of
from gpusight.exposition.blocks import Sample
from gpusight.model.hardware import HardwareSnapshot
from gpusight.model.ownership import JoinFailure
from gpusight.model.vgpu import RegionProblem, VgpuSnapshot


@dataclass(frozen=True, slots=True)
class NodeHealthCollector:
    """Collects what `look` sees."""

    name: ClassVar[str] = "node_health"
    look: Look

    def collect(self) -> Iterable[Sample]:
        return collect(self.look())


def collect(view: NodeView) -> Iterator[Sample]:
    """What is counted is counted from 0 up; a source that was not asked says nothing."""
    is_simulated = view.is_simulated or (view.hardware is not None and view.hardware.is_simulated)
    yield Sample(catalog.SIMULATED, (), int(is_simulated))
    if view.hardware is not None:
        yield from _hardware(view, view.hardware)
    if view.nvml is not None:
        yield from _nvml(view.nvml)
    if view.vgpu is not None:
        yield from _vgpu(view, view.vgpu)
    for source in view.sources:
        yield from _source(source)
    for exporter in view.other_exporters:
        yield Sample(catalog.OTHER_EXPORTER, (exporter,), 1)
    failures = Counter[str](unjoined.reason for unjoined in view.ownership.unjoined)
    yield from _by_reason(catalog.JOIN_FAILURES, get_args(JoinFailure), failures)


def _hardware(view: NodeView, snapshot: HardwareSnapshot) -> Iterator[Sample]:
    reason = "" if snapshot.is_up else snapshot.reason or "error"
    yield Sample(catalog.NVML_UP, (reason,), int(snapshot.is_up))
    for gpu in view.gpus:
        yield Sample(catalog.DEVICE_UP, (gpu.uuid, str(gpu.index), ""), 1)
    for device in snapshot.down:
        yield Sample(catalog.DEVICE_UP, (device.uuid, str(device.index), device.reason), 0)


def _nvml(health: NvmlHealth) -> Iterator[Sample]:
    yield Sample(catalog.NVML_CHILDREN, (), health.children)
    for failure, count in health.failures.items():
        yield Sample(catalog.NVML_CHILD_FAILURES, (failure,), count)
    for field, count in health.implausible.items():
        yield Sample(catalog.NVML_IMPLAUSIBLE, (field,), count)


def _source(source: SourceHealth) -> Iterator[Sample]:
    yield Sample(catalog.SOURCE_UP, (source.name, source.reason), int(source.is_up))
    if source.heard_at is not None:
        yield Sample(catalog.SOURCE_LAST_ANSWER, (source.name,), source.heard_at)
    for reason, count in source.failures.items():
        yield Sample(catalog.SOURCE_FAILURES, (source.name, reason), count)
    if source.unusable is not None:
        yield Sample(catalog.SOURCE_UNUSABLE, (source.name,), source.unusable)


def _vgpu(view: NodeView, snapshot: VgpuSnapshot) -> Iterator[Sample]:
    yield Sample(catalog.VGPU_DIRECTORY_PRESENT, (), int(snapshot.is_present))
    yield Sample(catalog.VGPU_LAST_SCAN, (), snapshot.taken_at)
    matched = sum(_is_matched(view, entry.pod_uid, entry.container) for entry in snapshot.containers)
    yield Sample(catalog.VGPU_CONTAINERS, ("matched",), matched)
    yield Sample(catalog.VGPU_CONTAINERS, ("unmatched",), len(snapshot.containers) - matched)
    torn = sum(entry.region is not None and entry.region.is_torn for entry in snapshot.containers)
    yield Sample(catalog.VGPU_TORN_REGIONS, (), torn)
    yield from _by_reason(catalog.VGPU_REGION_PROBLEMS, get_args(RegionProblem), _problems(snapshot))


def _is_matched(view: NodeView, pod_uid: str, container: str) -> bool:
    holder = view.ownership.of_directory.get((pod_uid, container))
    return holder is not None and name_of(holder) is not None


def _problems(snapshot: VgpuSnapshot) -> Counter[str]:
    counts: Counter[str] = Counter()
    for reason, count in snapshot.problems:
        counts[reason] += count
    return counts


def _by_reason(spec: FamilySpec, reasons: Iterable[str], counts: Counter[str]) -> Iterator[Sample]:
    for reason in dict.fromkeys((*reasons, *counts)):
        yield Sample(spec, (reason,), counts[reason])
