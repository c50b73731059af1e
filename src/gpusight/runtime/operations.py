"""What instrumented programs report, out of the store: the newest samples, and rates of what only grows."""

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpusight.catalog import ops
from gpusight.catalog.spec import FamilySpec
from gpusight.model.series import Newest, SeriesStore
from gpusight.model.time import Clock
from gpusight.web.service import OperationSample

_REACH = 300.0
_SHORTEST = 5.0
"""Seconds below which a rate says nothing."""

Key = tuple[str, frozenset[tuple[str, str]]]


def series_names(families: Iterable[FamilySpec]) -> tuple[str, ...]:
    """As a page has them: a histogram is three."""
    return tuple(name for spec in families for name in _names(spec))


def _names(spec: FamilySpec) -> tuple[str, ...]:
    if spec.kind == "histogram":
        return tuple(f"{spec.name}_{part}" for part in ("bucket", "sum", "count"))
    return (spec.name,)


NAMES = series_names(ops.FAMILIES)
_GROWING = frozenset(series_names(spec for spec in ops.FAMILIES if spec.kind in ("counter", "histogram")))


class _Look(NamedTuple):
    at: float
    values: Mapping[Key, float]


class Operations:
    """Remembers what it saw in the last minutes, whoever asks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._looks: deque[_Look] = deque(maxlen=120)

    def read(self, store: SeriesStore) -> list[OperationSample]:
        found = store.latest(NAMES)
        now = self._clock.now()
        keys: list[Key] = [(each.family, frozenset(each.labels.items())) for each in found]
        values = {key: each.value for key, each in zip(keys, found, strict=True) if each.family in _GROWING}
        before = self._remember(_Look(now, values))
        return [
            OperationSample(
                family=each.family, labels=each.labels, value=each.value, rate=_rate(key, each, before, now)
            )
            for key, each in zip(keys, found, strict=True)
        ]

    def _remember(self, look: _Look) -> _Look | None:
        """The oldest look within reach; this one is kept for later."""
        with self._lock:
            while self._looks and look.at - self._looks[0].at > _REACH:
                self._looks.popleft()
            oldest = self._looks[0] if self._looks else None
            if not self._looks or look.at - self._looks[-1].at >= _SHORTEST:
                self._looks.append(look)
            return oldest


def _rate(key: Key, sample: Newest, before: _Look | None, now: float) -> float | None:
    """None for gauges, at first sight, and after a restart set the counter back."""
    old = before.values.get(key) if before else None
    if before is None or old is None or now - before.at < _SHORTEST or sample.value < old:
        return None
    return (sample.value - old) / (now - before.at)
