"""Whose the simulated pods are: the workloads that made them, as the pods' names tell, and since when they run."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from gpusight.simulate.section import Owner
from gpusight.simulate.spec import FleetSpec, WorkloadSpec

_SHAPES: Final = (
    ("Deployment", re.compile(r"(.+)-[0-9a-f]{8,10}-[a-z0-9]{5}")),
    ("StatefulSet", re.compile(r"(.+)-[0-9]+")),
)


class OwnedPod(NamedTuple):
    """A pod, the workload at the top of its chain of owners, and when it started, in seconds after the start."""

    cluster: str
    namespace: str
    pod: str
    owner: Owner
    starts: float


def owner_of(workload: WorkloadSpec) -> Owner:
    """A pod that looks like nobody's is its own."""
    if workload.owner:
        return workload.owner
    for kind, shape in _SHAPES:
        if found := shape.fullmatch(workload.pod):
            return Owner(kind, found[1])
    return Owner("Pod", workload.pod)


def owned_pods(spec: FleetSpec, t: float) -> Iterator[OwnedPod]:
    """All pods of the fleet that there are at a moment, each once."""
    clusters = {node.name: node.cluster for node in spec.nodes}
    pods: dict[tuple[str, str, str], OwnedPod] = {}
    for one in spec.workloads:
        if one.starts <= t:
            place = clusters[one.node], one.namespace, one.pod
            known = pods.get(place)
            pods[place] = OwnedPod(*place, owner_of(one), min(one.starts, known.starts) if known else one.starts)
    yield from pods.values()
