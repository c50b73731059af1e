"""What a check may find. The sentences are in phrases.toml, by outcome."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["ok", "warn", "fail", "skip"]
STATUSES: tuple[Status, ...] = ("ok", "warn", "fail", "skip")
EXIT_CODES: Mapping[Status, int] = {"ok": 0, "skip": 0, "warn": 1, "fail": 2}


class Private(str):
    """A name that does not leave the site: of a host, a workload, a person."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """`outcome` names the sentences, `values` fill them. For a skip the sentence is the reason."""

    status: Status
    outcome: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """The finding of one check."""

    id: str
    finding: Finding
    seconds: float = 0.0


class NotChecked(Exception):  # noqa: N818 - no error, but a reason
    """A check that makes no sense here, and why."""

    def __init__(self, outcome: str, **values: Any) -> None:
        super().__init__(outcome)
        self.finding = skip(outcome, **values)


def ok(outcome: str, **values: Any) -> Finding:
    return Finding("ok", outcome, values)


def warn(outcome: str, **values: Any) -> Finding:
    return Finding("warn", outcome, values)


def fail(outcome: str, **values: Any) -> Finding:
    return Finding("fail", outcome, values)


def skip(outcome: str, **values: Any) -> Finding:
    return Finding("skip", outcome, values)


def bad(is_needed: bool, outcome: str, **values: Any) -> Finding:
    """A failure where it is needed, else a warning."""
    return fail(outcome, **values) if is_needed else warn(outcome, **values)


def listed(items: Iterable[object], most: int = 5) -> str:
    """The first few of them, and how many more there are."""
    texts = [str(item) for item in items]
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" (+{more})" if more > 0 else "")


def exit_code(results: Iterable[Result]) -> int:
    return max((EXIT_CODES[result.finding.status] for result in results), default=0)
