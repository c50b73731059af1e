"""GPUs that a subject held and that no series tells of any more.

A workload is judged by all its GPUs. An exporter that dies takes its GPUs out of sight, and the others may be idle
because they wait for just those: until it is clear that they were given back, nothing is concluded.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from gpusight.analysis.memory import HeldMemory, SubjectMemory
from gpusight.analysis.parts import ANCHORS, Part
from gpusight.analysis.records import Subject
from gpusight.analysis.subjects import subject_of_pod
from gpusight.model.series import PodKey, Reading

_PATIENCE = 3600.0
"""Pods that completed or were evicted stay known to the cluster for long; their GPUs are missed for this long."""
_ENDED = "the series of one of its GPUs ended within the window"


class Held(Struct, frozen=True, gc=False):
    """What each pod holds, and why nothing may be concluded from that; empty when there is no such reason."""

    pods: dict[str, HeldMemory]
    doubt: str


class Missing:
    """Compares what is in sight with what was: in this window, and in the rounds before."""

    def __init__(self, reading: Reading, parts: Sequence[Part]) -> None:
        self._owners = reading.owners
        self._started = reading.started
        self._now = reading.span.end
        self._ended = _ended(reading, parts)
        self._one = HeldMemory(1, self._now)

    def held(self, subject: Subject, parts: Sequence[Part], old: SubjectMemory | None) -> Held:
        now = self._now
        held = self._in_sight(parts)
        doubt = _ENDED if subject.id in self._ended else ""
        if old is None:
            return Held(held, doubt)
        for pod, before in old.held.items():
            there = held[pod].gpus if pod in held else 0
            if there < before.gpus and now - before.seen < _PATIENCE and (there or self._exists(subject, pod)):
                held[pod] = before
                doubt = f"{before.gpus - there} of the {before.gpus} GPUs of one of its pods are out of sight"
        return Held(held, doubt)

    def _in_sight(self, parts: Sequence[Part]) -> dict[str, HeldMemory]:
        if len(parts) == 1:  # most workloads have one part
            pod = parts[0].key.pod
            return {pod: self._one} if pod else {}
        return {pod: HeldMemory(count, self._now) for pod, count in _count(parts).items()}

    def _exists(self, subject: Subject, pod: str) -> bool:
        key = PodKey(subject.cluster, subject.namespace, pod)
        return key in self._owners or key in self._started


def _count(parts: Sequence[Part]) -> dict[str, int]:
    """GPUs and MIG instances by pod."""
    return Counter([pod for _, _, pod in {(part.key.gpu, part.key.mig, part.key.pod) for part in parts} if pod])


def _ended(reading: Reading, parts: Sequence[Part]) -> frozenset[str]:
    """Subjects with a GPU that has samples in the window and none now."""
    ended = {
        key
        for each in reading.windows
        if each.quantity in ANCHORS
        for key in each.columns.get("mean", {}).keys() - each.columns.get("last_seen", {}).keys()
        if key.pod
    }
    if not ended:
        return frozenset()
    living = {(key.cluster, key.gpu, key.namespace, key.pod) for key in (part.key for part in parts)}
    gone = {
        PodKey(key.cluster, key.namespace, key.pod)
        for key in ended
        if (key.cluster, key.gpu, key.namespace, key.pod) not in living
    }
    return frozenset(subject_of_pod(pod, reading.owners).id for pod in gone)
