"""The back-test: when policies act, what they give back, when they were wrong."""

import math
from array import array
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusight.analysis.policies import BUILT_IN, DEFAULT_POLICY, Policy, parse_policy
from gpusight.analysis.replay import ReplayError, run_replay
from gpusight.analysis.replay_report import PolicyOutcome, ReplayReport, recommend, wilson
from gpusight.analysis.replay_runs import Runs, Spans, Sums, reclaim_when_idle, reclaim_when_mean_low, runs_of
from gpusight.analysis.replay_trace import NAN, Columns, SubjectTrace, Trace, build
from gpusight.analysis.traces import TraceSpec, generate


def subject(pattern: str, name: str = "s", gpus: float = 1.0, power: Sequence[float] = ()) -> SubjectTrace:
    """`90x5 30x0 10x?`: 90 minutes at 5 %, then 30 idle, then 10 without data."""
    util: list[float] = []
    for part in pattern.split():
        count, _, level = part.partition("x")
        util += [NAN if level == "?" else float(level)] * int(count)
    times = array("d", (60.0 * index for index in range(len(util))))
    watts = array("f", power) if power else None
    return SubjectTrace(name, times, array("f", util), watts, 60.0 * len(util), 60.0, gpus)


def recording(*subjects: SubjectTrace) -> Trace:
    """With a busy subject that lasts longer: the recording does not end with the others."""
    longest = max(len(each.times) for each in subjects) + 200
    return Trace("test", [*subjects, subject(f"{longest}x99", "busy")])


def replayed(policy: str, *subjects: SubjectTrace) -> PolicyOutcome:
    return run_replay(recording(*subjects), [parse_policy(policy)], swept=None).policies[0]


def moment(policy: str, pattern: str) -> float | None:
    """Minutes after which the policy acts."""
    trace, parsed = subject(pattern), parse_policy(policy)
    if parsed.rule == "mean":
        found = reclaim_when_mean_low(trace, Sums(trace), parsed)
    else:
        found = reclaim_when_idle(trace, runs_of(trace, parsed.above, parsed.power), parsed)
    return None if found is None else found / 60


@pytest.mark.parametrize(
    ("policy", "pattern", "minutes"),
    [
        ("idle:30m", "10x50 60x0", 40),
        ("idle:30m", "10x50 30x0", None),  # active again at the very moment
        ("idle:30m", "10x50 31x0", 40),
        ("idle:30m", "10x50 20x0 1x50 60x0", 61),  # activity sets the clock back
        ("idle:30m", "10x50 20x0 1x1 60x0", 40),  # 1 % is not above 1
        ("idle:30m,above=0", "10x50 20x0 1x1 60x0", 61),
        ("idle:30m,above=20", "10x50 20x0 1x20 60x0", 40),
        ("idle:30m,grace=5m", "60x0", 35),
        ("idle:30m,grace=20m", "10x50 60x0", 50),
        ("idle:30m,grace=10m", "20x50 60x0", 50),
        ("idle:30m,every=7m", "10x50 60x0", 42),
        ("idle:30m,every=5m,rounds=3", "10x50 60x0", 50),
        ("idle:30m,every=5m,rounds=3", "10x50 40x0 5x9 60x0", 95),
        ("idle:30m", "10x50 20x0 6x? 60x0", 66),  # a long hole sets the clock back
        ("idle:30m", "10x50 20x0 5x? 60x0", 40),  # a short one does not
        ("idle:30m", "10x50 5x? 60x0", 45),  # but is not idle where the clock begins
        ("idle:30m,coverage=1", "10x50 20x0 5x? 60x0", 65),
        ("idle:30m", "10x50 29x0 3x? 60x0", 42),  # nobody acts on what nobody sees
        ("idle:30m", "200x?", None),
        ("idle:30m", "10x50 20x0 200x?", None),
        ("idle:30m,missing=ignore", "10x50 10x0 15x? 60x0", 40),
        ("idle:30m,missing=ignore", "10x50 100x?", None),
        ("idle:30m,missing=zero", "10x50 100x?", 40),
        ("mean:10m,above=20,every=5m", "20x60 60x0", 30),
        ("mean:10m,above=20,every=5m,rounds=3", "20x60 60x0", 40),
        ("mean:10m,above=20,every=5m", "60x30", None),
        ("mean:10m,above=20,every=5m", "60x15", 10),
        ("mean:10m,above=20,every=5m", "20x90 60x?", None),
        ("mean:10m,above=20,every=5m,missing=zero", "20x90 60x?", 30),
        ("mean:10m,above=20,every=5m,missing=ignore", "20x90 9x? 1x0 9x?", 30),
    ],
)
def test_when_a_policy_acts(policy: str, pattern: str, minutes: float | None) -> None:
    assert moment(policy, pattern) == minutes


def test_more_watts_than_idle_are_activity() -> None:
    trace = subject("60x0", power=[300.0] * 20 + [65.0] * 40)
    policy = parse_policy("idle:30m,power=150")
    assert reclaim_when_idle(trace, runs_of(trace, policy.above, policy.power), policy) == 50 * 60


def test_hours_come_back_until_the_next_activity() -> None:
    outcome = replayed("idle:30m", subject("10x50 150x0 10x50 600x0", gpus=4))
    assert outcome.reclaims == 1
    assert outcome.returned_gpu_hours == pytest.approx(2 * 4)  # 40 to 160 min
    assert outcome.median_seconds_to_reclaim == 30 * 60
    assert (outcome.regret_60.active, outcome.regret_60.decided) == (0, 1)
    assert outcome.regret_ever.share == 1


def test_hours_come_back_until_the_end() -> None:
    outcome = replayed("idle:30m", subject("10x50 150x0"))
    assert outcome.returned_gpu_hours == pytest.approx(2)
    assert outcome.recovered_share == pytest.approx(2 / 2.5)
    assert outcome.regret_ever.share == 0


def test_unknown_hours_do_not_come_back() -> None:
    assert replayed("idle:30m", subject("10x50 60x0 60x? 30x0")).returned_gpu_hours == pytest.approx(1)


@pytest.mark.parametrize(("idle", "within_30", "within_60"), [(60, 1, 1), (61, 0, 1), (90, 0, 1), (91, 0, 0)])
def test_regret_has_horizons(idle: int, within_30: int, within_60: int) -> None:
    outcome = replayed("idle:30m", subject(f"10x50 {idle}x0 10x50"))
    assert (outcome.regret_30.active, outcome.regret_60.active) == (within_30, within_60)
    assert (outcome.regret_30.decided, outcome.regret_60.decided) == (1, 1)


def test_what_a_hole_hides_is_undecided() -> None:
    outcome = replayed("idle:30m", subject("10x50 65x0 30x? 60x0"))
    assert (outcome.regret_30.decided, outcome.regret_60.decided) == (1, 0)
    assert outcome.regret_60.share is None


def test_what_comes_after_the_recording_is_undecided() -> None:
    outcome = run_replay(Trace("test", [subject("10x50 80x0")]), [parse_policy("idle:30m")], swept=None).policies[0]
    assert (outcome.reclaims, outcome.regret_30.decided, outcome.regret_60.decided) == (1, 1, 0)


def test_a_subject_that_left_by_itself_is_no_regret() -> None:
    outcome = replayed("idle:30m", subject("10x50 40x0"))
    assert (outcome.reclaims, outcome.regret_60.active, outcome.regret_60.decided) == (1, 0, 1)


def test_a_policy_that_takes_a_working_subject_regrets_it_at_once() -> None:
    outcome = replayed("mean:10m,above=20,every=5m", subject("300x15"))
    assert (outcome.returned_gpu_hours, outcome.regret_30.share) == (0, 1)


def test_the_yardstick_is_the_same_for_all() -> None:
    trace = recording(subject("10x50 60x0 600x15"))
    outcome = run_replay(trace, [parse_policy("idle:30m,above=20")], swept=None).policies[0]
    assert outcome.regret_30.share == 1
    lenient = run_replay(trace, [parse_policy("idle:30m,above=20")], swept=None, active_above=20).policies[0]
    assert lenient.regret_30.share == 0


def test_a_fleet_without_data_is_taken_from_nobody_by_strict_policies() -> None:
    fleet = [subject("60x80 600x?", f"s{number}") for number in range(5)]
    policies = list(BUILT_IN.values())
    outcomes = run_replay(recording(*fleet), policies, swept=None).policies
    reclaims = {outcome.policy.name: outcome.reclaims for outcome in outcomes if outcome.reclaims}
    assert set(reclaims) == {"published", "published-5-rounds"}
    assert all(outcome.returned_gpu_hours == 0 for outcome in outcomes)


def test_the_summary_adds_up() -> None:
    summary = run_replay(recording(subject("60x50 60x0 60x?", gpus=2)), [], swept=None).trace
    assert summary.active_gpu_hours == pytest.approx(2 + (180 + 200) / 60)
    assert summary.idle_gpu_hours == pytest.approx(2)
    assert summary.unknown_gpu_hours == pytest.approx(2)
    assert summary.unknown_share == pytest.approx(2 / summary.gpu_hours)
    assert summary.subjects == 2


def test_progress_reaches_the_end() -> None:
    seen: list[tuple[int, int]] = []
    trace = recording(subject("10x0"), subject("20x0"))
    run_replay(trace, [DEFAULT_POLICY], progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (trace.samples, trace.samples)
    assert len(seen) == 3


def test_nothing_to_replay_is_said() -> None:
    with pytest.raises(ReplayError, match="no usable sample"):
        run_replay(Trace("empty.csv", []), [])


def test_one_sample_is_no_reason_to_act() -> None:
    trace = build("test", {"a": Columns(array("d", [5.0]), array("f", [0.0]))})
    report = run_replay(trace, list(BUILT_IN.values()))
    assert all(outcome.reclaims == 0 for outcome in (*report.policies, *report.sweep))
    assert report.recommended is None


def test_the_report_is_json_and_back() -> None:
    report = run_replay(generate(TraceSpec(seed=5, subjects=60, days=2)), list(BUILT_IN.values()))
    assert msgspec.json.decode(msgspec.json.encode(report), type=ReplayReport) == report


def test_the_wilson_interval() -> None:
    assert wilson(5, 100) == pytest.approx((0.02154, 0.11175), abs=1e-5)
    assert wilson(0, 10) == pytest.approx((0.0, 0.27753), abs=1e-5)
    assert wilson(10, 10) == pytest.approx((0.72247, 1.0), abs=1e-5)


def test_advice_is_the_smallest_window_below_which_all_larger_ones_stay() -> None:
    trace = generate(TraceSpec(seed=2, profile="philly", subjects=800, days=7))
    swept = run_replay(trace, []).sweep
    best = recommend(swept, 0.05)
    assert best is not None
    larger = [each for each in swept if each.policy.window >= best.policy.window]
    smaller = [each for each in swept if each.policy.window < best.policy.window]
    assert all(each.regret_60.share is not None and each.regret_60.share < 0.05 for each in larger)
    assert smaller[-1].regret_60.share is not None
    assert smaller[-1].regret_60.share >= 0.05
    assert recommend(swept, 0.0) is None


_STATES = st.lists(
    st.tuples(st.integers(1, 40), st.sampled_from([0.0, 0.0, 0.0, NAN, 1.0, 60.0])), min_size=1, max_size=12
)


@settings(max_examples=300)
@given(
    _STATES,
    st.integers(1, 40),
    st.integers(0, 20),
    st.integers(1, 4),
    st.sampled_from([1, 2, 3, 5]),
    st.sampled_from([0.0, 0.5, 0.8, 1.0]),
    st.integers(0, 6),
)
def test_runs_agree_with_a_clock_that_goes_minute_by_minute(
    parts: list[tuple[int, float]], window: int, grace: int, rounds: int, every: int, coverage: float, gap: int
) -> None:
    util = [level for count, level in parts for _ in range(count)]
    policy = Policy(
        name="x", window=window * 60, grace=grace * 60, rounds=rounds, every=every * 60, coverage=coverage, gap=gap * 60
    )
    trace = SubjectTrace(
        "s", array("d", (60.0 * i for i in range(len(util)))), array("f", util), None, 60.0 * len(util), 60.0
    )
    found = reclaim_when_idle(trace, runs_of(trace, policy.above), policy)
    assert (None if found is None else round(found / 60)) == _minute_by_minute(util, policy)


def _minute_by_minute(util: Sequence[float], policy: Policy) -> int | None:
    window, grace, every, gap = (int(each / 60) for each in (policy.window, policy.grace, policy.every, policy.gap))
    clock: int | None = None
    hole = agreed = 0
    for minute, level in enumerate(util):
        missing = math.isnan(level)
        hole = hole + 1 if missing else 0
        if hole > gap or level > policy.above:
            clock, agreed = None, 0
        elif not missing and clock is None:
            clock, agreed = minute, 0
        if minute % every or clock is None or minute < max(clock, grace) + window:
            continue
        known = sum(not math.isnan(each) for each in util[minute - window : minute]) / window
        agreed = agreed + 1 if not missing and known >= policy.coverage - 1e-9 else 0
        if agreed == policy.rounds:
            return minute
    return None


@given(_STATES)
def test_runs_cover_all_the_time(parts: list[tuple[int, float]]) -> None:
    util = [level for count, level in parts for _ in range(count)]
    times = array("d", (60.0 * i for i in range(len(util))))
    runs: Runs = runs_of(SubjectTrace("s", times, array("f", util), None, 60.0 * len(util), 60.0), 1.0)
    assert runs.starts[0] == 0
    assert list(runs.starts[1:]) == list(runs.ends[:-1])
    assert runs.ends[-1] == 60 * len(util)
    assert runs.spans(1).total == 60 * sum(level > 1 for level in util)
    assert runs.spans(2).total == 60 * sum(math.isnan(level) for level in util)


def test_spans_between_moments() -> None:
    spans = Spans([10, 30], [20, 50])
    assert [spans.before(t) for t in (0, 10, 15, 20, 25, 40, 60)] == [0, 0, 5, 10, 10, 20, 30]
    assert spans.within(15, 40) == 15
    assert [spans.next(t) for t in (0, 12, 20, 30, 50)] == [10, 12, 30, 30, None]
    assert [spans.last_end(t) for t in (5, 12, 25, 60)] == [None, 12, 20, 50]
