"""Workloads over time: what each kind looks like, and that its signal is a proper integral."""

import itertools
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.simulate.spec import WorkloadKind
from gpusight.simulate.workloads import KINDS, Activity, noise

kinds = st.sampled_from(sorted(KINDS))
keys = st.integers(0, 2**64 - 1)
times = st.floats(-259_200, 2_000_000)


def busy(kind: WorkloadKind, step: float = 10.0, hours: float = 24, key: int = 5) -> list[float]:
    """The share of busy time in each step."""
    activity = Activity(kind, key)
    done = [activity.busy_seconds(i * step) for i in range(int(hours * 3600 / step) + 1)]
    return [(after - before) / step for before, after in itertools.pairwise(done)]


@given(kinds, keys, times, st.floats(0, 100_000))
def test_never_goes_back_and_never_faster_than_time(kind: WorkloadKind, key: int, t: float, wait: float) -> None:
    activity = Activity(kind, key)
    done = activity.busy_seconds(t + wait) - activity.busy_seconds(t)
    assert -1e-6 <= done <= wait + 1e-6


@given(kinds, keys, times, st.floats(0, 3600), st.floats(0, 3600))
def test_is_additive(kind: WorkloadKind, key: int, t: float, a: float, b: float) -> None:
    """An interval is as busy as its parts, however it is cut."""
    activity = Activity(kind, key)
    at = activity.busy_seconds
    assert at(t + a + b) - at(t) == pytest.approx((at(t + a) - at(t)) + (at(t + a + b) - at(t + a)), abs=1e-6)


@given(kinds, keys, times)
def test_last_busy_is_the_end_of_the_last_kernel(kind: WorkloadKind, key: int, t: float) -> None:
    activity = Activity(kind, key)
    last = activity.last_busy(t)
    if last is None:
        assert kind in {"forgotten", "untouched"}
        return
    assert last <= t
    assert activity.busy_seconds(t) - activity.busy_seconds(last) == pytest.approx(0, abs=1e-6)
    assert activity.busy_seconds(last) - activity.busy_seconds(last - 1.5) > 0


def test_training_is_busy_but_for_checkpoints() -> None:
    samples = busy("training")
    assert statistics.median(samples) > 0.95
    assert min(samples) < 0.3
    assert statistics.mean(samples) > 0.9


def test_notebook_is_idle_most_of_the_day() -> None:
    samples = busy("notebook", step=60)
    assert 0 < statistics.mean(samples) < 0.1
    assert sum(sample == 0 for sample in samples) / len(samples) > 0.8
    assert max(samples) > 0.4


def test_inference_comes_in_bursts() -> None:
    samples = busy("inference", step=1)
    assert 0.1 < statistics.mean(samples) < 0.5
    assert sum(sample == 0 for sample in samples) / len(samples) > 0.3
    assert max(busy("inference", step=600)) < 0.6, "no ten minutes without a pause"


def test_forgotten_and_untouched_do_nothing() -> None:
    assert set(busy("forgotten")) == set(busy("untouched")) == {0.0}


def test_spinner_is_always_busy_and_nothing_comes_of_it() -> None:
    assert busy("spinner") == pytest.approx([1.0] * len(busy("spinner")))
    assert KINDS["spinner"].intensity.sm < 0.01
    assert KINDS["spinner"].intensity.power < 0.1


def test_starved_swings_between_full_and_nothing() -> None:
    """SageMaker's mark of a data-starved job: P95 at least 70 and P5 below 10."""
    samples = sorted(busy("starved", step=1, hours=2))
    assert samples[len(samples) * 95 // 100] >= 0.7
    assert samples[len(samples) * 5 // 100] < 0.1


def test_noise_is_even() -> None:
    values = [noise(9, i) for i in range(2000)]
    assert all(0 <= value < 1 for value in values)
    assert statistics.mean(values) == pytest.approx(0.5, abs=0.02)
    assert noise(9, 3) == noise(9, 3) != noise(10, 3)
