"""Whose pods are and since when they run: what the analyzer needs in order to judge workloads instead of pods."""

from functools import partial

from gpusight.catalog import labels as label
from gpusight.catalog.spec import FamilySpec, Waiver

_CLUSTER = Waiver("target-label", "One page may tell of the pods of several clusters.")
_gauge = partial(FamilySpec, kind="gauge", endpoint="cluster")

OWNER = _gauge(
    name="gpusight_pod_owner",
    unit="info",
    origin="gpusight",
    labels=(label.CLUSTER, label.NAMESPACE, label.POD, label.OWNER_KIND, label.OWNER_NAME),
    help="The workload that the pod belongs to, always 1.",
    how_to_read="Join on (namespace, pod) to sum up by workload. kube_pod_owner of kube-state-metrics stops at the"
    " ReplicaSet or Job in between.",
    waivers=(_CLUSTER, Waiver("unit-suffix", "Named like kube_pod_owner, whose place it takes.")),
)
STARTED = _gauge(
    name="kube_pod_start_time",
    unit="timestamp",
    origin="kube-state-metrics",
    labels=(label.CLUSTER, label.NAMESPACE, label.POD),
    help="When the pod started, in seconds since the Unix epoch.",
    how_to_read="As kube-state-metrics has it, for places that do without.",
    waivers=(_CLUSTER, Waiver("unit-suffix", "The name that kube-state-metrics gave it.")),
)

FAMILIES: tuple[FamilySpec, ...] = (OWNER, STARTED)
