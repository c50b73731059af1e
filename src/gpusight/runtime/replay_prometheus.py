"""Range queries for a replay, over the store's own engine client."""

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from gpusight.analysis.replay_range import Labels, Points
from gpusight.model.series import Span
from gpusight.model.time import Clock
from gpusight.store.answer import labels_of
from gpusight.store.engine import Engine
from gpusight.store.http import HttpConfig, printable


class PrometheusRange:
    """A RangeSource. What the engine doubts about its answers is in `warnings`."""

    def __init__(self, config: HttpConfig, clock: Clock) -> None:
        self._engine = Engine(config, clock)
        self.warnings: list[str] = []

    def __call__(self, query: str, start: float, end: float, step: float) -> Iterator[tuple[Labels, Points]]:
        answer = self._engine.matrix(query, Span(end, end - start, step))
        self.warnings += (doubt for doubt in map(printable, answer.warnings) if doubt not in self.warnings)
        for row in answer.rows:
            yield labels_of(row.metric), row.values

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.close()
