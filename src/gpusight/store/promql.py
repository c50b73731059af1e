"""The queries of a round, as text that Prometheus, Thanos, Mimir and VictoriaMetrics understand alike.

One query per family and aggregate, whatever the size of the fleet. The engine aggregates by the labels that tell one
subject from another, so series that differ in more than that (an exporter that restarted elsewhere) come back as one
row: counts are added, of means the mean is taken, of the rest the greatest.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from gpusight.model.series import Aggregate, Span
from gpusight.store.labels import FULL_LABELS, GPU_LABELS, IDENTITY_LABELS, spellings
from gpusight.store.normalize import limits
from gpusight.store.sources import Source

_MATCHER = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\')\s*(,|$)')
_OVERSHOOT = 1.001


class ConditionError(ValueError):
    """A condition that is no list of label matchers."""


def condition(text: str) -> str:
    """Matchers as users write them, with or without braces, for use inside of braces."""
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    inner = inner.removesuffix(",")
    at = 0
    while at < len(inner):
        found = _MATCHER.match(inner, at)
        if not found:
            raise ConditionError(f'{text!r} is not a list of label matchers: write for example {{pod!=""}}')
        at = found.end()
    return inner


_WORDS: Mapping[str, Mapping[str, str]] = {
    "Device_": {"pod": "podname", "namespace": "podnamespace", "container": "ctrname"},
    "vGPU_": {"pod": "podname", "namespace": "podnamespace", "container": "ctrname"},
    "dcgm_": {"pod": "pod_name", "namespace": "pod_namespace", "container": "container_name"},
}
"""Labels of the families that begin so, for those in whose words a condition is written."""


def _words_of(family: str) -> Mapping[str, str]:
    return next((words for beginning, words in _WORDS.items() if family.startswith(beginning)), {})


def in_words_of(family: str, matchers: str) -> str:
    """A condition in dcgm-exporter's words as one for a family that calls the holder otherwise."""
    words = _words_of(family)
    if not words:
        return matchers
    found = _MATCHER.findall(matchers)
    return ",".join(f"{words.get(label, label)}{operator}{value}" for label, operator, value, _ in found)


Matches = Callable[[str, Mapping[str, str]], bool]
"""Whether a series of that family with those labels meets a condition."""


def matching(text: str) -> Matches:
    """A condition for a store that has no engine to ask. ConditionError, as for one that has."""
    matchers = [_test(label, operator, value) for label, operator, value, _ in _MATCHER.findall(condition(text))]

    def meets(family: str, labels: Mapping[str, str]) -> bool:
        words = _words_of(family)
        return all(test(labels.get(words.get(label, label), "")) for label, test in matchers)

    return meets


def _test(label: str, operator: str, value: str) -> tuple[str, Callable[[str], bool]]:
    wanted = re.sub(r"\\(.)", r"\1", value[1:-1])
    if operator in ("=", "!="):
        return label, (wanted.__eq__ if operator == "=" else wanted.__ne__)
    try:
        pattern = re.compile(wanted)
    except re.error as error:
        raise ConditionError(f"{wanted!r} is not a regular expression: {error}") from None
    is_wanted = operator == "=~"
    return label, lambda found: (pattern.fullmatch(found) is not None) == is_wanted


def quoted(value: str) -> str:
    """A string of PromQL for any text."""
    text = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def any_of(values: Iterable[str]) -> str:
    """A regular expression, as a string of PromQL, that matches exactly these texts."""
    return quoted("|".join(_escaped(value) for value in values))


def _escaped(value: str) -> str:
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", value)


def selector(family: str, *matchers: str) -> str:
    return f"{family}{{{','.join(filter(None, matchers))}}}"


def duration(seconds: float) -> str:
    milliseconds = max(1, round(seconds * 1000))
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


class Shape(NamedTuple):
    """What all queries of one family in one round share. `filtered`: leave out samples that cannot be."""

    source: Source
    scale: float
    span: Span
    condition: str
    cluster_label: str
    filtered: bool = False

    @property
    def by(self) -> str:
        return ",".join((self.cluster_label, *IDENTITY_LABELS))

    @property
    def by_all(self) -> str:
        return ",".join((self.cluster_label, *FULL_LABELS))

    def series(self, *matchers: str) -> str:
        only = (f"{name}=~{any_of(('', value))}" for name, value in self.source.only.items())
        return selector(self.source.family, *only, in_words_of(self.source.family, self.condition), *matchers)

    def look(self, *matchers: str) -> str:
        """What one look at one moment sees."""
        seen = self.series(*matchers)
        if self.filtered:
            least, most = limits(self.source.quantity)
            most *= max(self.source.ceiling, _OVERSHOOT)
            seen = f"({seen} >= {least / self.scale!r} <= {most / self.scale!r})"
        return f"sum by ({self.by}) ({seen})" if self.source.summed else seen

    @property
    def looks(self) -> str:
        """Every `step` through the window."""
        return f"[{self.length}:{duration(self.span.step)}]"

    @property
    def length(self) -> str:
        """One millisecond less than the window: engines differ in whether a sample at its very start counts."""
        return duration(self.span.length - 0.001)

    def all_samples(self) -> str:
        """All samples of the window; looks, where samples must be looked at together or filtered."""
        if self.filtered or self.source.summed:
            return f"({self.look()}){self.looks}"
        return f"{self.series()}[{self.length}]"

    def active(self, above: float, *matchers: str) -> str:
        return f"({self.look(*matchers)} > {above / self.scale!r})"

    def query(self, aggregate: Aggregate, above: float = 0.0) -> str:
        if aggregate == "last_seen":
            return f"max by ({self.by_all}) (timestamp({self.series()}))"
        return self.aggregated(aggregate, above, self.by)

    def aggregated(self, aggregate: Aggregate, above: float, by: str) -> str:
        """Any aggregate but `last_seen`, by the given labels."""
        outer, inner = self._parts(aggregate, above)
        return f"{outer} by ({by}) ({inner})"

    def _parts(self, aggregate: Aggregate, above: float) -> tuple[str, str]:
        looked = self.series() if not (self.filtered or self.source.summed) else f"({self.look()})"
        parts: dict[Aggregate, tuple[str, str]] = {
            "last": ("max", self.look()),
            "count": ("sum", f"count_over_time({looked}{self.looks})"),
            "active_count": ("sum", f"count_over_time({self.active(above)}{self.looks})"),
            "last_active": ("max", self._last_active(above)),
            "mean": ("avg", f"avg_over_time({self.all_samples()})"),
            "min": ("min", f"min_over_time({self.all_samples()})"),
            "max": ("max", f"max_over_time({self.all_samples()})"),
            "increase": ("sum", f"increase({self.series()}[{duration(self.span.length)}])"),
        }
        return parts[aggregate]

    def _last_active(self, above: float, *matchers: str) -> str:
        return f"max_over_time(timestamp({self.active(above, *matchers)}){self.looks})"

    def active_now(self, above: float) -> str:
        return f"group by ({self.by}) ({self.active(above)})"

    def last_active_of(self, gpu_label: str, gpus: Iterable[str], above: float) -> str:
        """The time of the newest active look of few GPUs: it is dear to ask for all."""
        return f"max by ({self.by}) ({self._last_active(above, f'{gpu_label}=~{any_of(gpus)}')})"

    def over_time(self, gpu: str) -> str:
        """One GPU's values for a chart, whatever the label that names it."""
        named = any_of(spellings(gpu))
        either = " or ".join(self.look(f"{label}=~{named}") for label in GPU_LABELS)
        return f"max by ({self.by}) ({either})"


def alternatives(family_names: Iterable[str], labels: Iterable[str]) -> str:
    """One row per set of labels over several families of which only the labels matter."""
    return f"group by ({','.join(labels)}) ({{__name__=~{any_of(family_names)}}})"
