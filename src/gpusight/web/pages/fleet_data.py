"""A round as the fleet page shows it: counters that add up, and columns for the map."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from gpusight.analysis.records import GpuResult, Round, State, TenantUse

STATES: tuple[State, ...] = (
    "productive",
    "memory-bound",
    "bursty",
    "starved",
    "hollow-busy",
    "warming",
    "idle-held",
    "idle-empty",
    "unknown",
    "unallocated",
)
"""In the order of the legend."""

_RANKS: Mapping[str, int] = {
    **dict.fromkeys(("productive", "memory-bound", "bursty", "starved", "hollow-busy", "warming"), 4),
    "idle-held": 3,
    "idle-empty": 2,
    "unknown": 1,
    "unallocated": 0,
}
"""A GPU that several share counts once: as in use if anybody uses it, as idle if nobody does, and so on."""


class Counters(Struct, frozen=True, kw_only=True):
    """GPUs, each once: in use + idle + free + unknown is all of them."""

    gpus: int = 0
    rows: int = 0
    in_use: int = 0
    idle_held: int = 0
    idle_empty: int = 0
    unknown: int = 0
    free: int = 0
    by_state: Mapping[str, int] = {}
    """Rows."""

    @property
    def idle(self) -> int:
        return self.idle_held + self.idle_empty


def counters_of(found: Round) -> Counters:
    ranks: dict[tuple[str, str, str], int] = {}
    by_state: dict[str, int] = dict.fromkeys(STATES, 0)
    for row in found.results:
        key = (row.cluster, row.gpu_id, row.hostname if not row.gpu_id.startswith("GPU-") else "")
        ranks[key] = max(ranks.get(key, 0), _RANKS[row.state])
        by_state[row.state] += 1
    counted = [0] * 5
    for rank in ranks.values():
        counted[rank] += 1
    free, unknown, empty, held, in_use = counted
    return Counters(
        gpus=len(ranks),
        rows=len(found.results),
        in_use=in_use,
        idle_held=held,
        idle_empty=empty,
        unknown=unknown,
        free=free,
        by_state=by_state,
    )


class Today(Struct, frozen=True, kw_only=True):
    held_gpu_hours: float
    idle_gpu_hours: float
    idle_cost: Mapping[str, float]
    """By currency; nothing without prices."""


def today_of(uses: Iterable[TenantUse]) -> Today:
    held = idle = 0.0
    cost: dict[str, float] = {}
    for use in uses:
        held += use.held_gpu_hours
        idle += use.idle_gpu_hours
        if use.idle_cost is not None:
            cost[use.currency] = cost.get(use.currency, 0.0) + use.idle_cost
    return Today(held_gpu_hours=held, idle_gpu_hours=idle, idle_cost=cost)


class _Names:
    """Each text once, and its number."""

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self.numbers: dict[str, int] = {text: number for number, text in enumerate(texts)}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))

    @property
    def texts(self) -> list[str]:
        return list(self.numbers)


def cells_of(found: Round) -> dict[str, Any]:
    """Columns, in the order of nodes and GPUs; repeated texts are numbers into lists."""
    rows = sorted(found.results, key=_place)
    nodes, namespaces, models, subjects = _Names(), _Names(), _Names(), _Names()
    is_one = len({row.cluster for row in rows}) < 2  # then its name tells nothing
    states = _Names(STATES)
    columns = {
        "id": [row.id for row in rows],
        "gpu": [row.gpu_id for row in rows],
        "part": [_part(row) for row in rows],
        "pod": [row.pod for row in rows],
        "score": [row.score for row in rows],
        "node": [nodes(row.hostname if is_one else f"{row.cluster} / {row.hostname}") for row in rows],
        "namespace": [namespaces(row.namespace) for row in rows],
        "model": [models(row.model_name) for row in rows],
        "state": [states(row.state) for row in rows],
        "subject": [subjects(row.subject) for row in rows],
    }
    reasons = {verdict.subject.id: verdict.reason for verdict in found.verdicts}
    return {
        "round": found.number,
        "at": found.at,
        "columns": columns,
        "nodes": nodes.texts,
        "namespaces": namespaces.texts,
        "models": models.texts,
        "states": states.texts,
        "subjects": subjects.texts,
        "reasons": [reasons.get(subject, "") for subject in subjects.texts],
    }


def _place(row: GpuResult) -> tuple[str, ...]:
    return row.cluster, row.hostname, row.gpu_id, row.mig_instance, row.slot, row.pod


def _part(row: GpuResult) -> str:
    return " ".join(filter(None, (row.mig_instance and f"MIG {row.mig_instance}", row.slot and f"#{row.slot}")))
