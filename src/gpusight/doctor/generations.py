"""Which exporter, of which generation, a family comes from: by its name."""

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from gpusight.store.normalize import SOURCES


class Generation(NamedTuple):
    name: str
    pattern: re.Pattern[str]


def _generation(name: str, pattern: str) -> Generation:
    return Generation(name, re.compile(pattern))


GENERATIONS = (
    _generation("gpusight", r"gpusight_"),
    _generation(
        "DCGM 4.6+",
        r"DCGM_FI_(?:DEV|PROF)_\w+_(?:RATIO|WATTS|CELSIUS|HERTZ|JOULES_TOTAL)$"
        r"|DCGM_FI_DEV_FB_\w+_BYTES$",
    ),
    _generation("DCGM", r"DCGM_FI_"),
    _generation("dcgm-exporter 1.x", r"dcgm_"),
    _generation("HAMi 2.9+", r"hami_"),
    _generation("HAMi", r"Host|vGPU_|Device_"),
    _generation("nvshare", r"nvshare_"),
    _generation("nvidia_gpu_exporter", r"nvidia_smi_"),
    _generation("all-smi", r"all_smi_"),
    _generation("OpenTelemetry", r"hw_"),
    _generation("npu-exporter", r"npu_"),
    _generation("dcu-exporter", r"dcu_"),
    _generation("mlu-exporter", r"mlu_"),
    _generation("mx-exporter", r"mx_"),
)


def generation(family: str) -> str:
    """The first whose pattern fits."""
    return next((each.name for each in GENERATIONS if each.pattern.match(family)), "?")


def by_generation(present: Collection[str]) -> Mapping[str, list[str]]:
    """The families by generation, the most trusted first."""
    found: dict[str, list[str]] = {}
    for source in SOURCES:
        if source.family in present:
            found.setdefault(generation(source.family), []).append(source.family)
    return found


def representatives(present: Collection[str]) -> list[str]:
    """One family of each generation: what one says of its labels, the others of the exporter say, too."""
    return [families[0] for families in by_generation(present).values()]
