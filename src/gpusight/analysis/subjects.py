"""Which workload a part belongs to; never guessed from a name."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from gpusight.analysis.parts import Part
from gpusight.analysis.records import Subject
from gpusight.model.series import Owner, PodKey

_ITSELF = "no series names an owner: the subject is the pod itself"
_FREE = "no pod holds it"
_UNSAFE = re.compile(r"[%/\x00-\x1f\x7f\ud800-\udfff]")
"""What would let one subject's id look like another's, or cannot be written down."""


def group_by_subject(parts: Iterable[Part], owners: Mapping[PodKey, Owner]) -> dict[str, tuple[Subject, list[Part]]]:
    """By subject id."""
    groups: dict[str, tuple[Subject, list[Part]]] = {}
    subjects: dict[tuple[str, ...], Subject] = {}
    for part in parts:
        key = part.key
        place = (key.cluster, key.namespace, key.pod) if key.pod else (*key[:3], "")
        subject = subjects.get(place)
        if subject is None:
            subject = subjects[place] = subject_of(part, owners)
        groups.setdefault(subject.id, (subject, []))[1].append(part)
    return groups


def subject_of(part: Part, owners: Mapping[PodKey, Owner]) -> Subject:
    key = part.key
    if not key.pod:
        return _subject(key.cluster, "", "GPU", key.gpu, _FREE, *filter(None, (key.mig,)))
    return subject_of_pod(PodKey(key.cluster, key.namespace, key.pod), owners)


def subject_of_pod(pod: PodKey, owners: Mapping[PodKey, Owner]) -> Subject:
    owner = owners.get(pod)
    if owner is None:
        return _subject(pod.cluster, pod.namespace, "Pod", pod.pod, _ITSELF)
    return _subject(pod.cluster, pod.namespace, owner.kind, owner.name, f"by {owner.how}")


@lru_cache(maxsize=200_000)
def _subject(cluster: str, namespace: str, kind: str, name: str, how: str, *part: str) -> Subject:
    path = (cluster, namespace, kind, name, *part)
    if _UNSAFE.search("".join(path)):
        path = tuple(_UNSAFE.sub(_escaped, each) for each in path)
    return Subject(
        id="/".join(path), cluster=cluster, namespace=namespace, kind=kind, name="/".join((name, *part)), how=how
    )


def _escaped(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02X}"
