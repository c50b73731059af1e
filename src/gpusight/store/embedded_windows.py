"""Windows out of the file, the whole fleet in one question.

Counts are of looks, as in Prometheus: at every multiple of the step the newest sample of the last five minutes shows,
unless the series has ended. Here a scrape shows from its own time until its target's next scrape, so how many looks it
serves is reckoned once per scrape, not once per sample. Mean, least and greatest are of all samples in the window,
which may have come between the looks.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from duckdb import DuckDBPyConnection

from gpusight.model.series import Aggregate, Ask, SeriesKey, Span, Windows
from gpusight.store import normalize, schema
from gpusight.store.embedded_series import SeriesInfo, SeriesShelf
from gpusight.store.normalize import Source

LOOKBACK = 300.0
"""Seconds for which a sample shows if no scrape follows, as in Prometheus."""

_SLACK = 1.001
_BLANKS = ", ".join(map(repr, schema.BLANKS))

_COLUMNS: tuple[Aggregate, ...] = (
    "count", "mean", "min", "max", "last", "last_seen", "active_count", "last_active",
)  # fmt: skip

_SHOWN = """
    scraped AS (
        SELECT id, moment, lead(moment) OVER (PARTITION BY target ORDER BY moment, id) AS next
        FROM scrapes WHERE moment > $start - $lookback AND moment <= $end),
    shown AS (
        SELECT id, moment,
            greatest(ceil(moment / $step), floor($start / $step) + 1)::BIGINT AS first_look,
            least(ceil(least(coalesce(next, moment + $lookback), moment + $lookback) / $step),
                  floor($end / $step) + 1)::BIGINT AS end_look,
            moment > $start AS inside, next IS NULL AND moment > $end - $lookback AS newest
        FROM scraped),
    serving AS (
        SELECT *, greatest(end_look - first_look, 0)::DOUBLE AS looks FROM shown
        WHERE inside OR newest OR end_look > first_look)"""

_BASE_VALUE = f"""
    CASE WHEN samples.value * scale BETWEEN least AND highest AND samples.value NOT IN ({_BLANKS})
         THEN least(samples.value * scale, most) END"""

_ASKED = """
    asked AS (
        SELECT unnest($numbers::INTEGER[]) AS number, unnest($families::VARCHAR[]) AS family,
               unnest($scales::DOUBLE[]) AS scale, unnest($least::DOUBLE[]) AS least,
               unnest($most::DOUBLE[]) AS most, unnest($highest::DOUBLE[]) AS highest,
               unnest($active::DOUBLE[]) AS active)"""

_PER_SERIES = f"""
    WITH {_ASKED}, {_SHOWN},
    wanted AS (SELECT series.id AS series, asked.* FROM series JOIN asked USING (family)),
    found AS (
        SELECT number, wanted.series, moment, looks, inside, newest, active, {_BASE_VALUE} AS value
        FROM samples JOIN serving ON samples.scrape = serving.id JOIN wanted ON samples.series = wanted.series
        WHERE samples.scrape BETWEEN $oldest AND $newest),
    told AS (
        SELECT number, series,
            nullif(sum(looks) FILTER (value IS NOT NULL), 0) AS count,
            avg(value) FILTER (inside) AS mean, min(value) FILTER (inside) AS min, max(value) FILTER (inside) AS max,
            max(value) FILTER (newest) AS last, max(moment) FILTER (newest) AS last_seen,
            CASE WHEN sum(looks) FILTER (value IS NOT NULL) > 0
                 THEN coalesce(sum(looks) FILTER (value > active), 0) END AS active_count,
            max(moment) FILTER (looks > 0 AND value > active) AS last_active,
            count(value) < count(*) AS spoilt
        FROM found GROUP BY number, series)
    SELECT number, {", ".join(f"list({each} ORDER BY series)" for each in ("series", *_COLUMNS, "spoilt"))}
    FROM told GROUP BY number ORDER BY number"""  # noqa: S608  (ours)
"""A row per family, of lists in one order: that is how they come to Python fastest."""

_TOGETHER = """
    CASE WHEN NOT any_value(summed) THEN max(value) WHEN count(value) = count(*) THEN sum(value) END"""
"""Of several series at one look; a sum that lacks a part is not known."""

_LOOKED = f"""
    WITH asked AS (
        SELECT unnest($series::INTEGER[]) AS series, unnest($subjects::INTEGER[]) AS subject,
               unnest($summed::BOOLEAN[]) AS summed, unnest($scales::DOUBLE[]) AS scale,
               unnest($least::DOUBLE[]) AS least, unnest($most::DOUBLE[]) AS most,
               unnest($highest::DOUBLE[]) AS highest, unnest($active::DOUBLE[]) AS active),
    {_SHOWN},
    found AS (
        SELECT subject, summed, active, moment, inside, newest, first_look, end_look, {_BASE_VALUE} AS value
        FROM samples JOIN serving ON samples.scrape = serving.id JOIN asked ON samples.series = asked.series
        WHERE samples.scrape BETWEEN $oldest AND $newest),
    spread AS (SELECT *, unnest(range(first_look, end_look)) AS look FROM found),
    looked AS (
        SELECT subject, look, any_value(active) AS active, max(moment) AS moment, {_TOGETHER} AS value
        FROM spread GROUP BY subject, look)"""  # noqa: S608  (ours)

_PER_SUBJECT = f"""
    {_LOOKED},
    living AS (
        SELECT subject, max(moment) AS last_seen, {_TOGETHER} AS last FROM found WHERE newest GROUP BY subject)
    SELECT subject, nullif(count(value), 0), avg(value), min(value), max(value), any_value(last),
        any_value(last_seen), CASE WHEN count(value) > 0 THEN count(*) FILTER (value > active) END,
        max(moment) FILTER (value > active), count(value) < count(look)
    FROM looked FULL JOIN living USING (subject) GROUP BY subject"""  # noqa: S608  (ours)

_LOOKS = f"{_LOOKED} SELECT look * $step, value FROM looked WHERE value IS NOT NULL ORDER BY look"  # noqa: S608  (ours)

_CHANGES = f"""
    WITH {_ASKED},
    wanted AS (SELECT series.id AS series, asked.* FROM series JOIN asked USING (family)),
    found AS (
        SELECT number, wanted.series, moment, {_BASE_VALUE} AS value
        FROM samples JOIN scrapes ON samples.scrape = scrapes.id JOIN wanted ON samples.series = wanted.series
        WHERE samples.scrape BETWEEN $oldest AND $newest AND moment >= $start AND moment <= $end),
    steps AS (
        SELECT *, lag(value) OVER (PARTITION BY number, series ORDER BY moment) AS before
        FROM found WHERE value IS NOT NULL)
    SELECT number, series, sum(CASE WHEN value < before THEN value ELSE value - before END),
        count(*), min(moment), max(moment), arg_min(value, moment)
    FROM steps GROUP BY number, series HAVING count(*) > 1"""  # noqa: S608  (ours)

Row = Sequence[Any]


class Wanted(NamedTuple):
    """One family for one ask."""

    ask: Ask
    source: Source
    scale: float

    @property
    def bounds(self) -> tuple[float, float, float]:
        """Least, greatest, and how far above the greatest a value is still cut to it."""
        least, most = normalize.limits(self.source.quantity)
        return least, most, most * max(self.source.ceiling, _SLACK)


class Question:
    """One span asked of one state of the file."""

    def __init__(self, connection: DuckDBPyConnection, shelf: SeriesShelf, span: Span) -> None:
        self._connection = connection
        self._shelf = shelf
        self._span = span
        self.queries = 0
        self._scrapes = self._run(
            "SELECT min(id), max(id) FROM scrapes WHERE moment > $start - $lookback AND moment <= $end",
            start=span.start, end=span.end, lookback=LOOKBACK,
        )[0]  # fmt: skip

    def windows(self, wanted: Sequence[Wanted]) -> tuple[list[Windows], list[SeriesInfo]]:
        """The windows, one per wanted family that has series, in the order given; and the series that live."""
        if not wanted or self._scrapes[0] is None:
            return [], []
        rows = self._run(_PER_SERIES, **self._frame(), **_parameters(wanted))
        numbers = {number for row in rows for number in row[1]}
        infos = self._shelf.look_up(self._connection, numbers)
        books = {row[0]: _Book(wanted[row[0]], row[1], row[2:], infos) for row in rows}
        self._look_closer(books)
        self._add_increases(wanted, books, infos)
        windows = [book.windows() for book in books.values() if book.is_alive]
        seen = 2 + _COLUMNS.index("last_seen")
        living = {number for row in rows for number, at in zip(row[1], row[seen], strict=True) if at is not None}
        return windows, [infos[number] for number in living if number in infos]

    def looks(self, wanted: Wanted, series: Sequence[int]) -> list[tuple[float, float]]:
        """Time and value of one subject at every look that shows something."""
        if self._scrapes[0] is None:
            return []
        marks = [(number, 0, wanted) for number in series]
        return [(row[0], row[1]) for row in self._run(_LOOKS, **self._frame(), **_subject_parameters(marks))]

    def living(self, families: Sequence[str]) -> list[tuple[str, str, float]]:
        """Family, labels and newest value of the series that have not ended."""
        if self._scrapes[0] is None:
            return []
        sql = f"""
            WITH {_SHOWN}
            SELECT family, labels, value
            FROM samples JOIN serving ON samples.scrape = serving.id JOIN series ON samples.series = series.id
            WHERE newest AND samples.scrape BETWEEN $oldest AND $newest AND list_contains($families, family)"""  # noqa: S608
        return [(row[0], row[1], row[2]) for row in self._run(sql, **self._frame(), families=list(families))]

    def living_families(self) -> list[str]:
        if self._scrapes[0] is None:
            return []
        sql = f"""
            WITH {_SHOWN}
            SELECT DISTINCT family FROM series WHERE id IN (
                SELECT series FROM samples JOIN serving ON samples.scrape = serving.id
                WHERE newest AND samples.scrape BETWEEN $oldest AND $newest)"""  # noqa: S608  (ours)
        return [row[0] for row in self._run(sql, **self._frame())]

    def _look_closer(self, books: Mapping[int, "_Book"]) -> None:
        """Subjects with several series: what they say together is told only look by look."""
        marks: list[tuple[int, int, Wanted]] = []
        subjects: list[tuple[_Book, SeriesKey]] = []
        for book in books.values():
            for key, series in book.shared.items():
                marks += [(number, len(subjects), book.wanted) for number in series]
                subjects.append((book, key))
        if marks:
            for subject, *values in self._run(_PER_SUBJECT, **self._frame(), **_subject_parameters(marks)):
                book, key = subjects[subject]
                book.put(key, values)

    def _add_increases(
        self, wanted: Sequence[Wanted], books: Mapping[int, "_Book"], infos: Mapping[int, SeriesInfo]
    ) -> None:
        numbers = [number for number in books if "increase" in wanted[number].ask.aggregates]
        if not numbers:
            return
        parameters = _parameters([wanted[number] for number in numbers], numbers)
        frame = self._frame()
        for name in ("step", "lookback"):
            del frame[name]
        for number, series, *change in self._run(_CHANGES, **frame, **parameters):
            info = infos.get(series)
            if info and info.key:
                books[number].put_increase(info.key, _extrapolated(self._span, *change))

    def _frame(self) -> dict[str, object]:
        oldest, newest = self._scrapes
        span = self._span
        return {
            "start": span.start, "end": span.end, "step": span.step, "lookback": LOOKBACK,
            "oldest": oldest, "newest": newest,
        }  # fmt: skip

    def _run(self, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
        self.queries += 1
        return self._connection.execute(sql, parameters).fetchall()


class _Book:
    """The aggregates of one family for one ask while they are gathered."""

    def __init__(
        self, wanted: Wanted, series: Sequence[int], columns: Sequence[Row], infos: Mapping[int, SeriesInfo]
    ) -> None:
        self.wanted = wanted
        self.shared: dict[SeriesKey, list[int]] = {}
        """Keys with several series, and which."""
        keys = [infos[number].key if number in infos else None for number in series]
        unique = set(keys)
        if None in unique or len(unique) < len(keys) or wanted.source.summed:
            kept = self._set_apart(keys, series)
            keys = [keys[index] for index in kept]
            columns = [[column[index] for index in kept] for column in columns]
        self._keys = keys
        self._columns = columns
        self._more: dict[SeriesKey, Row] = {}
        self._increases: dict[SeriesKey, float] = {}

    def _set_apart(self, keys: Sequence[SeriesKey | None], series: Sequence[int]) -> list[int]:
        """Find the shared keys; the places of the others."""
        often = {key for key, count in Counter(keys).items() if count > 1 or self.wanted.source.summed}
        for key, number in zip(keys, series, strict=True):
            if key is not None and key in often:
                self.shared.setdefault(key, []).append(number)
        return [index for index, key in enumerate(keys) if key is not None and key not in often]

    def put(self, key: SeriesKey, values: Row) -> None:
        self._more[key] = values

    def put_increase(self, key: SeriesKey, increase: float) -> None:
        known = self._increases.get(key)
        if known is None:
            self._increases[key] = increase
        else:
            self._increases[key] = known + increase if self.wanted.source.summed else max(known, increase)

    @property
    def is_alive(self) -> bool:
        """Whether there is a series that lives, if that was asked for."""
        if "last_seen" not in self.wanted.ask.aggregates:
            return True
        seen = _COLUMNS.index("last_seen")
        newest = [*self._columns[seen], *(row[seen] for row in self._more.values())]
        return newest.count(None) < len(newest)

    def windows(self) -> Windows:
        """Series that have ended are those without `last_seen`."""
        source, asked = self.wanted.source, self.wanted.ask.aggregates
        columns: dict[Aggregate, Mapping[SeriesKey, float]] = {
            aggregate: self._column(place) for place, aggregate in enumerate(_COLUMNS) if aggregate in asked
        }
        if "increase" in asked:
            columns["increase"] = self._increases
        return Windows(source.quantity, source.scope, source.family, columns, self._rejected())

    def _rejected(self) -> int:
        """Series of which some samples could not be, and none could."""
        mean = _COLUMNS.index("mean")
        rows = [*zip(self._columns[mean], self._columns[-1], strict=True)]
        rows += [(row[mean], row[-1]) for row in self._more.values()]
        return sum(1 for value, spoilt in rows if spoilt and value is None)

    def _column(self, place: int) -> dict[SeriesKey, float]:
        pairs = zip(self._keys, self._columns[place], strict=True)
        column = {key: value for key, value in pairs if key is not None and value is not None}
        return (
            column
            if not self._more
            else column | {key: float(row[place]) for key, row in self._more.items() if row[place] is not None}
        )


def _parameters(wanted: Sequence[Wanted], numbers: Sequence[int] | None = None) -> dict[str, object]:
    bounds = [each.bounds for each in wanted]
    return {
        "numbers": list(numbers or range(len(wanted))),
        "families": [each.source.family for each in wanted],
        "scales": [each.scale for each in wanted],
        "least": [least for least, _, _ in bounds],
        "most": [most for _, most, _ in bounds],
        "highest": [highest for _, _, highest in bounds],
        "active": [each.ask.active_above for each in wanted],
    }


def _subject_parameters(marks: Sequence[tuple[int, int, Wanted]]) -> dict[str, object]:
    """Series, the subject that they belong to, and how they are read."""
    parameters = _parameters([wanted for _, _, wanted in marks])
    del parameters["numbers"], parameters["families"]
    return parameters | {
        "series": [series for series, _, _ in marks],
        "subjects": [subject for _, subject, _ in marks],
        "summed": [wanted.source.summed for _, _, wanted in marks],
    }


def _extrapolated(
    span: Span, increase: float, count: int, first_time: float, last_time: float, first_value: float
) -> float:
    """What Prometheus's increase() makes of it: samples rarely touch the window's ends, so it is stretched there."""
    seen = last_time - first_time
    gap = seen / (count - 1)
    to_start, to_end = first_time - span.start, span.end - last_time
    if increase > 0 and first_value >= 0:
        to_start = min(to_start, seen * first_value / increase)
    stretched = seen
    stretched += to_start if to_start < 1.1 * gap else gap / 2
    stretched += to_end if to_end < 1.1 * gap else gap / 2
    return increase * stretched / seen if seen > 0 else increase
