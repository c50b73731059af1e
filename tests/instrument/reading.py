"""Read a page the plain way: prometheus_client's parser renames counters that do not end in _total."""

import re

from gpusight.instrument import GpuMetrics

_LINE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse(text: str) -> Samples:
    found: Samples = {}
    for line in text.split("\n"):
        if line and not line.startswith("#"):
            match = _LINE.match(line)
            assert match, line
            key = match[1], frozenset(_LABEL.findall(match[2] or ""))
            assert key not in found, f"twice: {line}"
            found[key] = float(match[3])
    return found


def samples(metrics: GpuMetrics) -> Samples:
    return parse(metrics.export_prometheus())


def value(metrics: GpuMetrics, name: str, **labels: str) -> float | None:
    return samples(metrics).get((name, frozenset(labels.items())))
