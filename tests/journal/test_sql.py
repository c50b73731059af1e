"""What the journal promises, on both databases."""

import threading
from collections.abc import Iterable, Sequence
from math import inf, nan
from typing import Any

import pytest

from gpusight.journal.retention import Retention
from gpusight.model.history import Episode, HourUse, Journal, JournalError, VerdictChange
from tests.journal.conftest import Place
from tests.journal.rows import CHANGE, CONFIG_CHANGE, EPISODE, HOUR

NOT_TEXT: Any = None
HOSTILE = (
    "'; drop table hours; --",
    '" or 1=1 --',
    "%s %(x)s ? :x {0}",
    "team-a\x00team-b",
    "\ud800 half a pair",
    "\N{SNOWMAN}\u202e\n\r\t\x1b[31m",
    "x" * 100_000,
    "\N{GRINNING FACE}" * 5_000,
    "",
)


def record(
    journal: Journal,
    *,
    changes: Sequence[VerdictChange] = (),
    hours: Sequence[HourUse] = (),
    episodes: Sequence[Episode] = (),
    state: bytes = b"",
    at: float = 0.0,
) -> None:
    journal.record_round(changes, hours, episodes, state, at=at)


def everything(journal: Journal) -> tuple[Any, ...]:
    """All that is there."""
    return (
        journal.changes(start=-inf, end=inf),
        journal.hours(start=-inf, end=inf),
        journal.episodes(),
        journal.state(),
        journal.config(),
        journal.config_changes(),
    )


def test_a_new_journal_is_empty(place: Place) -> None:
    assert everything(place.open()) == ([], [], [], None, {}, [])


def test_a_round_comes_back_as_it_was_also_after_reopening(place: Place) -> None:
    journal = place.open()
    record(journal, changes=[CHANGE], hours=[HOUR], episodes=[EPISODE], state=b"\x00\xffstate", at=1_000.5)
    expected: tuple[Any, ...] = ([CHANGE], [HOUR], [EPISODE], b"\x00\xffstate", {}, [])
    assert everything(journal) == expected
    journal.close()
    assert everything(place.open()) == expected


def test_the_same_round_again_changes_nothing(place: Place) -> None:
    journal = place.open()
    for _ in range(2):
        record(journal, changes=[CHANGE], hours=[HOUR], episodes=[EPISODE], state=b"1")
    assert everything(journal) == ([CHANGE], [HOUR], [EPISODE], b"1", {}, [])


def test_an_hour_written_again_is_replaced_even_if_model_and_owner_changed(place: Place) -> None:
    journal = place.open()
    later = HOUR._replace(model="two models", used_gpu_hours=1.0, idle_gpu_hours=0.75, owner="bob", cost=3.5)
    other = HOUR._replace(subject="east/team-a/Deployment/other")
    record(journal, hours=[HOUR, other])
    record(journal, hours=[later])
    assert journal.hours(start=0, end=inf) == [later, other]


def test_a_tenant_cannot_overwrite_the_hours_of_another_by_naming_a_subject_like_theirs(place: Place) -> None:
    journal = place.open()
    forged = HOUR._replace(namespace="team-b", held_gpu_hours=0.0)
    record(journal, hours=[HOUR])
    record(journal, hours=[forged])
    assert journal.hours(start=0, end=inf) == [HOUR, forged]


def test_an_episode_closes(place: Place) -> None:
    journal = place.open()
    other = EPISODE._replace(id="2", opened=2_000.0)
    record(journal, episodes=[EPISODE, other])
    record(journal, episodes=[EPISODE._replace(closed=1_500.0)])
    assert journal.episodes() == [other, EPISODE._replace(closed=1_500.0)]
    assert journal.episodes(open_only=True) == [other]
    assert journal.episodes(limit=1) == [other]


def test_a_round_that_fails_leaves_nothing(place: Place) -> None:
    journal = place.open()
    record(journal, changes=[CHANGE], state=b"1")
    with pytest.raises(JournalError, match="failed"):
        record(journal, changes=[CHANGE._replace(at=2.0)], hours=[HOUR._replace(owner=NOT_TEXT)], state=b"2")
    assert everything(journal) == ([CHANGE], [], [], b"1", {}, [])
    record(journal, state=b"3")
    assert journal.state() == b"3"


@pytest.mark.parametrize("number", [nan, inf])
def test_what_is_not_a_number_is_refused_where_one_is_needed_and_unknown_elsewhere(place: Place, number: float) -> None:
    journal = place.open()
    with pytest.raises(JournalError, match=r"a row for hours has held_gpu_hours (nan|inf)"):
        record(journal, hours=[HOUR._replace(held_gpu_hours=number)])
    record(journal, hours=[HOUR._replace(cost=number, energy_joules=number)])
    assert journal.hours(start=0, end=inf) == [HOUR._replace(cost=None, energy_joules=None)]


def test_changes_come_newest_first_within_both_ends_and_the_limit(place: Place) -> None:
    journal = place.open()
    rows = [CHANGE._replace(at=float(at)) for at in range(10)]
    record(journal, changes=rows)
    assert journal.changes(start=2, end=5) == rows[5:1:-1]
    assert journal.changes(start=2, end=5, limit=2) == [rows[5], rows[4]]
    assert journal.changes(start=0, end=9, limit=0) == journal.changes(start=0, end=9, limit=-1) == []
    assert len(journal.changes(start=0, end=9, limit=10**30)) == 10


def test_changes_of_one_subject(place: Place) -> None:
    journal = place.open()
    other = CHANGE._replace(subject="east/team-a/Deployment/other")
    record(journal, changes=[CHANGE, other])
    assert journal.changes(start=0, end=inf, subject=other.subject) == [other]
    assert journal.changes(start=0, end=inf, subject=other.subject, namespaces=["team-b"]) == []


def test_hours_of_spans_that_touch_are_in_one_of_them(place: Place) -> None:
    journal = place.open()
    rows = [HOUR._replace(hour=3_600 * n) for n in range(4)]
    record(journal, hours=rows)
    assert journal.hours(start=0, end=7_200) == rows[:2]
    assert journal.hours(start=7_200, end=14_400) == rows[2:]
    assert journal.hours(start=0.5, end=7_200.5) == rows[1:3]


def test_totals_are_the_sums_of_hours_and_unknown_where_one_of_them_is(place: Place) -> None:
    journal = place.open()
    priced = [HOUR._replace(hour=3_600 * n, cost=0.5) for n in range(4)]
    moved = HOUR._replace(hour=18_000, model="NVIDIA L4", cost=0.25)
    partly = [HOUR._replace(hour=3_600 * n, namespace="team-b", cost=1.0 if n else None) for n in range(2)]
    record(journal, hours=[*priced, moved, *partly, HOUR._replace(hour=36_000)])
    total = HOUR._replace(
        hour=0,
        held_gpu_hours=8.0,
        used_gpu_hours=2.0,
        idle_gpu_hours=5.0,
        unknown_gpu_hours=1.0,
        energy_joules=6e6,
        cost=2.0,
    )
    assert journal.totals(start=0, end=36_000, namespaces=["team-a"]) == [total, moved]
    (row,) = journal.totals(start=0, end=36_000, namespaces=["team-b"])
    assert (row.held_gpu_hours, row.cost, row.energy_joules) == (4.0, None, 3e6)
    assert journal.totals(start=0, end=36_000, namespaces=[]) == []


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_kept_and_found_and_find_nothing_else(place: Place, name: str) -> None:
    journal = place.open()
    change = CHANGE._replace(namespace=name, subject=name, reason=name, detail=name)
    hour = HOUR._replace(namespace=name, subject=name, owner=name, team=name)
    episode = EPISODE._replace(id=name, namespace=name, subject=name)
    record(journal, changes=[change, CHANGE], hours=[hour, HOUR], episodes=[episode, EPISODE])
    (kept,) = journal.changes(start=0, end=inf, subject=name, namespaces=[name])
    assert kept.reason == name.replace("\0", "\ufffd").replace("\ud800", "\ufffd")
    assert [row.cost for row in journal.hours(start=0, end=inf, namespaces=[name])] == [None]
    assert len(journal.episodes(namespaces=[name])) == 1
    assert len(journal.changes(start=0, end=inf)) == len(journal.hours(start=0, end=inf)) == 2
    assert journal.hours(start=0, end=inf, namespaces=["team-a"]) == [HOUR]


def test_long_names_that_begin_alike_stay_apart(place: Place) -> None:
    journal = place.open()
    names = ["n" * 5_000 + end for end in ("a", "b")]
    record(journal, hours=[HOUR._replace(subject=name) for name in names])
    assert len(journal.hours(start=0, end=inf)) == 2


def test_namespaces_filter_everything_and_none_of_them_is_nothing(place: Place) -> None:
    journal = place.open()
    names = ["team-a", "team-b", "team-c"]
    record(
        journal,
        changes=[CHANGE._replace(namespace=name) for name in names],
        hours=[HOUR._replace(namespace=name) for name in names],
        episodes=[EPISODE._replace(namespace=name, id=name) for name in names],
    )

    def seen(namespaces: Iterable[str] | None) -> list[set[str]]:
        found = (
            journal.changes(start=0, end=inf, namespaces=namespaces),
            journal.hours(start=0, end=inf, namespaces=namespaces),
            journal.episodes(namespaces=namespaces),
        )
        return [{row.namespace for row in rows} for rows in found]

    assert seen(None) == [set(names)] * 3
    assert seen(["team-a", "team-c"]) == [{"team-a", "team-c"}] * 3
    assert seen([]) == [set()] * 3
    assert seen(f"team-{n}" for n in range(100_000)) == [set()] * 3


def test_overrides_are_replaced_and_the_audit_grows(place: Place) -> None:
    journal = place.open()
    journal.change_config({"threshold": "30", "interval": "60s"}, [CONFIG_CHANGE])
    second = CONFIG_CHANGE._replace(name="interval", old="60s", new="300s")
    journal.change_config({"threshold": "30"}, [second])
    journal.change_config({"threshold": "30"}, [second])
    assert journal.config() == {"threshold": "30"}
    assert journal.config_changes() == [second, second, CONFIG_CHANGE]
    assert journal.config_changes(limit=1) == [second]


def test_a_change_of_the_configuration_is_whole_or_not_at_all(place: Place) -> None:
    journal = place.open()
    journal.change_config({"threshold": "30"}, [CONFIG_CHANGE])
    with pytest.raises(JournalError):
        journal.change_config({}, [CONFIG_CHANGE._replace(actor=NOT_TEXT)])
    assert journal.config() == {"threshold": "30"}
    assert journal.config_changes() == [CONFIG_CHANGE]


def test_pruning_drops_what_is_too_old_in_batches_and_keeps_the_rest(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpusight.journal.sql._BATCH", 3)
    journal = place.open(Retention(verdict_changes=100, hours=7_200, episodes=50))
    changes = [CHANGE._replace(at=1_000.0 + n, subject=s) for n in range(200) for s in ("a", "b")]
    hours = [HOUR._replace(hour=h) for h in range(-36_000, 3_600, 3_600)]
    episodes = [EPISODE._replace(id=str(n), closed=float(n) if n % 2 else None) for n in range(1_100, 1_200)]
    record(journal, changes=changes, hours=hours, episodes=episodes, state=b"1", at=1_000.0)
    journal.change_config({"a": "b"}, [CONFIG_CHANGE._replace(at=0.0)])
    journal.prune(1_200.0)
    assert {row.at for row in journal.changes(start=-inf, end=inf)} == {float(n) for n in range(1_100, 1_200)}
    assert [row.hour for row in journal.hours(start=-inf, end=inf)] == [-3_600, 0]
    left = {int(row.id) for row in journal.episodes()}
    assert left == {n for n in range(1_100, 1_200) if n % 2 == 0 or n >= 1_150}
    assert journal.config_changes() == [CONFIG_CHANGE._replace(at=0.0)]
    assert journal.state() == b"1"


def test_the_default_retention_is_ninety_days_and_thirteen_months() -> None:
    days = [seconds / 86_400 for seconds in Retention()]
    assert days == [90, 400, 400]


def test_many_threads_read_and_write(place: Place) -> None:
    journal = place.open()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                record(journal, changes=[CHANGE._replace(at=float(turn), subject=str(number))], state=b"x")
                journal.change_config({"n": str(number)}, [CONFIG_CHANGE])
                assert journal.changes(start=0, end=inf, subject=str(number))[0].at == turn
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(journal.changes(start=0, end=inf)) == len(journal.config_changes()) == 40


def test_another_replica_sees_what_is_written_and_changes_the_configuration(place: Place) -> None:
    leader, follower = place.open(), place.open()
    record(leader, changes=[CHANGE], state=b"1")
    assert follower.changes(start=0, end=inf) == [CHANGE]
    follower.change_config({"threshold": "30"}, [CONFIG_CHANGE])
    assert leader.config() == {"threshold": "30"}


def test_reading_goes_on_while_another_writes(place: Place) -> None:
    writer, reader = place.open(), place.open()
    record(writer, state=b"1")
    with writer.engine.write() as session:
        session.run("update analysis_state set at = 5")
        assert reader.state() == b"1"


def test_a_closed_journal_says_so(place: Place) -> None:
    journal = place.open()
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="was closed"):
        journal.state()
