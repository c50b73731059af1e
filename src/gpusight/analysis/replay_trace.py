"""Recorded utilization of many subjects, column by column: what a replay runs on."""

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import le, sub

from msgspec import Struct

NAN = math.nan
MOST_SUBJECTS = 1_000_000
_LATE = 1.5  # in steps: a sample that comes later than this was missed


class Problem(Struct, frozen=True, kw_only=True):
    """Lines (or series) that could not be used, by reason."""

    reason: str
    count: int
    first: tuple[int, ...]
    """Numbers of the first few lines; empty where there are no lines."""


class Problems:
    """Counts what was left out."""

    _SHOWN = 5

    def __init__(self) -> None:
        self._lines: dict[str, list[int]] = {}
        self._counts: dict[str, int] = {}

    def add(self, reason: str, line: int | None = None) -> None:
        self._counts[reason] = self._counts.get(reason, 0) + 1
        lines = self._lines.setdefault(reason, [])
        if line is not None and len(lines) < self._SHOWN:
            lines.append(line)

    def all(self) -> tuple[Problem, ...]:
        return tuple(
            Problem(reason=reason, count=count, first=tuple(self._lines[reason]))
            for reason, count in self._counts.items()
        )


@dataclass(frozen=True, slots=True)
class SubjectTrace:
    """One subject. A sample holds until the next one, the last one until `end`; utilization NaN is missing.

    Times ascend and are unique, and wherever a sample was missed there is one of NaN.
    """

    subject: str
    times: "array[float]"
    util: "array[float]"
    power: "array[float] | None"
    end: float
    step: float
    gpus: float = 1.0
    memory: "array[float] | None" = None
    marks: int = 0
    """How many of the NaN stand for samples that nobody wrote down."""

    @property
    def start(self) -> float:
        return self.times[0]


@dataclass(frozen=True, slots=True)
class Trace:
    """All subjects of one recording."""

    source: str
    subjects: Sequence[SubjectTrace]
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def samples(self) -> int:
        return sum(len(subject.times) - subject.marks for subject in self.subjects)

    @property
    def start(self) -> float:
        return min(subject.start for subject in self.subjects)

    @property
    def end(self) -> float:
        return max(subject.end for subject in self.subjects)


@dataclass(slots=True)
class Columns:
    """A subject's samples as they come, in any order."""

    times: "array[float]" = field(default_factory=lambda: array("d"))
    util: "array[float]" = field(default_factory=lambda: array("f"))
    power: "array[float]" = field(default_factory=lambda: array("f"))
    gpus: float = 1.0


def build(
    source: str,
    columns: "dict[str, Columns]",
    *,
    step: float | None = None,
    problems: tuple[Problem, ...] = (),
    warnings: tuple[str, ...] = (),
) -> Trace:
    """Put samples in order, merge those of one moment, mark what was missed. Empties `columns` as it goes.

    Without `step` each subject's own distance between samples is taken, or that of the others if it has one only.
    """
    usual = step or _median(sorted(filter(None, (_usual_step(each.times) for each in columns.values()))))
    subjects, rows, merged = [], 0, 0
    for subject in list(columns):
        each = columns.pop(subject)
        ordered = _ordered(each)
        rows += len(each.times)
        merged += len(each.times) - len(ordered.times)
        if ordered.times:
            subjects.append(_marked(subject, ordered, step or _usual_step(ordered.times) or usual))
    doubts = (_MERGED.format(merged=merged, rows=rows),) if merged > rows * _MANY else ()
    return Trace(source, subjects, problems, (*warnings, *doubts))


_MANY = 0.01
_MERGED = (
    "{merged} of {rows} rows were for a moment that their subject had already, and the busiest counted: if a subject"
    " has several GPUs, say how many in a column gpus."
)


def _ordered(columns: Columns) -> Columns:
    times = columns.times
    if not any(map(le, islice(times, 1, None), times)):
        return columns
    order = sorted(range(len(times)), key=times.__getitem__)
    result = Columns(gpus=columns.gpus)
    for index in order:
        power = columns.power[index] if columns.power else NAN
        if result.times and result.times[-1] == times[index]:
            result.util[-1] = busiest(result.util[-1], columns.util[index])
            result.power[-1] = _larger(result.power[-1], power)
        else:
            result.times.append(times[index])
            result.util.append(columns.util[index])
            result.power.append(power)
    if not columns.power:
        result.power = array("f")
    return result


def busiest(one: float, other: float) -> float:
    """Two samples of one subject at one moment: activity wins; idle beside unknown is unknown."""
    if one != one or other != other:  # noqa: PLR0124 - NaN
        known = _larger(one, other)
        return known if known > 0 else NAN
    return max(one, other)


def _larger(one: float, other: float) -> float:
    return other if one != one or other > one else one  # noqa: PLR0124 - NaN


def _usual_step(times: "array[float]") -> float:
    """The median distance of some thousand neighbours; 0 with fewer than two samples."""
    stride = max(1, len(times) // 1000)
    some = range(0, len(times) - 1, stride)
    return _median(sorted(distance for distance in (times[i + 1] - times[i] for i in some) if distance > 0))


def _median(values: Sequence[float]) -> float:
    return values[len(values) // 2] if values else 0.0


def _marked(subject: str, columns: Columns, step: float) -> SubjectTrace:
    """A NaN where a sample was due and none came."""
    times, util, power = columns.times, columns.util, columns.power or None
    late = list(_late(times, _LATE * step))
    if late:
        marks = [times[index] + step for index in late]
        util = _spliced(util, late, [NAN] * len(late))
        power = power and _spliced(power, late, [NAN] * len(late))
        times = _spliced(times, late, marks)
    return SubjectTrace(subject, times, util, power, times[-1] + step, step, columns.gpus, marks=len(late))


def _late(times: "array[float]", limit: float) -> Iterator[int]:
    """Indexes of samples whose successor came too late."""
    distances = map(sub, islice(times, 1, None), times)
    return (index for index, distance in enumerate(distances) if distance > limit)


def _spliced(values: "array[float]", after: Sequence[int], new: Iterable[float]) -> "array[float]":
    result = values[:0]
    done = 0
    for index, value in zip(after, new, strict=True):
        result.extend(values[done : index + 1])
        result.append(value)
        done = index + 1
    result.extend(values[done:])
    return result
