"""Hand-made views of a node, and samples as the lines that a scrape would show."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from gpusight.collectors.view import ContainerName as Name
from gpusight.collectors.view import NodeView, NvmlHealth, SourceHealth, Spent, Totals, XidTotal
from gpusight.exposition.blocks import FamilyBlock, Sample, check, group
from gpusight.exposition.text import Renderer
from gpusight.model.hardware import (
    DeviceDown,
    EccCount,
    GpuProcess,
    GpuReading,
    HardwareSnapshot,
    MigReading,
    NvLink,
    ProcessUtilization,
    RemappedRows,
)
from gpusight.model.identity import ContainerPid, ContainerRef, GpuUuid, HostPid, MigUuid, PodRef
from gpusight.model.ownership import DeviceAllocation, Holder, How, Ownership, PodAllocations, PodInfo, Unjoined
from gpusight.model.units import Bytes, Ratio
from gpusight.model.vgpu import ContainerRegion, Region, RegionDevice, RegionProcess, VgpuSnapshot

NOW = 1_700_000_160.0
THEN = 1_700_000_100.0
MIB = 1 << 20
GIB = 1 << 30
UUID = GpuUuid("GPU-a")
OTHER_UUID = GpuUuid("GPU-b")
MIG_A, MIG_B, MIG_C = (MigUuid(f"MIG-{letter}") for letter in "abc")


def lines(samples: Iterable[Sample | FamilyBlock]) -> dict[str, float]:
    """Series as the text format shows them. Fails on what no scrape may carry, and on duplicates."""
    blocks = group(samples)
    for block in blocks:
        check(block)
    renderer = Renderer()
    text = renderer.render(blocks).decode()
    assert renderer.duplicates == 0
    rows = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {series: float(value) for series, _, value in rows}


def of_family(name: str, page: dict[str, float]) -> dict[str, float]:
    """The series of one family without its name."""
    return {series.removeprefix(name): value for series, value in page.items() if series.split("{")[0] == name}


# Hardware.


def a_gpu(uuid: str = UUID, index: int = 0, **readings: Any) -> GpuReading:
    return GpuReading(
        GpuUuid(uuid), index, readings.pop("name", "Tesla T4"), readings.pop("taken_at", THEN), **readings
    )


def a_full_gpu(uuid: str = UUID, index: int = 0, **readings: Any) -> GpuReading:
    """A Hopper board, everything read, without fans, NVLinks and MIG."""
    return a_gpu(
        uuid,
        index,
        **{
            "name": "NVIDIA H100 80GB HBM3",
            "minor_number": index,
            "pci_bus_id": f"00000000:{index + 1:02X}:00.0",
            "serial": "165",
            "brand": "nvidia",
            "memory_total": Bytes(80 * GIB),
            "memory_used": Bytes(20 * GIB),
            "memory_free": Bytes(59 * GIB),
            "memory_reserved": Bytes(1 * GIB),
            "bar1_total": Bytes(128 * GIB),
            "bar1_used": Bytes(4 * MIB),
            "utilization": Ratio(0.57),
            "memory_utilization": Ratio(0.29),
            "encoder_utilization": Ratio(0.0),
            "decoder_utilization": Ratio(0.14),
            "power_watts": 312.5,
            "power_limit_watts": 700.0,
            "energy_joules": 123_456.789,
            "sm_clock_hertz": 1_980_000_000,
            "memory_clock_hertz": 2_619_000_000,
            "graphics_clock_hertz": 1_980_000_000,
            "video_clock_hertz": 1_545_000_000,
            "max_sm_clock_hertz": 1_980_000_000,
            "temperature_celsius": 61.0,
            "memory_temperature_celsius": 70.0,
            "slowdown_temperature_celsius": 95.0,
            "performance_state": 0,
            "persistence_mode": True,
            "throttle_reasons": ("sw_power_cap",),
            "ecc": (
                EccCount("corrected", "volatile", 1),
                EccCount("corrected", "aggregate", 12),
                EccCount("uncorrected", "volatile", 0),
                EccCount("uncorrected", "aggregate", 2),
            ),
            "remapped_rows": RemappedRows(3, 1, is_pending=False, has_failed=True),
            "retired_pages_pending": False,
            "pcie_generation": 4,
            "pcie_width": 8,
            "pcie_max_generation": 5,
            "pcie_max_width": 16,
            "pcie_replays": 7,
            "pcie_tx_bytes_per_second": 1500.0,
            "pcie_rx_bytes_per_second": 2500.0,
            "nvlink_bytes_per_second": 2.5 * 1024 * 1024,
            "mig_mode": False,
            "processes": (a_process(100, 3 * GIB), a_process(101, 4 * GIB)),
            "process_utilization": (a_share(100, 0.3), a_share(101, 0.2)),
            "gpm": GPM,
            **readings,
        },
    )


GPM = {
    "gr_engine_active": 0.9,
    "sm_active": 0.8,
    "sm_occupancy": 0.4,
    "tensor_active": 0.3,
    "dram_active": 0.2,
    "fp64_active": 0.01,
    "fp32_active": 0.1,
    "fp16_active": 0.05,
    "pcie_tx_bytes_per_second": 1500.0,
    "pcie_rx_bytes_per_second": 2500.0,
    "nvlink_tx_bytes_per_second": 3500.0,
    "nvlink_rx_bytes_per_second": 4500.0,
}
LINKS = (NvLink(0, is_active=True, replay_errors=1, recovery_errors=0, crc_errors=5), NvLink(1, is_active=False))


def a_process(pid: int, memory: int | None = None, instance: int | None = None, **rest: Any) -> GpuProcess:
    held = None if memory is None else Bytes(memory)
    return GpuProcess(HostPid(pid), rest.get("kind", "compute"), held, instance, None if instance is None else 0)


def a_share(pid: int, sm: float) -> ProcessUtilization:
    return ProcessUtilization(HostPid(pid), Ratio(sm), Ratio(0), Ratio(0), Ratio(0))


def a_mig(uuid: MigUuid, instance: int, compute: int = 0, **rest: Any) -> MigReading:
    return MigReading(uuid, instance, compute, rest.pop("profile", "1g.10gb"), **rest)


def a_mig_gpu(**readings: Any) -> GpuReading:
    """Three MIG devices in two GPU instances: the second instance is split in compute."""
    memory = {"memory_total": Bytes(10 * GIB), "memory_used": Bytes(2 * GIB), "memory_free": Bytes(8 * GIB)}
    large = {"memory_total": Bytes(20 * GIB), "memory_used": Bytes(5 * GIB), "memory_free": Bytes(15 * GIB)}
    return a_full_gpu(
        **{
            "utilization": None,
            "memory_utilization": None,
            "process_utilization": None,
            "processes": None,
            "gpm": {},
            "mig_mode": True,
            "mig": (
                a_mig(MIG_A, 1, **memory, gpm={"sm_active": 0.5, "gr_engine_active": 0.6}),
                a_mig(MIG_B, 2, 0, profile="1c.2g.20gb", **large),
                a_mig(MIG_C, 2, 1, profile="1c.2g.20gb", **large),
            ),
            **readings,
        }
    )


def hardware(*gpus: GpuReading, **rest: Any) -> HardwareSnapshot:
    versions = {"driver_version": "570.1", "cuda_version": "12.8"}
    return HardwareSnapshot(THEN, rest.pop("is_up", True), gpus=gpus, **{**versions, **rest})


def down(uuid: str | None, index: int, reason: Any = "blocked") -> DeviceDown:
    return DeviceDown(index, reason, THEN, None if uuid is None else GpuUuid(uuid))


# Who owns what.


def a_holder(pod: str, how: How = "pod_resources", *, container: str = "main", mig: str | None = None) -> Holder:
    return Holder(ContainerRef(PodRef("", "team", pod, f"uid-{pod}"), container), how, mig)


def a_name(pod: str) -> Name:
    return Name("team", pod, "main")


def owned(
    devices: dict[str, Iterable[Holder]] | None = None,
    processes: dict[int, Holder] | None = None,
    directories: Iterable[Holder] = (),
    unjoined: Iterable[Unjoined] = (),
) -> Ownership:
    return Ownership(
        {uuid: tuple(holders) for uuid, holders in (devices or {}).items()},
        {HostPid(pid): holder for pid, holder in (processes or {}).items()},
        {(holder.container.pod.uid, holder.container.name): holder for holder in directories},
        {},
        tuple(unjoined),
    )


def a_pod(pod: str, containers: tuple[str, ...] = ("main",), init: int = 0, phase: str = "Running") -> PodInfo:
    return PodInfo(PodRef("", "team", pod, f"uid-{pod}"), containers, init, phase=phase)


def allocated(*containers: tuple[tuple[str, int], ...]) -> PodAllocations:
    """Per container its devices with their memory."""
    return PodAllocations(
        tuple(tuple(DeviceAllocation(uuid, "NVIDIA", Bytes(m), 30) for uuid, m in each) for each in containers)
    )


# HAMi's containers.


def a_region_device(uuid: str = UUID, index: int = 0, **readings: Any) -> RegionDevice:
    """The numbers of HAMi's own test."""
    given = {
        "limit": 10000,
        "sm_limit": 30,
        "used": 8000,
        "context": 1000,
        "module": 500,
        "buffer": 300,
        "offset": 0,
        "monitor_used": None,
        "sm_percent": 42,
        "encoder_percent": 0,
        "decoder_percent": 0,
    }
    return RegionDevice(index, GpuUuid(uuid), **{**given, **readings})


def a_region(*devices: RegionDevice, last_kernel_at: float | None = THEN, is_torn: bool = False) -> Region:
    process = RegionProcess(ContainerPid(1), HostPid(100), 1, (Bytes(8000),))
    return Region("F", devices or (a_region_device(),), (process,), last_kernel_at, 0, 2, 0, is_torn)


def a_directory(pod: str, region: Region | None, container: str = "main", problem: Any = None) -> ContainerRegion:
    return ContainerRegion(f"uid-{pod}", container, region, problem)


def directories(*containers: ContainerRegion, **rest: Any) -> VgpuSnapshot:
    return VgpuSnapshot(THEN, rest.pop("is_present", True), containers, **rest)


# Whole views.


def a_view(*gpus: GpuReading, **rest: Any) -> NodeView:
    return NodeView(**{"node": "node-1", "now": NOW, "hardware": hardware(*gpus) if gpus else None, **rest})


def a_rich_view() -> NodeView:
    """Every family has a series: a shared device, one in MIG mode, one that is down."""
    shared = a_full_gpu(fan_ratios=(0.3, 0.4), nvlinks=LINKS)
    split = replace(a_mig_gpu(), uuid=OTHER_UUID, index=1)
    split = replace(split, mig=(replace(split.mig[0], gpm=GPM), *split.mig[1:]))
    return a_view(
        hardware=hardware(shared, split, down=(down("GPU-lost", 2, "lost"),)),
        vgpu=directories(
            a_directory("busy", a_region(a_region_device(monitor_used=9000))),
            a_directory("new", None),
            a_directory("unknown", a_region()),
            a_directory("broken", None, problem="bad_magic"),
            problems=(("bad_magic", 1),),
        ),
        ownership=owned(
            {UUID: [a_holder("busy"), a_holder("new")], MIG_A: [a_holder("slice")], MIG_B: [a_holder("part")]},
            {100: a_holder("busy", "cgroup")},
            [a_holder("busy", "hami_directory"), a_holder("new", "hami_directory")],
            [Unjoined("uid-unknown_main", "unknown_pod_uid")],
        ),
        pods=(a_pod("busy"), a_pod("new")),
        allocations={"uid-new": allocated(((UUID, 4 * GIB),))},
        other_exporters=("dcgm-exporter",),
        sources=(SourceHealth("kubelet", True, "", 1_700_000_000.0, {"no_socket": 2}, 0),),
        nvml=NvmlHealth(1, {"crashed": 2, "hung": 0}, {"power_watts": 3}),
        totals=Totals(
            {(UUID, 13): XidTotal(2, THEN), (GpuUuid("GPU-lost"), 79): XidTotal(1, THEN + 5)},
            {(UUID, "sw_power_cap"): 12.5},
            {(UUID, a_name("busy")): Spent(50.0, NOW), (UUID, a_name("new")): Spent(0.0, NOW)},
            {UUID: 100.0},
            {UUID: 25.0, OTHER_UUID: 10.0},
        ),
    )
