"""A Prometheus-compatible engine: queries in, rows out, and one sentence for everything that can go wrong."""

from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import NamedTuple, TypeVar

from gpusight.model.series import Span, StoreError
from gpusight.model.time import Clock
from gpusight.store import answer
from gpusight.store.answer import Answer, AnswerError, RangeRow, Row
from gpusight.store.http import HttpClient, HttpConfig, HttpError, Reply
from gpusight.store.promql import any_of, duration

_A = TypeVar("_A")
_SKEW = 30.0
"""Seconds by which the engine's clock may differ from ours before its `now` is not ours."""


class QueryError(StoreError):
    """One query without an answer."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class Names(NamedTuple):
    """The families that an engine has, and its doubts."""

    present: frozenset[str]
    warnings: tuple[str, ...]
    skew: str
    """Why its `now` is not ours; empty if it is."""


class Engine:
    """May be used from any thread."""

    def __init__(self, config: HttpConfig, clock: Clock) -> None:
        self._client = HttpClient(config, clock)
        self._clock = clock
        self._timeout = duration(config.timeout)
        self.shown = self._client.shown

    def vector(self, query: str, at: float) -> Answer[Row]:
        reply = self._asked("/api/v1/query", {"query": query, "time": f"{at:.3f}", "timeout": self._timeout})
        return self._understood(answer.vector, reply)

    def matrix(self, query: str, span: Span) -> Answer[RangeRow]:
        parameters = {
            "query": query,
            "start": f"{span.start:.3f}",
            "end": f"{span.end:.3f}",
            "step": f"{span.step:.3f}",
            "timeout": self._timeout,
        }
        return self._understood(answer.matrix, self._asked("/api/v1/query_range", parameters))

    def names(self, start: float, end: float, known: frozenset[str]) -> Names:
        """The families among `known` that the engine lists; also what speaks against trusting its clock."""
        try:
            reply = self._client.get("/api/v1/label/__name__/values", {"start": f"{start:.3f}", "end": f"{end:.3f}"})
        except HttpError as error:
            if error.status is None or not 400 <= error.status < 500:
                raise _query_error(error) from None
            return self._names_by_query(end, known)
        found = self._understood(answer.texts, reply)
        return Names(frozenset(found.rows), tuple(found.warnings), self._skew(reply))

    def _names_by_query(self, at: float, known: frozenset[str]) -> Names:
        """For gateways that let queries through and nothing else."""
        found = self.vector(f"group by (__name__) ({{__name__=~{any_of(sorted(known))}}})", at)
        names = (answer.labels_of(row.metric).get("__name__", "") for row in found.rows)
        return Names(frozenset(names), tuple(found.warnings), "")

    def close(self) -> None:
        self._client.close()

    def _asked(self, path: str, parameters: Mapping[str, str]) -> Reply:
        try:
            return self._client.ask(path, parameters)
        except HttpError as error:
            raise _query_error(error) from None

    def _understood(self, read: Callable[[bytes], _A], reply: Reply) -> _A:
        try:
            return read(reply.body)
        except AnswerError as error:
            raise QueryError(f"{self.shown} gave no usable answer: {error}") from None

    def _skew(self, reply: Reply) -> str:
        try:
            theirs = parsedate_to_datetime(reply.date).timestamp()
        except ValueError:
            return ""
        ahead = theirs - self._clock.now()
        if abs(ahead) <= _SKEW:
            return ""
        return f"the clock of {self.shown} is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} ours"


def _query_error(error: HttpError) -> QueryError:
    return QueryError(str(error), timed_out=error.timed_out)
