"""A round in the log: the published analyzer's table, and its warnings."""

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from gpusight.analysis.records import GpuResult, Round
from gpusight.errors import printable

log = logging.getLogger("gpusight.analyze")
_MOST_ROWS = 200
_RULE = "=" * 60
_COLORS = {"idle": "red", "low": "yellow", "normal": "green", "high": "cyan", "unknown": "dim"}


@contextmanager
def shown_progress() -> Iterator[None]:
    """On a terminal something moves while a round takes its time."""
    if not sys.stderr.isatty():
        yield
        return
    columns = (SpinnerColumn(), TextColumn("analyzing GPUs"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task("round", total=None)
        yield


def log_round(finished: Round) -> None:
    """The lowest rows: as a table on a terminal, else line by line. What is unknown is not among the low."""
    rows = finished.results[:_MOST_ROWS]
    if sys.stderr.isatty():
        _print_table(finished, rows)
    else:
        for line in table_lines(finished, rows):
            log.info("%s", line)
    for line in warning_lines(finished):
        log.warning("%s", line)
    for problem in finished.problems:
        log.warning("round %d: %s", finished.number, problem)


def table_lines(finished: Round, rows: Sequence[GpuResult]) -> Iterator[str]:
    yield _RULE
    yield "GPU Utilization Analysis Results"
    yield _RULE
    yield f"{'Namespace/Pod':<40} {'GPU':<44} {'Score':>6} {'Util':>8} {'Mem(MB)':>9}   Status"
    yield "-" * 60
    for row in rows:
        cells = (_percent(row.score), _percent(row.gpu_util), _number(row.mem_used_mb))
        yield f"{_name(row):<40} {_gpu(row):<44} {cells[0]:>6} {cells[1]:>8} {cells[2]:>9}  {row.status}"
    if len(finished.results) > len(rows):
        yield f"... and {len(finished.results) - len(rows)} more"


def warning_lines(finished: Round) -> Iterator[str]:
    """None when nobody is below the threshold."""
    low = [row for row in finished.results if row.score is not None and row.score < finished.threshold]
    if not low:
        return
    yield f"⚠️  Found {len(low)} GPU(s) with utilization below {finished.threshold:g}%:"
    for row in low[:_MOST_ROWS]:
        yield f"  - {_name(row)} ({row.score}%) - {_gpu(row)}"
    if len(low) > _MOST_ROWS:
        yield f"  ... and {len(low) - _MOST_ROWS} more"


def _print_table(finished: Round, rows: Sequence[GpuResult]) -> None:
    title = f"GPU Utilization Analysis Results: round {finished.number}, {finished.stats.total_gpus} GPUs"
    table = Table(title=title)
    for column in ("Namespace/Pod", "GPU"):
        table.add_column(column, overflow="fold")
    for column in ("Score", "Util", "Mem(MB)"):
        table.add_column(column, justify="right")
    table.add_column("Status")
    for row in rows:
        table.add_row(
            Text(_name(row)),
            Text(_gpu(row)),
            _percent(row.score),
            _percent(row.gpu_util),
            _number(row.mem_used_mb),
            Text(row.status, style=_COLORS[row.status]),
        )
    Console(stderr=True).print(table)


def _name(row: GpuResult) -> str:
    return printable(f"{row.namespace}/{row.pod}")


def _gpu(row: GpuResult) -> str:
    return printable(f"{row.gpu_id}/{row.mig_instance}" if row.mig_instance else row.gpu_id)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}%"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
