"""Counts how a source's answers turn out."""

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from gpusight.collectors.view import SourceHealth
from gpusight.model.time import Clock


class Answer(Protocol):
    """What a source gives when it is read."""

    @property
    def is_up(self) -> bool: ...
    @property
    def reason(self) -> str: ...


A = TypeVar("A", bound=Answer)


class Tally(Generic[A]):
    """A source under its name; `reasons` are all that it may give for having no answer. For one thread at a time."""

    def __init__(self, name: str, read: Callable[[], A], reasons: Iterable[str], clock: Clock) -> None:
        self._name = name
        self._read = read
        self._clock = clock
        self._failures = dict.fromkeys(filter(None, reasons), 0)
        self._last: A | None = None
        self._heard_at: float | None = None

    def read(self) -> A:
        """An answer that is given again counts once."""
        answer = self._read()
        if answer is not self._last:
            self._last = answer
            if answer.is_up:
                self._heard_at = self._clock.now()
            else:
                self._failures[answer.reason] = self._failures.get(answer.reason, 0) + 1
        return answer

    def health(self) -> SourceHealth | None:
        """None before the first answer."""
        if self._last is None:
            return None
        is_up, unusable = self._last.is_up, getattr(self._last, "skipped", None)
        reason = "" if is_up else self._last.reason
        return SourceHealth(self._name, is_up, reason, self._heard_at, dict(self._failures), unusable)
