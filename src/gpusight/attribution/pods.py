"""The pods of a node as a table to look names and ids up in."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gpusight.model.identity import ContainerRef
from gpusight.model.ownership import PodInfo

_ENDED = {"Succeeded", "Failed"}
_STATIC_UID = "kubernetes.io/config.hash"
_HASH = re.compile(r"[0-9a-f]{32}")


class Place(NamedTuple):
    """A container found by its id."""

    pod: PodInfo
    container: str


def is_from_api(pod: PodInfo) -> bool:
    """Every pod of the API has a phase; the log directories tell none."""
    return bool(pod.phase)


def has_ended(pod: PodInfo) -> bool:
    return pod.phase in _ENDED


class Pods:
    """Pods from the API go before those from the log directories; among the latter the first one counts."""

    def __init__(self, pods: Iterable[PodInfo]) -> None:
        self._by_uid: dict[str, PodInfo] = {}
        self._by_name: dict[tuple[str, str], PodInfo] = {}
        self._by_container: dict[str, Place] = {}
        self.contradictions: list[str] = []
        """Uids that two sources give different names."""
        ordered = sorted(pods, key=is_from_api, reverse=True)
        for pod in ordered:
            self._add(pod)
        for pod in filter(is_from_api, ordered):
            self._add_static(pod)

    def _add(self, pod: PodInfo) -> None:
        held = self._by_uid.setdefault(pod.ref.uid, pod)
        if (held.ref.namespace, held.ref.name) != (pod.ref.namespace, pod.ref.name):
            self.contradictions.append(pod.ref.uid)
            return
        self._by_name.setdefault((pod.ref.namespace, pod.ref.name), held)
        for name, container_id in pod.container_ids.items():
            self._by_container.setdefault(container_id, Place(held, name))

    def _add_static(self, pod: PodInfo) -> None:
        """A pod made from a file: the node knows it by the file's hash, the API by another uid. Real uids go first."""
        uid = pod.annotations.get(_STATIC_UID, "")
        if _HASH.fullmatch(uid):
            held = self._by_uid.get(uid)
            if held is None or (held.ref.namespace, held.ref.name) == (pod.ref.namespace, pod.ref.name):
                self._by_uid[uid] = pod

    def by_uid(self, uid: str) -> PodInfo | None:
        return self._by_uid.get(uid)

    def by_name(self, namespace: str, name: str) -> PodInfo | None:
        return self._by_name.get((namespace, name))

    def by_container(self, container_id: str | None) -> Place | None:
        return self._by_container.get(container_id) if container_id else None


def places(pod: PodInfo, segments: Sequence[Sequence[object]], granted: Sequence[str]) -> Iterator[str]:
    """The container of each segment of HAMi's annotation; an empty name where it cannot be told.

    Versions differ in whether init containers have segments, and 2.10 may use an init container's for another one
    (issue 3079). So the positions count if they agree with the containers that the kubelet gave GPUs to, where known.
    """
    used = [number for number, segment in enumerate(segments) if segment]
    names = _by_position(pod, len(segments))
    if not names or (granted and not all(names[number] in granted for number in used)):
        names = _by_grant(pod, segments, used, granted)
    yield from names or [""] * len(segments)


def _by_position(pod: PodInfo, count: int) -> list[str]:
    regular = pod.containers[pod.init_containers :]
    return next((list(names) for names in (pod.containers, regular) if len(names) == count), [])


def _by_grant(pod: PodInfo, segments: Sequence[object], used: Sequence[int], granted: Sequence[str]) -> list[str]:
    in_order = [name for name in pod.containers if name in granted] or list(granted)
    if len(in_order) == 1:
        return in_order * len(segments)
    if len(in_order) != len(used):
        return []
    names = [""] * len(segments)
    for number, name in zip(used, in_order, strict=True):
        names[number] = name
    return names


def container_name(pod: PodInfo, container_id: str | None, granted: Iterable[str]) -> str:
    """By its id; else the only one there is, or the only one that was given a GPU; else empty."""
    known = {held: name for name, held in pod.container_ids.items()}
    if container_id in known:
        return known[container_id]
    for names in (pod.containers, tuple(granted)):
        if len(names) == 1:
            return names[0]
    return ""


def describe(container: ContainerRef) -> str:
    return f"{container.pod.namespace}/{container.pod.name}/{container.name}"
