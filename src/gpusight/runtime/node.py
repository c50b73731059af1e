"""The role `node`: hardware and containers of this machine, real or simulated."""

import platform
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from gpusight.collectors.sets import collectors
from gpusight.collectors.vgpu import VgpuOptions
from gpusight.collectors.view import SourceHealth
from gpusight.errors import SettingsError
from gpusight.model.ownership import PodInfo
from gpusight.model.time import Clock, SystemClock
from gpusight.runtime.exporter import run_exporter
from gpusight.runtime.node_sources import GRANTS_EVERY, Places, cached, make_sources
from gpusight.runtime.node_tally import Tally
from gpusight.runtime.node_view import NodeWatch, Sources, Ticker
from gpusight.settings import Settings
from gpusight.sources.nvml.supervisor import Deadlines, NvmlSource
from gpusight.sources.podlogs import PodLogs, PodLogsReason
from gpusight.sources.podresources.source import KubeletReason, PodResources

if TYPE_CHECKING:
    from gpusight.runtime.node_pods import ApiWatch

_TITLE = "GPU node"


def run(settings: Settings) -> int:
    """Serve until told to stop."""
    try:
        options = VgpuOptions(settings.get("hami.dialect"), settings.get("hami.value-labels"))
    except ValueError as error:
        raise SettingsError(f"setting hami.dialect: {error}") from error
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # until the endpoint takes over: what was begun is tidied up
    with ExitStack() as stack:
        if settings.get("simulate") is not None:
            return _run_simulated(settings, options, stack)
        watch = stack.enter_context(_watch(settings))
        stack.callback(Ticker("node-reading", settings.get("collect.interval"), watch.look).close)
        return run_exporter("node", _TITLE, collectors(watch.look, settings.get("collect.sets"), options), settings)


def _run_simulated(settings: Settings, options: VgpuOptions, stack: ExitStack) -> int:
    from gpusight.runtime import node_simulated as simulated  # noqa: PLC0415  (only here)
    from gpusight.simulate.pages import CLUSTER_PAGE, node_pages  # noqa: PLC0415

    world = simulated.find_world(settings)
    node = simulated.wanted_node(settings, world.spec)
    paths = node_pages(world.spec, node)
    watches = stack.enter_context(simulated.watched(settings, world, tuple(paths)))
    sets = settings.get("collect.sets")
    pages = {paths[name]: collectors(watch.look, sets, options) for name, watch in watches.items()}
    if node is not None:
        stack.callback(Ticker("node-reading", settings.get("collect.interval"), watches[node].look).close)
    if len(paths) == len(world.spec.nodes):
        pages[CLUSTER_PAGE] = list(world.cluster_page())
    what = f"node {node}" if node else f"all {len(paths)} nodes"
    notes = [f"All of this is simulated: fleet {world.fleet}, {what}."]
    return run_exporter("node", _TITLE, pages, settings, notes, world.clock)


@contextmanager
def _watch(settings: Settings) -> Iterator[NodeWatch]:
    clock = SystemClock()
    cluster, fresh = settings.get("cluster.name") or "", settings.get("collect.max-age")
    node = settings.get("node.name") or platform.node()
    with _real_sources(settings, node, clock) as sources:
        yield NodeWatch(sources, node, cluster, clock, fresh=fresh)


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

        sources = make_sources(nvml, places, pods, cached(kubelet.read, GRANTS_EVERY, clock), clock)
        yield replace(sources, claimed_devices=api.claimed_devices if api else None, health=health)


@contextmanager
def _api(settings: Settings, node: str, clock: Clock) -> "Iterator[ApiWatch | None]":
    """The Kubernetes API, where that is asked for."""
    if not settings.get("k8s.watch-pods"):
        yield None
        return
    from gpusight.runtime.node_pods import api_watch  # noqa: PLC0415  (needs the extra k8s)

    with api_watch(settings, node, clock) as watch:
        yield watch
