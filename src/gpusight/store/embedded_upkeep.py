"""Roll-ups, retention and the bound on disk.

The engine does not give back what DELETE frees at once: a checkpoint makes the blocks of wholly deleted row groups free
for what comes next, and cuts free ones off the file's end. Measured with a steady inflow, the file settles at 1.35
times the blocks in use, and needs some more while it is rewritten; so those are kept to little more than half.
"""

import logging
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import duckdb

from gpusight.store import schema
from gpusight.store.embedded_file import size_on_disk

_log = logging.getLogger("gpusight.store")

_SLICE = 12
"""Buckets rolled up in one transaction: an hour, so that a long back-fill needs no more memory than a short one."""
_LATE = 60.0
"""Seconds after its end at which a bucket is final: a slow scrape bears the time at which it began."""
_MOST_USED = 0.55
_USED_AFTERWARDS = 0.45
_STEPS = 20
_LEAST_RAW = 3600.0
"""Raw samples of this many seconds are kept until there is no roll-up left to drop."""

_FINITE = f"isfinite(value) AND value NOT IN ({', '.join(map(repr, schema.BLANKS))})"
_ROLL_UP = f"""
    INSERT INTO rollups
    SELECT floor(moment / {schema.ROLLUP_SECONDS})::INTEGER AS bucket, series, count(*), sum(value), min(value),
           max(value), arg_max(value, moment)
    FROM samples JOIN scrapes ON samples.scrape = scrapes.id
    WHERE samples.scrape BETWEEN ? AND ? AND moment >= ? AND moment < ? AND {_FINITE}
    GROUP BY bucket, series ORDER BY bucket, series"""  # noqa: S608  (numbers of ours)


class Retention(NamedTuple):
    """Seconds, and bytes of the file with its log."""

    raw: float = 48 * 3600.0
    rollups: float = 90 * 86400.0
    max_bytes: int = 4 << 30


class Upkeep:
    """Keeps one file within its bounds. The caller holds the store's write lock; nothing here is urgent."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path, retention: Retention) -> None:
        self._connection = connection
        self._path = path
        self._retention = retention

    @property
    def raw_from(self) -> float | None:
        """Since when there are raw samples; None while none was ever dropped."""
        found = schema.meta(self._connection, "raw_from")
        return None if found is None else float(found)

    def run(self, now: float) -> bool:
        """Roll up, drop what is too old or too much; whether series may have lost their last row."""
        self._roll_up(now)
        dropped = self._drop_raw(now - self._retention.raw)
        dropped |= self._drop_rollups(now - self._retention.rollups)
        dropped |= self._make_room(now)
        return dropped

    def forget_series(self) -> bool:
        """Drop the descriptions of series without any row; whether there were some."""
        gone = self._connection.execute(
            "DELETE FROM series WHERE id NOT IN (SELECT series FROM samples UNION SELECT series FROM rollups)"
        ).fetchone()
        return bool(gone and gone[0])

    def _roll_up(self, now: float) -> None:
        width = schema.ROLLUP_SECONDS
        until = (now - _LATE) // width * width
        start = self._rolled_until()
        while start is not None and start < until:
            end = min(start + _SLICE * width, until)
            self._roll(start, end)
            start = self._next_sample(end)

    def _rolled_until(self) -> float | None:
        found = schema.meta(self._connection, "rolled_until")
        return self._next_sample(0.0 if found is None else float(found))

    def _next_sample(self, since: float) -> float | None:
        """The beginning of the bucket with the first scrape since then."""
        row = self._connection.execute("SELECT min(moment) FROM scrapes WHERE moment >= ?", [since]).fetchone()
        width = schema.ROLLUP_SECONDS
        return row[0] // width * width if row and row[0] is not None else None

    def _roll(self, start: float, end: float) -> None:
        with self._connection.cursor() as cursor:
            cursor.begin()
            scrapes = cursor.execute(
                "SELECT min(id), max(id) FROM scrapes WHERE moment >= ? AND moment < ?", [start, end]
            ).fetchone()
            if scrapes and scrapes[0] is not None:
                cursor.execute(_ROLL_UP, [*scrapes, start, end])
            schema.set_meta(cursor, "rolled_until", str(end))
            cursor.commit()

    def _drop_raw(self, before: float) -> bool:
        """All samples of scrapes before that time."""
        oldest = self._connection.execute("SELECT min(moment) FROM scrapes").fetchone()
        if not oldest or oldest[0] is None or oldest[0] >= before:
            return False
        with self._connection.cursor() as cursor:
            cursor.begin()
            cursor.execute(
                "DELETE FROM samples WHERE scrape <= (SELECT max(id) FROM scrapes WHERE moment < $1)"
                " AND scrape IN (SELECT id FROM scrapes WHERE moment < $1)",
                [before],
            )
            cursor.execute("DELETE FROM scrapes WHERE moment < ?", [before])
            schema.set_meta(cursor, "raw_from", str(before))
            cursor.commit()
        return True

    def _drop_rollups(self, before: float) -> bool:
        gone = self._connection.execute(
            "DELETE FROM rollups WHERE bucket < ?", [int(before // schema.ROLLUP_SECONDS)]
        ).fetchone()
        return bool(gone and gone[0])

    def _make_room(self, now: float) -> bool:
        """Until the file fits: the oldest tenth of the raw samples, else of the roll-ups, and so on."""
        if self._fits(_MOST_USED):
            return False
        dropped = False
        for _ in range(_STEPS):
            if self._fits(_USED_AFTERWARDS):
                break
            if not (self._drop_tenth_of_raw(now, _LEAST_RAW) or self._drop_tenth_of_rollups()) and (
                not self._drop_tenth_of_raw(now, 0.0)
            ):
                break
            dropped = True
            self.checkpoint()
        if dropped:
            limit = self._retention.max_bytes
            _log.info("%s would outgrow its %d bytes: the oldest samples were dropped", self._path, limit)
        return dropped

    def _fits(self, share: float) -> bool:
        limit = self._retention.max_bytes * share
        if size_on_disk(self._path) <= limit:
            return True
        self.checkpoint()
        row = self._connection.execute("SELECT used_blocks * block_size FROM pragma_database_size()").fetchone()
        return not row or row[0] <= limit

    def _drop_tenth_of_raw(self, now: float, least: float) -> bool:
        row = self._connection.execute("SELECT min(moment), max(moment) FROM scrapes").fetchone()
        if not row or row[0] is None or row[1] - row[0] <= least:
            return False
        before = row[0] + max((row[1] - row[0]) / 10, 1.0)
        return self._drop_raw(min(before, now - least))

    def _drop_tenth_of_rollups(self) -> bool:
        row = self._connection.execute("SELECT min(bucket), max(bucket) FROM rollups").fetchone()
        if not row or row[0] is None:
            return False
        return self._drop_rollups((row[0] + max((row[1] - row[0]) / 10, 1)) * schema.ROLLUP_SECONDS)

    def checkpoint(self) -> None:
        """Work the log into the file; while somebody reads, that waits for the next time."""
        with suppress(duckdb.TransactionException):
            self._connection.execute("CHECKPOINT")
