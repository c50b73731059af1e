from copy import deepcopy
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.analysis.accounts import Slice, account, loans_of, slices, tenants_of
from gpusight.analysis.fractions import fractions_of
from gpusight.analysis.memory import Memory, dump, load
from gpusight.analysis.parts import build_parts
from gpusight.analysis.rounds import Conclusion, judge_round
from gpusight.analysis.tenancy import PriceList, Tenancy, Tenant
from gpusight.model.history import HourUse
from gpusight.model.series import Place, Reading, SeriesKey, Windows

from .building import (
    CRITERIA,
    GIB,
    H100,
    LOOKS,
    busy_gpu,
    gpu,
    idle_gpu,
    key_of,
    later,
    owned_by,
    reading_of,
)

HOUR = 3600
START = 1_700_002_800.0
"""A full hour."""
TENANCY = Tenancy(
    {("", "team"): Tenant("ada@example.org", "vision"), ("east", "team"): Tenant("bob@example.org", "speech")}
)
PRICES = PriceList("EUR", (("H100", 4.0), ("T4", 0.5)))
HALF = [0.0] * (LOOKS // 2) + [0.8] * (LOOKS // 2)


def at(reading: Reading, moment: float) -> Reading:
    return later(reading, moment - reading.span.end)


def settle(reading: Reading, memory: Memory, prices: PriceList = PRICES) -> tuple[Conclusion, list[HourUse]]:
    conclusion = judge_round(reading, memory, CRITERIA, TENANCY)
    return conclusion, account(conclusion, memory, reading.span.length, TENANCY, prices)


def rounds(
    reading: Reading, *moments: float, prices: PriceList = PRICES
) -> tuple[Conclusion, dict[int, list[HourUse]]]:
    """The last conclusion, and the rows that a journal holds: the last written ones of each hour."""
    memory, journal = Memory(), dict[tuple[int, str, str, str], HourUse]()
    for moment in moments:
        conclusion, rows = settle(at(reading, moment), memory, prices)
        keys = [(row.hour, row.cluster, row.namespace, row.subject) for row in rows]
        assert len(set(keys)) == len(keys), "one row would overwrite another"
        journal.update(zip(keys, rows, strict=True))
        memory = load(dump(conclusion.memory))
    hours: dict[int, list[HourUse]] = {}
    for row in journal.values():
        hours.setdefault(row.hour, []).append(row)
    return conclusion, hours


@pytest.mark.parametrize(
    ("since", "now", "expected"),
    [
        (None, START, []),
        (START, START, []),
        (START + 9, START, []),
        (START, START + 300, [Slice(int(START), 300)]),
        (START - 100, START + 200, [Slice(int(START) - HOUR, 100), Slice(int(START), 200)]),
        (START - 90_000, START + 200, [Slice(int(START) - HOUR, 400), Slice(int(START), 200)]),  # as far as 600 s reach
        (START, START + HOUR, [Slice(int(START) + HOUR - HOUR, 600)]),
    ],
)
def test_time_is_cut_at_full_hours_and_reaches_as_far_as_the_window(
    since: float | None, now: float, expected: list[Slice]
) -> None:
    assert slices(since, now, 600) == expected


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(1, 20_000))
def test_slices_are_all_of_the_time_that_was_looked_at(since: float, passed: float, reach: float) -> None:
    found = slices(since, since + passed, reach)
    assert sum(each.seconds for each in found) == pytest.approx(min(passed, reach) if passed else 0, abs=1e-6)
    assert all(0 < each.seconds <= HOUR and each.hour % HOUR == 0 for each in found)
    assert len({each.hour for each in found}) == len(found)


def test_an_hour_is_split_into_used_idle_and_unknown() -> None:
    reading = reading_of(
        busy_gpu(key_of("half", "GPU-1"), util=HALF),
        idle_gpu(key_of("calm", "GPU-2")),
        gpu(key_of("blank", "GPU-3"), used=GIB),
        idle_gpu(key_of("", "GPU-4")),
    )
    _, hours = rounds(reading, *(START + 300 * number for number in range(13)))
    found = {row.subject: row for row in hours[int(START)]}
    assert set(found) == {"/team/Pod/half", "/team/Pod/calm", "/team/Pod/blank"}  # what nobody holds is nobody's
    shares = {name: (row.used_gpu_hours, row.idle_gpu_hours, row.unknown_gpu_hours) for name, row in found.items()}
    assert shares == {
        "/team/Pod/half": pytest.approx((0.5, 0.5, 0)),
        "/team/Pod/calm": pytest.approx((0, 1, 0)),
        "/team/Pod/blank": pytest.approx((0, 0, 1)),
    }
    for row in found.values():
        assert row.held_gpu_hours == pytest.approx(1.0)
        assert (row.owner, row.team, row.model) == ("ada@example.org", "vision", H100)
        assert row.cost == pytest.approx(4.0)
        assert row.currency == "EUR"
    # 600, 100 W and nobody knows, for an hour
    assert found["/team/Pod/half"].energy_joules == pytest.approx(600 * HOUR)
    assert found["/team/Pod/calm"].energy_joules == pytest.approx(100 * HOUR)
    assert found["/team/Pod/blank"].energy_joules is None


def test_samples_that_prove_nothing_are_neither_used_nor_idle_hours() -> None:
    _, hours = rounds(reading_of(idle_gpu(key_of(), util=[0.0] * 10)), START, START + 300)
    ((row,),) = hours.values()
    assert (row.used_gpu_hours, row.idle_gpu_hours) == (0, 0)
    assert row.unknown_gpu_hours * HOUR == pytest.approx(300)


def test_a_round_that_crosses_a_full_hour_is_in_both() -> None:
    _, hours = rounds(reading_of(idle_gpu(key_of())), START - 200, START + 100)
    assert {hour: row.held_gpu_hours * HOUR for hour, (row,) in hours.items()} == {
        int(START) - HOUR: pytest.approx(200),
        int(START): pytest.approx(100),
    }


def test_the_first_round_and_a_round_without_time_account_for_nothing() -> None:
    _, hours = rounds(reading_of(idle_gpu(key_of())), START, START)
    assert hours == {}


def test_what_nobody_looked_at_is_in_nobodys_account() -> None:
    _, hours = rounds(reading_of(idle_gpu(key_of())), START, START + 3000)
    ((row,),) = hours.values()
    assert row.held_gpu_hours * HOUR == pytest.approx(600)


def test_the_same_round_from_the_same_memory_gives_the_same_rows() -> None:
    reading = reading_of(busy_gpu(key_of(), util=HALF))
    memory = settle(at(reading, START + 300), settle(at(reading, START), Memory())[0].memory)[0].memory
    before = deepcopy(memory)
    one, two = (settle(at(reading, START + 600), memory) for _ in range(2))
    assert one == two
    assert memory == before


def test_a_restart_in_the_middle_of_an_hour_loses_nothing() -> None:
    """The journal's state carries the running hour, and rows replace each other."""
    conclusion, hours = rounds(reading_of(idle_gpu(key_of())), *(START + 300 * number for number in range(7)))
    ((row,),) = hours.values()
    assert row.idle_gpu_hours == pytest.approx(0.5)
    assert conclusion.memory.subjects[row.subject].idle == pytest.approx(1800)


def test_a_subject_with_two_models_has_one_row_and_pays_for_both() -> None:
    keys = [key_of("a", "GPU-1"), key_of("b", "GPU-2")]
    places = {("", "GPU-1"): Place("n", H100), ("", "GPU-2"): Place("n", "Tesla T4")}
    reading = reading_of(*(idle_gpu(key) for key in keys), places=places, owners=owned_by("llm", "a", "b"))
    _, hours = rounds(reading, *(START + 300 * number for number in range(13)))
    (row,) = hours[int(START)]
    assert row.model == f"{H100}, Tesla T4"
    assert row.held_gpu_hours == pytest.approx(2)
    assert row.cost == pytest.approx(4.5)
    _, hours = rounds(reading, START, START + 300, prices=PriceList("EUR", (("H100", 4.0),)))
    (row,) = hours[int(START)]
    assert (row.cost, row.currency) == (None, "")  # a sum with an unknown price is unknown


def test_sharers_pay_by_their_fraction() -> None:
    shared = [
        gpu(key_of("big"), own=0.9, own_used=GIB, own_limit=60 * GIB, total=80 * GIB),
        gpu(key_of("small"), own=0.0, own_used=GIB, own_limit=20 * GIB, total=80 * GIB),
    ]
    _, hours = rounds(reading_of(*shared), *(START + 300 * number for number in range(13)))
    assert {row.subject: row.held_gpu_hours for row in hours[int(START)]} == {
        "/team/Pod/big": pytest.approx(0.75),
        "/team/Pod/small": pytest.approx(0.25),
    }


def test_two_containers_of_one_pod_hold_one_gpu() -> None:
    both = [gpu(key_of(container=name), own=0.5, own_used=GIB) for name in ("main", "side")]
    _, hours = rounds(reading_of(*both), *(START + 300 * number for number in range(13)))
    (row,) = hours[int(START)]
    assert row.held_gpu_hours == pytest.approx(1)


def test_a_mig_instance_counts_by_its_memory() -> None:
    instances = [
        gpu(key_of(f"p{number}", mig=str(number)), engine=0.5, used=GIB, total=gigabytes * GIB)
        for number, gigabytes in enumerate((10, 20, 40))
    ]
    parts = build_parts(reading_of(*instances), CRITERIA)
    assert list(fractions_of(parts).values()) == [0.125, 0.25, 0.5]
    for hostile in ("0GB", "9" * 9999 + "GB", "GB"):
        odd = build_parts(reading_of(*instances, model=hostile), CRITERIA)
        assert sum(fractions_of(odd).values()) == pytest.approx(1)


_parts = st.lists(
    st.tuples(
        st.sampled_from(["", "1", "2"]),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["", "x", "y"]),
        st.none() | st.sampled_from([0.0, GIB, 40 * GIB, 80 * GIB, 1e300]),
    ),
    min_size=1,
    max_size=12,
)


@given(_parts, st.none() | st.sampled_from([0.0, 10 * GIB, 80 * GIB]), st.sampled_from([H100, "", "0GB"]))
def test_the_parts_of_a_device_never_sum_up_to_more_than_the_device(
    drawn: list[tuple[str, str, str, float | None]], total: float | None, model: str
) -> None:
    groups: list[list[Windows]] = [
        gpu(key_of(pod, container=container, mig=mig), own=0.5, own_limit=limit, total=total)
        for mig, pod, container, limit in drawn
    ]
    parts = build_parts(reading_of(*groups, model=model), CRITERIA)
    fractions = fractions_of(parts)
    assert set(fractions) == {part.key for part in parts}
    assert all(0 <= value <= 1 for value in fractions.values())
    assert sum(fractions.values()) <= 1 + 1e-9


@given(st.lists(st.floats(0, 1), min_size=LOOKS, max_size=LOOKS), st.integers(1, 4), st.floats(1, 3600))
def test_what_is_held_is_used_or_idle_or_unknown(samples: list[float], gpus: int, passed: float) -> None:
    keys: list[SeriesKey] = [key_of(gpu=f"GPU-{number}") for number in range(gpus)]
    reading = reading_of(*(idle_gpu(key, util=samples, power=300.0) for key in keys))
    _, hours = rounds(reading, START, START + passed)
    held = 0.0
    for (row,) in hours.values():
        assert row.held_gpu_hours == pytest.approx(row.used_gpu_hours + row.idle_gpu_hours + row.unknown_gpu_hours)
        assert min(row.used_gpu_hours, row.idle_gpu_hours, row.unknown_gpu_hours) >= 0
        held += row.held_gpu_hours
    assert held * HOUR == pytest.approx(gpus * min(passed, 600))


def test_the_lending_report_says_who_holds_what_since_when() -> None:
    reading = reading_of(
        busy_gpu(key_of("half", "GPU-1"), util=HALF),
        idle_gpu(key_of("calm", "GPU-2", cluster="east")),
        idle_gpu(key_of("", "GPU-3")),
    )
    conclusion, _ = rounds(reading, *(START + 300 * number for number in range(13)))
    calm, half = loans_of(conclusion)
    assert (calm.subject, half.subject) == ("east/team/Pod/calm", "/team/Pod/half")  # the most idle first
    assert (calm.owner, half.owner, calm.team) == ("bob@example.org", "ada@example.org", "speech")
    assert (calm.used_gpu_hours, calm.idle_gpu_hours, calm.unknown_gpu_hours) == (0, 1, 0)
    assert (half.used_gpu_hours, half.idle_gpu_hours) == (0.5, 0.5)
    assert calm.since == datetime.fromtimestamp(START, UTC)
    assert (calm.gpus, calm.models, calm.state) == (1, (H100,), "idle-held")


def use(hour: int, namespace: str = "team", **changed: object) -> HourUse:
    row = HourUse(
        hour=hour,
        cluster="",
        namespace=namespace,
        subject=f"/{namespace}/Pod/p",
        model=H100,
        held_gpu_hours=2.0,
        used_gpu_hours=0.5,
        idle_gpu_hours=1.0,
        unknown_gpu_hours=0.5,
        energy_joules=10.0,
        cost=8.0,
        currency="EUR",
        owner="old",
        team="vision",
    )
    return row._replace(**changed)  # type: ignore[arg-type]


def test_tenants_are_sums_over_hours() -> None:
    rows = [use(HOUR, owner="new"), use(0), use(0, "calm", idle_gpu_hours=1.5, used_gpu_hours=0.0)]
    first, second = tenants_of(rows)
    assert (first.namespace, first.held_gpu_hours, first.used_gpu_hours, first.idle_gpu_hours) == ("team", 4, 1, 2)
    assert (first.energy_joules, first.cost, first.idle_cost, first.currency) == (20, 16, 8, "EUR")
    assert first.owner == "new"
    assert second.idle_cost == 6


def test_currencies_and_clusters_are_not_mixed_and_unknown_costs_stay_unknown() -> None:
    rows = [
        use(0),
        use(0, currency="USD"),
        use(0, cluster="east"),
        use(0, "free", cost=None, currency="", energy_joules=None),
    ]
    found = {(each.cluster, each.namespace, each.currency): each for each in tenants_of(rows)}
    assert set(found) == {("", "team", "EUR"), ("", "team", "USD"), ("east", "team", "EUR"), ("", "free", "")}
    free = found["", "free", ""]
    assert (free.cost, free.idle_cost, free.energy_joules) == (None, None, None)
    assert tenants_of([]) == []


def test_prices_are_by_the_first_pattern_and_hostile_models_cost_nothing_to_look_up() -> None:
    assert PRICES.per_gpu_hour(H100.lower()) == 4.0
    assert PRICES.per_gpu_hour("NVIDIA L4") is None
    slow = PriceList("EUR", ((r"(a+)+b.*c.*d", 1.0),))
    assert slow.per_gpu_hour("c" * 100_000) is None


def test_the_running_hour_is_written_now_and_then_and_whole_when_it_ends() -> None:
    """Rounds every five minutes, rows every quarter of an hour: what is written last says all."""
    memory, written, silent = Memory(), {}, 0
    for number in range(26):
        reading = at(reading_of(idle_gpu(key_of())), START + 300.0 * number)
        conclusion = judge_round(reading, memory, CRITERIA, TENANCY)
        rows = account(conclusion, memory, 600.0, TENANCY, PRICES, every=900.0)
        written.update({row.hour: row.held_gpu_hours for row in rows})
        silent += not rows
        memory = conclusion.memory
    assert silent > 12
    assert written[int(START)] == pytest.approx(1.0)
    assert written[int(START) + HOUR] == pytest.approx(1.0)


def test_an_hour_is_written_in_full_when_the_next_look_comes_hours_later() -> None:
    memory, written = Memory(), {}
    for moment in (START, START + 300, START + 600, START + 3 * HOUR):
        conclusion = judge_round(at(reading_of(idle_gpu(key_of())), moment), memory, CRITERIA, TENANCY)
        rows = account(conclusion, memory, 600.0, TENANCY, PRICES, every=900.0)
        written.update({row.hour: row.held_gpu_hours for row in rows})
        memory = conclusion.memory
    assert written[int(START)] == pytest.approx(600 / HOUR)
