"""Where the terminal view gets its data: a node agent's page, or an analyzer's API. Both block: ask in a thread."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, TypeVar

import msgspec

from gpusight.catalog import own
from gpusight.model.time import Clock
from gpusight.store.http import HttpClient, HttpConfig, HttpError, Reply
from gpusight.tui import fleet, node, sharing
from gpusight.tui.node_rows import counts, node_section
from gpusight.tui.page import Samples, parser
from gpusight.tui.snapshot import Snapshot, SourceError
from gpusight.tui.words import Words

T = TypeVar("T")
P = TypeVar("P", fleet.ResultPage, fleet.VerdictPage)

PAGE_ROWS = 10_000
"""As many as the API gives at once."""
MOST_PAGES = 5
_ATTEMPTS = 3
_FLEET_OLD_AFTER = 900.0
"""Seconds, where the analyzer does not tell how often it looks."""
_MESSAGE = re.compile(r'"message":\s*"((?:[^"\\]|\\.)*)"')


class Source(Protocol):
    shown: str

    def fetch(self) -> Snapshot:
        """All that the source knows now. Blocks; raises SourceError."""
        ...

    def close(self) -> None: ...


class NodeSource:
    """A node agent's /metrics; the address may also be the page itself."""

    def __init__(self, config: HttpConfig, clock: Clock, words: Words) -> None:
        self._http = HttpClient(config, clock)
        self._clock = clock
        self._words = words
        self._path = "" if config.url.partition("?")[0].rstrip("/").endswith("/metrics") else "/metrics"
        self._parser = parser((*node.FAMILIES, *sharing.FAMILIES))
        self.shown = self._http.shown

    def fetch(self) -> Snapshot:
        return self.read(_get(self._http, self._path, {}))

    def read(self, reply: Reply) -> Snapshot:
        samples = Samples(self._parser.parse(reply.body))
        if not samples:
            raise SourceError(f"{self.shown} answers, but its page is not a node agent's")
        now = _server_time(reply, self._clock)
        gpus = node.read_gpus(samples, now)
        shared = sharing.read_sharing(samples)
        newest = node.newest_reading(samples)
        simulated = samples.first(own.SIMULATED)
        names = sorted({gpu.node for gpu in gpus if gpu.node})
        return Snapshot(
            kind="node",
            source=self.shown,
            at=self._clock.now(),
            received=self._clock.monotonic(),
            age=None if newest is None else max(0.0, now - newest),
            old_after=node.OLD_AFTER,
            simulated=None if simulated is None else simulated.value == 1,
            title=", ".join(names),
            summary=counts(gpus),
            sections=(node_section(gpus, self._words), *([sharing.sharing_section(shared)] if shared else [])),
            problems=tuple(_problems(samples, gpus)),
            facts={"gpus": gpus, "sharing": shared},
        )

    def close(self) -> None:
        self._http.close()


def _problems(samples: Samples, gpus: tuple[node.Gpu, ...]) -> list[str]:
    nvml = samples.first(own.NVML_UP)
    if nvml is not None and nvml.value == 0:
        return [f"the node cannot read its GPUs: {nvml.labels.get('reason', 'for a reason that it does not tell')}"]
    if not gpus:
        return ["the page has no GPUs: there are none, or the node's sets of metrics leave out `gpu` and `health`"]
    return []


class FleetSource:
    """An analyzer's API. Rows are asked for only when there is a new round."""

    def __init__(self, config: HttpConfig, clock: Clock, words: Words) -> None:
        self._http = HttpClient(config, clock)
        self._clock = clock
        self._words = words
        self._last: tuple[tuple[int, datetime], Snapshot] | None = None
        self.shown = self._http.shown

    def fetch(self) -> Snapshot:
        for _ in range(_ATTEMPTS):
            reply = _get(self._http, "/api/v1/round", {})
            found = _decode(reply, fleet.RoundInfo, self.shown)
            if self._last is None or self._last[0] != found.identity:
                try:
                    self._last = found.identity, self._read(found)
                except _OtherRound:
                    continue
            return self._dated(self._last[1], found, reply)
        raise SourceError(f"{self.shown} finishes rounds faster than they can be read")

    def close(self) -> None:
        self._http.close()

    def _dated(self, made: Snapshot, found: fleet.RoundInfo, reply: Reply) -> Snapshot:
        age = max(0.0, _server_time(reply, self._clock) - found.at.timestamp())
        return replace(made, at=self._clock.now(), received=self._clock.monotonic(), age=age)

    def _read(self, found: fleet.RoundInfo) -> Snapshot:
        stats = self._ask("/api/v1/stats", fleet.Stats)
        results, all_results = self._pages("/api/v1/results", fleet.ResultPage, found)
        verdicts, all_verdicts = self._pages("/api/v1/verdicts", fleet.VerdictPage, found)
        placed = [fleet.Placed(each, max(0.0, (found.at - each.since).total_seconds())) for each in verdicts]
        reasons = {each.subject.id: each.reason for each in verdicts}
        capped = [
            self._words("capped", shown=len(rows), all=total)
            for rows, total in ((results, all_results), (verdicts, all_verdicts))
            if len(rows) < total
        ]
        return Snapshot(
            kind="fleet",
            source=self.shown,
            at=0.0,
            received=0.0,
            age=None,
            old_after=self._old_after(),
            simulated=self._simulated(),
            title=self._title(found, stats),
            summary=tuple(sorted(Counter(each.state for each in results).items())),
            sections=(fleet.results_section(results, reasons), fleet.verdicts_section(placed)),
            problems=(*capped, *found.problems),
            facts={"round": found, "stats": stats, "results": results, "verdicts": verdicts},
        )

    def _title(self, found: fleet.RoundInfo, stats: fleet.Stats) -> str:
        said = [self._words("round", number=found.number), self._words("total gpus", count=stats.total_gpus)]
        if stats.avg_score is not None:
            said.append(self._words("average score", score=f"{stats.avg_score:.1f}"))
        return "  ".join(said)

    def _pages(self, path: str, kind: type[P], found: fleet.RoundInfo) -> tuple[list[Any], int]:
        rows: list[Any] = []
        total = 0
        for number in range(MOST_PAGES):
            page = self._ask(path, kind, {"limit": str(PAGE_ROWS), "offset": str(number * PAGE_ROWS)})
            if (page.round, page.timestamp) != found.identity:
                raise _OtherRound
            rows += page.items
            total = page.total
            if len(rows) >= total or not page.items:
                break
        return rows, total

    def _old_after(self) -> float:
        try:
            interval = self._ask("/health", fleet.Health).interval
        except SourceError:
            interval = None
        return _FLEET_OLD_AFTER if not interval else max(60.0, 3 * interval)

    def _simulated(self) -> bool | None:
        """As the analyzer's own page says, if it does."""
        try:
            reply = _get(self._http, "/metrics", {"name[]": own.SIMULATED.name})
        except SourceError:
            return None
        found = Samples(parser([own.SIMULATED]).parse(reply.body)).first(own.SIMULATED)
        return None if found is None else found.value == 1

    def _ask(self, path: str, kind: type[T], parameters: Mapping[str, str] | None = None) -> T:
        return _decode(_get(self._http, path, parameters or {}), kind, self.shown)


class _OtherRound(Exception):  # noqa: N818  (no error: another round was finished meanwhile)
    pass


def _get(http: HttpClient, path: str, parameters: Mapping[str, str]) -> Reply:
    try:
        return http.get(path, parameters)
    except HttpError as error:
        raise SourceError(_sentence(error, http.shown)) from None


def _sentence(error: HttpError, shown: str) -> str:
    """The API's own sentence instead of its JSON, and the way out where we know it."""
    said = _MESSAGE.search(str(error))
    words = f"{shown} answered {error.status}: {said[1]}" if said else str(error)
    return f"{words} (give a token by --token-file)" if error.status in {401, 403} else words


def _decode(reply: Reply, kind: type[T], shown: str) -> T:
    try:
        return msgspec.json.decode(reply.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SourceError(f"{shown} answers, but not as an analyzer does: {error}") from None


def _server_time(reply: Reply, clock: Clock) -> float:
    """By the clock that the data was dated with, so that two clocks that differ make no data old."""
    try:
        return parsedate_to_datetime(reply.date).astimezone(UTC).timestamp()
    except ValueError:
        return clock.now()
