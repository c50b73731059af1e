"""The GPU models of the simulated fleet as data: what each is called, can do, and refuses to say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class MigProfile:
    """One way to cut an instance out of a device."""

    name: str
    slices: int
    """Compute slices, of 7."""
    memory_slices: int
    """Of 8."""
    sm_count: int
    memory: int
    first_instance_id: int
    """The driver numbers instances by size: 7g is 0, 3g and 4g start at 1, 2g at 3, 1g at 7."""
    decoders: int = 0


def _profiles(*rows: tuple[str, int, int, int, int, int, int]) -> Mapping[str, MigProfile]:
    """Rows of name, slices, memory slices, SMs, MiB, first instance id, decoders."""
    made = (MigProfile(name, g, m, sm, mib * MIB, first, dec) for name, g, m, sm, mib, first, dec in rows)
    return MappingProxyType({profile.name: profile for profile in made})


_A100_40_MIG = _profiles(
    ("1g.5gb", 1, 1, 14, 4864, 7, 0),
    ("2g.10gb", 2, 2, 28, 9856, 3, 1),
    ("3g.20gb", 3, 4, 42, 19968, 1, 2),
    ("4g.20gb", 4, 4, 56, 19968, 1, 2),
    ("7g.40gb", 7, 8, 98, 40192, 0, 5),
)
_A100_80_MIG = _profiles(
    ("1g.10gb", 1, 1, 14, 9728, 7, 0),
    ("1g.20gb", 1, 2, 14, 19968, 7, 1),
    ("2g.20gb", 2, 2, 28, 19968, 3, 1),
    ("3g.40gb", 3, 4, 42, 40192, 1, 2),
    ("4g.40gb", 4, 4, 56, 40192, 1, 2),
    ("7g.80gb", 7, 8, 98, 80896, 0, 5),
)
_H100_MIG = _profiles(
    ("1g.10gb", 1, 1, 16, 9984, 7, 1),
    ("1g.20gb", 1, 2, 26, 20096, 7, 1),
    ("2g.20gb", 2, 2, 32, 20096, 3, 2),
    ("3g.40gb", 3, 4, 60, 40448, 1, 3),
    ("4g.40gb", 4, 4, 64, 40448, 1, 4),
    ("7g.80gb", 7, 8, 132, 81089, 0, 7),
)


@dataclass(frozen=True, slots=True, eq=False)
class GpuModel:
    """What a model is and which questions its driver answers. Clocks in MHz, watts, degrees Celsius, bytes."""

    key: str
    name: str
    architecture: int
    """NVML_DEVICE_ARCH_*."""
    compute_capability: tuple[int, int]
    brand: int
    """NVML_BRAND_*."""
    pci_device_id: int
    memory: int
    reserved: int
    bar1: int | None
    sm_count: int
    cores: int
    idle_watts: float
    full_watts: float
    """What it draws at full load; also the power limit where it has one."""
    sm_clock: int
    idle_sm_clock: int
    memory_clock: int | None
    video_clock: int
    idle_celsius: float
    full_celsius: float
    max_celsius: int
    slowdown_celsius: int
    shutdown_celsius: int
    idle_pstate: int = 8
    min_power_limit: float | None = 100.0
    """None: the model has no power limit to ask for."""
    pcie_generation: int = 4
    pcie_width: int = 16
    memory_bus_bits: int = 0
    fans: int = 0
    encoders: int = 0
    decoders: int = 0
    nvlinks: int = 0
    nvlink_version: int = 0
    nvlink_mbps: int = 0
    has_ecc: bool = False
    has_remapped_rows: bool = False
    has_retired_pages: bool = False
    has_memory_temperature: bool = False
    has_serial: bool = True
    has_energy: bool = True
    has_gpm: bool = False
    is_unified_memory: bool = False
    mig: Mapping[str, MigProfile] = field(default_factory=dict)


_VOLTA, _TURING, _AMPERE, _ADA, _HOPPER, _BLACKWELL = 5, 6, 7, 8, 9, 10
_TESLA, _GEFORCE, _NVIDIA = 2, 5, 14

_ALL = (
    GpuModel(
        key="v100s-32gb", name="Tesla V100S-PCIE-32GB", architecture=_VOLTA, compute_capability=(7, 0), brand=_TESLA,
        pci_device_id=0x1DF610DE, memory=32768 * MIB, reserved=267 * MIB, bar1=32768 * MIB, sm_count=80, cores=5120,
        idle_watts=25, full_watts=250, sm_clock=1597, idle_sm_clock=135, memory_clock=1107, video_clock=1432,
        idle_celsius=31, full_celsius=72, max_celsius=83, slowdown_celsius=87, shutdown_celsius=90, idle_pstate=0,
        pcie_generation=3, memory_bus_bits=4096, encoders=3, decoders=1, has_ecc=True, has_retired_pages=True,
        has_memory_temperature=True,
    ),
    GpuModel(
        key="t4", name="Tesla T4", architecture=_TURING, compute_capability=(7, 5), brand=_TESLA,
        pci_device_id=0x1EB810DE, memory=15360 * MIB, reserved=450 * MIB, bar1=256 * MIB, sm_count=40, cores=2560,
        idle_watts=9, full_watts=70, sm_clock=1590, idle_sm_clock=300, memory_clock=5001, video_clock=1470,
        idle_celsius=33, full_celsius=76, max_celsius=85, slowdown_celsius=93, shutdown_celsius=96,
        min_power_limit=60, pcie_generation=3, memory_bus_bits=256, encoders=1, decoders=2, has_ecc=True,
        has_retired_pages=True,
    ),
    GpuModel(
        key="a100-40gb", name="NVIDIA A100-SXM4-40GB", architecture=_AMPERE, compute_capability=(8, 0),
        brand=_NVIDIA, pci_device_id=0x20B010DE, memory=40960 * MIB, reserved=571 * MIB, bar1=65536 * MIB,
        sm_count=108, cores=6912, idle_watts=48, full_watts=400, sm_clock=1410, idle_sm_clock=210,
        memory_clock=1215, video_clock=1290, idle_celsius=28, full_celsius=66, max_celsius=85, slowdown_celsius=92,
        shutdown_celsius=95, idle_pstate=0, memory_bus_bits=5120, decoders=5, nvlinks=12, nvlink_version=4,
        nvlink_mbps=25000, has_ecc=True, has_remapped_rows=True, has_memory_temperature=True, mig=_A100_40_MIG,
    ),
    GpuModel(
        key="a100-80gb", name="NVIDIA A100-SXM4-80GB", architecture=_AMPERE, compute_capability=(8, 0),
        brand=_NVIDIA, pci_device_id=0x20B210DE, memory=81920 * MIB, reserved=626 * MIB, bar1=131072 * MIB,
        sm_count=108, cores=6912, idle_watts=62, full_watts=400, sm_clock=1410, idle_sm_clock=210,
        memory_clock=1593, video_clock=1290, idle_celsius=29, full_celsius=67, max_celsius=85, slowdown_celsius=89,
        shutdown_celsius=92, idle_pstate=0, memory_bus_bits=5120, decoders=5, nvlinks=12, nvlink_version=4,
        nvlink_mbps=25000, has_ecc=True, has_remapped_rows=True, has_memory_temperature=True, mig=_A100_80_MIG,
    ),
    GpuModel(
        key="h100", name="NVIDIA H100 80GB HBM3", architecture=_HOPPER, compute_capability=(9, 0), brand=_NVIDIA,
        pci_device_id=0x233010DE, memory=81559 * MIB, reserved=551 * MIB, bar1=131072 * MIB, sm_count=132,
        cores=16896, idle_watts=70, full_watts=700, sm_clock=1980, idle_sm_clock=345, memory_clock=2619,
        video_clock=1545, idle_celsius=27, full_celsius=68, max_celsius=85, slowdown_celsius=87,
        shutdown_celsius=90, idle_pstate=0, min_power_limit=200, pcie_generation=5, memory_bus_bits=5120,
        decoders=7, nvlinks=18, nvlink_version=6, nvlink_mbps=26562, has_ecc=True, has_remapped_rows=True,
        has_memory_temperature=True, has_gpm=True, mig=_H100_MIG,
    ),
    GpuModel(
        key="rtx-4090", name="NVIDIA GeForce RTX 4090", architecture=_ADA, compute_capability=(8, 9), brand=_GEFORCE,
        pci_device_id=0x268410DE, memory=24564 * MIB, reserved=347 * MIB, bar1=32768 * MIB, sm_count=128,
        cores=16384, idle_watts=20, full_watts=450, sm_clock=3105, idle_sm_clock=210, memory_clock=10501,
        video_clock=2415, idle_celsius=34, full_celsius=71, max_celsius=84, slowdown_celsius=90,
        shutdown_celsius=92, min_power_limit=150, memory_bus_bits=384, fans=2, encoders=2, decoders=1,
        has_serial=False,
    ),
    GpuModel(
        key="gb10", name="NVIDIA GB10", architecture=_BLACKWELL, compute_capability=(12, 1), brand=_NVIDIA,
        pci_device_id=0x2E1210DE, memory=122880 * MIB, reserved=0, bar1=None, sm_count=48, cores=6144,
        idle_watts=4.5, full_watts=100, sm_clock=3003, idle_sm_clock=208, memory_clock=None, video_clock=2411,
        idle_celsius=36, full_celsius=78, max_celsius=88, slowdown_celsius=95, shutdown_celsius=98,
        min_power_limit=None, pcie_generation=5, pcie_width=1, encoders=1, decoders=1, has_serial=False,
        is_unified_memory=True,
    ),
)  # fmt: skip

MODELS: Final[Mapping[str, GpuModel]] = MappingProxyType({model.key: model for model in _ALL})
