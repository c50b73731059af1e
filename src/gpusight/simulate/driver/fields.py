"""nvmlDeviceGetFieldValues: many numbers in one call, each with a return code of its own."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import pynvml

from gpusight.simulate.driver.library import NOT_SUPPORTED, CallTable, Device, Library, struct_at
from gpusight.simulate.driver.numbers import ROWS, ecc_errors, remapped_rows, retired_pages_pending
from gpusight.simulate.state import GpuState

CALLS: Final = CallTable()

_U32: Final[int] = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
_U64: Final[int] = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
_UNION_FIELDS: Final = {_U32: "uiVal", _U64: "ullVal"}

Get = Callable[[GpuState, int], int | None]
"""State and scope (mostly a link number) to the value; None is not supported."""


def _memory_temperature(s: GpuState, _scope: int) -> int | None:
    return int(s.memory_celsius) if s.gpu.model.has_memory_temperature else None


def _if_links(get: Callable[[GpuState], int]) -> Get:
    return lambda s, _scope: get(s) if s.gpu.model.nvlinks else None


def _link_kib(s: GpuState, scope: int) -> int | None:
    """Over one link, or over all of them together."""
    links = s.gpu.model.nvlinks
    return s.nvlink_total // 1024 // (links if scope < links else 1) if links else None


def _ecc(kind: int, span: int) -> Get:
    return lambda s, _scope: ecc_errors(s, kind, span)


def _same_as(function: str) -> Get:
    return lambda s, _scope: ROWS[function].get(s)


def _remapped(position: int) -> Get:
    return lambda s, _scope: (rows := remapped_rows(s)) and rows[position]


FIELDS: Final[Mapping[int, tuple[int, Get]]] = {
    pynvml.NVML_FI_DEV_ECC_CURRENT: (_U32, lambda s, _: 1 if s.gpu.model.has_ecc else None),
    pynvml.NVML_FI_DEV_ECC_PENDING: (_U32, lambda s, _: 1 if s.gpu.model.has_ecc else None),
    pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL: (_U64, _ecc(0, 0)),
    pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL: (_U64, _ecc(1, 0)),
    pynvml.NVML_FI_DEV_ECC_SBE_AGG_TOTAL: (_U64, _ecc(0, 1)),
    pynvml.NVML_FI_DEV_ECC_DBE_AGG_TOTAL: (_U64, _ecc(1, 1)),
    pynvml.NVML_FI_DEV_RETIRED_PENDING: (_U32, lambda s, _: retired_pages_pending(s)),
    pynvml.NVML_FI_DEV_MEMORY_TEMP: (_U32, _memory_temperature),
    pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION: (_U64, _same_as("nvmlDeviceGetTotalEnergyConsumption")),
    pynvml.NVML_FI_DEV_ENERGY: (_U64, _same_as("nvmlDeviceGetTotalEnergyConsumption")),
    pynvml.NVML_FI_DEV_POWER_INSTANT: (_U32, _same_as("nvmlDeviceGetPowerUsage")),
    pynvml.NVML_FI_DEV_POWER_AVERAGE: (_U32, _same_as("nvmlDeviceGetPowerUsage")),
    pynvml.NVML_FI_DEV_POWER_CURRENT_LIMIT: (_U32, _same_as("nvmlDeviceGetEnforcedPowerLimit")),
    pynvml.NVML_FI_DEV_POWER_REQUESTED_LIMIT: (_U32, _same_as("nvmlDeviceGetPowerManagementLimit")),
    pynvml.NVML_FI_DEV_POWER_DEFAULT_LIMIT: (_U32, _same_as("nvmlDeviceGetPowerManagementDefaultLimit")),
    pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT: (_U32, lambda s, _: s.gpu.model.nvlinks),
    pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON: (_U32, _if_links(lambda s: s.gpu.model.nvlink_mbps)),
    pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL: (_U64, _if_links(lambda _: 0)),
    pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL: (_U64, _if_links(lambda _: 0)),
    pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL: (_U64, _if_links(lambda _: 0)),
    pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL: (_U64, _if_links(lambda _: 0)),
    pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX: (_U64, _link_kib),
    pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX: (_U64, _link_kib),
    pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER: (_U32, lambda s, _: s.pcie_replays),
    pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES: (_U64, lambda s, _: s.pcie_tx_total),
    pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES: (_U64, lambda s, _: s.pcie_rx_total),
    pynvml.NVML_FI_DEV_REMAPPED_COR: (_U32, _remapped(0)),
    pynvml.NVML_FI_DEV_REMAPPED_UNC: (_U32, _remapped(1)),
    pynvml.NVML_FI_DEV_REMAPPED_PENDING: (_U32, _remapped(2)),
    pynvml.NVML_FI_DEV_REMAPPED_FAILURE: (_U32, _remapped(3)),
    pynvml.NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED: (_U32, lambda s, _: int(bool(s.gpu.model.mig))),
}


@CALLS.add("dip", "nvmlDeviceGetFieldValues")
def _field_values(library: Library, device: Device, number: int, out: int) -> None:
    """The call succeeds even when no field does."""
    state = library.gpu(device)
    stamp = int((device.node.started_at + state.t) * 1_000_000)
    for value in struct_at(pynvml.c_nvmlFieldValue_t * number, out):
        _fill(value, state, stamp)


def _fill(value: Any, state: GpuState, stamp: int) -> None:
    kind, get = FIELDS.get(value.fieldId, (_U32, lambda _s, _scope: None))
    number = get(state, value.scopeId)
    value.timestamp, value.latencyUsec, value.valueType = stamp, 5, kind
    value.nvmlReturn = NOT_SUPPORTED if number is None else 0
    setattr(value.value, _UNION_FIELDS[kind], number or 0)
