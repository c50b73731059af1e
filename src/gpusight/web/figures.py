"""Figures as plain data for plotly.js. Colors of text and lines are the page's: they change with its theme."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from gpusight.analysis.records import TenantUse
from gpusight.model.series import Point, Quantity
from gpusight.web.i18n import Words

Figure = dict[str, Any]
Windows = Mapping[Quantity, Sequence[Point]]

BLUE, GREEN, RED, ORANGE, PURPLE, GREY = "#3b7ddd", "#2f9e5f", "#d64545", "#d98324", "#8b6fd6", "#8a8f98"
SERIES = (BLUE, ORANGE, GREEN, PURPLE, "#1b8a9e", RED, "#b0892a", "#c2569b")
MOST_BARS = 24
_GAP = 2.5
"""Steps without a sample after which a line is interrupted."""


class Line(NamedTuple):
    """One quantity within a panel."""

    quantity: Quantity
    word: str
    color: str
    dash: str = "solid"
    is_filled: bool = False


class Panel(NamedTuple):
    """One chart: its name, the unit it is shown in, and what is drawn. The first line is the one of several GPUs."""

    name: str
    suffix: str
    scale: float
    lines: tuple[Line, ...]
    most: float | None = None


PANELS: tuple[Panel, ...] = (
    Panel(
        "utilization",
        " %",
        100.0,
        (
            Line("utilization", "chart.utilization", BLUE, is_filled=True),
            Line("sm_active", "chart.sm_active", GREEN),
            Line("engine_active", "chart.engine_active", PURPLE),
            Line("tensor_active", "chart.tensor_active", ORANGE),
        ),
        most=100.0,
    ),
    Panel(
        "memory",
        " GiB",
        2.0**-30,
        (
            Line("memory_used", "chart.held", BLUE, is_filled=True),
            Line("memory_total", "chart.limit", RED, "dash"),
        ),
    ),
    Panel(
        "power",
        " W",
        1.0,
        (
            Line("power", "chart.power", ORANGE, is_filled=True),
            Line("power_limit", "chart.limit", RED, "dash"),
        ),
    ),
    Panel("clocks", " MHz", 1e-6, (Line("sm_clock", "chart.clocks", PURPLE),)),
)
QUANTITIES: tuple[Quantity, ...] = tuple(line.quantity for panel in PANELS for line in panel.lines)
MAIN: tuple[Quantity, ...] = tuple(panel.lines[0].quantity for panel in PANELS)


def plain(text: str) -> str:
    """plotly.js reads some HTML in texts."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def gpu_figures(windows: Windows, floor: float | None, words: Words) -> list[Figure]:
    """One GPU: every line of every panel that has samples."""
    return [_gpu_figure(panel, windows, floor, words) for panel in PANELS]


def _gpu_figure(panel: Panel, windows: Windows, floor: float | None, words: Words) -> Figure:
    traces = [
        trace
        for line in panel.lines
        if windows.get(line.quantity)
        for trace in _traces(words(line.word), windows[line.quantity], panel, line)
    ]
    if panel.name == "power" and floor is not None and traces:
        ends = [min(trace["x"][0] for trace in traces), max(trace["x"][-1] for trace in traces)]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": words("chart.floor"),
                "x": ends,
                "y": [floor, floor],
                "line": {"color": GREY, "dash": "dot", "width": 1.5},
                "hovertemplate": f"%{{y:.0f}}{panel.suffix}",
            }
        )
    return _figure(panel, traces, words)


def workload_figures(parts: Sequence[tuple[str, Windows]], words: Words) -> list[Figure]:
    """Several GPUs: the main line of each panel, one per GPU, by the names given; the page's table is the legend."""
    return [
        _figure(
            panel,
            [
                trace
                for number, (name, windows) in enumerate(parts)
                if windows.get(quantity)
                for trace in _traces(plain(name), windows[quantity], panel, _line(quantity, number))
            ],
            words,
            legend=False,
        )
        for panel, quantity in zip(PANELS, MAIN, strict=True)
    ]


def _line(quantity: Quantity, number: int) -> Line:
    return Line(quantity, "", SERIES[number % len(SERIES)])


def _traces(name: str, points: Sequence[Point], panel: Panel, line: Line) -> list[Figure]:
    """One for each stretch without a hole: a line, or what is filled below it, must not bridge what is not known."""
    digits = 0 if panel.name in ("clocks", "power") else 1
    traces: list[Figure] = []
    for stretch in _stretches(points):
        trace: Figure = {
            "type": "scatter",
            "mode": "lines" if len(stretch) > 1 else "markers",
            "name": name,
            "legendgroup": f"{line.quantity} {name}",
            "showlegend": not traces,
            "x": [point.time * 1000 for point in stretch],
            "y": [point.value * panel.scale for point in stretch],
            "line": {"color": line.color, "dash": line.dash, "width": 2 if line.dash == "solid" else 1.5},
            "marker": {"color": line.color},
            "hovertemplate": f"%{{y:.{digits}f}}{panel.suffix}",
        }
        traces.append(trace | ({"fill": "tozeroy", "fillcolor": f"{line.color}22"} if line.is_filled else {}))
    return traces


def _stretches(points: Sequence[Point]) -> list[list[Point]]:
    ordered = sorted(points)
    steps = [later.time - earlier.time for earlier, later in pairwise(ordered)]
    longest = _GAP * median(steps) if steps else 0.0
    stretches: list[list[Point]] = []
    for number, point in enumerate(ordered):
        if number == 0 or steps[number - 1] > longest:
            stretches.append([])
        stretches[-1].append(point)
    return stretches


def _figure(panel: Panel, traces: list[Figure], words: Words, *, legend: bool = True) -> Figure:
    axis: Figure = {"rangemode": "tozero", "ticksuffix": panel.suffix, "fixedrange": True}
    if panel.most is not None:
        axis["range"] = [0, panel.most * 1.04]
    return {
        "name": panel.name,
        "title": words(f"chart.{panel.name}"),
        "data": traces,
        "layout": {
            "hovermode": "x unified",
            "showlegend": legend and sum(trace.get("showlegend", True) for trace in traces) > 1,
            "legend": {"orientation": "h", "y": -0.18, "x": 0},
            "xaxis": {"type": "date", "hoverformat": "%H:%M:%S"},
            "yaxis": axis,
        },
    }


def tenants_figure(uses: Iterable[TenantUse], words: Words) -> Figure:
    """Held hours of each namespace, split into used, idle and unknown; the largest on top."""
    ordered = sorted(uses, key=lambda use: -use.held_gpu_hours)
    shown, rest = ordered[:MOST_BARS], ordered[MOST_BARS:]
    names = [plain(f"{use.namespace}  {use.cluster}" if use.cluster else use.namespace) for use in shown]
    if rest:
        names.append(words("chart.others", n=len(rest)))
    kinds: tuple[tuple[str, str, Callable[[TenantUse], float]], ...] = (
        ("chart.used_hours", GREEN, lambda use: use.used_gpu_hours),
        ("chart.idle_hours", RED, lambda use: use.idle_gpu_hours),
        ("chart.unknown_hours", GREY, lambda use: use.unknown_gpu_hours),
    )
    return {
        "name": "tenants",
        "title": words("chart.gpu_hours"),
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "name": words(word),
                "y": names,
                "x": [*map(hours, shown), *([sum(map(hours, rest))] if rest else [])],
                "marker": {"color": color},
                "hovertemplate": "%{x:.1f}",
            }
            for word, color, hours in kinds
        ],
        "layout": {
            "barmode": "stack",
            "height": 120 + 26 * len(names),
            "hovermode": "y unified",
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
            "xaxis": {"title": {"text": words("chart.gpu_hours")}, "fixedrange": True},
            "yaxis": {"autorange": "reversed", "automargin": True, "fixedrange": True, "type": "category"},
        },
    }
