"""Families as columns: many series at once, under keys that stay the same objects from one scrape to the next.

What holds a key once checked and escaped need not look at it again as long as it is that very object.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from gpusight.catalog.spec import FamilySpec
from gpusight.exposition.blocks import FamilyBlock, LabelValues, Number

Keys = tuple[LabelValues, ...]


@lru_cache(maxsize=32)
def kept(keys: Keys) -> Keys:
    """The first of equal tuples of keys that was asked for lately."""
    return keys


def column(spec: FamilySpec, keys: Keys, values: Sequence[Number | None]) -> Iterator[FamilyBlock]:
    """One series for each key whose value is known; no family where none is."""
    if None not in values:
        if keys:
            yield FamilyBlock(spec, keys, values)  # type: ignore[arg-type]  # there is no None among them
        return
    known = [(key, value) for key, value in zip(keys, values, strict=True) if value is not None]
    if known:
        yield FamilyBlock(spec, [key for key, _ in known], [value for _, value in known])
