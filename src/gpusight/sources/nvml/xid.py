"""XIDs: critical errors that the driver tells through NVML's event set, each exactly once, however many."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from threading import Lock, Thread
from typing import Any, Final

import pynvml

from gpusight.model.hardware import XidEvent
from gpusight.model.identity import GpuUuid
from gpusight.model.time import Clock
from gpusight.sources.nvml.calls import address

MOST_PER_ANSWER: Final = 20_000
_WAIT_MILLISECONDS: Final = 1000
_PAUSE_SECONDS: Final = 1.0


class XidLog:
    """Events until they are fetched. Beyond `most`, repeats keep their number and lose their own times."""

    def __init__(self, most: int = MOST_PER_ANSWER) -> None:
        self._most = most
        self._events: deque[XidEvent] = deque()
        self._repeats: dict[tuple[GpuUuid, int], tuple[int, float]] = {}
        self._lock = Lock()

    def add(self, uuid: GpuUuid, xid: int, at: float) -> None:
        with self._lock:
            if len(self._events) < self._most:
                self._events.append(XidEvent(uuid, xid, at))
            else:
                self._repeats[uuid, xid] = (self._repeats.get((uuid, xid), (0, at))[0] + 1, at)

    def take(self) -> tuple[XidEvent, ...]:
        """The oldest, at most so many that an answer can carry them; the others stay for the next."""
        with self._lock:
            taken = tuple(self._events)
            self._events.clear()
            self._refill()
        return taken

    def _refill(self) -> None:
        for (uuid, xid), (count, at) in list(self._repeats.items()):
            part = min(count, self._most - len(self._events))
            self._events.extend([XidEvent(uuid, xid, at)] * part)
            if part == count:
                del self._repeats[uuid, xid]
            else:
                self._repeats[uuid, xid] = (count - part, at)


class XidWatcher:
    """A thread that waits for events of every device there is."""

    def __init__(self, log: XidLog, handles: Callable[[], Mapping[GpuUuid, Any]], clock: Clock) -> None:
        """`handles` gives the devices as they are known at the moment."""
        self._log = log
        self._handles = handles
        self._clock = clock
        self._registered: dict[int, GpuUuid] = {}

    def start(self) -> None:
        Thread(target=self._run, name="xids", daemon=True).start()

    def _run(self) -> None:
        events = None
        while True:
            events = events or _create()
            is_listening = events is not None and self._listen(events)
            if not (is_listening and self._wait(events)):
                time.sleep(_PAUSE_SECONDS)

    def _listen(self, events: Any) -> bool:
        """Listen to devices that are new, or could not be listened to before; whether there is any."""
        for uuid, handle in self._handles().items():
            if address(handle) not in self._registered and _register(handle, events):
                self._registered[address(handle)] = uuid
        return bool(self._registered)

    def _wait(self, events: Any) -> bool:
        """Take what comes; False where waiting is refused, so that nobody spins."""
        try:
            event = pynvml.nvmlEventSetWait_v2(events, _WAIT_MILLISECONDS)
        except pynvml.NVMLError as error:
            return bool(error.value == pynvml.NVML_ERROR_TIMEOUT)
        uuid = self._registered.get(address(event.device))
        if uuid and event.eventType & pynvml.nvmlEventTypeXidCriticalError:
            self._log.add(uuid, event.eventData, self._clock.now())
        return True


def _create() -> Any:
    try:
        return pynvml.nvmlEventSetCreate()
    except pynvml.NVMLError:
        return None


def _register(handle: Any, events: Any) -> bool:
    try:
        pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
    except pynvml.NVMLError:
        return False
    return True
