"""A replay for people: a table, and the sentences around it; and as CSV for a spreadsheet."""

import csv
import io
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from gpusight.analysis.policies import duration_text
from gpusight.analysis.replay_report import PolicyOutcome, Regret, ReplayReport, TraceSummary
from gpusight.errors import printable

_TITLES = ("policy", "reclaims", "GPU-h back", "recovered", "regret 30m", "regret 60m (95 %)", "ever again", "after")
_FIELDS = (
    "part",
    "name",
    "policy",
    "window_seconds",
    "subjects",
    "reclaims",
    "returned_gpu_hours",
    "recovered_share",
    "regret_30",
    "regret_60",
    "regret_60_low",
    "regret_60_high",
    "regret_60_decided",
    "regret_ever",
    "median_seconds_to_reclaim",
)


def as_table(report: ReplayReport, *, colours: bool) -> str:
    """`colours` is for a terminal, and needs rich."""
    draw = _rich if colours else _plain
    parts = ["\n".join(_head(report.trace)), draw("Policies", list(map(_row, report.policies)))]
    if report.sweep:
        parts.append(draw("The default with other windows", list(map(_row, report.sweep))))
    return "\n\n".join((*parts, "\n".join(_advice(report)))) + "\n"


def as_csv(report: ReplayReport) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_FIELDS)
    for part, outcomes in (("policy", report.policies), ("sweep", report.sweep)):
        writer.writerows(_csv_row(part, outcome) for outcome in outcomes)
    return buffer.getvalue()


def _csv_row(part: str, outcome: PolicyOutcome) -> Sequence[object]:
    regret = outcome.regret_60
    return (
        part,
        outcome.policy.name,
        outcome.text,
        outcome.policy.window,
        outcome.subjects,
        outcome.reclaims,
        outcome.returned_gpu_hours,
        outcome.recovered_share,
        outcome.regret_30.share,
        regret.share,
        regret.low,
        regret.high,
        regret.decided,
        outcome.regret_ever.share,
        outcome.median_seconds_to_reclaim,
    )


def _head(trace: TraceSummary) -> Iterator[str]:
    first, last = (
        datetime.fromtimestamp(moment, UTC).isoformat(timespec="minutes") for moment in (trace.start, trace.end)
    )
    yield (
        f"{printable(trace.source)}: {trace.subjects:,} subjects, {trace.samples:,} samples, one per"
        f" {duration_text(trace.step_seconds)}, {first} to {last}"
    )
    yield (
        f"{trace.gpu_hours:,.0f} GPU-hours: {trace.active_gpu_hours:,.0f} active (above {trace.active_above:g} %),"
        f" {trace.idle_gpu_hours:,.0f} idle, {trace.unknown_gpu_hours:,.0f} unknown ({trace.unknown_share:.1%})"
    )
    for problem in trace.problems:
        lines = f" (lines {', '.join(map(str, problem.first))}{', ...' if problem.count > len(problem.first) else ''})"
        yield f"left out {problem.count:,}: {printable(problem.reason)}{lines if problem.first else ''}"
    for warning in trace.warnings:
        yield f"warning: {printable(warning)}"


def _advice(report: ReplayReport) -> Iterator[str]:
    limit = f"{report.regret_limit:.1%}"
    best = report.recommended
    if best is not None:
        yield (
            f"The smallest window with a 60 min regret below {limit} is {duration_text(best.policy.window)}:"
            f" {_share_range(best.regret_60)}, {_share(best.recovered_share)} of the idle GPU-hours."
        )
    elif report.sweep:
        yield f"No window up to {duration_text(report.sweep[-1].policy.window)} has a 60 min regret below {limit}."
    yield "What the numbers assume:"
    yield from (f"- {line}" for line in report.assumptions)


def _row(outcome: PolicyOutcome) -> tuple[str, ...]:
    waited = outcome.median_seconds_to_reclaim
    return (
        printable(outcome.policy.name),
        f"{outcome.reclaims:,}",
        f"{outcome.returned_gpu_hours:,.0f}",
        _share(outcome.recovered_share),
        _share(outcome.regret_30.share),
        _share_range(outcome.regret_60),
        _share(outcome.regret_ever.share),
        "-" if waited is None else f"{waited / 60:,.0f} min",
    )


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _share_range(regret: Regret) -> str:
    if regret.share is None or regret.low is None or regret.high is None:
        return "-"
    return f"{regret.share:.1%} ({regret.low:.1%}-{regret.high:.1%})"


def _plain(title: str, rows: Sequence[tuple[str, ...]]) -> str:
    table = [(title, *_TITLES[1:]), *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(_line(row, widths) for row in table)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    name, *cells = row
    numbers = (f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
    return "  ".join((f"{name:<{widths[0]}}", *numbers))


def _rich(title: str, rows: Sequence[tuple[str, ...]]) -> str:
    from rich.console import Console  # noqa: PLC0415 - optional, and slow to import
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(title=title, title_justify="left")
    for column, name in enumerate(_TITLES):
        table.add_column(name, justify="right" if column else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    buffer = io.StringIO()
    Console(file=buffer, force_terminal=True, width=shutil.get_terminal_size().columns).print(table)
    return buffer.getvalue().rstrip("\n")
