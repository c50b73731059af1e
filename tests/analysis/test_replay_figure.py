"""The figure is one that plotly accepts, whatever the report lacks."""

from importlib import import_module

from gpusight.analysis.policies import BUILT_IN, parse_policy
from gpusight.analysis.replay import run_replay
from gpusight.analysis.replay_figure import replay_figure
from gpusight.analysis.traces import TraceSpec, generate

go = import_module("plotly.graph_objects")


def test_policies_and_windows_are_drawn() -> None:
    report = run_replay(generate(TraceSpec(seed=4, subjects=200, days=4)), list(BUILT_IN.values()))
    figure = go.Figure(replay_figure(report))
    windows, policies, *curves = figure.data
    assert len(windows.x) == len(report.sweep)
    assert set(policies.text) == set(BUILT_IN)
    assert [curve.name for curve in curves] == ["active again within 30 min", "active again within 60 min", "recovered"]
    shown = dict(zip(policies.text, zip(policies.x, policies.y, strict=True), strict=True))
    default = report.policies[0]
    assert default.regret_60.share is not None
    assert shown["default"] == (default.regret_60.share * 100, default.returned_gpu_hours)


def test_a_policy_that_never_acts_has_no_point() -> None:
    report = run_replay(generate(TraceSpec(seed=4, subjects=20, days=1)), [parse_policy("idle:89d")], swept=None)
    figure = go.Figure(replay_figure(report))
    assert all(len(trace.x) == 0 for trace in figure.data)


def test_names_are_text_not_markup() -> None:
    hostile = "idle:30m,name=<a href='http://x'>"
    report = run_replay(generate(TraceSpec(seed=4, subjects=100, days=2)), [parse_policy(hostile)], swept=None)
    assert replay_figure(report)["data"][1]["text"] == ["&lt;a href='http://x'&gt;"]
