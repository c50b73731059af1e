"""One round: a reading and what is remembered -> results, verdicts, and what to remember."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from gpusight.analysis.criteria import Criteria
from gpusight.analysis.features import Features, features_of, learn_floors
from gpusight.analysis.findings import Circumstances, Finding, find
from gpusight.analysis.fractions import fractions_of
from gpusight.analysis.memory import Memory, SubjectMemory
from gpusight.analysis.missing import Missing
from gpusight.analysis.parts import Part, build_parts
from gpusight.analysis.records import Activity, Efficiency, GpuResult, Holding, State, Subject, Verdict
from gpusight.analysis.results import result_id, result_of, sort_results
from gpusight.analysis.score import capped
from gpusight.analysis.subjects import group_by_subject
from gpusight.analysis.tenancy import Tenancy
from gpusight.analysis.transitions import IDLE, Standing, next_standing
from gpusight.analysis.wording import span as spoken
from gpusight.model.series import PodKey, Quantity, Reading, SeriesKey, Span, Windows

_FORGET_AFTER = 3600.0
_MOST_FLOORS = 200_000
_LONGEST_DOUBT = 300
_HARMLESS: frozenset[Quantity | None] = frozenset({"sm_clock", "temperature", "energy", "sm_occupancy"})
"""No verdict and no score rests on these; with any other, parts, sharers or objections may be missing."""


class Judged(NamedTuple):
    """One subject's verdict with what it was made of."""

    verdict: Verdict
    parts: Sequence[Part]
    previous: State | None
    """The state before this round; None at first sight."""


class Conclusion(NamedTuple):
    """What one round concludes. `judged` holds every subject, in order of its id."""

    results: tuple[GpuResult, ...]
    judged: tuple[Judged, ...]
    fractions: Mapping[SeriesKey, float]
    memory: Memory
    problems: tuple[str, ...]


def judge_round(reading: Reading, memory: Memory, criteria: Criteria, tenancy: Tenancy) -> Conclusion:
    """Pure: the same reading, memory and criteria give the same conclusion; `memory` is not changed."""
    trusted = _trusted(reading)
    parts = build_parts(trusted, criteria)
    now = reading.span.end
    judge = _Judge(reading, memory, criteria, tenancy, fractions_of(parts), Missing(trusted, parts))
    judged = [
        judge.subject(subject, own) for _, (subject, own) in sorted(group_by_subject(parts, reading.owners).items())
    ]
    at = datetime.fromtimestamp(now, UTC)
    results = sort_results(
        result_of(part, each.verdict, at, criteria, judge.doubt) for each in judged for part in each.parts
    )
    kept = {name: old for name, old in memory.subjects.items() if now - old.seen < _FORGET_AFTER}
    remembered = Memory(
        began=memory.began if memory.began is not None else now,
        at=now,
        rounds=memory.rounds + 1,
        subjects=kept | judge.remembered,
        floors=_bounded(memory.floors) | learn_floors(parts, memory.floors),
        tenants={name: {key: [*use] for key, use in spaces.items()} for name, spaces in memory.tenants.items()},
        written=memory.written,
        hour=memory.hour,
        hours={name: replace(hour) for name, hour in memory.hours.items()},
    )
    return Conclusion(tuple(results), tuple(judged), judge.fractions, remembered, _problems(reading))


def _bounded(floors: Mapping[str, float]) -> dict[str, float]:
    """Devices that are gone are forgotten when there are too many of them."""
    return dict(floors) if len(floors) < _MOST_FLOORS else {}


def _trusted(reading: Reading) -> Reading:
    """Without the families that were read in part only: half an answer is none."""
    failed = {failure.family for failure in reading.failures}
    windows: list[Windows] = [each for each in reading.windows if each.family not in failed]
    return Reading(reading.span, windows, reading.places, reading.owners, reading.started)


def _doubt_in(reading: Reading) -> str:
    """Why the reading as a whole may be incomplete, without the full stop; empty when nothing says so."""
    said = [
        *reading.warnings,
        *(each.reason for each in reading.failures if not each.is_standing and each.quantity not in _HARMLESS),
    ]
    return " ".join(said[0].split()).rstrip(".")[:_LONGEST_DOUBT] or "the store answered in part" if said else ""


def _problems(reading: Reading) -> tuple[str, ...]:
    said = [failure.reason for failure in reading.failures]
    said += reading.warnings
    said += [f"{each.family}: {each.rejected} series hold no usable value" for each in reading.windows if each.rejected]
    if not any(each.columns for each in reading.windows):
        said.append("no GPU series were found: is an exporter scraped, and does the query condition fit its labels?")
    return tuple(said)


class _Judge:
    """Judges subject by subject, and collects what to remember of each."""

    def __init__(
        self,
        reading: Reading,
        memory: Memory,
        criteria: Criteria,
        tenancy: Tenancy,
        fractions: Mapping[SeriesKey, float],
        missing: Missing,
    ) -> None:
        self._span: Span = reading.span
        self._started = reading.started
        self._memory = memory
        self._criteria = criteria
        self._tenancy = tenancy
        self._now = reading.span.end
        self._start = reading.span.start
        self._reach = reading.span.length + reading.span.step
        self._missing = missing
        self.fractions = fractions
        self.doubt = _doubt_in(reading)
        self.remembered: dict[str, SubjectMemory] = {}

    def subject(self, subject: Subject, parts: Sequence[Part]) -> Judged:
        old = self._memory.subjects.get(subject.id)
        # Only a window that reaches back to the last round tells what went on since: else nobody looked in between.
        known = old if old is not None and 0 <= self._now - old.seen <= self._reach else None
        features = features_of(parts, self._memory.floors)
        held = self._missing.held(subject, parts, old)
        idle_since = self._idle_since(known)
        age = self._age(parts, old)
        about = Circumstances(age, self._now - idle_since, self.doubt or held.doubt, self._span.length)
        finding = find(features, about, self._criteria)
        standing = next_standing(known or self._forgotten(old), finding.state, self._now, self._criteria)
        new = self._remember(old, known, standing, features, idle_since if finding.state in IDLE else None)
        new.held = held.pods
        self.remembered[subject.id] = new
        verdict = self._verdict(subject, features, finding, standing, new)
        return Judged(verdict, parts, old.state if old else None)

    def _forgotten(self, old: SubjectMemory | None) -> SubjectMemory | None:
        """What it was up to this round, if nobody looked: unknown."""
        return old and replace(old, state="unknown", since=self._now, pending=None, pending_rounds=0)

    def _idle_since(self, known: SubjectMemory | None) -> float:
        """Since when it is inactive, if this window shows no activity."""
        if known is None:
            return self._start
        if known.idle_since is not None:
            return known.idle_since
        return min(max(known.last_active or self._start, self._start), self._now)

    def _age(self, parts: Sequence[Part], old: SubjectMemory | None) -> float | None:
        """Of its youngest pod, as the cluster says; else since we first saw it, if we were there before."""
        if self._started:
            keys = {PodKey(part.key.cluster, part.key.namespace, part.key.pod) for part in parts}
            started = [self._started[key] for key in keys if key in self._started]
            if started:
                return max(0.0, self._now - max(started))
        if self._memory.began is None:
            return None
        first = old.first_seen if old else self._now
        return self._now - first if first > self._memory.began else None

    def _remember(
        self,
        old: SubjectMemory | None,
        known: SubjectMemory | None,
        standing: Standing,
        features: Features,
        idle_since: float | None,
    ) -> SubjectMemory:
        byte_seconds = 0.0
        if idle_since is not None and known is not None:
            byte_seconds = known.idle_byte_seconds if known.idle_since is not None else 0.0
            byte_seconds += (features.memory_bytes or 0.0) * (self._now - known.seen)
        return SubjectMemory(
            first_seen=old.first_seen if old else self._now,
            seen=self._now,
            state=standing.state,
            since=standing.since,
            pending=standing.pending,
            pending_rounds=standing.pending_rounds,
            idle_since=idle_since,
            last_active=features.last_active or (old.last_active if old else None),
            idle_byte_seconds=byte_seconds,
            used=old.used if old else 0.0,
            idle=old.idle if old else 0.0,
            unknown=old.unknown if old else 0.0,
        )

    def _verdict(
        self, subject: Subject, features: Features, finding: Finding, standing: Standing, memory: SubjectMemory
    ) -> Verdict:
        tenant = self._tenancy.of(subject.cluster, subject.namespace)
        parts = features.parts
        pods, nodes, models = _names(parts)
        return Verdict(
            subject=subject,
            state=standing.state,
            since=moment(standing.since),
            confidence=round(finding.confidence, 3),
            reason=self._reason(finding, standing),
            evidence=features.evidence,
            coverage=features.coverage,
            activity=Activity(
                last_active=moment(memory.last_active) if memory.last_active else None,
                active_share=features.active_share,
                idle_seconds=self._now - memory.idle_since if memory.idle_since is not None else None,
            ),
            efficiency=Efficiency(
                utilization=_share(features.utilization),
                engine_active=_share(features.engine),
                sm_active=_share(features.sm),
                tensor_active=_share(features.tensor),
                dram_active=_share(features.dram),
                power_above_floor=_share(features.power_above_floor),
            ),
            holding=Holding(
                gpus=round(sum([self.fractions[part.key] for part in parts]), 4),
                memory_bytes=features.memory_bytes,
                memory_share=_share(features.memory_share),
                idle_byte_hours=memory.idle_byte_seconds / 3600,
            ),
            pods=pods,
            parts=tuple([result_id(part.key) for part in parts]),
            nodes=nodes,
            models=models,
            pending=standing.pending,
            pending_rounds=standing.pending_rounds,
            owner=tenant.owner,
            team=tenant.team,
        )

    def _reason(self, finding: Finding, standing: Standing) -> str:
        if standing.pending is None:
            return finding.reason
        since = spoken(self._now - standing.since)
        count = standing.pending_rounds
        reason = finding.reason.removesuffix(".")
        return f"{reason}; it was {standing.state} for {since} and stays so until this lasts: round {count}."


def _names(parts: Sequence[Part]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Of the pods, nodes and models."""
    if len(parts) == 1:  # most workloads have one part
        pod, (node, model) = parts[0].key.pod, parts[0].place
        return (pod,) if pod else (), (node,) if node else (), (model,) if model else ()
    places = {part.place for part in parts}
    return (
        _distinct({part.key.pod for part in parts}),
        _distinct({place.node for place in places}),
        _distinct({place.model for place in places}),
    )


def _distinct(names: AbstractSet[str]) -> tuple[str, ...]:
    return tuple(sorted(filter(None, names)))


def _share(value: float | None) -> float | None:
    if not value:  # unknown or 0
        return value
    return round(value, 4) if 0.0 <= value <= 1.0 else capped(value)


@lru_cache(maxsize=4096)
def moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
