"""A bridge into prometheus_client, for programs that expose a registry of their own already.

    from gpusight.instrument.bridge import register
    register(metrics)                      # or register(metrics, registry)

prometheus_client appends `_total` to every counter. The seed's counters without that ending therefore pass as untyped
there, under their exact names.
"""

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from gpusight.exposition.blocks import FamilyBlock, Histogram
from gpusight.exposition.text import TEXT
from gpusight.instrument.metrics import GpuMetrics

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric


def register(metrics: GpuMetrics, registry: "CollectorRegistry | None" = None) -> "GpuMetricsCollector":
    """Show the metrics in a prometheus_client registry, by default its global one."""
    from prometheus_client import REGISTRY  # noqa: PLC0415  (not ours to depend on)

    collector = GpuMetricsCollector(metrics)
    (registry or REGISTRY).register(collector)
    return collector


class GpuMetricsCollector:
    """Yields the families of a GpuMetrics as prometheus_client's Metric objects."""

    def __init__(self, metrics: GpuMetrics) -> None:
        self._metrics = metrics

    def describe(self) -> list["Metric"]:
        """Nothing up front: registration must not depend on what was recorded."""
        return []

    def collect(self) -> Iterator["Metric"]:
        for block in self._metrics.blocks():
            yield _metric(block)


def _metric(block: FamilyBlock) -> "Metric":
    from prometheus_client.core import Metric  # noqa: PLC0415

    spec = block.spec
    suffixed = spec.name.endswith("_total")
    kind = "unknown" if spec.kind == "counter" and not suffixed else spec.kind
    name = spec.name.removesuffix("_total") if kind == "counter" else spec.name
    metric = Metric(name, spec.help, kind)
    for key, value in zip(block.keys, block.values, strict=True):
        labels = {label: text for label, text in zip(spec.label_names, key, strict=True) if text is not None}
        if isinstance(value, Histogram):
            _add_histogram(metric, spec.buckets, labels, value)
        else:
            metric.add_sample(spec.name, labels, value)
    return metric


def _add_histogram(metric: "Metric", bounds: tuple[float, ...], labels: dict[str, str], value: Histogram) -> None:
    cumulative = list(accumulate(value.counts))
    for bound, count in zip((*bounds, float("inf")), cumulative, strict=True):
        metric.add_sample(f"{metric.name}_bucket", {**labels, "le": TEXT.bound(bound)}, count)
    metric.add_sample(f"{metric.name}_sum", labels, value.sum)
    metric.add_sample(f"{metric.name}_count", labels, cumulative[-1])
