"""Text encoders: Prometheus 0.0.4 and OpenMetrics 1.0.0, with names exactly as the catalog declares them.

A renderer remembers the escaped form of each series' name and labels from one page to the next, and the bytes of
every stretch of series whose values did not change. That memory is as large as the last page, never larger.
"""

import math
import re
from collections.abc import Iterable, Sequence
from itertools import accumulate

from gpusight.catalog.spec import FamilySpec
from gpusight.exposition.blocks import FamilyBlock, Histogram, LabelValues, Number, Value

_STRETCH = 2048
"""Series rendered and remembered together: small enough for little peak memory, large enough for C speed."""

_NEEDS_ESCAPE = re.compile('[\\\\"\n\ud800-\udfff]')
_NOT_UTF8 = re.compile("[\ud800-\udfff]")
_PLAIN_TYPES = {int, float}


class Dialect:
    """What differs between the text formats."""

    content_type: str
    trailer: bytes

    def family_name(self, spec: FamilySpec) -> str:
        raise NotImplementedError

    def sample_name(self, spec: FamilySpec) -> str:
        raise NotImplementedError

    def help_text(self, text: str) -> str:
        raise NotImplementedError

    def bound(self, upper: float) -> str:
        raise NotImplementedError


class PrometheusText(Dialect):
    """Format 0.0.4: the declared name is the sample name, with or without `_total`."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"
    trailer = b""

    def family_name(self, spec: FamilySpec) -> str:
        return spec.name

    def sample_name(self, spec: FamilySpec) -> str:
        return spec.name

    def help_text(self, text: str) -> str:
        return text.replace("\\", "\\\\").replace("\n", "\\n")

    def bound(self, upper: float) -> str:
        return format_number(upper)


class OpenMetricsText(Dialect):
    """OpenMetrics 1.0.0: a counter's samples must end in `_total`, its family name must not."""

    content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    trailer = b"# EOF\n"

    def family_name(self, spec: FamilySpec) -> str:
        return spec.name.removesuffix("_total") if spec.kind == "counter" else spec.name

    def sample_name(self, spec: FamilySpec) -> str:
        return self.family_name(spec) + "_total" if spec.kind == "counter" else spec.name

    def help_text(self, text: str) -> str:
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')

    def bound(self, upper: float) -> str:
        return "+Inf" if math.isinf(upper) else repr(float(upper))


TEXT = PrometheusText()
OPENMETRICS = OpenMetricsText()


def format_number(value: Number) -> str:
    """Integers as integers, floats in the shortest form that reads back equal."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        return repr(value).removesuffix(".0")
    return repr(int(value))


def escape(value: str) -> str:
    """A label value as it stands between the quotes.

    Code points that UTF-8 cannot carry are spelled out.
    """
    if not _NEEDS_ESCAPE.search(value):
        return value
    if _NOT_UTF8.search(value):
        value = value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def encode(blocks: Iterable[FamilyBlock], *, dialect: Dialect = TEXT, headers_for: Sequence[FamilySpec] = ()) -> bytes:
    """One page, nothing remembered. For pages that are rendered again and again keep a Renderer."""
    return Renderer(dialect).render(blocks, headers_for=headers_for)


class Renderer:
    """Renders pages of one dialect and remembers what the next page can reuse. Not thread-safe.

    `duplicates` counts series left out because the same page already had one of that name and labels.
    """

    def __init__(self, dialect: Dialect = TEXT) -> None:
        self.dialect = dialect
        self.duplicates = 0
        self._families: dict[FamilySpec, _Family] = {}

    def render(self, blocks: Iterable[FamilyBlock], *, headers_for: Sequence[FamilySpec] = ()) -> bytes:
        """The page of these blocks, one per family; `headers_for` get HELP and TYPE even without a sample."""
        previous, self._families = self._families, {}
        parts: list[bytes] = []
        for block in blocks:
            family = previous.get(block.spec) or _Family(block.spec, self.dialect)
            self._families[block.spec] = family
            self.duplicates += family.update(block)
            parts.append(family.header)
            parts.extend(family.stretches)
        parts.extend(_header(spec, self.dialect) for spec in headers_for if spec not in self._families)
        if parts:
            parts[0] = parts[0][1:]  # every line starts with its line end: that is how they join fastest
            parts.append(b"\n")
        parts.append(self.dialect.trailer)
        return b"".join(parts)


class _Family:
    """One family's share of the last page."""

    def __init__(self, spec: FamilySpec, dialect: Dialect) -> None:
        self.header = _header(spec, dialect)
        self.stretches: list[bytes] = []
        self._spec = spec
        self._dialect = dialect
        self._keys: tuple[LabelValues, ...] = ()
        self._prefixes: list[str] = []
        self._kept: list[int] | None = None
        self._numbers: Sequence[Number] = ()

    def update(self, block: FamilyBlock) -> int:
        """Take over a new block; answer how many of its series were duplicates."""
        if block.keys is not self._keys and block.keys != self._keys:
            self._learn(block.keys)
        values: Sequence[Value] = block.values
        if self._kept is not None:
            values = [values[i] for i in self._kept]
        numbers = _flatten(values) if self._spec.kind == "histogram" else values
        self._fill(numbers)  # type: ignore[arg-type]  # numbers only: histograms were flattened
        return 0 if self._kept is None else len(block.keys) - len(self._kept)

    def _learn(self, keys: tuple[LabelValues, ...]) -> None:
        known = dict(zip(self._keys, self._prefixes, strict=True)) if self._plain else {}
        prefixes = self._prefixes_of(keys, known)
        unique = dict.fromkeys(prefixes)
        self._kept = None
        if len(unique) != len(prefixes):
            first = {prefix: i for i, prefix in reversed(list(enumerate(prefixes)))}
            self._kept = sorted(first.values())
            prefixes = [prefixes[i] for i in self._kept]
        if self._spec.kind == "histogram":
            prefixes = [line for i in self._kept or range(len(keys)) for line in self._histogram_lines(keys[i])]
        self._keys, self._prefixes = keys, prefixes
        self._numbers, self.stretches = (), []

    @property
    def _plain(self) -> bool:
        return self._kept is None and self._spec.kind != "histogram"

    def _prefixes_of(self, keys: tuple[LabelValues, ...], known: dict[LabelValues, str]) -> list[str]:
        name, labels = self._dialect.sample_name(self._spec), self._spec.label_names
        template = _template(name, labels)
        make = _prefix
        if not known:
            return [make(key, template, name, labels) for key in keys]
        return [known.get(key) or make(key, template, name, labels) for key in keys]

    def _histogram_lines(self, key: LabelValues) -> list[str]:
        name, labels = self._spec.name, self._spec.label_names
        with_le = (*labels, "le")
        bounds = (*self._spec.buckets, math.inf)
        lines = [_prefix_slowly(f"{name}_bucket", with_le, (*key, self._dialect.bound(b))) for b in bounds]
        lines += [_prefix_slowly(f"{name}_{part}", labels, key) for part in ("sum", "count")]
        return lines

    def _fill(self, numbers: Sequence[Number]) -> None:
        if numbers is self._numbers:
            return
        fresh = not self.stretches
        for index, start in enumerate(range(0, len(numbers), _STRETCH)):
            piece = numbers[start : start + _STRETCH]
            if fresh:
                self.stretches.append(_lines(self._prefixes[start : start + _STRETCH], piece))
            elif piece != self._numbers[start : start + _STRETCH]:
                self.stretches[index] = _lines(self._prefixes[start : start + _STRETCH], piece)
        self._numbers = numbers


def _lines(prefixes: Sequence[str], numbers: Sequence[Number]) -> bytes:
    """Sample lines in a few C calls; a stretch with any number that repr cannot print right is done one by one."""
    values = _values(numbers) if _all_printable(numbers) else list(map(_format_any, numbers))
    parts = [*prefixes, *values]
    parts[::2] = prefixes
    parts[1::2] = values
    return "".join(parts).encode()


def _values(numbers: Sequence[Number]) -> list[str]:
    values = list(map(repr, numbers))
    joined = "\n".join(values) + "\n"
    if ".0\n" not in joined:
        return values
    return joined.replace(".0\n", "\n").split("\n")[:-1]


def _all_printable(numbers: Sequence[Number]) -> bool:
    if not set(map(type, numbers)) <= _PLAIN_TYPES:  # bool, numpy
        return False
    try:
        return math.isfinite(sum(numbers))
    except (OverflowError, ValueError):  # huge integers; +Inf beside -Inf
        return False


def _format_any(value: Number) -> str:
    try:
        return format_number(value if type(value) in (int, float) else float(value))
    except (ValueError, OverflowError):
        return "+Inf" if value > 0 else "-Inf"


def _flatten(values: Sequence[Value]) -> list[Number]:
    numbers: list[Number] = []
    for value in values:
        if isinstance(value, Histogram):
            cumulative = list(accumulate(value.counts))
            numbers += cumulative
            numbers += (value.sum, cumulative[-1])
    return numbers


def _template(name: str, labels: tuple[str, ...]) -> str:
    if not labels:
        return f"\n{name} "
    return "\n" + name + "{" + ",".join(f'{label}="%s"' for label in labels) + "} "


def _prefix(key: LabelValues, template: str, name: str, labels: tuple[str, ...]) -> str:
    try:
        if not _NEEDS_ESCAPE.search("".join(key)):  # type: ignore[arg-type]  # None raises TypeError: the slow way
            return template % key
    except TypeError:
        pass
    return _prefix_slowly(name, labels, key)


def _prefix_slowly(name: str, labels: tuple[str, ...], key: LabelValues) -> str:
    pairs = [f'{label}="{escape(value)}"' for label, value in zip(labels, key, strict=True) if value is not None]
    return f"\n{name}{{{','.join(pairs)}}} " if pairs else f"\n{name} "


def _header(spec: FamilySpec, dialect: Dialect) -> bytes:
    name = dialect.family_name(spec)
    return f"\n# HELP {name} {dialect.help_text(spec.help)}\n# TYPE {name} {spec.kind}".encode()
