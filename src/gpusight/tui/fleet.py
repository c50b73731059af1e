"""What the analyzer's API says of a whole fleet.

Only the fields that are shown are decoded: an analyzer that says more is understood, and one that does not know a value
is believed.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from gpusight.tui import show
from gpusight.tui.snapshot import Column, Row, Section, column, key_for, used_of

_MIB = 2**20


class RoundInfo(Struct, frozen=True):
    number: int
    at: datetime
    window_seconds: float
    problems: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[int, datetime]:
        return self.number, self.at


class Stats(Struct, frozen=True):
    total_gpus: int
    avg_score: float | None
    by_status: Mapping[str, int]
    idle_count: int | None = None
    low_utilization_count: int | None = None


class Health(Struct, frozen=True):
    interval: float | None = None


class Result(Struct, frozen=True):
    id: str
    gpu_id: str
    cluster: str
    hostname: str
    namespace: str
    pod: str
    container: str
    model_name: str
    mig_instance: str
    subject: str
    state: str
    status: str
    score: float | None
    gpu_util: float | None
    mem_used_mb: float | None
    mem_total_mb: float | None
    power_usage: float | None
    sm_clock: float | None
    note: str


class Subject(Struct, frozen=True):
    id: str
    cluster: str
    namespace: str
    kind: str
    name: str


class Activity(Struct, frozen=True):
    idle_seconds: float | None = None


class Holding(Struct, frozen=True):
    gpus: float
    memory_bytes: float | None = None


class Verdict(Struct, frozen=True):
    subject: Subject
    state: str
    since: datetime
    confidence: float
    reason: str
    evidence: str
    activity: Activity
    holding: Holding
    owner: str = ""
    team: str = ""


class ResultPage(Struct, frozen=True):
    total: int
    round: int
    timestamp: datetime
    items: tuple[Result, ...]


class VerdictPage(Struct, frozen=True):
    total: int
    round: int
    timestamp: datetime
    items: tuple[Verdict, ...]


class Placed(Struct, frozen=True):
    """A verdict with how long it has stood when its round was made."""

    verdict: Verdict
    for_seconds: float


def _mib_as_gib(value: float | None) -> str:
    return show.gib(None if value is None else value * _MIB)


RESULT_COLUMNS: tuple[Column, ...] = (
    column("score", 6, "score", lambda value: show.number(value, 1)),
    column("util", 5, "gpu_util", lambda value: show.number(value, unit="%")),
    used_of("memory", 11, "mem_used_mb", "mem_total_mb", _mib_as_gib, "G"),
    column("power", 6, "power_usage", lambda value: show.number(value, unit="W")),
    column("gpu", 12, "gpu_id", str, right=False),
    column("clock", 5, "sm_clock", show.number),
    column("model", 22, "model_name", str, right=False),
)

VERDICT_COLUMNS: tuple[Column, ...] = (
    column("for", 6, "for_seconds", show.duration),
    column("idle", 6, "verdict.activity.idle_seconds", show.duration),
    column("confidence", 5, "verdict.confidence", show.percent),
    column("held", 5, "verdict.holding.gpus", lambda value: f"{value:g}"),
    column("memory", 8, "verdict.holding.memory_bytes", lambda value: f"{show.gib(value)}G"),
    column("owner", 14, "verdict.owner", str, right=False),
)


def results_section(results: Sequence[Result], reasons: Mapping[str, str]) -> Section:
    """By machine; a GPU that several share is a branch of its own."""
    return Section("gpus", "state", 12, RESULT_COLUMNS, tuple(_result_rows(results, reasons)))


def _result_rows(results: Sequence[Result], reasons: Mapping[str, str]) -> Iterator[Row]:
    machines: dict[tuple[str, str], dict[str, list[Result]]] = {}
    for result in results:
        machines.setdefault((result.cluster, result.hostname), {}).setdefault(result.gpu_id, []).append(result)
    for (cluster, hostname), gpus in sorted(machines.items()):
        machine = key_for("machine", cluster, hostname)
        name = "/".join(part for part in (cluster, hostname) if part) or show.UNKNOWN
        yield Row(machine, "", f"{name} ({len(gpus)})", name, "", None)
        for gpu_id, sharers in gpus.items():
            parent = machine
            if len(sharers) > 1:
                parent = key_for("gpu", machine, gpu_id)
                yield Row(parent, machine, f"{gpu_id} ({len(sharers)})", f"{hostname} {gpu_id}", "", None)
            for result in sharers:
                yield _result_row(result, parent, reasons)


def _result_row(result: Result, parent: str, reasons: Mapping[str, str]) -> Row:
    name = "/".join(part for part in (result.namespace, result.pod, result.container) if part)
    words = f"{result.gpu_id} {result.model_name} {result.cluster} {result.status}"
    note = reasons.get(result.subject) or result.note
    flat = f"{result.hostname} {name}"
    return Row(key_for("result", result.id), parent, name, flat, result.state, result, note, words)


def verdicts_section(verdicts: Sequence[Placed]) -> Section:
    return Section("verdicts", "state", 12, VERDICT_COLUMNS, tuple(map(_verdict_row, verdicts)))


def _verdict_row(placed: Placed) -> Row:
    verdict = placed.verdict
    subject = verdict.subject
    name = f"{subject.namespace}/{subject.name}"
    words = f"{subject.kind} {subject.cluster} {verdict.owner} {verdict.team}"
    return Row(key_for("verdict", subject.id), "", name, name, verdict.state, placed, verdict.reason, words)
