"""Keeps the view of one node: asks the sources, joins what they say, adds up what adds up."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from gpusight.attribution.join import ClaimedDevice, Joiner
from gpusight.collectors.totals import accumulate
from gpusight.collectors.view import NodeView, NvmlHealth, SourceHealth
from gpusight.errors import printable
from gpusight.model.hardware import HardwareSnapshot
from gpusight.model.identity import HostPid
from gpusight.model.ownership import ClaimGrant, DeviceGrant, PodInfo
from gpusight.model.time import Clock
from gpusight.model.vgpu import VgpuSnapshot
from gpusight.sources.annotations import AllocationsReading, decode_allocations
from gpusight.sources.processes import ProcessesReading

_log = logging.getLogger("gpusight.node")
_T = TypeVar("_T")
_NAME_JUNK_EVERY = 600.0


class Grants(Protocol):
    """What the kubelet handed out; `is_up` is False when it did not answer."""

    @property
    def is_up(self) -> bool: ...
    @property
    def detail(self) -> str: ...
    @property
    def devices(self) -> tuple[DeviceGrant, ...]: ...
    @property
    def claims(self) -> tuple[ClaimGrant, ...]: ...


@dataclass(frozen=True)
class Sources:
    """Where the view comes from, each a function that reads it now."""

    hardware: Callable[[], HardwareSnapshot]
    vgpu: Callable[[], VgpuSnapshot]
    grants: Callable[[], Grants]
    pods: Callable[[], Sequence[PodInfo]]
    processes: Callable[[Sequence[HostPid], float], ProcessesReading]
    nvml_health: Callable[[], NvmlHealth] | None = None
    other_exporters: Callable[[], Sequence[str]] | None = None
    claimed_devices: Callable[[], Mapping[ClaimedDevice, str]] | None = None
    """UUIDs of devices of ResourceClaims; asked only where GPUs are claimed so."""
    health: Callable[[], Sequence[SourceHealth]] | None = None

    def after(self, prepare: Callable[[], object]) -> "Sources":
        """The same, with something done before each reading: the hardware is read first."""

        def hardware() -> HardwareSnapshot:
            prepare()
            return self.hardware()

        return replace(self, hardware=hardware)


class NodeWatch:
    """The view of now, for any number of threads: one reading serves all that ask within `fresh` seconds."""

    def __init__(
        self, sources: Sources, node: str, cluster: str, clock: Clock, *, fresh: float = 1.0, is_simulated: bool = False
    ) -> None:
        self._sources = sources
        self._node = node
        self._joiner = Joiner(cluster)
        self._clock = clock
        self._fresh = fresh
        self._is_simulated = is_simulated
        self._lock = threading.Lock()
        self._view: NodeView | None = None
        self._read_at = -float("inf")
        self._junk_named_at = -float("inf")
        self._complaints: dict[str, str] = {}
        self._decoded: tuple[Sequence[PodInfo], AllocationsReading] = ((), AllocationsReading())

    def look(self) -> NodeView:
        return self.look_within(self._fresh)

    def look_within(self, seconds: float) -> NodeView:
        """A view that is no older than that."""
        with self._lock:
            asked_at = self._clock.monotonic()
            if self._view is None or asked_at - self._read_at > seconds:
                self._view = self._read(self._view)
                self._read_at = self._clock.monotonic()
            return self._view

    def _read(self, previous: NodeView | None) -> NodeView:
        hardware = self._tried("nvml", self._sources.hardware)
        vgpu = self._tried("vgpu", self._sources.vgpu)
        grants = self._tried("kubelet", self._sources.grants)
        if grants is not None and not grants.is_up:
            self._complain("kubelet", f"it does not say who holds which GPU: {grants.detail}")
        pods = self._tried("pods", self._sources.pods) or ()
        processes = self._owners_of_processes(hardware)
        allocations = self._allocations(pods)
        claims = grants.claims if grants is not None else ()
        if vgpu is not None:
            self._name_junk(vgpu)
        now = self._clock.now()
        view = NodeView(
            node=self._node,
            now=now,
            hardware=hardware,
            vgpu=vgpu,
            ownership=self._joiner.join(
                hardware or HardwareSnapshot(now, is_up=False, reason="error"),
                vgpu,
                grants.devices if grants is not None and grants.is_up else None,
                claims,
                pods,
                processes.owners,
                allocations=allocations.of_pod,
                claimed_devices=self._claimed_devices(claims),
                process_failures=processes.failures,
            ),
            pods=pods,
            allocations=allocations.of_pod,
            nvml=self._tried("nvml", self._sources.nvml_health) if self._sources.nvml_health else None,
            other_exporters=self._neighbours(),
            sources=(self._tried("health", self._sources.health) if self._sources.health else None) or (),
            is_simulated=self._is_simulated,
        )
        totals = accumulate(previous.totals if previous else view.totals, previous, view)
        return replace(view, totals=totals)

    def _neighbours(self) -> Sequence[str]:
        found = self._tried("other exporters", self._sources.other_exporters) if self._sources.other_exporters else ()
        for name in found or ():
            self._complain(f"other exporter {name}", "it publishes these GPUs too, so that sums over both count twice")
        return found or ()

    def _claimed_devices(self, claims: Sequence[ClaimGrant]) -> Mapping[ClaimedDevice, str]:
        ask = self._sources.claimed_devices
        if ask is None or not any(claim.driver.startswith("gpu.") for claim in claims):
            return {}
        return self._tried("resource slices", ask) or {}

    def _name_junk(self, vgpu: VgpuSnapshot) -> None:
        """Not too often: whoever may write there chooses the names, and may change them all the time."""
        now = self._clock.monotonic()
        if vgpu.junk and now - self._junk_named_at >= _NAME_JUNK_EVERY:
            self._junk_named_at = now
            names = ", ".join(printable(name) for name in vgpu.junk)
            _log.warning("vgpu: entries that are no container's directory are left alone, such as: %s", names)

    def _allocations(self, pods: Sequence[PodInfo]) -> AllocationsReading:
        """What the pods' annotations say; decoded once while the pods stay the same."""
        if self._decoded[0] != pods:
            self._decoded = (pods, decode_allocations(pods))
            for uid, sentence in self._decoded[1].bad.items():
                self._complain(f"annotation of pod {uid}", sentence)
        return self._decoded[1]

    def _owners_of_processes(self, hardware: HardwareSnapshot | None) -> ProcessesReading:
        if hardware is None:
            return ProcessesReading()
        pids = {process.pid: None for gpu in hardware.gpus for process in gpu.processes or ()}
        read = self._tried("processes", lambda: self._sources.processes(tuple(pids), hardware.taken_at))
        return read or ProcessesReading()

    def _tried(self, name: str, read: Callable[[], _T]) -> _T | None:
        """What the source says; one that fails costs only what it alone knows."""
        try:
            answer = read()
        except Exception as error:
            self._complain(name, f"{type(error).__name__}: {error}")
            return None
        self._complaints.pop(name, None)
        return answer

    def _complain(self, name: str, sentence: str) -> None:
        if self._complaints.get(name) != sentence:
            _log.warning("%s: %s", name, sentence)
            self._complaints[name] = sentence


class Ticker:
    """Calls a function every so often in a thread of its own, until closed."""

    def __init__(self, name: str, every: float, work: Callable[[], object]) -> None:
        self._every = every
        self._work = work
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            try:
                self._work()
            except Exception:
                _log.exception("%s failed; it goes on", self._thread.name)
