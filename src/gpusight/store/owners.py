"""Which workload a pod belongs to and when it started, as series say: our own, else those of kube-state-metrics."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from gpusight.model.series import Owner, PodKey
from gpusight.store.answer import Row, labels_of
from gpusight.store.promql import any_of, selector

POD_OWNER = "gpusight_pod_owner"
"""Ours: {cluster, namespace, pod, owner_kind, owner_name}, the workload at the top of the chain."""
_KUBE_POD = "kube_pod_owner"
_KUBE_STARTED = "kube_pod_start_time"
_NOBODY = ("", "<none>")
_LONGEST_CHAIN = 3
_MANY = 100
"""More namespaces than this are not named in a query: VictoriaMetrics takes 16 kB at most."""


class _Parents(NamedTuple):
    """A family that says who owns the owners of one kind."""

    family: str
    kind: str
    label: str


_PARENTS = (
    _Parents("kube_replicaset_owner", "ReplicaSet", "replicaset"),
    _Parents("kube_job_owner", "Job", "job_name"),
)
FAMILIES = frozenset({POD_OWNER, _KUBE_POD, _KUBE_STARTED, *(parents.family for parents in _PARENTS)})

_OWNER_LABELS = ("owner_kind", "owner_name")
_SPACES = ("exported_namespace", "namespace")
_PODS = ("exported_pod", "pod")

Ask = Callable[[str], Collection[Row]]
"""Runs one instant query. Raises what it likes."""
Thing = tuple[str, str, str, str]
"""Cluster, namespace, kind, name."""


class Ownership(NamedTuple):
    owners: Mapping[PodKey, Owner]
    started: Mapping[PodKey, float]


def read_ownership(ask: Ask, present: Collection[str], pods: Collection[PodKey], cluster_label: str) -> Ownership:
    """At most five queries, whatever the number of pods."""
    return _Reader(ask, present, pods, cluster_label).read()


class _Reader:
    def __init__(self, ask: Ask, present: Collection[str], pods: Collection[PodKey], cluster_label: str) -> None:
        self._ask = ask
        self._present = present
        self._pods = frozenset(pods)
        self._cluster_label = cluster_label

    def read(self) -> Ownership:
        started = {pod: value for pod, _, value in self._of_pods(_KUBE_STARTED, ())}
        owners = dict(self._owners(POD_OWNER, {}))
        if _KUBE_POD in self._present and not owners.keys() >= self._pods:
            parents = {child: parent for each in _PARENTS for child, parent in self._chain(each)}
            owners = {**dict(self._owners(_KUBE_POD, parents)), **owners}
        return Ownership(owners, started)

    def _owners(self, family: str, parents: Mapping[Thing, Thing]) -> Iterator[tuple[PodKey, Owner]]:
        for pod, labels, _ in self._of_pods(family, _OWNER_LABELS):
            kind, name = labels.get("owner_kind", ""), labels.get("owner_name", "")
            if kind in _NOBODY or name in _NOBODY:
                yield pod, Owner("Pod", pod.pod, family)
                continue
            top: Thing = (pod.cluster, pod.namespace, kind, name)
            for _ in range(_LONGEST_CHAIN):
                top = parents.get(top, top)
            yield pod, Owner(top[2], top[3], family)

    def _chain(self, parents: _Parents) -> Iterator[tuple[Thing, Thing]]:
        child_labels = (f"exported_{parents.label}", parents.label)
        for row in self._rows(parents.family, (*child_labels, *_OWNER_LABELS)):
            labels = labels_of(row.metric)
            child = next((labels[name] for name in child_labels if labels.get(name)), "")
            where = labels.get(self._cluster_label, ""), _first(labels, _SPACES)
            kind, name = labels.get("owner_kind", ""), labels.get("owner_name", "")
            if child and kind not in _NOBODY and name not in _NOBODY:
                yield (*where, parents.kind, child), (*where, kind, name)

    def _of_pods(self, family: str, extra: tuple[str, ...]) -> Iterator[tuple[PodKey, dict[str, str], float]]:
        """The rows about pods that we want to know of."""
        for row in self._rows(family, (*_PODS, *extra)):
            labels = labels_of(row.metric)
            pod = PodKey(labels.get(self._cluster_label, ""), _first(labels, _SPACES), _first(labels, _PODS))
            if pod in self._pods:
                yield pod, labels, row.value[1]

    def _rows(self, family: str, labels: tuple[str, ...]) -> Collection[Row]:
        if family not in self._present:
            return ()
        by = ",".join((self._cluster_label, *_SPACES, *labels))
        return self._ask(f"max by ({by}) ({self._series(family)})")

    def _series(self, family: str) -> str:
        """Of the namespaces in question. Where labels are not honoured, `namespace` is the exporter's own."""
        spaces = sorted({pod.namespace for pod in self._pods})
        if len(spaces) > _MANY:
            return family
        named = any_of(spaces)
        plain = selector(family, 'exported_namespace=""', f"namespace=~{named}")
        return f"{selector(family, f'exported_namespace=~{named}')} or {plain}"


def _first(labels: Mapping[str, str], names: Collection[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")
