"""The thread that touches the device."""

import threading
from collections.abc import Iterator

import pytest

from examples.gpu_ops.worker import Worker


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker("test")
    yield worker
    worker.stop()


def test_results_and_errors_come_back(worker: Worker) -> None:
    assert worker.call(lambda: 7, 5) == 7
    with pytest.raises(ZeroDivisionError):
        worker.call(lambda: 1 / 0, 5)


def test_a_caller_does_not_wait_for_ever(worker: Worker) -> None:
    release = threading.Event()
    with pytest.raises(TimeoutError, match=r"0\.01 s"):
        worker.call(release.wait, 0.01)
    release.set()
    assert worker.call(lambda: 7, 5) == 7


def test_what_nobody_waits_for_is_not_begun(worker: Worker) -> None:
    release, begun = threading.Event(), threading.Event()
    with pytest.raises(TimeoutError):
        worker.call(release.wait, 0.01)
    with pytest.raises(TimeoutError):
        worker.call(begun.set, 0.01)
    release.set()
    worker.call(lambda: None, 5)
    assert not begun.is_set()


def test_a_stopped_worker_refuses_at_once(worker: Worker) -> None:
    worker.stop()
    with pytest.raises(RuntimeError):
        worker.call(lambda: 7, 60)
