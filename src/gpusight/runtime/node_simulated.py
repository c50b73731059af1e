"""The node role over a simulated fleet: one of its nodes, or all of them in one process with one NVML child."""

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpusight.catalog.own import SIMULATED
from gpusight.collectors.pods import PodRow, PodsCollector
from gpusight.collectors.run import Collector
from gpusight.errors import SettingsError
from gpusight.exposition.blocks import Sample
from gpusight.model.time import Clock, ScaledClock, SystemClock
from gpusight.runtime.node_sources import GRANTS_EVERY, Nvml, Places, cached, make_sources
from gpusight.runtime.node_view import NodeWatch, Sources, Ticker
from gpusight.settings import Settings
from gpusight.simulate.owners import owned_pods
from gpusight.simulate.pods import grants, lay_out, pods
from gpusight.simulate.spec import FleetSpec, SpecError, load_spec
from gpusight.sources.nvml.supervisor import Deadlines, NvmlPart, NvmlSource, Part, child_command
from gpusight.sources.podresources.source import KubeletReading

_log = logging.getLogger("gpusight.node")
_SIMULATED = "gpusight-simulated-"
_ALL_NODES = "*"


class Confession:
    """Says that the page is made up."""

    name = "simulated"

    def collect(self) -> Iterator[Sample]:
        yield Sample(SIMULATED, (), 1)


@dataclass(frozen=True, slots=True)
class WorldClock:
    """Time of day in the simulated world; durations and deadlines are ours, and real."""

    world: Clock
    real: Clock

    def now(self) -> float:
        return self.world.now()

    def monotonic(self) -> float:
        return self.real.monotonic()


@dataclass(frozen=True, slots=True)
class World:
    """A fleet and the time there."""

    fleet: str
    """As the user named it."""
    spec: FleetSpec
    clock: WorldClock
    started_at: float
    """Unix time of its second zero."""
    scale: tuple[float, float, float] | None
    """Of its clock, for others to make the same."""

    def seconds(self) -> float:
        return self.clock.now() - self.started_at

    def pod_rows(self) -> Iterator[PodRow]:
        for pod in owned_pods(self.spec, self.seconds()):
            yield PodRow(pod.cluster, pod.namespace, pod.pod, *pod.owner, self.started_at + pod.starts)

    def cluster_page(self) -> Sequence[Collector]:
        """What a cluster's view would tell of these pods."""
        return PodsCollector(self.pod_rows), Confession()


def find_world(settings: Settings) -> World:
    """The fleet that the settings name; its second zero is that of its clock."""
    fleet, text = settings.get("simulate"), settings.get("simulate.clock")
    try:
        spec = load_spec(fleet)
    except SpecError as error:
        raise SettingsError(f"setting simulate: {error}") from error
    real = SystemClock()
    if not text:
        return World(fleet, spec, WorldClock(real, real), real.now(), None)
    try:
        scaled = ScaledClock.from_text(text)
    except ValueError as error:
        raise SettingsError(f"setting simulate.clock: {text!r} is not `speed,wall,start`") from error
    return World(fleet, spec, WorldClock(scaled, real), scaled.wall, scaled.triple)


def wanted_node(settings: Settings, spec: FleetSpec) -> str | None:
    """The one node to be, or None for all of them.

    $NODE_NAME is the real node's, set in most pods: it is no wish for a node of that name in the fleet.
    """
    name: str | None = settings.get("node.name")
    if name is None or settings.origin("node.name") == "environment NODE_NAME":
        return spec.nodes[0].name if len(spec.nodes) == 1 else None
    try:
        return spec.node(name).name
    except SpecError as error:
        raise SettingsError(f"setting simulate: {error}") from error


@contextmanager
def watched(settings: Settings, world: World, names: Sequence[str]) -> Iterator[Mapping[str, NodeWatch]]:
    """The named nodes, each read when somebody looks at it. Of several, all are read through one child."""
    _sweep_up_after_the_killed()
    with ExitStack() as stack:
        prefix = f"{_SIMULATED}{os.getpid()}-"
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)))
        control = settings.get("simulate.control")
        node = names[0] if len(names) == 1 else _ALL_NODES
        command = child_command(world.fleet, node, str(control) if control else None, world.started_at, world.scale)
        nvml = NvmlSource(command, world.clock, Deadlines(read=settings.get("nvml.timeout")))
        stack.callback(nvml.close)
        fresh, cluster = settings.get("collect.max-age"), settings.get("cluster.name")
        watches = {}
        for name, part in _parts(world.spec, names).items():
            reader: Nvml = nvml if part is None else NvmlPart(nvml, part)
            sources, refresh = _sources(world, name, root / name, reader, is_lazy=part is not None)
            if part is None:
                stack.callback(Ticker("simulated-files", 1.0, refresh).close)
            own = cluster or world.spec.node(name).cluster
            watches[name] = NodeWatch(sources, name, own, world.clock, fresh=fresh, is_simulated=True)
        _log.info("simulating %s of fleet %s", f"node {node}" if len(names) == 1 else "all nodes", world.fleet)
        yield watches


def _parts(spec: FleetSpec, names: Sequence[str]) -> dict[str, Part | None]:
    """Where each node's GPUs stand among those of the child; None where they are all there are."""
    if len(names) == 1:
        return {names[0]: None}
    parts: dict[str, Part | None] = {}
    first = 0
    for node in spec.nodes:
        parts[node.name] = Part(first, len(node.gpus))
        first += len(node.gpus)
    return parts


def _sources(world: World, node: str, root: Path, nvml: Nvml, *, is_lazy: bool) -> tuple[Sources, Callable[[], None]]:
    """What to read of one node, and how to bring its files to the present; lazy ones do so before each reading."""
    spec, clock = world.spec, world.clock
    files = lay_out(root, spec, node, world.seconds(), started_at=world.started_at)
    places = Places(root / "vgpu" / "containers", root / "proc", root / "log" / "pods", None, root / "no-kubelet")

    def refresh() -> None:
        files.refresh(world.seconds())

    def granted() -> KubeletReading:
        return KubeletReading(clock.now(), is_up=True, devices=grants(spec, node, world.seconds()))

    known_pods = cached(lambda: pods(spec, node, world.seconds()), GRANTS_EVERY, clock)
    sources = make_sources(nvml, places, known_pods, cached(granted, GRANTS_EVERY, clock), clock)
    return (sources.after(refresh) if is_lazy else sources), refresh


def _sweep_up_after_the_killed() -> None:
    """Directories of simulations whose process is gone."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_SIMULATED}*-*"):
        pid = directory.name.removeprefix(_SIMULATED).partition("-")[0]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            shutil.rmtree(directory, ignore_errors=True)
