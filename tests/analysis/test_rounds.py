"""Round after round: hysteresis, the idle clock, and what nobody is called idle for."""

from copy import deepcopy
from typing import Any

import pytest

from gpusight.analysis.criteria import Criteria
from gpusight.analysis.memory import Memory, dump, load
from gpusight.analysis.records import Verdict
from gpusight.analysis.rounds import Conclusion
from gpusight.analysis.transitions import IDLE
from gpusight.model.series import Failure, Reading, Windows

from .building import (
    GIB,
    LOOKS,
    NOW,
    busy_gpu,
    gpu,
    idle_gpu,
    judge,
    key_of,
    later,
    owned_by,
    reading_of,
    signal,
    verdicts_in,
)

KEY = key_of()
IDLE_READING = reading_of(idle_gpu(KEY))
BUSY_READING = reading_of(busy_gpu(KEY))
STEP = 300.0


class Life:
    """One subject over many rounds, five minutes apart."""

    def __init__(self, *, through_journal: bool = False) -> None:
        self.memory = Memory()
        self.passed = 0.0
        self._through_journal = through_journal

    def round(self, reading: Reading, after: float = STEP) -> Verdict:
        self.passed += after
        conclusion = judge(later(reading, self.passed), self.memory)
        self.memory = load(dump(conclusion.memory)) if self._through_journal else conclusion.memory
        (judged,) = conclusion.judged
        return judged.verdict


@pytest.mark.parametrize("through_journal", [False, True])
def test_the_idle_clock_runs_on_over_rounds_and_restarts(through_journal: bool) -> None:
    life = Life(through_journal=through_journal)
    verdicts = [life.round(IDLE_READING) for _ in range(10)]
    assert [each.activity.idle_seconds for each in verdicts] == [600 + STEP * number for number in range(10)]
    assert {each.state for each in verdicts} == {"idle-held"}
    assert verdicts[-1].reason == "No activity for 55 min while it holds 60.0 GiB of memory (75%)."
    assert verdicts[-1].since == verdicts[0].since
    # 60 GiB over nine times five minutes
    assert verdicts[-1].holding.idle_byte_hours == pytest.approx(60 * GIB * 0.75)
    confidences = [each.confidence for each in verdicts]
    assert confidences == sorted(confidences)
    assert confidences[0] < confidences[-1]


def test_any_activity_sets_the_clock_back_and_is_shown_at_once() -> None:
    life = Life()
    for _ in range(5):
        life.round(IDLE_READING)
    burst = life.round(reading_of(busy_gpu(KEY, util=[0.0] * 19 + [0.08])))
    assert burst.state == "bursty"
    assert burst.activity.idle_seconds is None
    assert burst.holding.idle_byte_hours == 0
    last = burst.activity.last_active
    assert last is not None
    assert last.timestamp() == NOW + life.passed
    after = [life.round(IDLE_READING) for _ in range(5)]
    assert [each.state for each in after] == ["bursty"] * 4 + ["idle-held"]
    assert after[0].activity.idle_seconds == STEP  # since the burst, not since the window began
    assert after[0].pending == "idle-held"
    assert [each.pending_rounds for each in after] == [1, 2, 3, 4, 0]
    assert after[1].reason == (
        "No activity for 10 min while it holds 60.0 GiB of memory (75%);"
        " it was bursty for 10 min and stays so until this lasts: round 2."
    )
    assert after[-1].activity.last_active == last


DOUBTFUL = [
    reading_of(idle_gpu(KEY, util=None)),
    reading_of(idle_gpu(KEY, util=[0.0] * 10)),
    reading_of(idle_gpu(KEY, util=[0.0] * 2 * LOOKS)),
    reading_of(idle_gpu(KEY, used=None)),
    reading_of(idle_gpu(KEY, engine=0.5)),
    reading_of(idle_gpu(KEY, own=1.0)),
    reading_of(idle_gpu(KEY), [signal("utilization", {KEY: 0.9}, family="second")]),
    reading_of(idle_gpu(KEY), gpu(key_of("neighbour"), util=0.0)),
    reading_of(idle_gpu(KEY), warnings=["partial response"]),
    reading_of(idle_gpu(KEY), failures=[Failure("*", None, "half of the answer is missing")]),
    reading_of(idle_gpu(KEY), failures=[Failure("other_family", "utilization", "HTTP 503")]),
    reading_of(idle_gpu(KEY), failures=[Failure("kube_pod_owner", None, "HTTP 503")]),
]


@pytest.mark.parametrize("doubtful", DOUBTFUL, ids=range(len(DOUBTFUL)))
def test_any_doubt_is_unknown_and_sets_the_clock_back(doubtful: Reading) -> None:
    memory, passed = Memory(), 0.0
    for _ in range(5):
        memory = judge(later(IDLE_READING, passed), memory).memory
        passed += STEP
    conclusion = judge(later(doubtful, passed), memory)
    verdict = verdicts_in(conclusion)["train"]
    assert verdict.state == "unknown", verdict.reason
    assert verdict.activity.idle_seconds is None
    assert all(row.status == "unknown" for row in conclusion.results if row.pod == "train" and row.score is None)
    again = verdicts_in(judge(later(IDLE_READING, passed + STEP), conclusion.memory))["train"]
    assert again.activity.idle_seconds == 600


def test_a_gap_longer_than_the_window_sets_the_clock_back() -> None:
    life = Life()
    for _ in range(5):
        life.round(IDLE_READING)
    assert life.round(IDLE_READING, after=630).activity.idle_seconds == 600 + 4 * STEP + 630
    assert life.round(IDLE_READING, after=661).activity.idle_seconds == 600


def test_a_gap_is_no_short_cut_to_idleness() -> None:
    life = Life()
    life.round(BUSY_READING)
    states = [life.round(IDLE_READING, after=7200).state, *(life.round(IDLE_READING).state for _ in range(4))]
    assert states == ["unknown"] * 4 + ["idle-held"]


def test_a_clock_that_goes_back_costs_the_idle_time_and_nothing_else() -> None:
    life = Life()
    for _ in range(5):
        life.round(IDLE_READING)
    verdict = life.round(IDLE_READING, after=-900)
    assert verdict.activity.idle_seconds == 600
    assert verdict.holding.idle_byte_hours == 0


def test_who_appears_later_warms_up_and_who_was_there_from_the_start_does_not() -> None:
    first = judge(IDLE_READING)
    both = reading_of(idle_gpu(KEY), idle_gpu(key_of("new", "GPU-2")))
    second = judge(later(both, STEP), first.memory)
    assert {name: each.state for name, each in verdicts_in(second).items()} == {"train": "idle-held", "new": "warming"}
    memory, passed, states = second.memory, STEP, []
    for _ in range(7):
        passed += STEP
        conclusion = judge(later(both, passed), memory)
        memory = conclusion.memory
        states.append(verdicts_in(conclusion)["new"].state)
    assert states == ["warming"] * 5 + ["idle-held"] * 2


def test_a_failed_familys_windows_are_not_used() -> None:
    windows = busy_gpu(KEY)
    broken = reading_of(windows, failures=[Failure("device_utilization", "utilization", "HTTP 422")])
    conclusion = judge(broken)
    (row,) = conclusion.results
    assert (row.gpu_util, row.score) == (None, None)
    assert verdicts_in(conclusion)["train"].state == "unknown"
    assert conclusion.problems == ("HTTP 422",)


def test_a_failure_that_no_verdict_rests_on_costs_only_itself() -> None:
    reading = reading_of(idle_gpu(KEY, sm_clock=1e9), failures=[Failure("device_sm_clock", "sm_clock", "HTTP 422")])
    conclusion = judge(reading)
    assert verdicts_in(conclusion)["train"].state == "idle-held"
    assert conclusion.results[0].sm_clock is None


def test_warnings_never_call_anybody_idle_and_still_tell_who_works() -> None:
    reading = reading_of(
        idle_gpu(KEY, used=0.0),
        busy_gpu(key_of("busy", "GPU-2")),
        warnings=["one store\n did not answer. "],
        failures=[],
    )
    conclusion = judge(reading)
    verdicts = verdicts_in(conclusion)
    assert verdicts["train"].reason == "Nothing can be concluded: one store did not answer."
    assert verdicts["busy"].state == "productive"
    assert {row.pod: row.status for row in conclusion.results} == {"busy": "high", "train": "unknown"}


def test_problems_are_said() -> None:
    rejected = Windows("power", "device", "p", {"mean": {}}, rejected=3)
    assert judge(reading_of(idle_gpu(KEY))).problems == ()
    assert judge(Reading(IDLE_READING.span, [*IDLE_READING.windows, rejected])).problems == (
        "p: 3 series hold no usable value",
    )
    (nothing,) = judge(Reading(IDLE_READING.span, [])).problems
    assert nothing.startswith("no GPU series were found")


def test_the_memory_that_is_passed_stays_as_it_is() -> None:
    memory = judge(later(BUSY_READING, STEP), judge(IDLE_READING).memory).memory
    before = deepcopy(memory)
    one, two = (judge(later(IDLE_READING, 2 * STEP), memory) for _ in range(2))
    assert memory == before
    assert one == two


def test_who_is_away_for_an_hour_is_forgotten() -> None:
    memory = judge(reading_of(idle_gpu(KEY), idle_gpu(key_of("gone", "GPU-2")))).memory
    for minutes, names in ((55, {"/team/Pod/train", "/team/Pod/gone"}), (60, {"/team/Pod/train"})):
        assert set(judge(later(IDLE_READING, 60.0 * minutes), memory).memory.subjects) == names


# GPUs that go out of sight: an exporter that dies must not leave the rest of a workload looking idle.

OWNERS = owned_by("llm", "a", "b")
PAIR = [key_of("a", "GPU-1"), key_of("b", "GPU-2")]


def workload(conclusion: Conclusion) -> Verdict:
    return verdicts_in(conclusion)["llm"]


def pair_then(reading: Reading, first: Any = None) -> Verdict:
    before = first or reading_of(idle_gpu(PAIR[0]), idle_gpu(PAIR[1]), owners=OWNERS)
    return workload(judge(later(reading, STEP), judge(before).memory))


def test_a_gpu_that_went_out_of_sight_while_its_pod_exists_is_a_doubt() -> None:
    verdict = pair_then(reading_of(idle_gpu(PAIR[0]), owners=OWNERS))
    assert verdict.state == "unknown"
    assert verdict.reason == "Nothing can be concluded: 1 of the 1 GPUs of one of its pods are out of sight."


def test_a_pod_that_is_gone_took_its_gpus_along() -> None:
    verdict = pair_then(reading_of(idle_gpu(PAIR[0]), owners=owned_by("llm", "a")))
    assert verdict.state == "idle-held"
    assert verdict.holding.gpus == 1


def test_a_pod_never_gives_back_one_gpu_of_its_eight() -> None:
    keys = [key_of(gpu=f"GPU-{number}") for number in range(8)]
    memory = judge(reading_of(*(idle_gpu(key) for key in keys))).memory
    seven = reading_of(*(idle_gpu(key) for key in keys[1:]))
    states = []
    for minutes in (5, 10, 30, 59, 61, 66):
        conclusion = judge(later(seven, 60.0 * minutes), memory)
        memory = conclusion.memory
        states.append(verdicts_in(conclusion)["train"].state)
    assert states == ["unknown"] * 4 + ["idle-held"] * 2  # after an hour what there is, is what it has


def test_a_series_that_ended_within_the_window_is_a_doubt_for_the_rest_of_its_workload() -> None:
    ended = signal("utilization", {PAIR[1]: 0.0}, family="device_utilization", ended=[PAIR[1]])
    reading = reading_of(idle_gpu(PAIR[0]), [ended], owners=OWNERS)
    verdict = workload(judge(reading))
    assert verdict.reason == "Nothing can be concluded: the series of one of its GPUs ended within the window."
    others = reading_of(idle_gpu(PAIR[0]), [ended])
    assert verdicts_in(judge(others))["a"].state == "idle-held"  # the other's end is not its own


def test_the_busy_half_of_a_workload_may_go_out_of_sight_without_condemning_the_other() -> None:
    before = reading_of(idle_gpu(PAIR[0]), busy_gpu(PAIR[1]), owners=OWNERS)
    memory = judge(before).memory
    for number in range(1, 12):
        conclusion = judge(later(reading_of(idle_gpu(PAIR[0]), owners=OWNERS), STEP * number), memory)
        memory = conclusion.memory
        assert workload(conclusion).state not in IDLE


def test_verdicts_are_in_order_and_within_bounds() -> None:
    keys = [key_of(f"pod-{number}", f"GPU-{number}") for number in range(20)]
    conclusion = judge(reading_of(*(busy_gpu(key, power=1e6, sm_active=5.0) for key in keys)))
    ids = [each.verdict.subject.id for each in conclusion.judged]
    assert ids == sorted(ids)
    for each in conclusion.judged:
        efficiency = each.verdict.efficiency
        assert efficiency.sm_active == 1.0
        assert efficiency.power_above_floor == 1.0
        assert each.verdict.parts == tuple(
            row.id for row in conclusion.results if row.subject == each.verdict.subject.id
        )


def test_criteria_are_obeyed() -> None:
    quick = Criteria(idle_rounds=1, active_above=0.2)
    twitching = reading_of(idle_gpu(KEY, util=0.1))
    memory = judge(BUSY_READING, criteria=quick).memory
    found = signal("utilization", {KEY: 0.1}, family="device_utilization", above=0.2)
    calm = reading_of([found], [each for each in idle_gpu(KEY) if each.quantity != "utilization"])
    assert verdicts_in(judge(later(calm, STEP), memory, quick))["train"].state == "idle-held"
    assert verdicts_in(judge(later(twitching, STEP), memory))["train"].state not in IDLE
