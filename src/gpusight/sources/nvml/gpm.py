"""GPM: what the device's own counters say of the work between two samples. Hopper and later, no privilege needed."""

from collections.abc import Callable
from math import isfinite
from typing import Any, Final

import pynvml

from gpusight.sources.nvml.calls import Calls
from gpusight.sources.nvml.tables import GPM_METRICS

_SHORTEST: Final = 0.1
"""Seconds; two samples closer than this say nothing."""
_LONGEST: Final = 600.0
"""Seconds; an older sample is not compared with any more."""


class GpmSampler:
    """The samples of one device, or of one GPU instance of it."""

    def __init__(self, calls: Calls, monotonic: Callable[[], float], gpu_instance_id: int | None = None) -> None:
        self._calls = calls
        self._monotonic = monotonic
        self._gpu_instance_id = gpu_instance_id
        self._older: Any = None
        self._newer: Any = None
        self._taken_at = float("-inf")
        self._last: dict[str, float] = {}
        self._question: Any = None

    def read(self, handle: Any) -> dict[str, float]:
        """Ratios and rates since the read before this one; empty where there is none to compare with."""
        since = self._monotonic() - self._taken_at
        if since < _SHORTEST:
            return self._last
        if not self._sample(handle):
            self._taken_at, self._last = float("-inf"), {}
        else:
            self._last = self._compare() if since <= _LONGEST else {}
            self._taken_at = self._monotonic()
        return self._last

    def close(self) -> None:
        for sample in (self._older, self._newer):
            if sample is not None:
                self._calls.attempt("nvmlGpmSampleFree", sample)
        self._older = self._newer = None

    def _sample(self, handle: Any) -> bool:
        """Take a new sample; the one before becomes the older one."""
        self._older, self._newer = self._newer, self._older
        if self._newer is None:
            self._newer = self._calls.attempt("nvmlGpmSampleAlloc")
        if self._newer is None:
            return False
        if self._gpu_instance_id is None:
            return self._calls.attempt("nvmlGpmSampleGet", handle, self._newer) is not None
        return self._calls.attempt("nvmlGpmMigSampleGet", handle, self._gpu_instance_id, self._newer) is not None

    def _compare(self) -> dict[str, float]:
        question = self._question = self._question or _question()
        question.sample1, question.sample2 = self._older, self._newer
        if self._calls.attempt("nvmlGpmMetricsGet", question) is None:
            return {}
        values: dict[str, float] = {}
        for metric, answer in zip(GPM_METRICS, question.metrics, strict=False):
            if answer.nvmlReturn == pynvml.NVML_SUCCESS:
                self._keep(values, metric.name, answer.value, metric.high, metric.factor)
        return values

    def _keep(self, values: dict[str, float], name: str, value: float, high: float, factor: float) -> None:
        if isfinite(value) and 0 <= value <= high:
            values[name] = value * factor
        else:
            self._calls.disbelieve(name)


def is_supported(calls: Calls, handle: Any) -> bool:
    answer = calls.attempt("nvmlGpmQueryDeviceSupport", handle)
    return answer is not None and bool(answer.isSupportedDevice)


def _question() -> Any:
    """Made once per sampler: it is 19 kB long."""
    question = pynvml.c_nvmlGpmMetricsGet_t()
    question.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    question.numMetrics = len(GPM_METRICS)
    for slot, metric in zip(question.metrics, GPM_METRICS, strict=False):
        slot.metricId = metric.id
    return question
