"""Whose pods are and since when they run, by the same rules as store/owners.py, from living series."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpusight.model.series import Owner, PodKey
from gpusight.store.embedded_series import SeriesInfo
from gpusight.store.labels import holder_of

_OWN = "gpusight_pod_owner"
_POD = "kube_pod_owner"
_STARTED = "kube_pod_start_time"
_PARENTS = {"kube_replicaset_owner": ("ReplicaSet", "replicaset"), "kube_job_owner": ("Job", "job_name")}
_NOBODY = ("", "<none>")
_LONGEST_CHAIN = 3

POD_FAMILIES = (_OWN, _POD, _STARTED, *_PARENTS)

Thing = tuple[str, str, str, str]
"""Cluster, namespace, kind, name."""


def owners(living: Sequence[SeriesInfo], cluster_label: str) -> dict[PodKey, Owner]:
    """Our own series if there are any, else kube-state-metrics', each owner followed up to what owns it."""
    family = _OWN if any(info.family == _OWN for info in living) else _POD
    parents = {} if family == _OWN else dict(_chains(living, cluster_label))
    return {
        pod: _topmost(pod, info.labels, family, parents)
        for info in living
        if info.family == family and (pod := _pod(info, cluster_label)).pod
    }


def started(living: Sequence[SeriesInfo], values: Sequence[float], cluster_label: str) -> dict[PodKey, float]:
    return {
        pod: value
        for info, value in zip(living, values, strict=True)
        if info.family == _STARTED and value > 0 and (pod := _pod(info, cluster_label)).pod
    }


def _chains(living: Iterable[SeriesInfo], cluster_label: str) -> Iterator[tuple[Thing, Thing]]:
    for info in living:
        if info.family in _PARENTS:
            kind, label = _PARENTS[info.family]
            child = info.labels.get(f"exported_{label}") or info.labels.get(label, "")
            owner = _owner(info.labels)
            if child and owner:
                where = info.labels.get(cluster_label, ""), _namespace(info.labels)
                yield (*where, kind, child), (*where, *owner)


def _topmost(pod: PodKey, labels: Mapping[str, str], family: str, parents: Mapping[Thing, Thing]) -> Owner:
    owner = _owner(labels)
    if not owner:
        return Owner("Pod", pod.pod, family)
    top: Thing = (pod.cluster, pod.namespace, *owner)
    for _ in range(_LONGEST_CHAIN):
        top = parents.get(top, top)
    return Owner(top[2], top[3], family)


def _owner(labels: Mapping[str, str]) -> tuple[str, str] | None:
    kind, name = labels.get("owner_kind", ""), labels.get("owner_name", "")
    return None if kind in _NOBODY or name in _NOBODY else (kind, name)


def _pod(info: SeriesInfo, cluster_label: str) -> PodKey:
    namespace, pod, _ = holder_of(info.labels)
    return PodKey(info.labels.get(cluster_label, ""), namespace, pod)


def _namespace(labels: Mapping[str, str]) -> str:
    return labels.get("exported_namespace") or labels.get("namespace", "")
