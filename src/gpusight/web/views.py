"""The last round as one reader may see it, with whatever was made from it before."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from gpusight.analysis.records import GpuResult, Round, Verdict
from gpusight.analysis.results import stats_of
from gpusight.web.encoding import Encoded
from gpusight.web.service import Analyzer
from gpusight.web.work import Lane, Workers

Namespaces = frozenset[str] | None
"""Which namespaces a reader may see; None is all of them."""

_REMEMBERED = 32


class RoundView:
    """One round, narrowed to what may be seen."""

    def __init__(self, round_: Round, namespaces: Namespaces, workers: Workers) -> None:
        self.whole = round_
        self._namespaces = namespaces
        self._workers = workers
        self._made: dict[str, asyncio.Task[Any]] = {}

    @cached_property
    def round(self) -> Round:
        return self.whole if self._namespaces is None else narrow(self.whole, self._namespaces)

    @cached_property
    def results(self) -> Mapping[str, GpuResult]:
        return {result.id: result for result in self.round.results}

    @cached_property
    def verdicts(self) -> Mapping[str, Verdict]:
        return {verdict.subject.id: verdict for verdict in self.round.verdicts}

    async def encoded(self, name: str, make: Callable[[Round], Any], *, accept_encoding: str) -> Encoded:
        """The answer of that name, made by the first who asks and kept as long as the round."""
        encoded: Encoded = await self.once(name, lambda: Encoded(make(self.round)))
        if encoded.is_zipped_for(accept_encoding):
            await self.once(f"{name} zipped", encoded.zip)
        return encoded

    async def once(self, name: str, work: Callable[[], Any], lane: Lane = "compute") -> Any:
        """What the work makes: by the first who asks, and kept as long as the round."""
        task = self._made.get(name)
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            task = self._made[name] = asyncio.ensure_future(self._workers.run(lane, work))
        return task.result() if task.done() else await asyncio.shield(task)


class Views:
    """Views of the last round; those of earlier ones are dropped."""

    def __init__(self, analyzer: Analyzer, workers: Workers) -> None:
        self._analyzer = analyzer
        self._workers = workers
        self._views: OrderedDict[Namespaces, RoundView] = OrderedDict()

    def current(self, namespaces: Namespaces) -> RoundView | None:
        """None before the first round has finished."""
        round_ = self._analyzer.round()
        if round_ is None:
            return None
        view = self._views.get(namespaces)
        if view is None or view.whole is not round_:
            view = self._views[namespaces] = RoundView(round_, namespaces, self._workers)
        self._views.move_to_end(namespaces)
        if len(self._views) > _REMEMBERED:
            self._views.popitem(last=False)
        return view


def narrow(round_: Round, namespaces: frozenset[str]) -> Round:
    results = tuple(result for result in round_.results if result.namespace in namespaces)
    return replace(
        round_,
        results=results,
        verdicts=tuple(verdict for verdict in round_.verdicts if verdict.subject.namespace in namespaces),
        loans=tuple(loan for loan in round_.loans if loan.namespace in namespaces),
        stats=stats_of(results, round_.threshold),
    )
