import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.analysis.criteria import Criteria
from gpusight.analysis.memory import SubjectMemory
from gpusight.analysis.records import State
from gpusight.analysis.transitions import ACTIVE, IDLE, Standing, next_standing

CRITERIA = Criteria(idle_rounds=5, other_rounds=2)
STATES: tuple[State, ...] = State.__args__  # type: ignore[attr-defined]
HELD_5: tuple[State, ...] = ("idle-held",) * 5
NOT_JUDGED: tuple[State, ...] = ("unknown", "warming", "unallocated")


def walk(*found: State, last_active: float | None = None) -> list[State]:
    """The states that a subject goes through, round by round."""
    memory: SubjectMemory | None = None
    states: list[State] = []
    for number, each in enumerate(found):
        now = 300.0 * number
        standing = next_standing(memory, each, now, CRITERIA)
        if each in ACTIVE:
            last_active = now
        memory = SubjectMemory(
            first_seen=0,
            seen=now,
            state=standing.state,
            since=standing.since,
            pending=standing.pending,
            pending_rounds=standing.pending_rounds,
            last_active=last_active,
        )
        states.append(standing.state)
    return states


def test_every_state_is_numbered_among_idle_active_and_not_judged() -> None:
    assert set(STATES) == IDLE | ACTIVE | set(NOT_JUDGED)


@pytest.mark.parametrize("state", STATES)
def test_the_first_sight_counts(state: State) -> None:
    assert next_standing(None, state, 7.0, CRITERIA) == Standing(state, 7.0, None, 0)


def test_an_active_workload_is_idle_after_enough_rounds_in_a_row() -> None:
    assert walk("productive", *HELD_5) == ["productive"] * 5 + ["idle-held"]


def test_both_kinds_of_idleness_count_together() -> None:
    assert walk("productive", "idle-held", "idle-empty", "idle-held", "idle-empty", "idle-empty")[-1] == "idle-empty"


def test_activity_in_between_starts_the_count_anew() -> None:
    states = walk("productive", *HELD_5[:4], "bursty", *HELD_5[:4])
    assert set(states) <= ACTIVE


def test_the_return_to_activity_counts_at_once() -> None:
    assert walk("idle-held", "bursty") == ["idle-held", "bursty"]


@pytest.mark.parametrize("doubt", NOT_JUDGED)
@pytest.mark.parametrize("state", STATES)
def test_what_is_not_judged_counts_at_once(state: State, doubt: State) -> None:
    assert walk(state, doubt)[-1] == doubt


def test_other_changes_take_two_rounds() -> None:
    assert walk("productive", "hollow-busy", "hollow-busy") == ["productive", "productive", "hollow-busy"]
    assert walk("productive", "hollow-busy", "starved", "starved") == ["productive"] * 3 + ["starved"]
    assert walk("idle-held", "idle-empty", "idle-empty") == ["idle-held", "idle-held", "idle-empty"]


@pytest.mark.parametrize("doubt", ["unknown", "warming"])
def test_doubt_in_between_is_no_short_cut_to_idleness(doubt: State) -> None:
    assert walk("productive", doubt, *HELD_5) == ["productive", *[doubt] * 5, "idle-held"]


def test_who_was_never_seen_active_is_idle_as_soon_as_that_is_clear() -> None:
    assert walk("unknown", "idle-held") == ["unknown", "idle-held"]
    assert walk("warming", "idle-empty") == ["warming", "idle-empty"]


@given(st.lists(st.sampled_from(STATES), min_size=1, max_size=40), st.data())
def test_idleness_is_always_shown_by_the_round_itself(found: list[State], data: st.DataObject) -> None:
    for state, shown in zip(walk(*found), found, strict=True):
        assert state not in IDLE or shown in IDLE
    place = data.draw(st.integers(0, len(found)))
    with_doubt = walk(*found[:place], "unknown", *found[place:])[place + 1 :]
    without = walk(*found)[place:]
    if any(each in ACTIVE for each in found[:place]):
        for doubted, state in zip(with_doubt, without, strict=True):
            assert doubted not in IDLE or state in IDLE, "doubt made it idle earlier"
