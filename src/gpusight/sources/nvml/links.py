"""The traffic over a device's NVLinks: counters of the driver to a rate."""

from collections.abc import Callable, Sequence
from typing import Final

_SHORTEST: Final = 0.1
"""Seconds; over less time the counters' steps show instead of the traffic."""
_LONGEST: Final = 600.0
"""Seconds; the mean over a longer time is nobody's idea of now."""
_KIB: Final = 1024


class LinkTraffic:
    """Of one device."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._before: tuple[float, int] | None = None
        self._rate: float | None = None

    def rate(self, counters: Sequence[int | None]) -> float | None:
        """Bytes per second since the call before this one; None where there is none to compare with.

        `counters` are KiB, each from its own start on.
        """
        now, total = self._monotonic(), _sum(counters)
        if self._before is not None and total is not None and now - self._before[0] < _SHORTEST:
            return self._rate
        before, self._before = self._before, None if total is None else (now, total)
        self._rate = None
        if before is not None and total is not None and total >= before[1] and now - before[0] <= _LONGEST:
            self._rate = (total - before[1]) * _KIB / (now - before[0])
        return self._rate


def _sum(counters: Sequence[int | None]) -> int | None:
    known = [counter for counter in counters if counter is not None]
    return sum(known) if len(known) == len(counters) else None
