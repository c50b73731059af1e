"""Recordings as CSV: `timestamp,subject,util[,memory,power,gpus]`. A bad line costs only itself."""

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Literal

from gpusight.analysis.replay_trace import MOST_SUBJECTS, NAN, Columns, Problems, Trace, build

Unit = Literal["percent", "ratio"]
FULL: Mapping[Unit, float] = {"percent": 100.0, "ratio": 1.0}

LONGEST_LINE = 64 * 1024
_REQUIRED = ("timestamp", "subject", "util")
_LATEST = 1e11
"""Seconds; milliseconds of our time are later than that."""


class TraceError(ValueError):
    """A recording that cannot be read at all; the message is one sentence."""


class BadLine(ValueError):  # noqa: N818 - a line is bad, the program is not
    """The reason why a line is left out, in words that do not depend on the line."""


def lines_of(readline: Callable[[int], bytes]) -> Iterator[bytes]:
    """Lines of a binary file, the overlong ones cut."""
    while line := readline(LONGEST_LINE):
        rest = line
        while len(rest) == LONGEST_LINE and not rest.endswith(b"\n"):
            rest = readline(LONGEST_LINE)
        yield line


def parse_csv(lines: Iterable[bytes], source: str, *, unit: Unit = "percent", step: float | None = None) -> Trace:
    """Rows in any order. A row without utilization says that nobody knew: it is kept, as missing.

    `memory` is not read: memory that is held is a cost and no sign of work.
    """
    rows = iter(lines)
    layout = _Layout(next(rows, b""), source)
    problems = Problems()
    columns: dict[bytes, Columns] = {}
    reader = _Reader(layout, FULL[unit], columns)
    for number, line in enumerate(rows, 2):
        try:
            reader.add(line)
        except BadLine as error:
            problems.add(str(error), number)
    named = {key.decode("utf-8", "replace"): columns.pop(key) for key in list(columns)}
    warnings = scale_warnings(named.values(), unit)
    return build(source, named, step=step, problems=problems.all(), warnings=warnings)


def scale_warnings(columns: Iterable[Columns], unit: Unit) -> tuple[str, ...]:
    """A ratio read as percent would be idle all the time."""
    values = [each.util for each in columns]
    if unit == "percent" and values and not any(value > 1 for column in values for value in column):
        return ("No utilization is above 1 %: if the recording holds ratios from 0 to 1, say so (--unit ratio).",)
    return ()


def percent(text: bytes | str, full: float) -> float:
    """Utilization in percent, NaN where there is none."""
    if not text.strip():
        return NAN
    try:
        value = float(text)
    except ValueError:
        raise BadLine("the utilization is not a number") from None
    if not (0 <= value <= full or math.isnan(value)):
        raise BadLine(f"the utilization is not from 0 to {full:g}")
    return value * 100 / full


class _Layout:
    """Which column is what."""

    def __init__(self, header: bytes, source: str) -> None:
        try:
            fields = _fields(header.removeprefix(b"\xef\xbb\xbf"))
        except BadLine as error:
            raise TraceError(f"{source} has no usable first line: {error}") from None
        names = [name.decode("utf-8", "replace").strip().lower() for name in fields]
        absent = [name for name in _REQUIRED if name not in names]
        if absent:
            raise TraceError(
                f"{source} has no column {', '.join(absent)}: its first line must name {','.join(_REQUIRED)}"
            )
        self.timestamp, self.subject, self.util = (names.index(name) for name in _REQUIRED)
        self.power = names.index("power") if "power" in names else None
        self.gpus = names.index("gpus") if "gpus" in names else None
        self.width = len(names)


class _Reader:
    def __init__(self, layout: _Layout, full: float, columns: dict[bytes, Columns]) -> None:
        self._layout = layout
        self._full = full
        self._columns = columns
        self._moments = (b"", NAN)

    def add(self, line: bytes) -> None:
        fields = _fields(line)
        layout = self._layout
        if len(fields) != layout.width:
            if not line.strip():
                return
            raise BadLine("the number of fields is not that of the first line")
        time = self._moment(fields[layout.timestamp])
        util = percent(fields[layout.util], self._full)
        gpus = 1.0 if layout.gpus is None else _gpus(fields[layout.gpus])
        columns = self._columns.get(fields[layout.subject]) or self._new(fields[layout.subject], gpus)
        columns.gpus = max(columns.gpus, gpus)
        if layout.power is not None:
            columns.power.append(_watts(fields[layout.power]))
        columns.times.append(time)
        columns.util.append(util)

    def _new(self, subject: bytes, gpus: float) -> Columns:
        if not subject.strip():
            raise BadLine("the subject is empty")
        if len(self._columns) >= MOST_SUBJECTS:
            raise BadLine(f"there are more than {MOST_SUBJECTS} subjects")
        return self._columns.setdefault(subject, Columns(gpus=gpus))

    def _moment(self, text: bytes) -> float:
        known, moment = self._moments
        if text != known:
            moment = parse_moment(text.decode("ascii", "replace"))
            self._moments = (text, moment)
        return moment


def _fields(line: bytes) -> list[bytes]:
    if len(line) >= LONGEST_LINE:
        raise BadLine(f"the line is longer than {LONGEST_LINE} bytes")
    if b'"' not in line:
        return line.rstrip(b"\r\n").split(b",")
    try:
        # One line at a time: a quote that nobody closes must not swallow the lines after it.
        row = next(csv.reader([line.decode("utf-8", "surrogateescape")], strict=True), [])
    except csv.Error:
        raise BadLine("the quotes do not match") from None
    return [field.encode("utf-8", "surrogateescape") for field in row]


def parse_moment(text: str) -> float:
    """Unix seconds or RFC 3339."""
    try:
        moment = float(text)
    except ValueError:
        moment = _rfc3339(text.strip())
    if not 0 <= moment < _LATEST:
        raise BadLine("the timestamp is out of range (Unix time in milliseconds?)")
    return moment


def _rfc3339(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadLine("the timestamp is neither Unix seconds nor RFC 3339") from None
    if moment.tzinfo is None:
        raise BadLine("the timestamp has no time zone")
    return moment.timestamp()


def _gpus(text: bytes) -> float:
    try:
        gpus = float(text)
    except ValueError:
        gpus = NAN
    if not 0 < gpus <= 1e6:
        raise BadLine("gpus is not a positive number")
    return gpus


def _watts(text: bytes) -> float:
    """NaN unless it is a number: power is a second opinion."""
    try:
        return float(text)
    except ValueError:
        return NAN


def csv_lines(trace: Trace) -> Iterator[str]:
    """The trace as `parse_csv` reads it; what is missing is an empty field."""
    yield "timestamp,subject,util,memory,power\n"
    for subject in trace.subjects:
        name = (
            f'"{subject.subject.replace(chr(34), chr(34) * 2)}"'
            if set(subject.subject) & set('",')
            else subject.subject
        )
        nothing = [NAN] * len(subject.times)
        rows = zip(subject.times, subject.util, subject.memory or nothing, subject.power or nothing, strict=True)
        for time, *values in rows:
            yield f"{time:.15g},{name},{','.join(map(_number, values))}\n"


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"
