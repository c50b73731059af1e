"""A past for the embedded store, written in bulk: many scrapes of many targets, each value as a few letters.

Samples that go through `EmbeddedStore.append` become Python lists of three columns, which the engine takes at 360,000
rows a second. Here a scrape is one line of text, which it takes apart itself: several times as fast.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from gpusight.model.series import StoreError
from gpusight.store.embedded import Batch, EmbeddedStore
from gpusight.store.embedded_series import SeriesRef, Target

_SAMPLES = """
    INSERT INTO samples
    SELECT scrape, series, value FROM (
        SELECT $first + place AS scrape, unnest(list_extract($series::INTEGER[][], 1 + place % $targets)) AS series,
               TRY_CAST(unnest(string_split(line, ',')) AS DOUBLE) AS value
        FROM (SELECT unnest(range(len($lines::VARCHAR[]))) AS place, unnest($lines::VARCHAR[]) AS line))
    WHERE value IS NOT NULL"""


class Past(NamedTuple):
    """What scrapes of one target would have brought: for each moment a line with a value for each series."""

    target: Target
    series: Sequence[SeriesRef]
    lines: Sequence[str]


def make_past(target: Target, columns: Iterable[tuple[SeriesRef, Sequence[float | None]]]) -> Past:
    """Of each series its values at all moments, None where it had none."""
    series, texts = [], []
    for ref, column in columns:
        series.append(ref)
        texts.append(_texts(column))
    return Past(target, series, list(map(",".join, zip(*texts, strict=True))))


def append_past(store: EmbeddedStore, moments: Sequence[float], pasts: Sequence[Past]) -> int:
    """Write simulated scrapes at these moments, the oldest first, in one transaction; the number of samples.

    Later scrapes must not be in the store yet: rows lie in order of time. StoreError: nothing was written.
    """
    pasts = [past for past in pasts if past.series]
    if not (moments and pasts):
        return 0
    with store._lock, store._writing() as connection:  # noqa: SLF001 - a part of the store, in a file of its own
        book = store._book  # noqa: SLF001
        marks = [Batch(past.target, moments[0], past.series[:1], (0.0,), simulated=True) for past in pasts]
        for why in store._refused(connection, marks).values():  # noqa: SLF001
            raise StoreError(why)
        book.number(connection, chain.from_iterable(past.series for past in pasts))
        targets = [book.target_id(connection, past.target) for past in pasts]
        row = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM scrapes").fetchone()
        first = int(row[0]) if row else 1
        connection.execute(
            "INSERT INTO scrapes SELECT unnest(range($first, $first + len($targets::INTEGER[]))),"
            " unnest($targets::INTEGER[]), unnest($moments::DOUBLE[]), true",
            {
                "first": first,
                "targets": targets * len(moments),
                "moments": [moment for moment in moments for _ in targets],
            },
        )
        numbers = [[ref.id for ref in past.series] for past in pasts]
        lines = list(chain.from_iterable(zip(*(past.lines for past in pasts), strict=True)))
        parameters = {"first": first, "series": numbers, "targets": len(pasts), "lines": lines}
        written = connection.execute(_SAMPLES, parameters).fetchone()
    return int(written[0]) if written else 0


def _texts(column: Sequence[float | None]) -> list[str]:
    if None in column:
        return ["" if value is None else repr(value) for value in column]
    return list(map(repr, column))
