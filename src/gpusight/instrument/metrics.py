"""GpuMetrics: what a GPU program calls. It never raises into the program, and recording never waits."""

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Literal, Self, TypeVar
from weakref import WeakSet

from gpusight.exposition.blocks import FamilyBlock
from gpusight.exposition.text import Renderer
from gpusight.instrument import page
from gpusight.instrument.ledger import (
    CHECK,
    DEVICE,
    ERROR,
    FALLBACK,
    MEMORY,
    MEMORY_TOTAL,
    QUEUE,
    Event,
    Ledger,
    MemoryStore,
    RunRecord,
    Store,
)
from gpusight.model.time import Clock, SystemClock

_T = TypeVar("_T")
_FOLD_AT = 1_000
"""Records that wait at most: small enough to fold in a fraction of a millisecond."""

_PATIENCE = 1.0
"""Seconds that a page waits for the records."""

_CRYPTO = ("crypto", None, None)
_MERKLE = ("merkle", None, None)
_ZK = ("zk", None, None)


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """How a page is made.

    `export_interval`: a rendered page is reused for at most this many seconds; 0 renders each time.
    `aggregation_window`: length of the sliding window in seconds.
    `workers_dir`: a directory shared by the worker processes of one program; each page then shows them all, and is
    always rendered afresh.
    """

    export_interval: float | timedelta = 15.0
    aggregation_window: float | timedelta = 60.0
    workers_dir: str | os.PathLike[str] | None = None


class GpuMetrics:
    """Counts and times GPU operations of the modules crypto, merkle, zk and any other, and renders them."""

    def __init__(self, config: MetricsConfig | None = None, *, clock: Clock | None = None) -> None:
        config = config or MetricsConfig()
        self._monotonic = (clock or SystemClock()).monotonic
        self._export_interval = _seconds_or(config.export_interval, 15.0, minimum=0.0)
        self._window = _seconds_or(config.aggregation_window, 60.0, minimum=0.001)
        self._workers_dir = config.workers_dir
        self._internal_errors = 0
        self._runs: list[RunRecord] = []
        self._events: list[Event] = []
        self._start()
        _instances.add(self)

    def _start(self) -> None:
        """Begin with empty counts."""
        self._lock = threading.Lock()
        self._page_lock = threading.RLock()
        self._runs.clear()
        self._events.clear()
        self._fold_at = _FOLD_AT
        self._ledger = Ledger(self._make_store(), self._window)
        self._renderer = Renderer()
        self._page: tuple[float, str] | None = None

    def _restart_in_child(self) -> None:
        """A forked child is a process of its own: it knows the devices and has done nothing yet."""
        parent = self._ledger
        announced = [event for event in self._events if event[0] == DEVICE]
        self._start()
        self._ledger.adopt_devices(parent)
        self._events += announced

    def _make_store(self) -> Store:
        if self._workers_dir is None:
            return MemoryStore()
        from gpusight.instrument.workers import WorkerFile  # noqa: PLC0415  (costs imports that one process needs not)

        try:
            store = WorkerFile.create(self._workers_dir, self._window)
        except Exception as error:
            import logging  # noqa: PLC0415  (not before it is needed)

            message = "the workers' directory %r cannot be used (%s): this process counts for itself alone"
            logging.getLogger("gpusight.instrument").warning(message, self._workers_dir, error)
            self._internal_errors += 1
            self._workers_dir = None
            return MemoryStore()
        self._fold_at = 1  # a killed worker loses nothing that it recorded
        self._export_interval = 0.0  # two workers' pages of different age would make counters go back
        return store

    # The three below are one, written out: a call more would be a third of what recording costs.
    # --- executions -------------------------------------------------------------------------------------------------

    def record_crypto_gpu(
        self,
        batch: int,
        latency: float | timedelta,
        failed: bool = False,
        reason: str | None = None,
        device: str | int | None = None,
        backend: str | None = None,
    ) -> None:
        """One batch hashed, signed or verified on the GPU; latency in seconds."""
        key = _CRYPTO if device is None and backend is None else ("crypto", device, backend)
        runs = self._runs
        runs.append((key, batch, latency, failed, reason, self._monotonic()))
        if len(runs) >= self._fold_at:
            self._fold()

    def record_merkle_gpu(
        self,
        leaves: int,
        latency: float | timedelta,
        failed: bool = False,
        reason: str | None = None,
        device: str | int | None = None,
        backend: str | None = None,
    ) -> None:
        """One Merkle tree built on the GPU; latency in seconds."""
        key = _MERKLE if device is None and backend is None else ("merkle", device, backend)
        runs = self._runs
        runs.append((key, leaves, latency, failed, reason, self._monotonic()))
        if len(runs) >= self._fold_at:
            self._fold()

    def record_zk_gpu(
        self,
        constraints: int,
        latency: float | timedelta,
        failed: bool = False,
        reason: str | None = None,
        device: str | int | None = None,
        backend: str | None = None,
    ) -> None:
        """One proof step on the GPU; latency in seconds."""
        key = _ZK if device is None and backend is None else ("zk", device, backend)
        runs = self._runs
        runs.append((key, constraints, latency, failed, reason, self._monotonic()))
        if len(runs) >= self._fold_at:
            self._fold()

    def record_gpu(
        self,
        module: str,
        size: int | None,
        latency: float | timedelta,
        failed: bool = False,
        reason: str | None = None,
        device: str | int | None = None,
        backend: str | None = None,
    ) -> None:
        """One execution of any module, also of your own."""
        self._runs.append(((module, device, backend), size, latency, failed, reason, self._monotonic()))
        if len(self._runs) >= self._fold_at:
            self._fold()

    def operation(
        self, module: str, *, size: int | None = None, device: str | int | None = None, backend: str | None = None
    ) -> "Operation":
        """Time a `with` block as one execution; an exception counts as a failure and goes on to the caller."""
        return Operation(self, module, size, device, backend)

    # --- fallbacks and checks ---------------------------------------------------------------------------------------

    def record_crypto_cpu_fallback(self, batch: int = 0, reason: str | None = None) -> None:
        """The CPU did a batch instead of the GPU."""
        self.record_cpu_fallback("crypto", batch, reason)

    def record_merkle_cpu_fallback(self, leaves: int = 0, reason: str | None = None) -> None:
        """The CPU built a tree instead of the GPU."""
        self.record_cpu_fallback("merkle", leaves, reason)

    def record_zk_cpu_fallback(self, constraints: int = 0, reason: str | None = None) -> None:
        """The CPU did a proof step instead of the GPU."""
        self.record_cpu_fallback("zk", constraints, reason)

    def record_cpu_fallback(self, module: str, size: int = 0, reason: str | None = None) -> None:  # noqa: ARG002
        """The CPU did the work of any module; the size is taken as the seed's calls give it, no family shows it."""
        self._event((FALLBACK, module, reason))

    def record_consistency(self, module: str, matched: bool) -> None:
        """A result of the GPU was compared with the CPU's."""
        self._event((CHECK, module, matched))

    # --- devices and gauges -----------------------------------------------------------------------------------------

    def set_device_available(self, available: bool, device: str, backend: str | None = None) -> None:
        """Announce a device, `GPU-0:NVIDIA-RTX-4090` or a bare name, and whether the program can use it."""
        self._event((DEVICE, device, backend, available, self._monotonic()))

    def set_queue_depth(self, depth: int, device: str | int | None = None) -> None:
        """Operations waiting for the GPU."""
        self._event(("set", QUEUE, device, depth, self._monotonic()))

    def set_memory_used(self, used: int, total: int | None = None, device: str | int | None = None) -> None:
        """Bytes of GPU memory that this program holds, and, where known, how many the device has."""
        self._event(("set", MEMORY, device, used, self._monotonic()))
        if total is not None:
            self._event(("set", MEMORY_TOTAL, device, total, self._monotonic()))

    def count_error(self, reason: str) -> None:
        """Count an error of the library itself; `reason` is one of ledger.ERROR_REASONS."""
        self._event((ERROR, reason))

    # --- reading ----------------------------------------------------------------------------------------------------

    def export_prometheus(self) -> str:
        """The page in Prometheus' text format 0.0.4, at most `export_interval` old."""
        try:
            with self._page_lock:
                return self._export()
        except Exception:
            self._internal_errors += 1
            return ""

    def blocks(self) -> list[FamilyBlock]:
        """The page's families before they become text, always fresh; when they cannot be had, what tells of that."""
        try:
            table = self._table()
            return page.blocks(table)
        except Exception:
            self._internal_errors += 1
            return page.health(self._own_table())

    def _export(self) -> str:
        now = self._monotonic()
        if self._page is None or now - self._page[0] >= self._export_interval:
            self._page = (now, self._renderer.render(self.blocks()).decode())
        return self._page[1]

    def _table(self) -> page.Table:
        own = self._own_table()
        if self._workers_dir is None:
            return own
        from gpusight.instrument.workers import read_directory  # noqa: PLC0415

        return read_directory(self._workers_dir, self._monotonic())

    def _own_table(self) -> page.Table:
        # Not for ever: a signal handler may have come while this very thread holds the lock.
        if not self._lock.acquire(timeout=_PATIENCE):
            raise TimeoutError
        try:
            self._drain()
            self._ledger.error("internal", self._internal_errors)
            self._internal_errors = 0
            return self._ledger.table(self._monotonic())
        finally:
            self._lock.release()
            self._fold()  # what came meanwhile and found the lock taken

    # --- folding ----------------------------------------------------------------------------------------------------

    def _event(self, event: Event) -> None:
        self._events.append(event)
        if len(self._events) >= self._fold_at:
            self._fold()

    def _fold(self) -> None:
        """Empty the buffers into the ledger, unless someone is at it: then that one takes these records along."""
        while len(self._runs) >= self._fold_at or len(self._events) >= self._fold_at:
            if not self._lock.acquire(blocking=False):
                return
            try:
                self._drain()
            except Exception:
                self._internal_errors += 1
            finally:
                self._lock.release()

    def _drain(self) -> None:
        runs, events = self._runs, self._events
        if events:  # first: they announce the devices that runs name
            self._ledger.fold_events(_take(events))
        if len(runs) == 1:
            self._ledger.fold_run(runs.pop(0))
        elif runs:
            self._ledger.fold_runs(_take(runs))


def _take(buffer: list[_T]) -> list[_T]:
    """Empty the buffer from the front: what others append meanwhile stays for the next time."""
    count = len(buffer)
    taken = buffer[:count]
    del buffer[:count]
    return taken


class Operation:
    """One timed execution; see GpuMetrics.operation."""

    __slots__ = ("_backend", "_device", "_metrics", "_module", "_recorded", "_size", "_started")

    def __init__(
        self, metrics: GpuMetrics, module: str, size: int | None, device: str | int | None, backend: str | None
    ) -> None:
        self._metrics = metrics
        self._module = module
        self._size = size
        self._device = device
        self._backend = backend
        self._recorded = False
        self._started = metrics._monotonic()  # noqa: SLF001  (its own operation)

    def __enter__(self) -> Self:
        self._recorded = False
        self._started = self._metrics._monotonic()  # noqa: SLF001
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        self._record(failed=kind is not None, reason=kind.__name__ if kind else None)
        return False

    def fall_back(self, reason: str | None = None) -> None:
        """The GPU could not do it and the CPU will: one failed execution, up to now, and one fallback."""
        self._record(failed=True, reason=reason)
        self._metrics.record_cpu_fallback(self._module, reason=reason)

    def _record(self, *, failed: bool, reason: str | None) -> None:
        if self._recorded:
            return
        self._recorded = True
        metrics = self._metrics
        took = metrics._monotonic() - self._started  # noqa: SLF001
        metrics.record_gpu(self._module, self._size, took, failed, reason, self._device, self._backend)


def _seconds_or(value: float | timedelta, default: float, *, minimum: float) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return float(seconds) if isinstance(seconds, int | float) and minimum <= seconds < float("inf") else default


_instances: "WeakSet[GpuMetrics]" = WeakSet()


def _restart(instances: Iterable[GpuMetrics]) -> None:
    for metrics in list(instances):
        metrics._restart_in_child()  # noqa: SLF001  (ours)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _restart(_instances))
