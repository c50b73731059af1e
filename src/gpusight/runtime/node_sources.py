"""What the node role reads, put together: the same for a real machine and for a simulated one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from gpusight.collectors.view import NvmlHealth
from gpusight.model.hardware import HardwareSnapshot
from gpusight.model.identity import HostPid
from gpusight.model.ownership import PodInfo, ProcessOwner
from gpusight.model.time import Clock
from gpusight.runtime.node_view import Sources
from gpusight.sources.neighbours import find_exporters
from gpusight.sources.nvml.supervisor import Health
from gpusight.sources.podresources.source import KubeletReading
from gpusight.sources.processes import Processes, ProcessesReading
from gpusight.sources.vgpu.scan import VgpuSource

GRANTS_EVERY = 5.0
"""Seconds between two questions to the kubelet: grants change when pods come and go."""
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


class Nvml(Protocol):
    """The GPUs of one machine."""

    def read(self, timeout: float | None = None) -> HardwareSnapshot: ...
    def health(self) -> Health: ...
    def implausible(self) -> Mapping[str, int]: ...


def make_sources(
    nvml: Nvml,
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


def _health(nvml: Nvml) -> NvmlHealth:
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
