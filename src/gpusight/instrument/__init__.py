"""The library that GPU programs import: standard library only, never raises, never blocks.

from gpusight.instrument import GpuMetrics, serve
"""

from typing import TYPE_CHECKING

from gpusight.instrument.metrics import GpuMetrics, MetricsConfig, Operation

if TYPE_CHECKING:
    from gpusight.instrument.endpoint import MetricsServer

__all__ = ["GpuMetrics", "MetricsConfig", "Operation", "serve"]


def serve(metrics: GpuMetrics, port: int = 9090, host: str | None = None) -> "MetricsServer":
    """Serve /metrics and /health in a daemon thread, on all interfaces or on `host`; port 0 picks a free one.

    Never raises: `.error` of what it answers says why it could not listen, `.url` where it does.
    """
    from gpusight.instrument.endpoint import MetricsServer  # noqa: PLC0415  (asyncio is slow to import)

    return MetricsServer(metrics, host, port)
