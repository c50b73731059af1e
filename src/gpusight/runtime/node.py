"""The role `node`: hardware and containers of this machine, real or simulated."""

import logging
import os
import platform
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, get_args

from gpusight.collectors.sets import collectors
from gpusight.collectors.vgpu import VgpuOptions
from gpusight.collectors.view import NvmlHealth, SourceHealth
from gpusight.errors import SettingsError
from gpusight.model.hardware import HardwareSnapshot
from gpusight.model.identity import HostPid
from gpusight.model.ownership import PodInfo, ProcessOwner
from gpusight.model.time import Clock, SystemClock
from gpusight.runtime.exporter import run_exporter
from gpusight.runtime.node_tally import Tally
from gpusight.runtime.node_view import NodeWatch, Sources, Ticker
from gpusight.settings import Settings
from gpusight.sources.neighbours import find_exporters
from gpusight.sources.nvml.supervisor import Deadlines, NvmlSource, child_command
from gpusight.sources.podlogs import PodLogs, PodLogsReason
from gpusight.sources.podresources.source import KubeletReading, KubeletReason, PodResources
from gpusight.sources.processes import Processes, ProcessesReading
from gpusight.sources.vgpu.scan import VgpuSource

if TYPE_CHECKING:
    from gpusight.runtime.node_pods import ApiWatch

_log = logging.getLogger("gpusight.node")
_GRANTS_EVERY = 5.0
"""Seconds between two questions to the kubelet: grants change when pods come and go."""
_SIMULATED = "gpusight-simulated-"
_OWNERS_EVERY = 10.0
_NEIGHBOURS_EVERY = 300.0
_OPENING = 5.0
"""Seconds that NVML may take to open before the agent goes on without."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Places:
    """Where on this machine the sources look."""

    vgpu: Path
    procfs: Path
    pod_logs: Path
    container_logs: Path | None
    kubelet: Path


def run(settings: Settings) -> int:
    """Serve until told to stop."""
    try:
        options = VgpuOptions(settings.get("hami.dialect"), settings.get("hami.value-labels"))
    except ValueError as error:
        raise SettingsError(f"setting hami.dialect: {error}") from error
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # until the endpoint takes over: what was begun is tidied up
    with ExitStack() as stack:
        watch, notes = stack.enter_context(_watch(settings))
        ticker = Ticker("node-reading", settings.get("collect.interval"), watch.look)
        stack.callback(ticker.close)
        chosen = collectors(watch.look, settings.get("collect.sets"), options)
        return run_exporter("node", "GPU node", chosen, settings, notes)


@contextmanager
def _watch(settings: Settings) -> Iterator[tuple[NodeWatch, Sequence[str]]]:
    clock = SystemClock()
    cluster, fresh = settings.get("cluster.name") or "", settings.get("collect.max-age")
    if settings.get("simulate") is None:
        node = settings.get("node.name") or platform.node()
        with _real_sources(settings, node, clock) as sources:
            yield NodeWatch(sources, node, cluster, clock, fresh=fresh), ()
        return
    with _simulated_sources(settings, clock) as (node, sources):
        watch = NodeWatch(sources, node, cluster, clock, fresh=fresh, is_simulated=True)
        yield watch, [f"All of this is simulated: fleet {settings.get('simulate')}, node {node}."]


@contextmanager
def _real_sources(settings: Settings, node: str, clock: Clock) -> Iterator[Sources]:
    places = Places(
        settings.get("vgpu.dir"),
        settings.get("path.procfs"),
        settings.get("path.pod-logs"),
        settings.get("path.pod-logs").parent / "containers",
        settings.get("kubelet.socket"),
    )
    with ExitStack() as stack:
        nvml = NvmlSource(None, clock, Deadlines(read=settings.get("nvml.timeout")))
        stack.callback(nvml.close)
        log_reader = PodLogs(places.pod_logs, clock, settings.get("cluster.name") or "", places.container_logs)
        logs = Tally("pod_logs", log_reader.read, get_args(PodLogsReason), clock)
        kubelet = Tally("kubelet", PodResources(places.kubelet, clock).read, get_args(KubeletReason), clock)
        api = stack.enter_context(_api(settings, node, clock))

        def pods() -> Sequence[PodInfo]:
            return (*(api.pods() if api else ()), *logs.read().pods)

        def health() -> Sequence[SourceHealth]:
            return [*filter(None, (kubelet.health(), logs.health())), *(api.health() if api else ())]

        sources = _sources(nvml, places, pods, cached(kubelet.read, _GRANTS_EVERY, clock), clock)
        yield replace(sources, claimed_devices=api.claimed_devices if api else None, health=health)


def _sources(
    nvml: NvmlSource,
    places: Places,
    pods: Callable[[], Sequence[PodInfo]],
    grants: Callable[[], KubeletReading],
    clock: Clock,
) -> Sources:
    owners = KnownProcesses(Processes(places.procfs), clock)
    vgpu = VgpuSource(places.vgpu, clock)
    neighbours = cached(lambda: find_exporters(places.procfs), _NEIGHBOURS_EVERY, clock)
    hardware = _patient_at_first(nvml.read)
    return Sources(hardware, vgpu.read, grants, pods, owners.read, lambda: _health(nvml), neighbours)


def _health(nvml: NvmlSource) -> NvmlHealth:
    health = nvml.health()
    failures = {name: getattr(health, name) for name in ("crashed", "hung", "killed", "abandoned")}
    return NvmlHealth(health.alive, failures, nvml.implausible())


class KnownProcesses:
    """Remembers owners for a few seconds: a process does not change its cgroup, and looking costs four files."""

    def __init__(self, processes: Processes, clock: Clock) -> None:
        self._processes = processes
        self._clock = clock
        self._known: dict[HostPid, ProcessOwner] = {}
        self._since = -_OWNERS_EVERY

    def read(self, pids: Sequence[HostPid], listed_at: float) -> ProcessesReading:
        now = self._clock.monotonic()
        if now - self._since >= _OWNERS_EVERY:
            self._known, self._since = {}, now
        fresh = self._processes.read([pid for pid in pids if pid not in self._known], listed_at)
        self._known |= fresh.owners
        return ProcessesReading({pid: self._known[pid] for pid in pids if pid in self._known}, fresh.failures)


@contextmanager
def _api(settings: Settings, node: str, clock: Clock) -> "Iterator[ApiWatch | None]":
    """The Kubernetes API, where that is asked for."""
    if not settings.get("k8s.watch-pods"):
        yield None
        return
    from gpusight.runtime.node_pods import api_watch  # noqa: PLC0415  (needs the extra k8s)

    with api_watch(settings, node, clock) as watch:
        yield watch


@contextmanager
def _simulated_sources(settings: Settings, clock: Clock) -> Iterator[tuple[str, Sources]]:
    from gpusight.simulate.pods import grants, lay_out, pods  # noqa: PLC0415  (only here)
    from gpusight.simulate.spec import SpecError, load_spec  # noqa: PLC0415

    try:
        spec = load_spec(settings.get("simulate"))
        node = spec.node(_simulated_name(settings) or spec.nodes[0].name).name
    except SpecError as error:
        raise SettingsError(f"setting simulate: {error}") from error
    started_at = clock.now()

    def seconds() -> float:
        return clock.now() - started_at

    _sweep_up_after_the_killed()
    with ExitStack() as stack:
        prefix = f"{_SIMULATED}{os.getpid()}-"
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)))
        files = lay_out(root, spec, node, 0.0, started_at=started_at)
        stack.callback(Ticker("simulated-files", 1.0, lambda: files.refresh(seconds())).close)
        control = settings.get("simulate.control")
        command = child_command(settings.get("simulate"), node, str(control) if control else None, started_at)
        nvml = NvmlSource(command, clock, Deadlines(read=settings.get("nvml.timeout")))
        stack.callback(nvml.close)
        places = Places(root / "vgpu" / "containers", root / "proc", root / "log" / "pods", None, root / "no-kubelet")

        def granted() -> KubeletReading:
            return KubeletReading(clock.now(), is_up=True, devices=grants(spec, node, seconds()))

        _log.info("simulating node %s of fleet %s", node, settings.get("simulate"))
        known_pods = cached(lambda: pods(spec, node, seconds()), _GRANTS_EVERY, clock)
        yield node, _sources(nvml, places, known_pods, cached(granted, _GRANTS_EVERY, clock), clock)


def _sweep_up_after_the_killed() -> None:
    """Directories of simulations whose process is gone."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_SIMULATED}*-*"):
        pid = directory.name.removeprefix(_SIMULATED).partition("-")[0]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            shutil.rmtree(directory, ignore_errors=True)


def _simulated_name(settings: Settings) -> str | None:
    """$NODE_NAME is the real node's, set in most pods: it is no wish for a node of that name in the fleet."""
    name: str | None = settings.get("node.name")
    return None if settings.origin("node.name") == "environment NODE_NAME" else name


def _patient_at_first(read: Callable[[float | None], HardwareSnapshot]) -> Callable[[], HardwareSnapshot]:
    """The first reading waits for NVML to open, so that the first page has all there is."""
    patience: list[float | None] = [_OPENING]

    def answer() -> HardwareSnapshot:
        return read(patience.pop() if patience else None)

    return answer


def cached(read: Callable[[], _T], every: float, clock: Clock) -> Callable[[], _T]:
    """The same answer for a while. For one thread at a time."""
    kept: list[tuple[float, _T]] = []

    def answer() -> _T:
        if not kept or clock.monotonic() - kept[0][0] >= every:
            kept[:] = [(clock.monotonic(), read())]
        return kept[0][1]

    return answer
