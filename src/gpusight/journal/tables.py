"""The tables as data: their columns are the fields of the rows in `model.history`."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, TypeVar

from gpusight.model.history import ConfigChange, Episode, HourUse, JournalError, VerdictChange

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """`key` makes a row unique: writing it again replaces the old one. Without a key rows are only ever added."""

    name: str
    columns: tuple[str, ...]
    make: Callable[[Iterable[Any]], Row]
    key: tuple[str, ...] = ()
    indexed: frozenset[str] = frozenset()
    """Columns with names in them that an index holds, and whose length is therefore bounded."""
    nullable: frozenset[str] = frozenset()
    time: str = ""
    """The column that tells a row's age."""
    order: str = ""

    @property
    def select(self) -> str:
        return f"select {', '.join(self.columns)} from {self.name}"  # noqa: S608 - constants of this file

    @property
    def put(self) -> str:
        marks = ", ".join("?" for _ in self.columns)
        insert = f"insert into {self.name} ({', '.join(self.columns)}) values ({marks})"  # noqa: S608 - likewise
        if not self.key:
            return insert
        news = ", ".join(f"{column} = excluded.{column}" for column in self.columns if column not in self.key)
        return f"{insert} on conflict ({', '.join(self.key)}) do update set {news}"

    def cells(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """The row as both databases can keep it."""
        return tuple(map(self._cell, self.columns, row))

    def _cell(self, column: str, value: Any) -> Any:
        if isinstance(value, str):
            return key_text(value) if column in self.indexed else clean(value)
        if isinstance(value, float) and not math.isfinite(value):
            if column in self.nullable:
                return None
            raise JournalError(f"a row for {self.name} has {column} {value}, which is not a number: nothing was kept")
        return value


_UNPRINTABLE_ANYWHERE = re.compile("[\0\ud800-\udfff]")
_KEY_BYTES = 768
"""PostgreSQL refuses index entries above 2,704 bytes; three names and a time fit in."""


def clean(text: str) -> str:
    """PostgreSQL keeps no NUL, and neither database halves of surrogate pairs."""
    if text.isascii() and "\0" not in text:
        return text
    return _UNPRINTABLE_ANYWHERE.sub("\N{REPLACEMENT CHARACTER}", text)


def key_text(text: str) -> str:
    """A name of any length as a bounded one: what is too long is cut, and ends in a digest of all of it."""
    text = clean(text)
    if len(text) * 4 <= _KEY_BYTES or len(raw := text.encode()) <= _KEY_BYTES:
        return text
    digest = blake2b(raw, digest_size=16).hexdigest()
    return f"{raw[: _KEY_BYTES - 40].decode(errors='ignore')}~{digest}"


class Override(NamedTuple):
    name: str
    value: str


class RecordedState(NamedTuple):
    """The only row of its table."""

    id: int
    at: float
    state: bytes


_WHO = frozenset({"cluster", "namespace", "subject"})

VERDICT_CHANGES = Table(
    "verdict_changes",
    VerdictChange._fields,
    VerdictChange._make,
    key=("at", "cluster", "namespace", "subject", "state"),
    indexed=_WHO | {"state"},
    time="at",
    order="at desc, cluster desc, namespace desc, subject desc, state desc",
)
HOURS = Table(
    "hours",
    HourUse._fields,
    HourUse._make,
    # A subject's identity includes where it is, so that no tenant can name a subject like another's. Its GPU model is
    # not part of it: an hour in which a pod moved to another model is still one row.
    key=("hour", "cluster", "namespace", "subject"),
    indexed=_WHO,
    nullable=frozenset({"energy_joules", "cost"}),
    time="hour",
    order="hour, cluster, namespace, subject",
)
EPISODES = Table(
    "episodes",
    Episode._fields,
    Episode._make,
    key=("id",),
    indexed=_WHO | {"id"},
    nullable=frozenset({"closed"}),
    time="closed",
    order="opened desc, id desc",
)
OVERRIDES = Table(
    "config_overrides",
    Override._fields,
    Override._make,
    key=("name",),
    indexed=frozenset({"name"}),
    order="name",
)
CONFIG_CHANGES = Table("config_changes", ConfigChange._fields, ConfigChange._make, time="at", order="id desc")
STATE = Table("analysis_state", RecordedState._fields, RecordedState._make, key=("id",), time="at", order="id")

TABLES: tuple[Table[Any], ...] = (VERDICT_CHANGES, HOURS, EPISODES, OVERRIDES, CONFIG_CHANGES, STATE)
