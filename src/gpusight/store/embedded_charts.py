"""One subject over time: raw samples as far back as there are some, roll-ups before."""

from collections.abc import Callable, Sequence

from duckdb import DuckDBPyConnection

from gpusight.model.series import Point, SeriesKey, Span
from gpusight.store import normalize, schema
from gpusight.store.embedded_series import SeriesShelf
from gpusight.store.embedded_windows import Question, Wanted
from gpusight.store.labels import spellings

_ROLLED = f"""
    SELECT ceil((bucket + 1) * {schema.ROLLUP_SECONDS} / $step) * $step AS look,
           CASE WHEN $summed THEN sum(total / samples) ELSE sum(total) / sum(samples) END
    FROM rollups
    WHERE series IN (SELECT unnest($series::INTEGER[])) AND bucket >= $first AND bucket < $end
    GROUP BY look ORDER BY look"""  # noqa: S608  (a number of ours)


def chart(
    cursor: DuckDBPyConnection, shelf: SeriesShelf, key: SeriesKey, wanted: Sequence[Wanted], span: Span
) -> Sequence[Point]:
    """From the first of the families, which are in order of trust, that has anything."""
    for each in wanted:
        series = _series(cursor, shelf, key, each)
        if series:
            raw = [Point(*row) for row in Question(cursor, shelf, span).looks(each, series)]
            until = raw[0].time if raw else span.end + 1
            points = [*(point for point in _rolled(cursor, each, series, span) if point.time < until), *raw]
            if points:
                return points
    return ()


def _series(cursor: DuckDBPyConnection, shelf: SeriesShelf, key: SeriesKey, wanted: Wanted) -> list[int]:
    """The subject's own series, else its device's. Labels may hold the GPU's id without its prefix."""
    family = wanted.source.family
    rows = cursor.execute(
        "SELECT id, labels FROM series WHERE family = ? AND contains(labels, ?)", [family, spellings(key.gpu)[-1]]
    ).fetchall()
    found = [(number, shelf.describe(family, labels).key) for number, labels in rows]
    mine = [(number, other) for number, other in found if other and other[:3] == key[:3]]
    for fits in _FITS:
        if series := [number for number, other in mine if fits(other, key)]:
            return series
    return []


_FITS: tuple[Callable[[SeriesKey, SeriesKey], bool], ...] = (
    lambda found, key: found == key,
    lambda found, key: found._replace(slot="") == key._replace(slot=""),
    lambda found, _: not found.pod,
)


def _rolled(cursor: DuckDBPyConnection, wanted: Wanted, series: Sequence[int], span: Span) -> list[Point]:
    """What lies before the oldest raw sample; a point stands at the end of what it is the mean of."""
    found = schema.meta(cursor, "raw_from")
    if found is None or float(found) <= span.start:
        return []
    width = schema.ROLLUP_SECONDS
    rows = cursor.execute(
        _ROLLED,
        {
            "step": max(span.step, width),
            "summed": wanted.source.summed,
            "series": list(series),
            "first": int(span.start // width),
            "end": int(min(float(found), span.end) // width),
        },
    ).fetchall()
    values = ((look, normalize.to_base(wanted.source, wanted.scale, value)) for look, value in rows)
    return [Point(look, value) for look, value in values if value is not None and span.start < look <= span.end]
