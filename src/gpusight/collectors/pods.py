"""Whose pods are and since when they run."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from gpusight.catalog import pods as catalog
from gpusight.collectors.columns import column
from gpusight.exposition.blocks import FamilyBlock


class PodRow(NamedTuple):
    """One pod; `started_at` is Unix time, None if nobody knows."""

    cluster: str
    namespace: str
    pod: str
    owner_kind: str
    owner_name: str
    started_at: float | None = None


@dataclass(frozen=True, slots=True)
class PodsCollector:
    """Collects the pods that `look` sees."""

    name: ClassVar[str] = "pods"
    look: Callable[[], Iterable[PodRow]]

    def collect(self) -> Iterator[FamilyBlock]:
        rows = tuple(self.look())
        yield from column(catalog.OWNER, tuple(row[:5] for row in rows), [1] * len(rows))
        yield from column(catalog.STARTED, tuple(row[:3] for row in rows), [row.started_at for row in rows])
