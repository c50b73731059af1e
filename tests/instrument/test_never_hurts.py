"""Whatever a program passes in: no exception comes back, no series is forged, a counter tells."""

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gpusight.instrument import GpuMetrics, MetricsConfig, page
from gpusight.instrument import metrics as metrics_module
from gpusight.instrument.ledger import MAX_CELLS
from tests.instrument.reading import parse, samples, value


class Hostile:
    """Raises whatever is done with it."""

    def _refuse(self, *args: Any) -> Any:
        raise RuntimeError("no")

    __str__ = __bool__ = __float__ = __int__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __hash__ = __len__ = _refuse


def fresh() -> GpuMetrics:
    return GpuMetrics(MetricsConfig(export_interval=0))


RUBBISH = [None, "x", b"x", [], {}, object(), Hostile(), math.nan, math.inf, -1.0, 1e400, 10**400, 1j, True]


@pytest.mark.parametrize("latency", [*RUBBISH[:-1]])
def test_a_bad_latency_costs_only_itself(latency: Any) -> None:
    metrics = fresh()
    metrics.record_crypto_gpu(1, 0.5)
    metrics.record_crypto_gpu(1, latency)
    metrics.record_crypto_gpu(1, 0.25)
    assert value(metrics, "gpu_crypto_executions_total") == 2
    assert value(metrics, "gpu_crypto_latency_max_ms") == 500
    assert value(metrics, "gpusight_instrument_errors_total", reason="bad_latency") == 1


@pytest.mark.parametrize("odd", RUBBISH)
@pytest.mark.parametrize("multiprocess", [False, True])
def test_rubbish_in_every_argument_never_raises(odd: Any, multiprocess: bool, tmp_path: Any) -> None:
    config = MetricsConfig(export_interval=0, workers_dir=tmp_path if multiprocess else None)
    metrics = GpuMetrics(config)
    calls: list[Callable[[], object]] = [
        lambda: metrics.record_crypto_gpu(odd, 0.1),
        lambda: metrics.record_merkle_gpu(1, 0.1, odd),
        lambda: metrics.record_zk_gpu(1, 0.1, True, odd),
        lambda: metrics.record_zk_gpu(1, 0.1, False, None, odd, odd),
        lambda: metrics.record_gpu(odd, 1, 0.1),
        lambda: metrics.record_crypto_cpu_fallback(odd, odd),
        lambda: metrics.record_cpu_fallback(odd, odd, odd),
        lambda: metrics.record_consistency(odd, odd),
        lambda: metrics.set_device_available(odd, odd, odd),
        lambda: metrics.set_queue_depth(odd, odd),
        lambda: metrics.set_memory_used(odd, odd, odd),
    ]
    for call in calls:
        call()
        metrics.record_crypto_gpu(1, 0.1)
    with metrics.operation(odd, size=odd, device=odd, backend=odd) as op:
        op.fall_back(odd)
    text = metrics.export_prometheus()
    list(text_string_to_metric_families(text))
    assert value(metrics, "gpu_crypto_executions_total") in (len(calls) + 1, len(calls) + 2)  # + its own, if it counts


def test_labels_cannot_forge_series() -> None:
    metrics = fresh()
    evil = 'x"} 1\ngpu_available{device="forged'
    metrics.record_gpu(evil, 1, 0.1, True, evil, evil, evil)
    metrics.set_device_available(True, f"GPU-9:{evil}", backend=evil)
    shown = samples(metrics)
    assert not any(("device", "forged") in labels for _, labels in shown)
    assert [name for name, _ in shown if name == "gpu_available"] == ["gpu_available"]


@given(st.text(), st.text(), st.text())
def test_any_unicode_is_read_back_as_given(module: str, reason: str, device: str) -> None:
    metrics = fresh()
    metrics.record_gpu(module, 1, 0.1, True, reason, device)
    families = {f.name: f for f in text_string_to_metric_families(metrics.export_prometheus())}
    labels = families["gpusight_ops_failures"].samples[0].labels
    if len(module) <= 128 and len(reason) <= 128:
        assert (labels["module"], labels["reason"]) == (module, reason)


def test_a_megabyte_of_label_is_cut_and_stays_apart() -> None:
    metrics = fresh()
    metrics.record_gpu("m" * 2**20, 1, 0.1)
    metrics.record_gpu("m" * 2**20 + "x", 1, 0.1)
    text = metrics.export_prometheus()
    assert len(text) < 100_000
    assert len([key for key in parse(text) if key[0] == "gpusight_ops_executions_total"]) == 2


def test_series_are_bounded_and_totals_stay_right() -> None:
    metrics = fresh()
    count = MAX_CELLS * 3
    for i in range(count):
        metrics.record_gpu("render", 1, 0.1, device=f"GPU-{i}")
        metrics.record_cpu_fallback(f"module-{i}", reason=f"reason-{i}")
        metrics.set_queue_depth(i, device=f"GPU-{i}")
    shown = samples(metrics)
    assert len(shown) < MAX_CELLS * 25
    assert value(metrics, "gpu_total_executions") == count
    fallbacks = sum(v for (name, _), v in shown.items() if name == "gpusight_ops_cpu_fallbacks_total")
    assert fallbacks == count
    assert (value(metrics, "gpusight_instrument_errors_total", reason="too_many_series") or 0) > 0


def test_an_error_of_our_own_leaves_a_page_that_tells_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = fresh()
    with monkeypatch.context() as patch:
        patch.setattr(page, "blocks", lambda table: 1 / 0)
        assert {name for name, _ in samples(metrics)} == {"gpusight_instrument_errors_total"}
        assert value(metrics, "gpusight_instrument_errors_total", reason="internal") == 2
    assert value(metrics, "gpu_total_executions") == 0


def test_a_page_in_a_signal_handler_does_not_hang_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "_PATIENCE", 0.01)
    metrics = fresh()
    with metrics._lock:  # as if the signal had come while this thread folds
        assert metrics.export_prometheus() == ""
    assert value(metrics, "gpusight_instrument_errors_total", reason="internal") == 2


def test_recording_in_a_signal_handler_while_folding_does_not_deadlock() -> None:
    metrics = fresh()
    handled = []

    def handler(signum: int, frame: object) -> None:
        for _ in range(50):
            metrics.record_crypto_gpu(1, 0.001)
        handled.append(1)

    previous = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
        mine = 0
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            metrics.record_zk_gpu(1, 0.001)
            mine += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert handled
    assert value(metrics, "gpu_zk_executions_total") == mine
    assert value(metrics, "gpu_crypto_executions_total") == 50 * len(handled)


@pytest.mark.parametrize("folded", [False, True])
def test_a_forked_child_starts_at_zero_and_knows_the_devices(folded: bool) -> None:
    metrics = fresh()
    metrics.set_device_available(True, "GPU-0:A")
    if folded:
        metrics.export_prometheus()
    for _ in range(1500):
        metrics.record_crypto_gpu(1, 0.1)
    holding, release = threading.Event(), threading.Event()

    def hold_the_lock() -> None:
        with metrics._lock:
            holding.set()
            release.wait()

    thread = threading.Thread(target=hold_the_lock)
    thread.start()
    holding.wait()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # the lock was held by a thread that does not exist here
        metrics.record_crypto_gpu(1, 0.1)
        os.write(write, metrics.export_prometheus().encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        shown = parse(pipe.read())
    os.waitpid(child, 0)
    release.set()
    thread.join()
    assert shown["gpu_total_executions", frozenset()] == 1
    assert shown["gpu_available", frozenset({("device", "GPU-0"), ("gpu_device_name", "A")})] == 1
    assert value(metrics, "gpu_total_executions") == 1500


def test_the_library_imports_the_standard_library_only() -> None:
    code = (
        "import gpusight.instrument as i; m = i.GpuMetrics(); m.export_prometheus(); s = i.serve(m, 0, '127.0.0.1');"
        "s.close(); print([n for n in sys.modules if n.split('.')[0] not in sys.stdlib_module_names"
        " and n.split('.')[0] not in ('gpusight', '__main__')])"
    )
    # -I -S: no site-packages at all, as in an image that has nothing
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, 'src'); {code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
