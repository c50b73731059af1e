"""Nobody is called idle because data went missing."""

import re
from collections.abc import Set as AbstractSet
from copy import deepcopy

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpusight.analysis.accounts import account, loans_of
from gpusight.analysis.memory import Memory, dump, load
from gpusight.analysis.records import Verdict
from gpusight.analysis.results import stats_of
from gpusight.analysis.rounds import Conclusion
from gpusight.analysis.subjects import subject_of_pod
from gpusight.analysis.tenancy import PriceList, Tenancy
from gpusight.analysis.transitions import IDLE
from gpusight.model.series import Aggregate, Failure, PodKey, Reading, SeriesKey, Windows

from .building import CRITERIA, SPAN, judge, later
from .worlds import SIGNALS, Holder, any_readings, honest_worlds, plausible_readings

thorough = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
Cell = tuple[int, Aggregate, SeriesKey]


def cells_of(reading: Reading) -> list[Cell]:
    return [
        (number, aggregate, key)
        for number, each in enumerate(reading.windows)
        for aggregate, values in each.columns.items()
        for key in values
    ]


def with_windows(reading: Reading, windows: list[Windows]) -> Reading:
    return Reading(reading.span, windows, reading.places, reading.owners, reading.started)


def without(
    reading: Reading, dropped: AbstractSet[Cell], columns: AbstractSet[tuple[int, Aggregate]] = frozenset()
) -> Reading:
    """Without some values, and without some columns altogether."""
    windows = [
        Windows(
            each.quantity,
            each.scope,
            each.family,
            {
                aggregate: {key: value for key, value in values.items() if (number, aggregate, key) not in dropped}
                for aggregate, values in each.columns.items()
                if (number, aggregate) not in columns
            },
        )
        for number, each in enumerate(reading.windows)
    ]
    return with_windows(reading, windows)


def verdicts(conclusion: Conclusion) -> dict[str, Verdict]:
    return {each.verdict.subject.id: each.verdict for each in conclusion.judged}


def idle_in(conclusion: Conclusion) -> set[str]:
    return {name for name, verdict in verdicts(conclusion).items() if verdict.state in IDLE}


def shows_activity(windows: Windows, key: SeriesKey) -> bool:
    """By whatever column: said here anew, and not by the code under test."""
    told = {aggregate: values[key] for aggregate, values in windows.columns.items() if key in values}
    return (
        told.get("max", 0.0) > CRITERIA.active_above
        or told.get("mean", 0.0) > CRITERIA.active_above
        or told.get("active_count", 0.0) > 0
        or told.get("last_active", -1.0) >= SPAN.start
    )


@thorough
@given(any_readings() | plausible_readings(), any_readings() | plausible_readings())
def test_whatever_is_read_gives_a_conclusion_that_makes_sense(first: Reading, second: Reading) -> None:
    memory = Memory()
    for number, reading in enumerate((first, second, first)):
        conclusion = judge(later(reading, 300.0 * number), memory)
        account(conclusion, memory, SPAN.length, Tenancy(), PriceList("EUR", (("H100", 4.0),)))
        loans_of(conclusion)
        memory = load(dump(conclusion.memory))
        stats = stats_of(conclusion.results, CRITERIA.low_below)
        assert sum(stats.by_status.values()) == len(conclusion.results)
        for row in conclusion.results:
            assert (row.score is None) == (row.status == "unknown")
            assert row.score is None or 0 <= row.score <= 100
        for verdict in verdicts(conclusion).values():
            assert 0 <= verdict.confidence <= 1
            assert re.fullmatch(r"[A-Z][^\n]*[^.]\.", verdict.reason), verdict.reason
            assert not re.search(r"\b(None|nan)\b", verdict.reason)
            for share in (verdict.coverage, verdict.activity.active_share, verdict.holding.memory_share):
                assert share is None or 0 <= share <= 1
            assert (verdict.activity.idle_seconds or 0) >= 0
            assert verdict.state not in IDLE or verdict.activity.idle_seconds is not None


@thorough
@given(plausible_readings(), any_readings() | plausible_readings())
def test_the_same_gives_the_same_and_nothing_that_is_passed_changes(first: Reading, second: Reading) -> None:
    memory = judge(first).memory
    reading = later(second, 300)
    before, before_reading = deepcopy(memory), deepcopy(reading)
    conclusions = []
    for _ in range(2):
        conclusion = judge(reading, memory)
        account(conclusion, memory, SPAN.length, Tenancy(), PriceList())
        conclusions.append(conclusion)
    assert conclusions[0] == conclusions[1]
    assert memory == before
    assert reading == before_reading


@thorough
@given(plausible_readings())
def test_whoever_any_trusted_signal_saw_active_is_not_idle(reading: Reading) -> None:
    living = {
        key
        for each in reading.windows
        if each.quantity in (*SIGNALS, "memory_used")
        for key in each.columns.get("last_seen", {})
    }
    pods = {key[:3]: {other[4:6] for other in living if other.pod and other[:3] == key[:3]} for key in living}
    in_mig_mode = {key[:2] for key in living if key.mig}
    idle = idle_in(judge(reading))
    for each in reading.windows:
        if each.quantity not in SIGNALS or (each.scope == "holder" and each.quantity != "utilization"):
            continue
        for key in {key for values in each.columns.values() for key in values if key.pod}:
            is_of_others_too = each.scope == "device" and len(pods.get(key[:3], ())) > 1
            is_the_drivers_zero = each.scope == "device" and each.quantity == "utilization" and key[:2] in in_mig_mode
            is_part = any(key[:3] + key[4:] == other[:3] + other[4:] for other in living)
            if is_part and not is_of_others_too and not is_the_drivers_zero and shows_activity(each, key):
                subject = subject_of_pod(PodKey(key.cluster, key.namespace, key.pod), reading.owners)
                assert subject.id not in idle


def truly_active(holders: list[Holder], reading: Reading) -> set[str]:
    return {
        subject_of_pod(PodKey(each.key.cluster, each.key.namespace, each.key.pod), reading.owners).id
        for each in holders
        if each.is_active
    }


@thorough
@given(honest_worlds(), st.data())
def test_missing_values_columns_and_families_make_no_working_subject_idle(
    world: tuple[list[Holder], Reading], data: st.DataObject
) -> None:
    holders, reading = world
    active = truly_active(holders, reading)
    assert not idle_in(judge(reading)) & active
    cells = [cell for cell in cells_of(reading) if cell[1] != "last_seen"]
    columns = sorted({(number, aggregate) for number, aggregate, _ in cells})
    dropped = data.draw(st.sets(st.sampled_from(cells))) if cells else set()
    gone = data.draw(st.sets(st.sampled_from(columns), max_size=6)) if columns else set()
    lacking = without(reading, dropped, gone)
    assert not idle_in(judge(lacking)) & active

    families = data.draw(st.sets(st.sampled_from([each.family for each in reading.windows])))
    told = Reading(
        lacking.span,
        lacking.windows,
        lacking.places,
        lacking.owners,
        failures=[Failure(family, None, "HTTP 503") for family in families],
    )
    assert not families or not idle_in(judge(told))


@thorough
@given(honest_worlds(), st.data())
def test_families_that_vanish_without_a_word_make_no_working_subject_idle(
    world: tuple[list[Holder], Reading], data: st.DataObject
) -> None:
    holders, reading = world
    alone = with_windows(reading, list(reading.windows))
    alone = Reading(alone.span, alone.windows, alone.places)  # each pod its own subject
    gone = data.draw(st.sets(st.sampled_from([each.family for each in reading.windows])))
    silent = [each for each in alone.windows if each.family not in gone]
    assert not idle_in(judge(Reading(alone.span, silent, alone.places))) & truly_active(holders, alone)

    memory = judge(reading).memory
    lacking = with_windows(reading, [each for each in reading.windows if each.family not in gone])
    assert not idle_in(judge(later(lacking, 300), memory)) & truly_active(holders, reading)


@thorough
@given(plausible_readings(), st.data())
def test_only_the_loss_of_a_contradiction_can_make_anybody_idle(reading: Reading, data: st.DataObject) -> None:
    """However odd the data: drop what shows no activity and no work, and nobody becomes idle who was not."""
    kept = {"power", "power_limit"}
    ended = {
        (number, key)
        for number, each in enumerate(reading.windows)
        for key in each.columns.get("mean", {})
        if key not in each.columns.get("last_seen", {})
    }
    cells: list[Cell] = [
        (number, aggregate, key)
        for number, aggregate, key in cells_of(reading)
        if aggregate != "last_seen"
        and not key.slot
        and not shows_activity(reading.windows[number], key)
        and reading.windows[number].quantity not in kept
        and (number, key) not in ended
    ]
    if cells:
        dropped = data.draw(st.sets(st.sampled_from(cells), min_size=1))
        assert idle_in(judge(without(reading, dropped))) <= idle_in(judge(reading))
