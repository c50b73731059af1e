"""Figures: what is drawn, in which unit, and that holes stay holes."""

from gpusight.model.series import Point
from gpusight.web.figures import gpu_figures, tenants_figure, workload_figures
from gpusight.web.i18n import Words
from gpusight.web.pages.operations_data import programs_of, quantile
from gpusight.web.service import OperationSample
from tests.web.clients import an_app, get
from tests.web.fakes import FakeAnalyzer

EN = Words("en")


def points(*values: float | None, step: float = 30.0) -> list[Point]:
    return [Point(1000 + step * number, value) for number, value in enumerate(values) if value is not None]


def test_values_are_in_the_unit_of_the_panel() -> None:
    windows = {"utilization": points(0.5, 1.0), "memory_used": points(2.0**30), "sm_clock": points(1.98e9)}
    utilization, memory, power, clocks = gpu_figures(windows, None, EN)  # type: ignore[arg-type]
    assert utilization["data"][0]["y"] == [50.0, 100.0]
    assert utilization["data"][0]["x"] == [1_000_000.0, 1_030_000.0]
    assert memory["data"][0]["y"] == [1.0]
    assert memory["data"][0]["mode"] == "markers", "a line of one sample cannot be seen"
    assert power["data"] == []
    assert clocks["data"][0]["y"] == [1980.0]


def test_a_hole_is_not_bridged() -> None:
    windows = {"utilization": points(0.1, 0.2, 0.3, None, None, None, 0.4, 0.5)}
    traces = gpu_figures(windows, None, EN)[0]["data"]  # type: ignore[arg-type]
    assert [len(trace["x"]) for trace in traces] == [3, 2]
    assert [trace["showlegend"] for trace in traces] == [True, False]


def test_the_idle_floor_runs_under_the_power() -> None:
    power = gpu_figures({"power": points(200.0, 210.0)}, 62.5, EN)[2]
    assert power["data"][-1]["name"] == "idle floor"
    assert power["data"][-1]["y"] == [62.5, 62.5]
    assert gpu_figures({}, 62.5, EN)[2]["data"] == []


def test_a_workload_has_a_line_per_gpu() -> None:
    both = [("a <b>", {"utilization": points(0.1, 0.2)}), ("a <b>", {"utilization": points(0.3, 0.4)})]
    figure = workload_figures(both, EN)[0]  # type: ignore[arg-type]
    assert [trace["name"] for trace in figure["data"]] == ["a &lt;b&gt;", "a &lt;b&gt;"]
    assert len({trace["line"]["color"] for trace in figure["data"]}) == 2


def test_many_tenants_become_the_largest_and_the_rest() -> None:
    use = FakeAnalyzer._tenant("team-a")
    figure = tenants_figure([use] * 30, EN)
    used = figure["data"][0]
    assert len(used["y"]) == 25
    assert used["y"][-1] == "6 others"
    assert used["x"][-1] == 6 * use.used_gpu_hours


def test_figures_come_from_the_store_and_speak_the_language() -> None:
    said = get("/page/figures/gpu/0000000000000001", an_app(), accept_language="zh").json()
    assert [figure["name"] for figure in said["figures"]] == ["utilization", "memory", "power", "clocks"]
    assert said["figures"][0]["title"] == "利用率"
    workload = get("/page/figures/workload/prod/team-a/Pod/pod-1", an_app()).json()
    assert workload["figures"][0]["data"][0]["y"] == [50.0, 75.0]


# --- operations ---


def sample(family: str, value: float, rate: float | None = None, **labels: str) -> OperationSample:
    return OperationSample(family=family, labels={"job": "p", "instance": "i", **labels}, value=value, rate=rate)


def test_modules_of_the_guide_are_read_where_there_are_no_others() -> None:
    (program,) = programs_of(
        [
            sample("gpu_crypto_executions_total", 90.0, 3.0),
            sample("gpu_crypto_cpu_fallback_total", 10.0, 1.0),
            sample("gpu_crypto_failures_total", 9.0, 0.3),
            sample("gpu_crypto_latency_avg_ms", 12.0),
        ]
    )
    module = program.modules["crypto"]
    assert (module.executions.total, module.executions.rate) == (90.0, 3.0)
    assert module.fallback_share == 0.25
    assert round(module.failure_share or 0, 3) == 0.1
    assert module.latency == 0.012
    assert module.p95 is None


def test_devices_and_backends_of_one_module_add_up() -> None:
    (program,) = programs_of(
        [
            sample("gpusight_ops_executions_total", 5.0, 1.0, module="m", device="a"),
            sample("gpusight_ops_executions_total", 7.0, None, module="m", device="b"),
        ]
    )
    module = program.modules["m"]
    assert (module.executions.total, module.executions.rate) == (12.0, 1.0)
    assert (module.failures.total, module.failures.rate) == (0.0, 0.0), "it runs and has told of no failure"
    assert module.latency is None


def test_what_nobody_told_is_not_zero() -> None:
    (program,) = programs_of([sample("gpusight_ops_last_size", 3.0, module="m")])
    module = program.modules["m"]
    assert module.executions.total is module.fallbacks.total is module.failure_share is module.fallback_share is None


def test_quantiles_are_those_of_prometheus() -> None:
    inf = float("inf")
    assert quantile({0.1: 50.0, 0.2: 100.0, inf: 100.0}, 0.95) == 0.19
    assert quantile({0.1: 50.0, inf: 100.0}, 0.95) == 0.1, "beyond the last bound nobody knows"
    assert quantile({0.1: 0.0, inf: 0.0}, 0.95) is None
    assert quantile({0.1: 5.0}, 0.95) is None
