"""One page of metrics, by family and labels."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gpusight.catalog.spec import FamilySpec
from gpusight.exposition.parser import Page, PageParser

Key = tuple[str, ...]


class Series(NamedTuple):
    name: str
    labels: tuple[tuple[str, str], ...]


class Sample(NamedTuple):
    labels: Mapping[str, str]
    value: float


class Samples:
    """What a page says; NaN and infinities say nothing."""

    def __init__(self, page: Page[Series]) -> None:
        self._families: dict[str, list[Sample]] = {}
        for series, value in zip(page.series, page.values, strict=True):
            if math.isfinite(value):
                self._families.setdefault(series.name, []).append(Sample(dict(series.labels), value))

    def __bool__(self) -> bool:
        return bool(self._families)

    def of(self, spec: FamilySpec) -> list[Sample]:
        return self._families.get(spec.name, [])

    def first(self, spec: FamilySpec) -> Sample | None:
        return next(iter(self.of(spec)), None)

    def by(self, spec: FamilySpec, labels: Iterable[str]) -> dict[Key, float]:
        """The value for these labels; "" stands for a label that is not there."""
        names = tuple(labels)
        return {key_of(sample.labels, names): sample.value for sample in self.of(spec)}


def key_of(labels: Mapping[str, str], names: Iterable[str]) -> Key:
    return tuple(labels.get(name, "") for name in names)


def parser(families: Iterable[FamilySpec]) -> PageParser[Series]:
    """For the pages of one target, of which only these families are looked at."""
    wanted = frozenset(spec.name for spec in families)
    return PageParser(lambda name, labels: Series(name, tuple(sorted(labels.items()))), wanted.__contains__)


def merged(*tables: Mapping[Key, float]) -> Iterator[Key]:
    """Every key of any of them once, in order of appearance."""
    seen: dict[Key, None] = {}
    for table in tables:
        seen.update(dict.fromkeys(table))
    yield from seen
