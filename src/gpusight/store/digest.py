"""A round's aggregates of dcgm-exporter's families, packed into five recorded series per GPU instead of two dozen.

What a round costs an engine is the number of series that it has to fetch and print. The recording rules of
rules/recording.py therefore pack several aggregates into the 53 bits of a whole number that a sample holds exactly.
Each field is a code: 0 for no data, else one more than the value in the field's own unit, rounded. Shares keep a
thousandth, memory a MiB. What cannot be, or does not fit, is no data.

The recorded name carries the window, the step and the threshold, and a checksum of everything else that shapes the
numbers (condition, families, this layout): rules that were rendered for another question are simply not found.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import NamedTuple

from gpusight.model.series import Aggregate, Quantity, Span
from gpusight.store.normalize import BY_FAMILY, limits
from gpusight.store.promql import Shape, duration
from gpusight.store.sources import MEGA, MIB, Source

_LAYOUT = 1
"""To be raised with any change of the tables below."""

FAMILIES: tuple[str, ...] = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_FREE",
    "DCGM_FI_DEV_FB_RESERVED",
    "DCGM_FI_DEV_MEM_COPY_UTIL",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_PROF_DRAM_ACTIVE",
    "DCGM_FI_PROF_PCIE_TX_BYTES",
    "DCGM_FI_PROF_PCIE_RX_BYTES",
)
"""dcgm-exporter's up to 4.8 and our node exporter's."""
SOURCES: dict[Quantity, Source] = {BY_FAMILY[family].quantity: BY_FAMILY[family] for family in FAMILIES}

KEY_LABELS = (
    "UUID",
    "GPU_I_ID",
    "vgpu",
    "exported_namespace",
    "exported_pod",
    "exported_container",
    "namespace",
    "pod",
    "container",
)
PLACE_LABELS = ("Hostname", "hostname", "modelName", "job", "instance")
KEY, PLACE = "k", "p"
"""Labels of the recorded series: the values of the labels above, one after the other."""
SEPARATOR = "|"


class Bits(NamedTuple):
    """One aggregate: how many bits its code has, and the value of one unit."""

    quantity: Quantity
    aggregate: Aggregate
    bits: int
    unit: float

    @property
    def most(self) -> int:
        return (1 << self.bits) - 1

    @property
    def is_value(self) -> bool:
        """In the quantity's own unit, unlike counts and times."""
        return self.aggregate in ("mean", "max")


_SHARE = 0.001
_LOOK = 1.0
_SECONDS = 2.0
_TEN_SECONDS = 10.0


def _activity(quantity: Quantity) -> tuple[Bits, ...]:
    return (
        Bits(quantity, "mean", 10, _SHARE),
        Bits(quantity, "max", 10, _SHARE),
        Bits(quantity, "count", 10, _LOOK),
        Bits(quantity, "active_count", 10, _LOOK),
        Bits(quantity, "last_active", 10, _LOOK),  # looks ago
    )


DIGESTS: tuple[tuple[Bits, ...], ...] = (
    _activity("utilization"),
    _activity("engine_active"),
    (
        Bits("memory_used", "mean", 20, MIB),
        Bits("memory_free", "mean", 20, MIB),
        Bits("memory_reserved", "mean", 13, MIB),
    ),
    (
        Bits("memory_copy", "mean", 10, _SHARE),
        Bits("tensor_active", "mean", 10, _SHARE),
        Bits("dram_active", "mean", 10, _SHARE),
        Bits("sm_active", "mean", 10, _SHARE),
        Bits("utilization", "last_seen", 8, _SECONDS),  # seconds ago
        Bits("memory_used", "last_seen", 5, _TEN_SECONDS),
    ),
    (
        Bits("power", "mean", 12, 1.0),
        Bits("sm_clock", "mean", 12, MEGA),
        Bits("pcie_transmit", "mean", 12, 16 * MIB),
        Bits("pcie_receive", "mean", 12, 16 * MIB),
        Bits("engine_active", "last_seen", 5, _TEN_SECONDS),
    ),
)
HELD: frozenset[tuple[Quantity, Aggregate]] = frozenset(
    (bits.quantity, bits.aggregate) for digest in DIGESTS for bits in digest
)


@dataclass(frozen=True, slots=True)
class Digest:
    """The recordings for one window, step, threshold and condition."""

    span: Span
    above: float
    condition: str
    cluster_label: str

    @property
    def fits(self) -> bool:
        """Whether the looks of this window can be counted in the bits there are."""
        return self.span.expected < 1000

    def name(self, number: int) -> str:
        return f"gpusight:digest_{number}:{self._question}"

    def clock(self, number: int) -> str:
        """The series that says when a digest was last recorded."""
        return f"gpusight:digest_{number}_time:{self._question}"

    @property
    def _question(self) -> str:
        shaping = repr((_LAYOUT, self.condition, self.cluster_label, FAMILIES, DIGESTS))
        above = f"{self.above:.6f}".rstrip("0").replace(".", "_")
        window, step = duration(self.span.length), duration(self.span.step)
        return f"{window}_{step}_{above}_{zlib.crc32(shaping.encode()):08x}"

    def rules(self) -> Iterator[tuple[str, str]]:
        """Recorded names and what to record, in this order."""
        for number, digest in enumerate(DIGESTS, 1):
            yield self.name(number), self._expression(digest, with_place=number == 1)
            yield self.clock(number), f"max by ({self.cluster_label}) (timestamp({self.name(number)}))"

    def _expression(self, digest: Sequence[Bits], *, with_place: bool) -> str:
        labels = (*KEY_LABELS, *PLACE_LABELS) if with_place else KEY_LABELS
        by = ", ".join((self.cluster_label, *labels))
        parts = " or ".join(self._part(at, bits, by) for at, bits in _placed(digest))
        packed = _joined(KEY, KEY_LABELS, f"sum by ({by}) ({parts})")
        if with_place:
            packed = _joined(PLACE, PLACE_LABELS, packed)
        kept = f"{KEY}, {PLACE}" if with_place else KEY
        return f"max by ({self.cluster_label}, {kept}) ({packed})"

    def _part(self, at: int, bits: Bits, by: str) -> str:
        """One field at its place in the number; the label keeps `or` from taking two fields for one."""
        source = SOURCES[bits.quantity]
        possible = min(bits.most - 1, limits(bits.quantity)[1] / bits.unit) if bits.is_value else bits.most - 1
        code = f"1 + round({self._value(source, bits, by)} >= 0 <= {possible!r})"
        return f'label_replace(({code}) * {1 << at}, "field", "{at}", "", "")'

    def _value(self, source: Source, bits: Bits, by: str) -> str:
        shape = Shape(source, _scale(source), self.span, self.condition, self.cluster_label)
        if bits.aggregate == "last_seen":
            return f"(time() - max by ({by}) (timestamp({shape.series()}))) / {bits.unit!r}"
        value = f"{shape.aggregated(bits.aggregate, self.above, by)}"
        if bits.aggregate == "last_active":
            return f"(time() - {value}) / {self.span.step!r}"
        return f"{value} * {_scale(source) / bits.unit!r}" if bits.is_value else value


def _scale(source: Source) -> float:
    return 1.0 if source.scale is None else source.scale


def _placed(digest: Sequence[Bits]) -> Iterator[tuple[int, Bits]]:
    at = 0
    for bits in digest:
        yield at, bits
        at += bits.bits


def _joined(label: str, labels: Sequence[str], vector: str) -> str:
    names = ", ".join(f'"{name}"' for name in labels)
    return f'label_join({vector}, "{label}", "{SEPARATOR}", {names})'


def unjoined(labels: Mapping[str, str]) -> dict[str, str]:
    """A recorded row's labels as those that were joined; a value with the separator in it makes the row nobody's."""
    plain = {name: value for name, value in labels.items() if name not in (KEY, PLACE)}
    for label, names in ((KEY, KEY_LABELS), (PLACE, PLACE_LABELS)):
        values = labels.get(label, "").split(SEPARATOR)
        if len(values) == len(names):
            plain |= dict(zip(names, values, strict=True))
    return plain


def unpack(number: int, step: float, values: Sequence[float], recorded: float) -> Iterator[tuple[Bits, list[float]]]:
    """Each field of a digest with its values, in the order of the rows; NaN where there is no data.

    `recorded` is when the digest's rule ran: fields that count back from then become Unix times.
    """
    whole = [int(value) for value in values]
    for at, bits in _placed(DIGESTS[number - 1]):
        most = bits.most
        codes = [value >> at & most for value in whole]
        meaning = {code: _meaning(bits, step, code, recorded) for code in set(codes)}
        yield bits, [meaning[code] for code in codes]


def _meaning(bits: Bits, step: float, code: int, recorded: float) -> float:
    if code == 0:
        return nan
    if bits.aggregate == "last_active":
        return recorded - (code - 1) * step
    if bits.aggregate == "last_seen":
        return recorded - (code - 1) * bits.unit
    return (code - 1) * bits.unit
