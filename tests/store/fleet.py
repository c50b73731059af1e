"""Histories of GPUs as dcgm-exporter tells them, for a real Prometheus."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from gpusight.model.series import Aggregate, Ask, Reading, SeriesKey, Span, Windows
from gpusight.model.time import SystemClock
from gpusight.store.prometheus import PrometheusConfig, PrometheusStore
from tests.support.remote_write import Series

STEP = 30.0
WINDOW = 600.0
ACTIVITY: tuple[Aggregate, ...] = ("last_seen", "count", "mean", "max", "active_count", "last_active")
UTILIZATION = Ask("utilization", ACTIVITY, 0.005)


def aligned_now() -> float:
    return time.time() // STEP * STEP


def uuid(number: int) -> str:
    return f"GPU-{number:08x}-0000-4000-8000-000000000000"


def span(now: float) -> Span:
    return Span(now, WINDOW, STEP)


def held(number: int, pod: str = "", **more: str) -> dict[str, str]:
    """Labels of one GPU; of nobody's without a pod."""
    labels = {
        "UUID": uuid(number),
        "gpu": str(number),
        "Hostname": f"node-{number // 8}",
        "modelName": "NVIDIA H100 80GB HBM3",
        "job": "dcgm",
        "instance": f"10.0.0.{number // 8}:9400",
    }
    if pod:
        labels |= {"namespace": "team", "pod": pod, "container": "main"}
    return {**labels, **more}


def history(name: str, labels: Mapping[str, str], values: Sequence[float | None], now: float) -> Series:
    """One value per step, the last one at `now`; None is a gap."""
    first = now - (len(values) - 1) * STEP
    samples = [(first + i * STEP, value) for i, value in enumerate(values) if value is not None]
    return Series({"__name__": name, **labels}, samples)


def key(number: int, pod: str = "", *, namespace: str = "team", container: str = "main") -> SeriesKey:
    return SeriesKey("", uuid(number), "", "", *((namespace, pod, container) if pod else ("", "", "")))


@contextmanager
def store(url: str, **options: object) -> Iterator[PrometheusStore]:
    made = PrometheusStore(PrometheusConfig(url, **{"timeout": 10.0, **options}), SystemClock())  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.close()


def window(reading: Reading, family: str) -> Windows:
    return next(each for each in reading.windows if each.family == family)


def row(windows: Windows, wanted: SeriesKey) -> dict[Aggregate, float]:
    return {aggregate: column[wanted] for aggregate, column in windows.columns.items() if wanted in column}
