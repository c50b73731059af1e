"""Generated traces look like production's, as far as production published numbers, and repeat."""

import math
import re
from functools import cache
from itertools import chain

import pytest

from gpusight.analysis.policies import DEFAULT_POLICY
from gpusight.analysis.replay import REGRET_LIMIT, run_replay
from gpusight.analysis.replay_report import PolicyOutcome
from gpusight.analysis.replay_trace import Trace
from gpusight.analysis.traces import TraceSpec, TraceSpecError, generate, parse_spec, spec_text
from gpusight.analysis.traces_profiles import PROFILES

_IDLE_PERIOD = re.compile(rb"\x00{5,}")  # at least 5 min


@cache
def trace(profile: str) -> Trace:
    return generate(TraceSpec(seed=1, profile=profile))


def known(values: "chain[float]") -> list[float]:
    return sorted(value for value in values if not math.isnan(value))


@cache
def utilization(profile: str) -> list[float]:
    return known(chain.from_iterable(each.util for each in trace(profile).subjects))


@cache
def power(profile: str) -> list[float]:
    return known(chain.from_iterable(each.power or () for each in trace(profile).subjects))


@cache
def memory(profile: str) -> list[float]:
    return known(chain.from_iterable(each.memory or () for each in trace(profile).subjects))


def share(values: list[float], low: float, high: float) -> float:
    """Of the values from `low` to `high`."""
    return sum(low <= value <= high for value in values) / len(values)


def quantile(values: list[float], at: float) -> float:
    return values[int(at * (len(values) - 1))]


def test_acme_utilization_is_bimodal() -> None:
    values = utilization("acme")
    assert 0.258 <= share(values, 0, 0) <= 0.314
    assert 0.02 <= share(values, 0.1, 90) <= 0.06
    assert 98 <= quantile(values, 0.5) <= 99


def test_acme_power_has_an_idle_floor() -> None:
    wanted = {0.05: (62, 2), 0.1: (63, 2), 0.25: (66, 2), 0.5: (98.5, 10), 0.9: (400, 15), 0.99: (440, 10)}
    for at, (watts, tolerance) in wanted.items():
        assert quantile(power("acme"), at) == pytest.approx(watts, abs=tolerance)


def test_acme_memory() -> None:
    assert 0.22 <= share(memory("acme"), 0, 0) <= 0.28
    assert 39 <= quantile(memory("acme"), 0.5) <= 75


def test_philly_utilization_is_a_mixture() -> None:
    values = utilization("philly")
    assert share(values, 0, 0) == pytest.approx(0.322, abs=0.02)
    assert quantile(values, 0.5) == pytest.approx(48.6, abs=4)
    assert sum(values) / len(values) == pytest.approx(47, abs=2)
    assert share(values, 0, 90) == pytest.approx(0.725, abs=0.02)


def test_philly_short_jobs_idle_more_than_long_ones() -> None:
    minutes = {"short": [0, 0], "long": [0, 0]}
    for each in trace("philly").subjects:
        group = "short" if len(each.util) < 6 * 60 else "long" if len(each.util) > 24 * 60 else None
        if group:
            minutes[group][0] += sum(value <= 1 for value in each.util)
            minutes[group][1] += sum(not math.isnan(value) for value in each.util)
    assert minutes["short"][0] / minutes["short"][1] == pytest.approx(0.49, abs=0.06)
    assert minutes["long"][0] / minutes["long"][1] == pytest.approx(0.25, abs=0.06)


@pytest.mark.parametrize("profile", PROFILES)
def test_two_idle_periods_of_three_are_amid_work(profile: str) -> None:
    amid = total = 0
    for each in trace(profile).subjects:
        active = bytes(value > 1 or math.isnan(value) for value in each.util)
        for period in _IDLE_PERIOD.finditer(active):
            total += 1
            amid += period.start() > 0 and period.end() < len(active)
    assert amid / total == pytest.approx(0.65, abs=0.08)


@pytest.mark.parametrize("profile", PROFILES)
def test_lives_are_heavy_tailed(profile: str) -> None:
    hours = sorted(len(each.times) / 60 for each in trace(profile).subjects)
    assert quantile(hours, 0.5) < 4
    assert quantile(hours, 0.99) > 72
    longest = hours[-len(hours) // 10 :]
    assert sum(longest) > 0.5 * sum(hours)


@pytest.mark.parametrize("profile", PROFILES)
def test_some_telemetry_is_missing_in_all_columns_at_once(profile: str) -> None:
    gone = total = 0
    for each in trace(profile).subjects:
        assert each.memory is not None
        assert each.power is not None
        total += len(each.util)
        holes = list(map(math.isnan, each.util))
        gone += sum(holes)
        assert holes == list(map(math.isnan, each.memory)) == list(map(math.isnan, each.power))
    assert 0.005 < gone / total < 0.03


def test_every_kind_is_there() -> None:
    kinds = {each.subject.rpartition("-")[0] for each in trace("acme").subjects}
    assert kinds == {"training", "short", "notebook", "inference", "forgotten"}
    assert len(trace("acme").subjects) == TraceSpec().subjects


def test_values_are_in_range() -> None:
    assert 0 <= utilization("acme")[0] <= utilization("acme")[-1] <= 100
    assert 55 < power("acme")[0] < power("acme")[-1] < 500
    assert 0 <= memory("acme")[0] <= memory("acme")[-1] <= 100


def test_the_same_seed_gives_the_same_trace() -> None:
    spec = TraceSpec(seed=9, subjects=50, days=3)
    one, other = generate(spec), generate(spec)
    assert [(each.subject, each.times.tobytes(), each.util.tobytes()) for each in one.subjects] == [
        (each.subject, each.times.tobytes(), each.util.tobytes()) for each in other.subjects
    ]
    different = generate(TraceSpec(seed=10, subjects=50, days=3))
    assert [each.util.tobytes() for each in different.subjects] != [each.util.tobytes() for each in one.subjects]


def test_a_spec_as_text() -> None:
    assert parse_spec("7") == TraceSpec(seed=7)
    spec = TraceSpec(seed=7, profile="philly", subjects=10, days=2, step=30)
    assert parse_spec("7,profile=philly,subjects=10,days=2,step=30") == spec
    assert parse_spec(spec_text(spec).removeprefix("generated:")) == spec
    assert spec_text(TraceSpec(seed=7)) == "generated:7"


@pytest.mark.parametrize("text", ["", "x", "1,profile", "1,profile=mars", "1,subjects=0", "1,days=nan", "1,colour=red"])
def test_a_wrong_spec_is_refused(text: str) -> None:
    with pytest.raises(TraceSpecError):
        parse_spec(text)


def test_the_default_policy_is_the_smallest_window_that_keeps_regret_low() -> None:
    """The rule by which it was chosen; docs/replay.md has the numbers of larger traces."""
    swept = [run_replay(trace(profile), []).sweep for profile in PROFILES]
    windows = {outcomes[0].policy.window: pooled(outcomes) for outcomes in zip(*swept, strict=True)}
    allowed = [window for window in windows if all(windows[w] < REGRET_LIMIT for w in windows if w >= window)]
    assert min(allowed) == DEFAULT_POLICY.window


def pooled(outcomes: tuple[PolicyOutcome, ...]) -> float:
    regrets = [outcome.regret_60 for outcome in outcomes]
    return sum(each.active for each in regrets) / sum(each.decided for each in regrets)
