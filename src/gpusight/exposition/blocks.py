"""What the encoders take: samples, and blocks of samples of one family."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from gpusight.catalog.spec import FamilySpec

Number = int | float
LabelValues = tuple[str | None, ...]
"""One value per declared label, in declared order; None leaves the label out."""


class Histogram(NamedTuple):
    """Observations per bucket (not cumulative; the last one is +Inf) and their sum."""

    counts: tuple[int, ...]
    sum: float


Value = Number | Histogram


class Sample(NamedTuple):
    """One series of a family at scrape time."""

    spec: FamilySpec
    labels: LabelValues
    value: Value


class Rubbish(ValueError):  # noqa: N818  (a verdict on data, not a program error)
    """Samples that no scrape may carry: the message says of which family and why."""


class FamilyBlock:
    """Many series of one family. Keys and values are kept as tuples, so identity means unchanged."""

    __slots__ = ("keys", "spec", "values")

    def __init__(self, spec: FamilySpec, keys: Iterable[LabelValues], values: Iterable[Value]) -> None:
        self.spec = spec
        self.keys: tuple[LabelValues, ...] = tuple(keys)
        self.values: tuple[Value, ...] = tuple(values)
        if len(self.keys) != len(self.values):
            raise Rubbish(f"{spec.name}: {len(self.keys)} keys but {len(self.values)} values")


def group(items: Iterable[Sample | FamilyBlock]) -> list[FamilyBlock]:
    """One block per family, in order of first appearance; single samples and blocks may be mixed."""
    first: dict[FamilySpec, Sample | FamilyBlock] = {}
    several: dict[FamilySpec, list[Sample | FamilyBlock]] = {}
    for item in items:
        if item.spec in first:
            several.setdefault(item.spec, [first[item.spec]]).append(item)
        else:
            first[item.spec] = item
    return [
        item if isinstance(item, FamilyBlock) and spec not in several else _merge(spec, several.get(spec, [item]))
        for spec, item in first.items()
    ]


def _merge(spec: FamilySpec, members: Sequence[FamilyBlock | Sample]) -> FamilyBlock:
    keys: list[LabelValues] = []
    values: list[Value] = []
    for member in members:
        if isinstance(member, Sample):
            keys.append(member.labels)
            values.append(member.value)
        else:
            keys.extend(member.keys)
            values.extend(member.values)
    return FamilyBlock(spec, keys, values)


def check(block: FamilyBlock, good: tuple[LabelValues, ...] | None = None) -> None:
    """Raise Rubbish unless every key and value of the block can be exposed as declared; keys that are `good` can."""
    if block.keys is not good:
        _check_keys(block)
    spec = block.spec
    allowed = {Histogram} if spec.kind == "histogram" else {int, float}
    odd = set(map(type, block.values)) - allowed
    if odd:
        raise Rubbish(f"{spec.name}: a {spec.kind} needs {_names(allowed)} values, got {_names(odd)}")
    if spec.kind == "histogram":
        _check_histograms(block)


def _check_keys(block: FamilyBlock) -> None:
    spec = block.spec
    expected = len(spec.labels)
    if not set(map(len, block.keys)) <= {expected}:
        raise Rubbish(f"{spec.name}: a key has not exactly the {expected} declared labels {spec.label_names}")
    odd = set(map(type, chain.from_iterable(block.keys))) - {str, type(None)}
    if odd:
        raise Rubbish(f"{spec.name}: label values must be text, got {_names(odd)}")


def _check_histograms(block: FamilyBlock) -> None:
    wanted = len(block.spec.buckets) + 1
    for value in block.values:
        if isinstance(value, Histogram) and len(value.counts) != wanted:
            raise Rubbish(f"{block.spec.name}: {len(value.counts)} bucket counts where {wanted} are declared")


def _names(types: Iterable[type]) -> str:
    return ", ".join(sorted(t.__name__ for t in types))
