"""The Prometheus-compatible server: does it answer, and what time does it think it is."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpusight.doctor import skew as skewed
from gpusight.doctor.exam import Exam
from gpusight.doctor.findings import Finding, NotChecked, bad, ok
from gpusight.doctor.subject import Once, Subject
from gpusight.model.time import Clock
from gpusight.store import answer
from gpusight.store.answer import AnswerError
from gpusight.store.engine import Engine
from gpusight.store.http import HttpClient, HttpConfig, HttpError
from gpusight.store.normalize import BY_FAMILY, INFO_FAMILIES
from gpusight.store.prometheus import PrometheusConfig

_RECENT = 300.0
_LARGEST = 64 * 2**20
_SAME = 2.0
"""Seconds within which a difference is one of measuring."""


class Unreached(NotChecked):
    def __init__(self, detail: str) -> None:
        super().__init__("prom.unreached")
        self.detail = detail


class Prometheus:
    """A server that answered once. Safe for threads."""

    def __init__(self, config: PrometheusConfig, http: HttpConfig, clock: Clock, ahead: float | None) -> None:
        self.config = config
        self.ahead = ahead
        """Seconds by which its clock is ahead of ours."""
        self._clock = clock
        self._engine = Engine(http, clock)
        self._client = HttpClient(http, clock)
        self.shown = self._client.shown
        self.names = Once(self._names)
        """All families that had samples lately."""

    @property
    def now(self) -> float:
        """By its clock, if that is another than ours: samples in our future are in its past."""
        ahead = self.ahead or 0.0
        return self._clock.now() + (ahead if abs(ahead) > _SAME else 0.0)

    def present(self) -> frozenset[str]:
        """The families that we can read."""
        found = self.names() & frozenset(BY_FAMILY)
        if not found:
            raise NotChecked("prom.no-families")
        return found

    def number(self, query: str) -> float | None:
        """The value of a query for one number; None if there is nothing."""
        rows = self._engine.vector(query, self.now).rows
        return rows[0].value[1] if rows else None

    def rows(self, query: str) -> list[tuple[Mapping[str, str], float]]:
        return [(answer.labels_of(row.metric), row.value[1]) for row in self._engine.vector(query, self.now).rows]

    def data(self, path: str) -> Any:
        """What the API has at a path that is no query; NotChecked where it has none."""
        try:
            return json.loads(self._client.get(path, {}).body)["data"]
        except HttpError as error:
            raise NotChecked("prom.no-api", path=path, status=error.status or "-") from None
        except (ValueError, KeyError, TypeError):
            raise NotChecked("prom.no-api", path=path, status="?") from None

    def close(self) -> None:
        self._engine.close()
        self._client.close()

    def _names(self) -> frozenset[str]:
        known = frozenset(BY_FAMILY) | frozenset(INFO_FAMILIES)
        return self._engine.names(self.now - _RECENT, self.now, known).present


def reach(subject: Subject) -> Prometheus:
    if subject.store != "prometheus":
        raise NotChecked("prom.not-used")
    try:
        config = subject.prometheus()
    except Exception as error:
        raise Unreached(str(error)) from None
    timeout = min(config.timeout, subject.network_patience)
    return _greet(config, replace(config.http, timeout=timeout, max_bytes=_LARGEST), subject.clock)


def _greet(config: PrometheusConfig, http: HttpConfig, clock: Clock) -> Prometheus:
    asked_at = clock.now()
    try:
        client = HttpClient(http, clock)
        try:
            reply = client.ask("/api/v1/query", {"query": "vector(1)"})
        finally:
            client.close()
        answer.vector(reply.body)
    except (HttpError, OSError) as error:
        raise Unreached(str(error)) from None
    except AnswerError as error:
        raise Unreached(f"{client.shown}: {error}") from None
    ahead = skewed.seconds_ahead(reply.date, asked_at, clock.now())
    return Prometheus(config, http, clock, ahead)


def reachable(exam: Exam) -> Finding:
    subject = exam.subject
    try:
        found = exam.prometheus()
    except Unreached as unreached:
        is_needed = subject.prometheus_is_given or subject.needs("analyze")
        return bad(is_needed, "prom.unreachable", detail=unreached.detail)
    return ok("prom.reachable", url=found.shown, families=len(found.names()))


def skew(exam: Exam) -> Finding:
    return skewed.judge(exam.prometheus().ahead, "Prometheus")
