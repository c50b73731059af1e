"""The pods of the simulated fleet: as typed data, and as the directories of a node that a real agent reads.

`NodeFiles` writes below one root what an agent's path settings point at: `vgpu/containers` (HAMi's directories with
libvgpu's regions), `log/pods` and `log/containers` (the kubelet's logs), `proc` (the processes that NVML lists).
"""

import os
import shutil
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from gpusight.model.identity import ContainerRef, HostPid, PodRef
from gpusight.model.ownership import DeviceGrant, PodInfo
from gpusight.model.vgpu import Layout
from gpusight.simulate.fleet import DRIVER_LOADED, Load, SimGpu, SimNode, identifier, key, place
from gpusight.simulate.models import MIB
from gpusight.simulate.regions import SimDevice, SimProcess, SimRegion, SimUse, write_region
from gpusight.simulate.spec import FleetSpec, WorkloadSpec
from gpusight.simulate.state import ProcessState, state_at

CgroupStyle = Literal["v2-systemd", "v2-cgroupfs", "v1-cgroupfs"]

RESOURCE: Final = "nvidia.com/gpu"
_HAMI_SLOTS: Final = 10
_HZ: Final = os.sysconf("SC_CLK_TCK")
_CONTEXT: Final = 256 * MIB
_MODULES: Final = MappingProxyType({"notebook": "ipykernel_launcher", "forgotten": "ipykernel_launcher"})


@dataclass(frozen=True, slots=True)
class SimContainer:
    """A container of the fleet and where it is known by which name."""

    ref: ContainerRef
    container_id: str
    workload: WorkloadSpec
    loads: tuple[Load, ...]

    @property
    def directory(self) -> str:
        """What HAMi calls its directory."""
        return f"{self.ref.pod.uid}_{self.ref.name}"

    @property
    def has_region(self) -> bool:
        """Whether libvgpu has made a cache file: only in HAMi shares, and only once a program has used CUDA."""
        return self.workload.share is not None and self.workload.kind != "untouched"

    def started(self, t: float) -> bool:
        return self.workload.starts <= t


@lru_cache(maxsize=4096)
def containers(spec: FleetSpec, node: str) -> tuple[SimContainer, ...]:
    """All containers of a node, in the order of the spec."""
    loads: dict[str, list[Load]] = {}
    for load in place(spec, node).loads:
        loads.setdefault(load.workload.identity, []).append(load)
    return tuple(_container(spec, workload, loads[workload.identity]) for workload in spec.on_node(node))


def _container(spec: FleetSpec, workload: WorkloadSpec, loads: Sequence[Load]) -> SimContainer:
    uid = str(identifier(spec, workload.node, workload.namespace, workload.pod))
    pod = PodRef(spec.node(workload.node).cluster, workload.namespace, workload.pod, uid)
    ref = ContainerRef(pod, workload.container)
    runtime_id = "".join(f"{key(spec, workload.identity, 'container', part):016x}" for part in range(4))
    return SimContainer(ref, runtime_id, workload, tuple(sorted(loads, key=lambda load: load.container_pid)))


def pods(spec: FleetSpec, node: str, t: float) -> tuple[PodInfo, ...]:
    """The pods of a node at a moment, as the API would show them. A pod outlives the crash of its program."""
    of_pod: dict[PodRef, list[SimContainer]] = {}
    for container in containers(spec, node):
        if container.started(t):
            of_pod.setdefault(container.ref.pod, []).append(container)
    return tuple(_pod(place(spec, node), ref, members) for ref, members in of_pod.items())


def _pod(node: SimNode, ref: PodRef, members: Sequence[SimContainer]) -> PodInfo:
    pod = PodInfo(
        ref,
        containers=tuple(member.ref.name for member in members),
        container_ids={member.ref.name: member.container_id for member in members},
        phase="Running",
        labels={"app": ref.name.rpartition("-")[0] or ref.name},
    )
    if not any(member.workload.share for member in members):
        return pod
    allocated = "".join(f"{_allocation(node, member.workload)};" for member in members)
    bound = {"hami.io/vgpu-node": node.name, "hami.io/bind-phase": "success"}
    return replace(
        pod,
        labels=pod.labels | {"hami.io/vgpu-node": node.name},
        annotations=bound | {"hami.io/vgpu-devices-allocated": allocated, "hami.io/vgpu-devices-to-allocate": ";"},
    )


def _allocation(node: SimNode, workload: WorkloadSpec) -> str:
    """`uuid,NVIDIA,MiB,cores:` for each device; a share without a limit has all of the memory."""
    if workload.share is None:
        return ""
    gpus = [node.gpus[index] for index in workload.gpus]
    share = workload.share
    return "".join(f"{g.uuid},NVIDIA,{share.memory_limit or g.model.memory // MIB},{share.cores}:" for g in gpus)


def grants(spec: FleetSpec, node: str, t: float) -> tuple[DeviceGrant, ...]:
    """What the kubelet lists: which container was given which device ids."""
    placed = place(spec, node)
    return tuple(
        DeviceGrant(container.ref.pod.namespace, container.ref.pod.name, container.ref.name, resource, device_id)
        for container in containers(spec, node)
        if container.started(t)
        for index in container.workload.gpus
        for resource, device_id in [_device_id(placed, placed.gpus[index], container.workload)]
    )


def _device_id(node: SimNode, gpu: SimGpu, workload: WorkloadSpec) -> tuple[str, str]:
    """Resource and id as each device plugin spells them."""
    if workload.mig is not None and gpu.mig is not None:
        instance = gpu.mig[workload.mig]
        return f"nvidia.com/mig-{instance.profile.name}", instance.uuid
    if workload.share is not None:
        return RESOURCE, _blind_id(node, workload)
    sharers = [load.workload for load in gpu.loads if load.workload.share is None]
    return RESOURCE, f"{gpu.uuid}::{sharers.index(workload)}" if len(sharers) > 1 else gpu.uuid


def _blind_id(node: SimNode, workload: WorkloadSpec) -> str:
    """The kubelet picks any of HAMi's slots; HAMi then gives the device that its scheduler chose, not this one."""
    number = key(node.spec, workload.identity, "slot")
    return f"{node.gpus[number % len(node.gpus)].uuid}-{number // 1000 % _HAMI_SLOTS}"


def cgroup(container: SimContainer, style: CgroupStyle = "v2-systemd") -> str:
    """The text of /proc/PID/cgroup for a process of the container, as containerd arranges it."""
    uid, runtime_id = container.ref.pod.uid, container.container_id
    if style == "v2-systemd":
        pod = f"kubepods-burstable-pod{uid.replace('-', '_')}.slice"
        return f"0::/kubepods.slice/kubepods-burstable.slice/{pod}/cri-containerd-{runtime_id}.scope\n"
    path = f"/kubepods/burstable/pod{uid}/{runtime_id}"
    if style == "v2-cgroupfs":
        return f"0::{path}\n"
    return "".join(f"{n}:{name}:{path}\n" for n, name in ((12, "memory"), (4, "devices"), (3, "cpu,cpuacct"), (0, "")))


def lay_out(
    root: Path, spec: FleetSpec, node: str, t: float, *, started_at: float, layouts: Sequence[Layout] | None = None
) -> "NodeFiles":
    """Write the node's directories as of `t`; the answer keeps them up to date."""
    files = NodeFiles(root, spec, node, started_at, layouts)
    files.refresh(t)
    return files


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """The directories of a node below one root."""

    root: Path
    spec: FleetSpec
    node: str
    started_at: float
    """The Unix time of second zero."""
    layouts: Sequence[Layout] | None = None
    """Where given, they go round over the containers in place of the spec's."""
    style: CgroupStyle = "v2-systemd"

    def refresh(self, t: float) -> None:
        """Bring them to a moment: new pods, processes that came and went, the numbers in the regions."""
        self._write_host()
        processes = [process for gpu in state_at(self.spec, self.node, t).gpus for process in gpu.processes]
        running = {process.pid: process for process in processes}
        for number, container in enumerate(containers(self.spec, self.node)):
            if container.started(t):
                self._write_pod(container)
                self._write_processes(container, running)
                if container.has_region:
                    self._write_region(container, running, self._layout(container, number), t)
        self._remove_gone(running)

    def _layout(self, container: SimContainer, number: int) -> Layout:
        return self.layouts[number % len(self.layouts)] if self.layouts else container.workload.layout

    def _boot_time(self) -> int:
        return int(self.started_at + DRIVER_LOADED) - 60

    def _write_host(self) -> None:
        """Number 2 is how a reader tells that this /proc is a host's."""
        for folder in ("vgpu/containers", "log/pods", "log/containers", "proc"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        stat, text = self.root / "proc" / "stat", f"cpu  0 0 0 0 0 0 0 0 0 0\nbtime {self._boot_time()}\n"
        if not stat.is_file() or stat.read_text("utf-8") != text:
            stat.write_text(text, "utf-8")
        if not (self.root / "proc" / "2").is_dir():
            self._make("2", {"comm": "kthreadd\n"})

    def _make(self, pid: str, files: Mapping[str, str]) -> None:
        """A process's directory, all at once: whoever reads at the same time sees the whole of it or nothing."""
        hidden = self.root / "proc" / f".{pid}"
        hidden.mkdir(exist_ok=True)
        for name, text in files.items():
            (hidden / name).write_text(text, "utf-8")
        hidden.rename(self.root / "proc" / pid)

    def _write_pod(self, container: SimContainer) -> None:
        (namespace, pod, uid), name = container.ref.pod[1:], container.ref.name
        logs = self.root / "log" / "pods" / f"{namespace}_{pod}_{uid}" / name
        logs.mkdir(parents=True, exist_ok=True)
        link = self.root / "log" / "containers" / f"{pod}_{namespace}_{name}-{container.container_id}.log"
        if not link.is_symlink():
            link.symlink_to(logs / "0.log")
        if container.workload.share is not None and not (directory := self._directory(container)).is_dir():
            directory.mkdir()
            directory.chmod(0o777)

    def _directory(self, container: SimContainer) -> Path:
        return self.root / "vgpu" / "containers" / container.directory

    def _write_processes(self, container: SimContainer, running: Container[HostPid]) -> None:
        for load in container.loads:
            if load.pid in running and not (self.root / "proc" / str(load.pid)).is_dir():
                self._make(str(load.pid), dict(self._process_files(container, load)))

    def _process_files(self, container: SimContainer, load: Load) -> Iterator[tuple[str, str]]:
        started = int((self.started_at + load.workload.starts - self._boot_time()) * _HZ)
        yield "cgroup", cgroup(container, self.style)
        yield "stat", f"{load.pid} (python3) S 1 {load.pid} {load.pid}{' 0' * 15} {started}{' 0' * 30}\n"
        yield "comm", "python3\n"
        yield "cmdline", f"python3\0-m\0{_MODULES.get(load.workload.kind, container.ref.name)}\0"
        pids = f"Pid:\t{load.pid}\nNSpid:\t{load.pid}\t{load.container_pid}\n"
        yield "status", f"Name:\tpython3\n{pids}Uid:\t0\t0\t0\t0\n"

    def _remove_gone(self, running: Container[HostPid]) -> None:
        for folder in (self.root / "proc").iterdir():
            if folder.name.isdecimal() and folder.name != "2" and HostPid(int(folder.name)) not in running:
                shutil.rmtree(folder)

    def _write_region(
        self, container: SimContainer, running: Mapping[HostPid, ProcessState], layout: Layout, t: float
    ) -> None:
        workload, gpus = container.workload, place(self.spec, self.node).gpus
        limit, cores = (workload.share.memory_limit, workload.share.cores) if workload.share else (0, 0)
        living = [running[load.pid] for load in container.loads if load.pid in running]
        region = SimRegion(
            layout=layout,
            devices=[SimDevice(gpus[index].uuid, limit * MIB, cores or 100) for index in workload.gpus],
            processes=[_slot(process) for process in living],
            last_kernel_at=int(self.started_at + max(last_kernel(load, t) for load in container.loads)),
        )
        name = identifier(self.spec, workload.identity, "cache")
        write_region(self._directory(container) / f"{name}.cache", region)


def _slot(process: ProcessState) -> SimProcess:
    """One process, which uses one of the container's devices."""
    load = process.load
    uses = [SimUse()] * len(load.workload.gpus)
    uses[load.workload.gpus.index(load.gpu)] = _use(process)
    return SimProcess(load.container_pid, load.pid, uses=uses)


def _use(process: ProcessState) -> SimUse:
    """What libvgpu sees: only what goes through CUDA, a little less than the driver counts."""
    context, buffer = cuda_memory(process.memory)
    return SimUse(
        context=context,
        buffer=buffer,
        monitor_used=process.memory,
        sm_percent=round(process.sm * 100),
        encoder_percent=round(process.encoder * 100),
        decoder_percent=round(process.decoder * 100),
    )


def cuda_memory(memory: int) -> tuple[int, int]:
    """Context and buffers out of what a process holds."""
    context = min(memory // 4, _CONTEXT)
    return context, int((memory - context) * 0.99)


def last_kernel(load: Load, t: float) -> float:
    """Seconds after the start. A process that attaches counts as a kernel, to libvgpu."""
    last = load.activity.last_busy(min(t, load.ends))
    return load.workload.starts if last is None else max(last, load.workload.starts)
