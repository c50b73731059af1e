"""What is to be simulated: nodes, their GPUs, the workloads on them and the faults to come, from YAML or a dict."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal, get_args

import yaml

from gpusight.model.vgpu import Layout
from gpusight.simulate.generated import generate
from gpusight.simulate.models import MODELS, GpuModel, MigProfile
from gpusight.simulate.section import Owner, Section, SpecError

__all__ = [
    "Fault", "FaultKind", "FleetSpec", "GpuSpec", "NodeSpec", "Owner", "Share", "SpecError", "WorkloadKind",
    "WorkloadSpec", "builtin_names", "load_spec", "parse_faults", "parse_faults_text", "parse_spec",
]  # fmt: skip

WorkloadKind = Literal[
    "training", "notebook", "inference", "forgotten", "spinner", "starved", "crashed", "untouched"
]  # fmt: skip
"""What a container does with its share; `untouched` holds a grant and never opened the device."""

FaultKind = Literal[
    "gpu_lost", "reset_required", "no_permission", "unknown_error", "not_supported", "function_not_found", "error",
    "block", "crash", "init_failure", "version_mismatch", "xid", "ecc", "overheat", "unplugged",
]  # fmt: skip

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C, where PyYAML was built with it, takes a tenth of the time."""
_NEEDS_FUNCTION: Final = frozenset({"not_supported", "function_not_found"})
_NEEDS_CODE: Final = frozenset({"error", "xid"})
_WHOLE_NODE: Final = frozenset({"init_failure", "version_mismatch"})
_NEEDS_GPU: Final = frozenset({"gpu_lost", "reset_required", "xid", "ecc", "overheat", "unplugged"})
_MIG_SLICES: Final = 7
_MIG_MEMORY_SLICES: Final = 8


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """One device of a node."""

    model: GpuModel
    mig: tuple[MigProfile, ...] | None = None
    """Instances to cut; None leaves MIG mode off, empty turns it on without instances."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    name: str
    gpus: tuple[GpuSpec, ...]
    cluster: str


@dataclass(frozen=True, slots=True)
class Share:
    """A HAMi share of a device."""

    memory_limit: int
    """MiB; 0 is no limit."""
    cores: int
    """Percent of the device; 0 is no limit."""


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """One container and what it does. Times are seconds after the start of the simulation; negative is before."""

    namespace: str
    pod: str
    container: str
    kind: WorkloadKind
    node: str
    gpus: tuple[int, ...]
    mig: int | None = None
    """Which MIG instance of its (one) device."""
    share: Share | None = None
    layout: Layout = "F"
    memory: int | None = None
    """MiB per device; None is what its kind usually takes."""
    starts: float = -21_600.0
    ends: float | None = None
    owner: Owner | None = None
    """None: what the pod's name looks like."""

    @property
    def identity(self) -> str:
        return f"{self.node}/{self.namespace}/{self.pod}/{self.container}"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong, from `at` (seconds after start) for `lasts` seconds, or for good."""

    kind: FaultKind
    node: str | None = None
    """None: on every node."""
    gpu: int | None = None
    """None: on every device."""
    at: float = 0.0
    lasts: float | None = None
    function: str | None = None
    """Only calls of this NVML function."""
    code: int | None = None
    """The XID, the return code of `error`, or how many errors `ecc` adds."""
    seconds: float = 60.0
    """How long one call blocks."""

    def is_active(self, t: float) -> bool:
        return self.at <= t and (self.lasts is None or t < self.at + self.lasts)


@dataclass(frozen=True, slots=True, eq=False)
class FleetSpec:
    """A whole fleet. The same spec gives the same numbers at the same time, in every process."""

    name: str
    seed: int
    cluster: str
    """Of nodes that do not name theirs."""
    nodes: tuple[NodeSpec, ...]
    workloads: tuple[WorkloadSpec, ...]
    faults: tuple[Fault, ...]

    def node(self, name: str) -> NodeSpec:
        for node in self.nodes:
            if node.name == name:
                return node
        raise SpecError(f"{self.name}: there is no node {name!r}, only {', '.join(n.name for n in self.nodes)}.")

    def on_node(self, name: str) -> tuple[WorkloadSpec, ...]:
        return tuple(workload for workload in self.workloads if workload.node == name)


def load_spec(spec: str | Path | Mapping[str, Any] | FleetSpec = "default") -> FleetSpec:
    """A fleet from a built-in name, `generated:GPUS[,SEED]`, the path of a YAML file, or data in the shape of one."""
    if isinstance(spec, FleetSpec):
        return spec
    if isinstance(spec, Mapping):
        return parse_spec(spec, "spec")
    if str(spec) in builtin_names():
        return parse_spec(builtin(str(spec)), f"{spec}.yaml")
    if str(spec).startswith("generated:"):
        return parse_spec(generate(builtin("demo"), str(spec)), str(spec))
    return parse_spec(_yaml(_file_text(Path(spec)), str(spec)), str(spec))


def builtin_names() -> tuple[str, ...]:
    folder = resources.files("gpusight.simulate") / "builtin"
    return tuple(sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml")))


def builtin(name: str) -> Any:
    """A built-in fleet as it is written."""
    text = (resources.files("gpusight.simulate") / "builtin" / f"{name}.yaml").read_text("utf-8")
    return _yaml(text, f"{name}.yaml")


def _file_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SpecError(
            f"{path}: neither a built-in fleet ({', '.join(builtin_names())}, generated:GPUS) nor a readable file:"
            f" {reason}."
        ) from error


def _yaml(text: str, source: str) -> Any:
    try:
        return yaml.load(text, _LOADER)  # noqa: S506 - both loaders are safe ones
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise SpecError(f"{source}: {where}not YAML: {getattr(error, 'problem', None) or 'unreadable'}.") from error


def parse_spec(data: Any, source: str) -> FleetSpec:
    """The typed fleet, with every reference between its parts checked."""
    top = Section(source, "", data)
    cluster = top.name("cluster", "simulated")
    nodes = tuple(_unique(top, [_node(section, cluster) for section in top.sections("nodes", required=True)]))
    by_name = {node.name: node for node in nodes}
    spec = FleetSpec(
        name=source,
        seed=top.integer("seed", 1),
        cluster=cluster,
        nodes=nodes,
        workloads=tuple(_workload(section, by_name) for section in top.sections("workloads")),
        faults=tuple(_fault(section, nodes) for section in top.sections("faults")),
    )
    top.close()
    _check_containers(source, spec.workloads)
    return spec


def parse_faults(data: Any, source: str) -> tuple[Fault, ...]:
    """The faults of a control file: a list, or a mapping with `faults`."""
    top = Section(source, "", {"faults": data} if isinstance(data, list) else data or {})
    faults = tuple(_fault(section, None) for section in top.sections("faults"))
    top.close()
    return faults


def parse_faults_text(text: str, source: str) -> tuple[Fault, ...]:
    return parse_faults(_yaml(text, source), source)


def _node(section: Section, cluster: str) -> NodeSpec:
    node = NodeSpec(
        section.name("name"),
        tuple(gpu for s in section.sections("gpus", required=True) for gpu in _gpus(s)),
        section.name("cluster", cluster),
    )
    section.close()
    return node


def _gpus(section: Section) -> Iterator[GpuSpec]:
    model = MODELS[section.choice("model", tuple(MODELS))]
    count = section.integer("count", 1, between=(1, 10_000))
    names = section.strings("mig")
    profiles = None if names is None else tuple(_profile(section, model, name) for name in names)
    if profiles is not None:
        _check_slices(section, model, profiles)
    section.close()
    return (GpuSpec(model, profiles) for _ in range(count))


def _profile(section: Section, model: GpuModel, name: str) -> MigProfile:
    if name not in model.mig:
        raise section.error("mig", name, f"a profile of {model.key}: {', '.join(model.mig) or 'it has none'}")
    return model.mig[name]


def _check_slices(section: Section, model: GpuModel, profiles: Sequence[MigProfile]) -> None:
    too_many = (
        sum(p.slices for p in profiles) > _MIG_SLICES or sum(p.memory_slices for p in profiles) > _MIG_MEMORY_SLICES
    )
    if too_many or not model.mig:
        raise section.error("mig", [p.name for p in profiles], f"instances that fit on one {model.key}")


def _workload(section: Section, nodes: Mapping[str, NodeSpec]) -> WorkloadSpec:
    node_name = section.choice("node", nodes, next(iter(nodes)) if len(nodes) == 1 else None)
    node = nodes[node_name]
    workload = WorkloadSpec(
        namespace=section.name("namespace"),
        pod=section.name("pod"),
        container=section.name("container", "main"),
        kind=section.choice("kind", get_args(WorkloadKind)),
        node=node_name,
        gpus=_gpu_indexes(section, node),
        mig=section.optional("mig", section.count),
        share=_share(section),
        layout=section.choice("layout", get_args(Layout), "F"),
        memory=section.optional("memory", section.count),
        starts=section.number("starts", -21_600.0),
        ends=section.optional("ends", section.number),
        owner=section.optional("owner", section.owner),
    )
    section.close()
    _check_placement(section, workload, node)
    return workload


def _gpu_indexes(section: Section, node: NodeSpec) -> tuple[int, ...]:
    indexes = section.integers("gpus")
    for index in indexes:
        if not 0 <= index < len(node.gpus):
            raise section.error("gpus", index, f"a device of node {node.name} (0 to {len(node.gpus) - 1})")
    return indexes


def _share(section: Section) -> Share | None:
    inner = section.section("share")
    if inner is None:
        return None
    share = Share(inner.count("memory_limit", 0), inner.integer("cores", 0, between=(0, 100)))
    inner.close()
    return share


def _check_placement(section: Section, workload: WorkloadSpec, node: NodeSpec) -> None:
    """A MIG instance must exist, and a device in MIG mode can only be used through one."""
    cuts = [node.gpus[index].mig for index in workload.gpus]
    if workload.mig is None:
        if any(cut is not None for cut in cuts):
            raise section.error("gpus", list(workload.gpus), "devices without MIG, or `mig` must name an instance")
    elif len(cuts) != 1 or cuts[0] is None or workload.mig >= len(cuts[0]) or workload.share:
        raise section.error("mig", workload.mig, "the number of an instance of its one device, without `share`")


def _check_containers(source: str, workloads: Sequence[WorkloadSpec]) -> None:
    seen = set()
    for index, workload in enumerate(workloads):
        if workload.identity in seen:
            raise SpecError(f"{source}: workloads[{index}].container is {workload.identity!r} for the second time.")
        seen.add(workload.identity)


def _fault(section: Section, nodes: Sequence[NodeSpec] | None) -> Fault:
    kind: FaultKind = section.choice("kind", get_args(FaultKind))
    fault = Fault(
        kind=kind,
        node=section.optional("node", section.name),
        gpu=section.optional("gpu", section.count),
        at=section.number("at", 0.0),
        lasts=section.optional("for", section.number),
        function=section.optional("function", section.function),
        code=section.optional("code", section.count),
        seconds=section.number("seconds", 60.0),
    )
    section.close()
    _check_fault(section, fault, nodes)
    return fault


def _check_fault(section: Section, fault: Fault, nodes: Sequence[NodeSpec] | None) -> None:
    for field, kinds in (("function", _NEEDS_FUNCTION), ("code", _NEEDS_CODE), ("gpu", _NEEDS_GPU)):
        if fault.kind in kinds and getattr(fault, field) is None:
            raise section.error(field, None, f"given for a fault of kind {fault.kind}")
    if fault.kind in _WHOLE_NODE and fault.gpu is not None:
        raise section.error("gpu", fault.gpu, f"left out for {fault.kind}, which concerns the whole node")
    if nodes is None:
        return
    if fault.node is not None and fault.node not in {node.name for node in nodes}:
        raise section.error("node", fault.node, f"one of {', '.join(node.name for node in nodes)}")
    if fault.gpu is not None and fault.gpu >= max(len(node.gpus) for node in nodes):
        raise section.error("gpu", fault.gpu, "the index of a device")


def _unique(section: Section, nodes: Sequence[NodeSpec]) -> Sequence[NodeSpec]:
    names = [node.name for node in nodes]
    for name in names:
        if names.count(name) > 1:
            raise section.error("nodes", name, "named only once")
    return nodes
