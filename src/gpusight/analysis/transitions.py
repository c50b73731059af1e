"""Hysteresis: from the state that one window shows to the state that a subject is in."""

from msgspec import Struct

from gpusight.analysis.criteria import Criteria
from gpusight.analysis.memory import SubjectMemory
from gpusight.analysis.records import State

IDLE: frozenset[State] = frozenset({"idle-empty", "idle-held"})
ACTIVE: frozenset[State] = frozenset({"bursty", "hollow-busy", "starved", "memory-bound", "productive"})
_AT_ONCE: frozenset[State] = frozenset({"unknown", "warming", "unallocated"})
"""States that say that we do not judge: entered without waiting, and left so but for idleness."""


class Standing(Struct, frozen=True, gc=False):
    state: State
    since: float
    pending: State | None
    pending_rounds: int


def next_standing(memory: SubjectMemory | None, found: State, now: float, criteria: Criteria) -> Standing:
    if memory is None:
        return Standing(found, now, None, 0)
    if found == memory.state:
        return Standing(found, memory.since, None, 0)
    rounds = memory.pending_rounds + 1 if _same_kind(memory.pending, found) else 1
    if rounds >= _needed(memory, found, criteria):
        return Standing(found, now, None, 0)
    return Standing(memory.state, memory.since, found, rounds)


def _same_kind(pending: State | None, found: State) -> bool:
    return pending == found or (pending in IDLE and found in IDLE)


def _needed(memory: SubjectMemory, found: State, criteria: Criteria) -> int:
    state = memory.state
    if found in IDLE and state not in IDLE and (state in ACTIVE or memory.last_active is not None):
        # Doubt in between is no short cut: whoever was ever active has to be inactive for as long.
        return criteria.idle_rounds
    if found in _AT_ONCE or state in _AT_ONCE or (state in IDLE and found in ACTIVE):
        return 1
    return criteria.other_rounds
