"""What a source knew at one moment, as sections of rows that any view can show."""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from gpusight.tui.show import UNKNOWN

Kind = Literal["node", "fleet"]
Order = float | str | None


class SourceError(Exception):
    """The source gave nothing usable; one sentence that says why."""


class Column(NamedTuple):
    """`order` and `show` get the row's fact; what the fact lacks is unknown."""

    key: str
    width: int
    order: Callable[[Any], Order]
    show: Callable[[Any], str]
    right: bool = True


class Row(NamedTuple):
    """`name` is for the tree, `full_name` for the flat list, `words` are searched too. All are a stranger's words."""

    key: str
    parent: str
    name: str
    full_name: str
    status: str
    fact: Any
    note: str = ""
    words: str = ""

    @property
    def is_group(self) -> bool:
        """Only there to hold other rows."""
        return self.fact is None


class Section(NamedTuple):
    """Rows in the source's own order, parents before children; the columns beside name and status."""

    key: str
    status_title: str
    status_width: int
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    kind: Kind
    source: str
    at: float
    """When it came, Unix seconds."""
    received: float
    """Likewise on the monotonic clock."""
    age: float | None
    """How old the data was then, by the source's own clock."""
    old_after: float
    """The age from which on the data is not to be believed."""
    simulated: bool | None
    title: str
    """Which node, which round: a stranger's words."""
    summary: tuple[tuple[str, int], ...]
    """Status word -> rows that have it."""
    sections: tuple[Section, ...]
    problems: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    """All that is known, for JSON."""

    def age_at(self, monotonic: float) -> float | None:
        return None if self.age is None else max(0.0, self.age + monotonic - self.received)

    def is_old(self, monotonic: float) -> bool:
        age = self.age_at(monotonic)
        return age is not None and age > self.old_after


def key_for(*parts: str) -> str:
    """One key of several names, which do not run into each other."""
    return "\x1f".join(parts)


def value_of(name: str) -> Callable[[Any], Any]:
    """The fact's value of that name, None where the fact has none."""
    get = operator.attrgetter(name)

    def value(fact: Any) -> Any:
        try:
            return get(fact)
        except AttributeError:
            return None

    return value


def column(key: str, width: int, name: str, show: Callable[[Any], str], *, right: bool = True) -> Column:
    """A column with one value of the fact; blank for facts of a kind that has no such value."""
    get = value_of(name)

    def shown(fact: Any) -> str:
        value = get(fact)
        if value is None:
            return UNKNOWN if hasattr(fact, name.partition(".")[0]) else ""
        return show(value)

    return Column(key, width, get, shown, right)


def used_of(key: str, width: int, name: str, limit: str, show: Callable[[Any], str], unit: str) -> Column:
    """A column with a value and its limit, `118/250W`; without the limit if there is none."""
    get, most = value_of(name), value_of(limit)

    def shown(fact: Any) -> str:
        if not hasattr(fact, name):
            return ""
        used, whole = get(fact), most(fact)
        if used is None and whole is None:
            return UNKNOWN
        return f"{show(used)}{unit}" if whole is None else f"{show(used)}/{show(whole)}{unit}"

    return Column(key, width, get, shown)
