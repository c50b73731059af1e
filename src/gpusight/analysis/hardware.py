"""What is known of GPU models without asking a device: power limits and idle power, from NVIDIA's data sheets.

Used only where no exporter says the device's own enforced limit. A model that is not here has no limit: its power
term is left out.
"""

import re
from functools import lru_cache
from typing import NamedTuple


class PowerRange(NamedTuple):
    """Watts: about what the idle board draws, and its default limit."""

    idle: float
    limit: float


_MODELS: tuple[tuple[str, PowerRange], ...] = (
    (r"GB200|B200", PowerRange(140, 1000)),
    (r"B100", PowerRange(120, 700)),
    (r"H200 NVL", PowerRange(70, 600)),
    (r"H200|H20\b", PowerRange(75, 700)),
    (r"H100 PCIe", PowerRange(50, 350)),
    (r"H100 NVL", PowerRange(60, 400)),
    (r"H100|H800", PowerRange(70, 700)),
    (r"A100.*PCI.*40|A800.*PCI.*40", PowerRange(35, 250)),
    (r"A100.*PCI|A100 80GB PCIe|A800.*PCI", PowerRange(45, 300)),
    (r"A100|A800", PowerRange(60, 400)),
    (r"A40\b|A6000\b", PowerRange(25, 300)),
    (r"A30\b", PowerRange(28, 165)),
    (r"A10\b|A10G", PowerRange(17, 150)),
    (r"A2\b", PowerRange(9, 60)),
    (r"L40S", PowerRange(33, 350)),
    (r"L40\b", PowerRange(33, 300)),
    (r"L20\b", PowerRange(30, 275)),
    (r"L4\b", PowerRange(12, 72)),
    (r"V100S", PowerRange(25, 250)),
    (r"V100-PCIE", PowerRange(25, 250)),
    (r"V100", PowerRange(40, 300)),
    (r"P100-PCIE", PowerRange(28, 250)),
    (r"P100", PowerRange(30, 300)),
    (r"P40\b", PowerRange(12, 250)),
    (r"P4\b", PowerRange(7, 75)),
    (r"T4\b", PowerRange(10, 70)),
    (r"RTX 5090", PowerRange(30, 575)),
    (r"RTX 4090", PowerRange(20, 450)),
    (r"RTX 4080", PowerRange(15, 320)),
    (r"RTX 3090 Ti", PowerRange(20, 450)),
    (r"RTX 3090", PowerRange(20, 350)),
    (r"RTX 3080", PowerRange(18, 320)),
    (r"2080 Ti", PowerRange(15, 250)),
)


_LONGEST_NAME = 128
"""What is longer is no model, and would only keep the patterns busy."""


@lru_cache(maxsize=512)
def power_range(model: str) -> PowerRange | None:
    """By the name that the driver gives the model."""
    name = model[:_LONGEST_NAME]
    return next((known for pattern, known in _MODELS if re.search(pattern, name, re.IGNORECASE)), None)
