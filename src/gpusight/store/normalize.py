"""One set of quantities in base units out of every naming generation of every exporter that we know."""

import math
from collections.abc import Collection, Mapping
from types import MappingProxyType

from gpusight.model.series import Quantity
from gpusight.store.sources import MEGA, MIB, MILLI, PERCENT, SOURCES, SeriesKind, Source

__all__ = [
    "BY_FAMILY",
    "INFO_FAMILIES",
    "SMALLEST_BLANK",
    "SOURCES",
    "UNITS",
    "ScaleError",
    "SeriesKind",
    "Source",
    "ambiguity",
    "declared_scales",
    "limits",
    "plausible",
    "resolve_scale",
    "sources_for",
    "to_base",
]

BY_FAMILY: Mapping[str, Source] = MappingProxyType({source.family: source for source in SOURCES})

UNITS: Mapping[str, float] = MappingProxyType(
    {
        "percent": PERCENT,
        "ratio": 1.0,
        "bytes": 1.0,
        "kibibytes": 1024.0,
        "mebibytes": MIB,
        "watts": 1.0,
        "milliwatts": MILLI,
        "celsius": 1.0,
        "decicelsius": 0.1,
        "centicelsius": 0.01,
        "hertz": 1.0,
        "megahertz": MEGA,
    }
)
"""Words in which a user declares the unit of a family."""

INFO_FAMILIES = ("gpusight_gpu_info", "nvidia_smi_gpu_info", "nvshare_gpu_info")
"""Whose labels say the node and the model of GPUs whose other families do not."""

_RATIO = (0.0, 1.0)
_BYTES = (0.0, 2.0**50)
_RATE = (0.0, 1e13)
_LIMITS: Mapping[Quantity, tuple[float, float]] = {
    "utilization": _RATIO,
    "memory_copy": _RATIO,
    "memory_used": _BYTES,
    "memory_free": _BYTES,
    "memory_reserved": _BYTES,
    "memory_total": (1.0, 2.0**50),  # 0 stands for "no limit", which is not a size
    "power": (0.0, 20_000.0),
    "power_limit": (1.0, 20_000.0),
    "energy": (0.0, 1e15),
    "sm_clock": (0.0, 1e11),
    "temperature": (-50.0, 250.0),
    "engine_active": _RATIO,
    "sm_active": _RATIO,
    "sm_occupancy": _RATIO,
    "tensor_active": _RATIO,
    "dram_active": _RATIO,
    "pcie_transmit": _RATE,
    "pcie_receive": _RATE,
    "last_kernel": (0.0, 1e10),
}
_SLACK = 1e-3
"""Rounding may carry a ratio this far beyond 1."""

SMALLEST_BLANK = float(0x7FFFFFF0)
_BLANKS = frozenset(
    [
        *(SMALLEST_BLANK + i for i in range(4)),
        float(0x7FFFFFFFFFFFFFF0),  # all four are one float
        *(140737488355328.0 + i for i in range(4)),
    ]
)
_INT64_BLANKS = 9.2233720368e18
"""Printed with few digits, DCGM's blank 64-bit integers come back as slightly less than 2^63."""


class ScaleError(ValueError):
    """A declared unit that cannot be; the message says what may be written instead."""


def declared_scales(declarations: Collection[str]) -> dict[str, float]:
    """`FAMILY=unit` as users write it, by family; ScaleError for an unknown family or unit."""
    scales: dict[str, float] = {}
    for declaration in declarations:
        family, _, unit = (part.strip() for part in declaration.partition("="))
        if family not in BY_FAMILY:
            raise ScaleError(f"no family {family!r} is known: write FAMILY=unit with a family of docs/store.md")
        if unit not in UNITS:
            raise ScaleError(f"the unit of {family} must be one of {', '.join(UNITS)}, not {unit!r}")
        scales[family] = UNITS[unit]
    return scales


def resolve_scale(source: Source, declared: Mapping[str, float]) -> float | None:
    """What to multiply with to get base units; None if only the site can know and has not said it."""
    return declared.get(source.family, source.scale)


def ambiguity(source: Source) -> str:
    """Why a family without a scale is not read, and what to do."""
    return (
        f"ambiguous scale, so {source.family} is not read ({source.proof.rstrip('.')}):"
        f" declare it with store.scale={source.family}=UNIT"
    )


def limits(quantity: Quantity) -> tuple[float, float]:
    """The least and the greatest value that can be, in base units."""
    return _LIMITS[quantity]


def plausible(quantity: Quantity, value: float) -> bool:
    """Whether a value in base units can be: a number, no blank of DCGM's, within the quantity's range."""
    if not math.isfinite(value) or value in _BLANKS or value >= _INT64_BLANKS:
        return False
    least, most = _LIMITS[quantity]
    return least <= value <= most * (1.0 + _SLACK)


def to_base(source: Source, scale: float, raw: float) -> float | None:
    """A sample's value in base units, cut to the range where its source may overshoot; None if it cannot be."""
    if raw in _BLANKS or raw >= _INT64_BLANKS:
        return None
    value = raw * scale
    most = _LIMITS[source.quantity][1]
    if most < value <= most * max(source.ceiling, 1.0 + _SLACK):
        value = most
    return value if plausible(source.quantity, value) else None


def sources_for(quantity: Quantity, present: Collection[str]) -> list[Source]:
    """The families that are there for a quantity, the most trusted first."""
    return [source for source in SOURCES if source.quantity == quantity and source.family in present]
