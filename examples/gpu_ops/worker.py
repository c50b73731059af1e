"""One thread for everything that touches the device, so that nobody else waits for a driver that hangs."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class Worker:
    """Does calls one after the other; a caller that has waited long enough leaves, the thread stays with the call.

    The thread is a daemon: a hanging call does not keep the process from ending.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._stopped = False
        threading.Thread(target=self._loop, name=name, daemon=True).start()

    def call(self, work: Callable[[], _Result], seconds: float) -> _Result:
        """What `work` returns or raises; TimeoutError if it takes longer, and it is not begun if it has not been."""
        if self._stopped:
            raise RuntimeError("nobody works here any more")
        future: Future[_Result] = Future()
        self._calls.put((future, work))
        try:
            return future.result(seconds)
        except TimeoutError:
            future.cancel()
            raise TimeoutError(f"no answer within {seconds:g} s") from None

    def stop(self) -> None:
        """End the thread after the calls that wait; further ones are refused."""
        self._stopped = True
        self._calls.put(None)

    def _loop(self) -> None:
        while (call := self._calls.get()) is not None:
            _perform(*call)
            del call  # or the last call's data would stay until the next


def _perform(future: Future[_Result], work: Callable[[], _Result]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
