"""How the past of each family follows from the simulated fleet: one row per family that the analyzer reads.

What is constant as long as its subject exists needs no row but its name: the first live scrape says it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from gpusight.catalog import dcgm, hardware, own, pods, vgpu
from gpusight.catalog.spec import FamilySpec
from gpusight.model.units import Bytes, Ratio, bytes_to_mib, ratio_to_percent
from gpusight.simulate.fleet import UNOWNED_IN_INSTANCE, Load, MigInstance
from gpusight.simulate.history import Column, GpuHistory

MIB: Final = 1024.0 * 1024.0


class Holder(NamedTuple):
    """A container on a device, as the past of its families needs it."""

    load: Load
    """Its process there."""
    loads: tuple[Load, ...]
    """Those of all its devices."""
    started_at: float
    """Unix time of the simulation's second zero."""
    spent: float
    """Joules until the first moment."""


OfDevice = Callable[[GpuHistory, MigInstance | None], Column]
OfHolder = Callable[[GpuHistory, Holder], Column]


def _percents(column: Column) -> Column:
    return [round(ratio_to_percent(Ratio(ratio)), 6) for ratio in column]


def _mib(column: Column) -> Column:
    return [int(bytes_to_mib(Bytes(int(value)))) for value in column]


def _used(history: GpuHistory, instance: MigInstance | None) -> Column:
    return history.instance_memory_used(instance) if instance else history.memory_used


def _free(history: GpuHistory, instance: MigInstance | None) -> Column:
    return history.instance_memory_free(instance) if instance else history.memory_free


def _used_and_reserved(history: GpuHistory) -> Column:
    reserved = history.gpu.model.reserved
    return [used + reserved for used in history.memory_used]


def _held_memory(history: GpuHistory, load: Load) -> Column:
    """Of its process; without one, a container that has a MIG instance for itself holds what that has in use."""
    held = history.load_memory(load)
    sharers = [each for each in history.gpu.loads if each.instance is load.instance]
    if load.instance is None or len(sharers) > 1:
        return held
    return [memory or UNOWNED_IN_INSTANCE for memory in held]


def _active(rate: str) -> OfDevice:
    """NVML tells percents."""
    return lambda history, instance: [100 * mean * 0.01 for mean in history.average(rate, instance)]


def _profiled_bytes(rate: str) -> OfDevice:
    """NVML tells MiB per second."""
    return lambda history, instance: [mean / MIB * MIB for mean in history.average(rate, instance)]


def _pcie(rate: str) -> OfDevice:
    profiled = _profiled_bytes(rate)
    return lambda history, instance: (
        profiled(history, instance) if history.gpu.model.has_gpm else history.throughput(rate)
    )


_ACTIVE: Final = (
    ("busy", (dcgm.GR_ENGINE_ACTIVE, hardware.GRAPHICS_ACTIVE, hardware.MIG_GRAPHICS_ACTIVE)),
    ("sm", (dcgm.SM_ACTIVE, hardware.SM_ACTIVE, hardware.MIG_SM_ACTIVE)),
    ("occupancy", (dcgm.SM_OCCUPANCY, hardware.SM_OCCUPANCY, hardware.MIG_SM_OCCUPANCY)),
    ("tensor", (dcgm.PIPE_TENSOR_ACTIVE, hardware.TENSOR_ACTIVE, hardware.MIG_TENSOR_ACTIVE)),
    ("dram", (dcgm.DRAM_ACTIVE, hardware.DRAM_ACTIVE, hardware.MIG_DRAM_ACTIVE)),
)

_DEVICE: Final[Mapping[FamilySpec, OfDevice]] = {
    dcgm.GPU_UTIL: lambda history, _: _percents(history.utilization),
    dcgm.MEM_COPY_UTIL: lambda history, _: _percents(history.memory_utilization),
    dcgm.FB_USED: lambda history, instance: _mib(_used(history, instance)),
    dcgm.FB_FREE: lambda history, instance: _mib(_free(history, instance)),
    dcgm.POWER_USAGE: lambda history, _: history.power,
    dcgm.TOTAL_ENERGY_CONSUMPTION: lambda history, _: [round(joules * 1000) for joules in history.energy],
    dcgm.SM_CLOCK: lambda history, _: history.sm_clock,
    dcgm.GPU_TEMP: lambda history, _: history.temperature,
    dcgm.PCIE_TX_BYTES: _profiled_bytes("pcie_tx"),
    dcgm.PCIE_RX_BYTES: _profiled_bytes("pcie_rx"),
    hardware.UTILIZATION: lambda history, _: history.utilization,
    hardware.MEMORY_UTILIZATION: lambda history, _: history.memory_utilization,
    hardware.MEMORY_USED: lambda history, _: history.memory_used,
    hardware.MEMORY_FREE: lambda history, _: history.memory_free,
    hardware.MIG_MEMORY_USED: _used,
    hardware.MIG_MEMORY_FREE: _free,
    hardware.POWER: lambda history, _: history.power,
    hardware.ENERGY: lambda history, _: history.energy,
    hardware.SM_CLOCK: lambda history, _: [clock * 1_000_000 for clock in history.sm_clock],
    hardware.TEMPERATURE: lambda history, _: history.temperature,
    hardware.PCIE_TRANSMIT: _pcie("pcie_tx"),
    hardware.PCIE_RECEIVE: _pcie("pcie_rx"),
    **{spec: _active(rate) for rate, specs in _ACTIVE for spec in specs},
}

_HOLDER: Final[Mapping[FamilySpec, OfHolder]] = {
    hardware.CONTAINER_UTILIZATION: lambda history, holder: history.load_share(holder.load),
    hardware.CONTAINER_MEMORY_USED: lambda history, holder: _held_memory(history, holder.load),
    hardware.CONTAINER_ENERGY: lambda history, holder: history.load_energy(holder.load, holder.spent),
}

_HAMI_DEVICE: Final[Mapping[str, OfDevice]] = {
    "host_memory_used": lambda history, _: _used_and_reserved(history),
    "host_utilization": lambda history, _: _percents(history.utilization),
    "host_memory_controller_utilization": lambda history, _: _percents(history.memory_utilization),
}
_HAMI_HOLDER: Final[Mapping[str, OfHolder]] = {
    "memory_used": lambda history, holder: history.load_cuda_memory(holder.load),
    "container_memory": lambda history, holder: history.load_cuda_memory(holder.load),
    "utilization": lambda history, holder: history.load_percent(holder.load),
    "last_kernel": lambda history, holder: history.seconds_since_kernel(holder.loads, holder.started_at),
}
_DIALECTS: Final = (*vgpu.BY_DIALECT.values(), *vgpu.LEGACY.values())


def _named(quantities: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """What HAMi's dialects call these."""
    found = ((quantity, [getattr(families, quantity) for families in _DIALECTS]) for quantity in quantities)
    return {quantity: tuple(spec.name for spec in specs if spec is not None) for quantity, specs in found}


OF_DEVICE: Final[Mapping[str, OfDevice]] = {spec.name: read for spec, read in _DEVICE.items()} | {
    name: _HAMI_DEVICE[quantity] for quantity, names in _named(tuple(_HAMI_DEVICE)).items() for name in names
}
OF_HOLDER: Final[Mapping[str, OfHolder]] = {spec.name: read for spec, read in _HOLDER.items()} | {
    name: _HAMI_HOLDER[quantity] for quantity, names in _named(tuple(_HAMI_HOLDER)).items() for name in names
}
CONSTANT: Final = frozenset(
    {
        *(spec.name for spec in (dcgm.FB_TOTAL, dcgm.FB_RESERVED, dcgm.ENFORCED_POWER_LIMIT)),
        *(spec.name for spec in (hardware.MEMORY_TOTAL, hardware.MEMORY_RESERVED, hardware.POWER_LIMIT)),
        *(spec.name for spec in (hardware.MIG_MEMORY_TOTAL, hardware.CONTAINER_MEMORY_LIMIT)),
        *(spec.name for spec in (hardware.GPU_INFO, hardware.HOLDER_INFO, own.SIMULATED, *pods.FAMILIES)),
        *_named(("memory_limit",))["memory_limit"],
    }
)
NAMES_SOLE_HOLDER: Final = frozenset(spec.name for spec in dcgm.FAMILIES)
"""Families whose rows name the pod that holds the device alone."""
ENERGY_OF_HOLDER: Final = hardware.CONTAINER_ENERGY.name
