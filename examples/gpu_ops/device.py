"""Whether there is a GPU right now, as the metrics and the runner see it."""

import time
from collections.abc import Callable

from examples.gpu_ops.failures import GpuFailure, Reason
from examples.gpu_ops.gpu import Gpu
from gpusight.instrument import GpuMetrics

DEVICE = "GPU-0"


class DeviceSlot:
    """The open device, if any: announced when it comes, given up when lost, tried again after a while."""

    def __init__(
        self,
        metrics: GpuMetrics,
        opener: Callable[[], Gpu],
        *,
        say: Callable[[str], None],
        reopen_after: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._opener = opener
        self._say = say
        self._reopen_after = reopen_after
        self._clock = clock
        self._retry_at: float | None = None
        self._label, self._backend = DEVICE, ""
        self._gpu = self._open()

    def current(self) -> Gpu | None:
        if self._gpu is None and self._retry_at is not None and self._clock() >= self._retry_at:
            self._retry_at = self._clock() + self._reopen_after
            self._gpu = self._open()
        return self._gpu

    def lost(self) -> None:
        """The device is gone: go on without it, and look again later."""
        if self._gpu is None:
            return
        self._gpu.close()
        self._gpu = None
        self._retry_at = self._clock() + self._reopen_after
        self._announce(available=False)

    def close(self) -> None:
        if self._gpu is not None:
            self._gpu.close()
            self._gpu = None

    def _open(self) -> Gpu | None:
        try:
            gpu = self._opener()
        except GpuFailure as failure:
            self._announce(available=False)
            self._say(f"No GPU ({failure}): the CPU does all work.")
            return None
        self._label, self._backend = gpu.adapter.device, gpu.adapter.backend
        self._announce(available=True)
        self._say(f"GPU: {gpu.adapter.name}, {gpu.adapter.backend}, {gpu.adapter.driver}")
        return gpu

    def _announce(self, *, available: bool) -> None:
        self._metrics.set_device_available(available, self._label, backend=self._backend or None)


def gpu_opener(metrics: GpuMetrics, timeout: float) -> Callable[[], Gpu]:
    """Open the machine's GPU, with its memory reported as it changes."""
    return lambda: Gpu.open(timeout, lambda used: metrics.set_memory_used(used, device=DEVICE))


def no_gpu() -> Gpu:
    raise GpuFailure(Reason.DEVICE_UNAVAILABLE, "--backend cpu")
