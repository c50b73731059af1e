"""Rows of answers to columns of values in base units."""

from collections.abc import Callable, Iterable, Sequence
from math import isfinite, isnan
from typing import NamedTuple

from gpusight.model.series import Aggregate, SeriesKey
from gpusight.store.answer import Row
from gpusight.store.normalize import SMALLEST_BLANK, limits, to_base
from gpusight.store.promql import Shape
from gpusight.store.roster import NOBODY

Column = dict[SeriesKey, float]

_VALUES: frozenset[Aggregate] = frozenset({"mean", "min", "max", "last"})
"""Aggregates in the unit of the samples, which must be as plausible as a sample; an increase may be any amount."""
_ADDED: frozenset[Aggregate] = frozenset({"count", "active_count", "increase"})


class Read(NamedTuple):
    """A column, and how many rows had no usable value."""

    column: Column
    rejected: int


def read_column(shape: Shape, aggregate: Aggregate, keys: Sequence[SeriesKey], rows: Sequence[Row]) -> Read:
    """Series that turn out to be about the same subject become one value; those without a GPU are nobody's."""
    raw = [row.value[1] for row in rows]
    values = _all_good(shape, raw) if aggregate in _VALUES else raw
    if values is not None and aggregate != "increase":
        column = dict(zip(keys, values, strict=True))
        if len(column) == len(rows) and NOBODY not in column:
            return Read(column, 0)
    return _read_one_by_one(shape, aggregate, keys, raw)


def _all_good(shape: Shape, raw: Sequence[float]) -> Sequence[float] | None:
    """The values in base units if a look at the extremes shows that all can be, which is the rule."""
    if not raw:
        return raw
    scale = shape.scale
    least, most = limits(shape.source.quantity)
    greatest = max(raw)
    # a sum with something in it that is no number is none either
    if isnan(sum(raw)) or min(raw) * scale < least or greatest * scale > most or greatest >= SMALLEST_BLANK:
        return None
    return raw if scale == 1.0 else [value * scale for value in raw]


def _read_one_by_one(shape: Shape, aggregate: Aggregate, keys: Sequence[SeriesKey], raw: Sequence[float]) -> Read:
    pairs = [(key, _value(shape, aggregate, value)) for key, value in zip(keys, raw, strict=True) if key != NOBODY]
    kept = [(key, value) for key, value in pairs if value is not None]
    return Read(_column(aggregate, kept), len(pairs) - len(kept))


def collect(aggregate: Aggregate, keys: Sequence[SeriesKey], values: Sequence[float]) -> Column:
    """A column of values that are in base units already; NaN is no value."""
    pairs = list(zip(keys, values, strict=True))
    return _column(aggregate, [pair for pair in pairs if pair[1] == pair[1]] if isnan(sum(values)) else pairs)


def _column(aggregate: Aggregate, pairs: Sequence[tuple[SeriesKey, float]]) -> Column:
    column = dict(pairs)
    return column if len(column) == len(pairs) else _merged(pairs, _merge_of(aggregate))


def _value(shape: Shape, aggregate: Aggregate, raw: float) -> float | None:
    if aggregate in _VALUES:
        return to_base(shape.source, shape.scale, raw)
    if aggregate == "increase":
        raw *= shape.scale
    return raw if isfinite(raw) else None


def _merge_of(aggregate: Aggregate) -> Callable[[list[float]], float]:
    if aggregate in _ADDED:
        return sum
    if aggregate == "mean":
        return lambda values: sum(values) / len(values)
    return min if aggregate == "min" else max


def _merged(pairs: Iterable[tuple[SeriesKey, float]], merge: Callable[[list[float]], float]) -> Column:
    found: dict[SeriesKey, list[float]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return {key: merge(values) for key, values in found.items()}
