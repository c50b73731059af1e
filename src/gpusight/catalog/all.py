"""The whole catalog: every topic, every dialect, every family."""

from collections.abc import Iterable
from itertools import chain

from gpusight.catalog import allocation, dcgm, hami, hardware, ops, own, pods, sharing, utilization, verdicts, vgpu
from gpusight.catalog.spec import FamilySpec

ONLY = "all"
"""The dialect of topics that have but one."""


DIALECTS: dict[str, dict[str, tuple[FamilySpec, ...]]] = {
    "ops": {ONLY: ops.FAMILIES},
    "vgpu": vgpu.DIALECTS | {f"{name} legacy": hami.present(group) for name, group in vgpu.LEGACY.items()},
    "hardware": {ONLY: hardware.FAMILIES},
    "dcgm": {ONLY: dcgm.FAMILIES},
    "node_health": {ONLY: own.NODE_HEALTH},
    "allocation": allocation.DIALECTS
    | {f"{name} legacy": hami.present(group) for name, group in allocation.LEGACY.items()},
    "pods": {ONLY: pods.FAMILIES},
    "utilization": {ONLY: utilization.FAMILIES},
    "verdicts": {ONLY: verdicts.FAMILIES},
    "sharing": sharing.DIALECTS,
    "own": {ONLY: own.FAMILIES},
}
"""Per topic and dialect the families that may stand on one page."""


def _distinct(groups: Iterable[tuple[FamilySpec, ...]]) -> tuple[FamilySpec, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(groups)))


TOPICS: dict[str, tuple[FamilySpec, ...]] = {topic: _distinct(DIALECTS[topic].values()) for topic in DIALECTS}
FAMILIES: tuple[FamilySpec, ...] = _distinct(TOPICS.values())

SEEDS: dict[str, dict[str, tuple[FamilySpec, ...]]] = {
    "000": {"the program's operations": ops.SEED_FAMILIES},
    "001": {"scheduler": allocation.DIALECTS["seed"], "monitor": vgpu.DIALECTS["seed"]},
    "003": {"analyzer": utilization.FAMILIES},
    "004": {
        "version 2 of the fork": sharing.FORK_V2,
        "added by version 3": sharing.FORK_V3_ADDED,
        "designed, never built": sharing.DESIGNED,
    },
}
"""The families that each seed document asks for, by the part of the system that exposes them."""
