"""A round from recording rules, where they are in place and fresh: five queries instead of two dozen."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpusight.model.series import Aggregate, Ask, Quantity, Windows
from gpusight.store.answer import Row, labels_of
from gpusight.store.columns import Column, collect
from gpusight.store.digest import DIGESTS, SOURCES, Digest, unpack
from gpusight.store.engine import QueryError
from gpusight.store.promql import any_of
from gpusight.store.reading import RoundReader, make_window
from gpusight.store.roster import Roster

_FRESH = 120.0
"""Seconds after which a recording no longer speaks of now."""

_TOO_LARGE = 2**53
Columns = dict[Quantity, dict[Aggregate, Column]]


class _Fetched(NamedTuple):
    """One digest. `recorded` is when its rule ran."""

    number: int
    recorded: float
    rows: Sequence[Row]


def read_recorded(
    reader: RoundReader, roster: Roster, digest: Digest, asks: Sequence[Ask], present: frozenset[str]
) -> list[Windows]:
    """What the recordings answer in full. Anything wrong with them means nothing: the families are asked instead."""
    if not digest.fits or not {digest.name(number) for number in _NUMBERS} <= present:
        return []
    columns: Columns = {}
    try:
        for each in _fetch(reader, digest):
            if each.number == 1 and not reader.know_exporters(roster.recorded_jobs_in_question(each.rows)):
                return []
            _unpack(each, reader, roster, digest, columns)
    except QueryError:
        return []
    return [_window(ask, columns[ask.quantity]) for ask in asks if _is_answered(ask, digest, columns)]


_NUMBERS = range(1, len(DIGESTS) + 1)


def _fetch(reader: RoundReader, digest: Digest) -> Iterator[_Fetched]:
    """The digests, if the first was recorded lately: it says who is there."""
    clocks = {digest.clock(number): number for number in _NUMBERS}
    rows = reader.ask(f"{{__name__=~{any_of(clocks)}}}").rows
    times: dict[int, float] = {}
    for row in rows:
        number = clocks.get(labels_of(row.metric).get("__name__", ""), 0)
        times[number] = min(row.value[1], times.get(number, row.value[1]))
    fresh = [number for number in _NUMBERS if reader.end - times.get(number, 0.0) <= _FRESH]
    if 1 in fresh:
        answers = reader.side_by_side([digest.name(number) for number in fresh])
        yield from (_Fetched(number, times[number], answer.rows) for number, answer in zip(fresh, answers, strict=True))


def _unpack(fetched: _Fetched, reader: RoundReader, roster: Roster, digest: Digest, columns: Columns) -> None:
    rows = fetched.rows
    if not all(0 <= row.value[1] < _TOO_LARGE for row in rows):
        rows = [row for row in rows if 0 <= row.value[1] < _TOO_LARGE]
    if fetched.number == 1:
        sightings = roster.recorded_sightings(rows)
        reader.put(sightings)
        keys = [sighting.key for sighting in sightings]
    else:
        keys = roster.recorded_keys(rows)
    for bits, values in unpack(fetched.number, digest.span.step, [row.value[1] for row in rows], fetched.recorded):
        column = collect(bits.aggregate, keys, values)
        columns.setdefault(bits.quantity, {})[bits.aggregate] = column


def _is_answered(ask: Ask, digest: Digest, columns: Columns) -> bool:
    """A threshold matters only where activity is asked for."""
    held = columns.get(ask.quantity, {})
    asks_activity = any(aggregate in ("active_count", "last_active") for aggregate in ask.aggregates)
    return (
        bool(held.get("mean"))
        and all(aggregate in held for aggregate in ask.aggregates)
        and (not asks_activity or ask.active_above == digest.above)
    )


def _window(ask: Ask, columns: dict[Aggregate, Column]) -> Windows:
    wanted = {aggregate: columns[aggregate] for aggregate in ask.aggregates}
    mean = columns["mean"]
    blank = wanted["last_seen"].keys() - mean.keys() if "last_seen" in wanted else ()
    if blank:
        # the samples that were counted there are none
        wanted = {
            aggregate: column if aggregate == "last_seen" else {key: column[key] for key in column if key in mean}
            for aggregate, column in wanted.items()
        }
    return make_window(SOURCES[ask.quantity], wanted, len(blank))
