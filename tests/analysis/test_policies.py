"""Policies: their text form, the built-in ones, and what is refused."""

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.analysis.policies import (
    BUILT_IN,
    DEFAULT_POLICY,
    SWEEP_WINDOWS,
    Policy,
    PolicyError,
    duration_text,
    parse_duration,
    parse_policy,
    policy_text,
    sweep,
)


def test_a_policy_on_the_command_line() -> None:
    policy = parse_policy(
        "idle:120m,grace=30m,above=2.5,rounds=3,every=5m,coverage=0.9,gap=90s,missing=ignore,power=150"
    )
    assert msgspec.structs.asdict(policy) == {
        "name": "idle:120m,grace=30m,above=2.5,rounds=3,every=5m,coverage=0.9,gap=90s,missing=ignore,power=150",
        "rule": "idle",
        "window": 7200,
        "above": 2.5,
        "power": 150,
        "grace": 1800,
        "rounds": 3,
        "every": 300,
        "coverage": 0.9,
        "gap": 90,
        "missing": "ignore",
        "note": "",
    }


def test_a_mean_policy_with_a_name() -> None:
    policy = parse_policy("mean:10m, above=20, name=ten minutes")
    assert (policy.name, policy.rule, policy.window, policy.above) == ("ten minutes", "mean", 600, 20)


def test_a_built_in_policy_by_name_and_changed() -> None:
    assert parse_policy("gpu-pruner") is not None
    assert parse_policy("gpu-pruner") == BUILT_IN["gpu-pruner"]
    changed = parse_policy("gpu-pruner,above=1")
    assert changed == msgspec.structs.replace(BUILT_IN["gpu-pruner"], above=1.0, name="gpu-pruner,above=1")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "neither RULE:WINDOW"),
        ("nonsense", "neither RULE:WINDOW"),
        ("idle:", "not a duration"),
        ("idle:90", "not a duration"),
        ("idle:-5m", "not a duration"),
        ("idle:0s", "window"),
        ("idle:91d", "window"),
        ("most:10m", "rule"),
        ("idle:10m,above", "is not one of above=..."),
        ("idle:10m,window=5m", "is not one of above=..."),
        ("idle:10m,above=much", 'above="much" is not a number'),
        ("idle:10m,above=101", "above"),
        ("idle:10m,above=nan", "above"),
        ("idle:10m,grace=1", 'grace="1" is not a duration'),
        ("idle:10m,rounds=0", "rounds"),
        ("idle:10m,rounds=1.5", "rounds"),
        ("idle:10m,coverage=1.5", "coverage"),
        ("idle:10m,missing=guess", "missing"),
        ("mean:10m,power=100", "power= goes with the rule idle only"),
    ],
)
def test_a_wrong_policy_is_refused_in_one_sentence(text: str, complaint: str) -> None:
    with pytest.raises(PolicyError) as raised:
        parse_policy(text)
    assert complaint in str(raised.value)
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)


@given(
    st.builds(
        Policy,
        name=st.just("x"),
        rule=st.just("idle"),
        window=st.integers(1, 90 * 86400).map(float),
        above=st.floats(0, 100).map(lambda value: round(value, 6)),
        power=st.none() | st.integers(1, 1000).map(float),
        grace=st.integers(0, 86400).map(float),
        rounds=st.integers(1, 100),
        every=st.integers(1, 86400).map(float),
        coverage=st.floats(0, 1).map(lambda value: round(value, 6)),
        gap=st.integers(0, 86400).map(float),
        missing=st.sampled_from(["unknown", "ignore", "zero"]),
    )
)
def test_the_text_of_a_policy_reads_back(policy: Policy) -> None:
    again = parse_policy(policy_text(policy))
    assert msgspec.structs.replace(again, name="x") == policy


def test_built_in_texts_read_back() -> None:
    for policy in BUILT_IN.values():
        again = parse_policy(policy_text(policy))
        assert msgspec.structs.replace(again, name=policy.name, note=policy.note) == policy


def test_the_guide_lists_every_built_in_policy() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "replay.md").read_text("utf-8")
    for name, policy in BUILT_IN.items():
        assert re.search(rf"^\| .*`{name}`.*`{re.escape(policy_text(policy))}`", guide, re.MULTILINE), name


def test_the_rules_of_peers_are_theirs() -> None:
    rows = {name: (each.rule, each.window / 60, each.above, each.grace / 60) for name, each in BUILT_IN.items()}
    assert rows.items() >= {
        ("gpu-pruner", ("idle", 30, 0, 5)),
        ("princeton", ("idle", 120, 0, 0)),
        ("dlworkspace", ("idle", 240, 0, 0)),
        ("published", ("mean", 10, 20, 0)),
    }
    assert BUILT_IN["published"].missing == "zero"
    assert BUILT_IN["default"] == DEFAULT_POLICY


def test_a_sweep_changes_the_window_alone() -> None:
    swept = sweep(DEFAULT_POLICY)
    assert tuple(each.window for each in swept) == SWEEP_WINDOWS
    assert (SWEEP_WINDOWS[0], SWEEP_WINDOWS[-1]) == (600, 8 * 3600)
    assert {msgspec.structs.replace(each, window=1.0, name="", note="") for each in swept} == {
        msgspec.structs.replace(DEFAULT_POLICY, window=1.0, name="", note="")
    }


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("1h30m", 5400), ("2d", 172800), ("0.5m", 30), ("0s", 0)])
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "-5m", "5 m", "5m ", "5w", "\u0665m", "1e3s", "5m\n"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError):
        parse_duration(text)


@given(st.integers(0, 10**9 - 1))
def test_duration_texts_read_back(seconds: int) -> None:
    assert parse_duration(duration_text(float(seconds))) == seconds
