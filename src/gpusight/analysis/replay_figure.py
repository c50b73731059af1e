"""The figure of a replay as plain data for plotly.js: no plotting package is needed to make it."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpusight.analysis.policies import HOUR, duration_text
from gpusight.analysis.replay_report import PolicyOutcome, ReplayReport

Figure = Mapping[str, Any]
_BLUE, _ORANGE, _GREEN, _GREY = "#1f77b4", "#d95f02", "#1b9e77", "#888888"


def replay_figure(report: ReplayReport) -> Figure:
    """Left: what a policy gives back against how often it is wrong. Right: the same against the window."""
    limit = report.regret_limit * 100
    return {
        "data": [*_against_regret(report), *_against_window(report.sweep)],
        "layout": {
            "title": {"text": "What idle windows give back, and how often they are wrong"},
            "hovermode": "closest",
            "legend": {"orientation": "h", "y": -0.18},
            "xaxis": {"domain": [0, 0.5], "title": {"text": "active again within 60 min (%)"}, "rangemode": "tozero"},
            "yaxis": {"title": {"text": "GPU-hours given back"}, "rangemode": "tozero"},
            "xaxis2": {
                "domain": [0.58, 0.94],
                "anchor": "y2",
                "type": "log",
                "title": {"text": "idle window (hours)"},
                "tickvals": [0.25, 0.5, 1, 2, 4, 8],
            },
            "yaxis2": {"anchor": "x2", "title": {"text": "regret (%)"}, "rangemode": "tozero"},
            "yaxis3": {
                "overlaying": "y2",
                "anchor": "x2",
                "side": "right",
                "title": {"text": "idle GPU-hours recovered (%)"},
                "rangemode": "tozero",
                "showgrid": False,
            },
            "shapes": [
                _line(x0=limit, x1=limit, y0=0, y1=1, xref="x", yref="y domain"),
                _line(x0=0, x1=1, y0=limit, y1=limit, xref="x2 domain", yref="y2"),
            ],
        },
    }


def _line(**place: Any) -> Mapping[str, Any]:
    return {"type": "line", "line": {"dash": "dot", "color": _GREY}, **place}


def _against_regret(report: ReplayReport) -> list[Mapping[str, Any]]:
    swept = [each for each in report.sweep if each.regret_60.share is not None]
    policies = [each for each in report.policies if each.regret_60.share is not None]
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "windows from 10 min to 8 h",
            "x": [_percent(each.regret_60.share) for each in swept],
            "y": [each.returned_gpu_hours for each in swept],
            "text": [duration_text(each.policy.window) for each in swept],
            "hovertemplate": "window %{text}<br>%{x:.1f} % regret<br>%{y:.0f} GPU-hours<extra></extra>",
            "line": {"color": _BLUE},
        },
        {
            "type": "scatter",
            "mode": "markers+text",
            "name": "policies, with 95 % intervals",
            "x": [_percent(each.regret_60.share) for each in policies],
            "y": [each.returned_gpu_hours for each in policies],
            "text": [_plain(each.policy.name) for each in policies],
            "textposition": "top center",
            "hovertext": [_plain(each.text) for each in policies],
            "hovertemplate": "%{hovertext}<br>%{x:.1f} % regret<br>%{y:.0f} GPU-hours<extra></extra>",
            "marker": {"color": _ORANGE, "size": 9},
            "error_x": {
                "type": "data",
                "symmetric": False,
                "array": [_reach(each, upwards=True) for each in policies],
                "arrayminus": [_reach(each, upwards=False) for each in policies],
                "color": _ORANGE,
                "thickness": 1,
            },
        },
    ]


def _against_window(swept: Sequence[PolicyOutcome]) -> list[Mapping[str, Any]]:
    hours = [each.policy.window / HOUR for each in swept]
    curves = (
        ("active again within 30 min", [each.regret_30.share for each in swept], "y2", _ORANGE, "dash"),
        ("active again within 60 min", [each.regret_60.share for each in swept], "y2", _ORANGE, "solid"),
        ("recovered", [each.recovered_share for each in swept], "y3", _GREEN, "solid"),
    )
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": name,
            "x": hours,
            "y": [_percent(share) for share in shares],
            "xaxis": "x2",
            "yaxis": axis,
            "line": {"color": color, "dash": dash},
        }
        for name, shares, axis, color, dash in curves
    ]


def _percent(share: float | None) -> float | None:
    return None if share is None else share * 100


def _reach(outcome: PolicyOutcome, *, upwards: bool) -> float:
    regret = outcome.regret_60
    if regret.share is None or regret.low is None or regret.high is None:
        return 0.0
    return 100 * (regret.high - regret.share if upwards else regret.share - regret.low)


def _plain(text: str) -> str:
    """plotly.js reads some HTML in texts."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
