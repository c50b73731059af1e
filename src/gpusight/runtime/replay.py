"""The command `gpusight replay`: read a recording, judge policies on it, print what they would have done."""

import gzip
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Literal, cast

import msgspec

from gpusight.analysis.policies import BUILT_IN, Policy, PolicyError, parse_duration, parse_policy
from gpusight.analysis.replay import ACTIVE_ABOVE, REGRET_LIMIT, Progress, ReplayError, run_replay
from gpusight.analysis.replay_csv import BadLine, TraceError, Unit, csv_lines, lines_of, parse_csv, parse_moment
from gpusight.analysis.replay_figure import replay_figure
from gpusight.analysis.replay_range import RangeSource, fetch, is_response, parse_response
from gpusight.analysis.replay_report import ReplayReport
from gpusight.analysis.replay_trace import Trace
from gpusight.analysis.traces import TraceSpecError, generate, parse_spec
from gpusight.errors import GpusightError, MissingExtra, UsageError
from gpusight.model.series import StoreError
from gpusight.model.time import Clock, SystemClock
from gpusight.runtime.replay_table import as_csv, as_table

Form = Literal["table", "json", "csv"]
_WRONG = (PolicyError, TraceSpecError, TraceError, ReplayError, StoreError)


def main(
    trace: str,
    policies: Sequence[str],
    *,
    form: Form = "table",
    figure: Path | None = None,
    unit: Unit = "percent",
    start: str | None = None,
    end: str | None = None,
    step: str | None = None,
    active_above: float = ACTIVE_ABOVE,
    regret_limit: float = REGRET_LIMIT,
    save_trace: Path | None = None,
    prom: RangeSource | None = None,
    clock: Clock | None = None,
    write: Callable[[str], None] | None = None,
) -> int:
    """Replay `trace`: a CSV file, the JSON of a range query, `prometheus:QUERY` or `generated:SEED`.

    `prom` answers the range query. `start` and `end` are Unix seconds, RFC 3339, or a time ago such as `7d`. Without
    policies all built-in ones are compared. `write` prints.
    """
    if figure is not None and find_spec("plotly") is None:
        raise MissingExtra("the figure of a replay", "analyze")
    _check_shares(active_above, regret_limit)
    try:
        chosen = [parse_policy(text) for text in policies] or list(BUILT_IN.values())
        recording = _read(trace, unit, _Range(start, end, step, clock or SystemClock()), prom)
        report = _replay(recording, chosen, active_above, regret_limit)
    except _WRONG as error:
        raise (UsageError if isinstance(error, PolicyError | TraceSpecError) else GpusightError)(str(error)) from error
    if save_trace is not None:
        _save(save_trace, csv_lines(recording))
    if figure is not None:
        _save(figure, [_html(report)])
    (write or _print)(_rendered(report, form))
    return 0


def _check_shares(active_above: float, regret_limit: float) -> None:
    if not 0 <= active_above < 100:
        raise UsageError(f"--active-above is in percent, from 0 to below 100, not {active_above:g}")
    if not 0 < regret_limit <= 1:
        raise UsageError(f"--regret-limit is a share from above 0 to 1, not {regret_limit:g}")


class _Range:
    """--from, --to and --step."""

    def __init__(self, start: str | None, end: str | None, step: str | None, clock: Clock) -> None:
        self._texts = (start, end)
        self._clock = clock
        self.step = None if step is None else _seconds("--step", step)

    def bounds(self) -> tuple[float, float]:
        start, end = self._texts
        if start is None:
            raise UsageError("prometheus:QUERY needs --from, for example --from 7d")
        now = self._clock.now()
        return _moment("--from", start, now), now if end is None else _moment("--to", end, now)

    def refuse(self, kind: str) -> None:
        if self._texts != (None, None):
            raise UsageError(f"--from and --to are for prometheus:QUERY; {kind} is read whole")


def _seconds(flag: str, text: str) -> float:
    with suppress(ValueError):
        if (seconds := parse_duration(text)) > 0:
            return seconds
    raise UsageError(f'{flag} "{text}" is not a duration such as 30s or 1m')


def _moment(flag: str, text: str, now: float) -> float:
    with suppress(ValueError):
        return now - parse_duration(text)
    try:
        return parse_moment(text)
    except BadLine as error:
        raise UsageError(f'{flag} "{text}": {error}, nor a time ago such as 7d') from None


def _read(trace: str, unit: Unit, span: _Range, prom: RangeSource | None) -> Trace:
    kind, _, rest = trace.partition(":")
    if kind == "prometheus":
        if prom is None:
            raise UsageError("prometheus:QUERY needs the address of Prometheus, or save its answer to a file")
        start, end = span.bounds()
        return fetch(prom, rest, start=start, end=end, step=span.step or 60.0, unit=unit)
    span.refuse("a generated trace" if kind == "generated" else "a file")
    if kind == "generated":
        return generate(parse_spec(rest))
    return _read_file(Path(trace), unit, span.step)


def _read_file(path: Path, unit: Unit, step: float | None) -> Trace:
    try:
        with _opened(path) as file:
            if is_response(file.peek(64)[:64]):  # type: ignore[attr-defined]  # both kinds of file can peek
                return parse_response(file.read(), str(path), unit=unit, step=step)
            return parse_csv(lines_of(file.readline), str(path), unit=unit, step=step)
    except (OSError, EOFError, zlib.error) as error:
        raise GpusightError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb") as file:
        if file.peek(2)[:2] == b"\x1f\x8b":
            with gzip.open(file) as unpacked:
                yield cast("IO[bytes]", unpacked)
        else:
            yield file


def _replay(trace: Trace, policies: Sequence[Policy], active_above: float, regret_limit: float) -> ReplayReport:
    with _progress() as progress:
        return run_replay(trace, policies, progress=progress, active_above=active_above, regret_limit=regret_limit)


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """A bar on stderr, when somebody sits there."""
    if not sys.stderr.isatty() or find_spec("rich") is None:
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - optional, and slow to import
    from rich.progress import Progress as Bar  # noqa: PLC0415

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("replay", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _html(report: ReplayReport) -> str:
    plotly = import_module("plotly.io")
    figure = dict(replay_figure(report))
    # Not validated: that would add a template of 6 kB and its colours. A test validates it.
    return cast("str", plotly.to_html(figure, include_plotlyjs=True, full_html=True, validate=False))


def _save(path: Path, texts: Sequence[str] | Iterator[str]) -> None:
    """All or nothing: a reader never sees half a file."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.writelines(texts)
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise GpusightError(f"{path} cannot be written: {error.strerror}") from error


def _rendered(report: ReplayReport, form: Form) -> str:
    if form == "json":
        return msgspec.json.format(msgspec.json.encode(report)).decode() + "\n"
    if form == "csv":
        return as_csv(report)
    return as_table(report, colours=sys.stdout.isatty() and find_spec("rich") is not None)


def _print(text: str) -> None:
    print(text, end="", flush=True)
