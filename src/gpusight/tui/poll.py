"""Asks a source again and again in a thread of its own, so that a slow one holds up nothing."""

import threading
from collections.abc import Callable

from gpusight.tui.snapshot import Snapshot, SourceError

Outcome = Snapshot | SourceError


class Poller:
    """One question at a time, `interval` seconds after the answer to the last.

    The thread is a daemon: whoever quits does not wait for a source that does not answer.
    """

    def __init__(self, fetch: Callable[[], Snapshot], deliver: Callable[[Outcome], None], interval: float) -> None:
        self._fetch = fetch
        self._deliver = deliver
        self._interval = interval
        self._wake = threading.Event()
        self._paused = False
        self._stopped = False
        self._asked = False
        self._thread = threading.Thread(target=self._run, name="top-poll", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def pause(self, paused: bool) -> None:
        self._paused = paused
        if not paused:
            self.ask_now()

    def ask_now(self) -> None:
        """Also while paused."""
        self._asked = True
        self._wake.set()

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()

    def _run(self) -> None:
        while not self._stopped:
            if self._asked or not self._paused:
                self._asked = False
                self._deliver(self._outcome())
            self._wake.wait(self._interval)
            self._wake.clear()

    def _outcome(self) -> Outcome:
        try:
            return self._fetch()
        except SourceError as error:
            return error
        except Exception as error:
            return SourceError(f"the answer cannot be understood: {type(error).__name__}: {error}")
