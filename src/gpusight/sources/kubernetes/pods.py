"""The pods of one node, from a watch, in the smallest form that joins need: a kilobyte or less of each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal

import msgspec

from gpusight.model.identity import PodRef
from gpusight.model.ownership import PodInfo
from gpusight.model.time import Clock
from gpusight.sources.kubernetes.client import ApiClient, ApiFailure
from gpusight.sources.kubernetes.reflector import Change, Decode, Reflector, Timing, What

PODS = "/api/v1/pods"
KEPT_ANNOTATIONS = ("hami.io/", "kubernetes.io/config.hash")
"""By beginning. The hash is a static pod's own uid, where its mirror in the API has another."""
KEPT_LABELS = ("hami.io/",)


class _Meta(msgspec.Struct):
    name: str
    namespace: str
    uid: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Container(msgspec.Struct):
    name: str


class _ContainerStatus(msgspec.Struct):
    name: str
    container_id: str = msgspec.field(name="containerID", default="")


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[_Container]
    init_containers: list[_Container] | None = None


class _Status(msgspec.Struct, rename="camel"):
    phase: str = "Unknown"
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    ephemeral_container_statuses: list[_ContainerStatus] | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


def pod_decoder(
    cluster: str, annotations: tuple[str, ...] = KEPT_ANNOTATIONS, labels: tuple[str, ...] = KEPT_LABELS
) -> Decode[PodInfo]:
    """Keeps the annotations and labels whose names begin with one of these."""
    decoder = msgspec.json.Decoder(_Pod)

    def decode(raw: msgspec.Raw) -> PodInfo:
        pod = decoder.decode(raw)
        meta, spec = pod.metadata, pod.spec
        first = [container.name for container in spec.init_containers or ()]
        return PodInfo(
            PodRef(cluster, meta.namespace, meta.name, meta.uid),
            (*first, *(container.name for container in spec.containers)),
            len(first),
            _container_ids(pod.status),
            pod.status.phase or "Unknown",
            _kept(meta.labels, labels),
            _kept(meta.annotations, annotations),
        )

    return decode


def _container_ids(status: _Status) -> dict[str, str]:
    """`containerd://<id>` without the scheme, which tells the runtime and stands nowhere else."""
    groups = (status.init_container_statuses, status.container_statuses, status.ephemeral_container_statuses)
    each = (container for group in groups for container in group or ())
    return {item.name: item.container_id.rpartition("://")[2] for item in each if item.container_id}


def _kept(given: Mapping[str, str] | None, beginnings: tuple[str, ...]) -> dict[str, str]:
    return {key: value for key, value in (given or {}).items() if key.startswith(beginnings)}


@dataclass(frozen=True, slots=True)
class PodsReading:
    """The node's pods, and how old the view is. `is_up` before the first complete list is False."""

    is_up: bool
    pods: tuple[PodInfo, ...] = ()
    age: float | None = None
    reason: ApiFailure | Literal["", "starting"] = ""
    """Why the view is not being kept in step at the moment; the pods are those known before."""
    detail: str = ""
    undecodable: int = 0
    failures: Mapping[ApiFailure, int] = field(default_factory=dict)
    """So far, by reason."""


class NodePods:
    """Follows the pods of one node from start() to stop()."""

    def __init__(
        self,
        client: ApiClient,
        node: str,
        clock: Clock,
        *,
        cluster: str = "",
        on_change: Callable[[Sequence[Change[PodInfo]]], object] | None = None,
        timing: Timing = Timing(),  # noqa: B008  (frozen)
        random: Random | None = None,
    ) -> None:
        # From the server's cache: thousands of agents that each have the database searched is how control planes die.
        what = What(PODS, field_selector=f"spec.nodeName={node}", may_start_stale=True)
        self._reflector = Reflector(
            client, what, pod_decoder(cluster), clock, on_change=on_change, timing=timing, random=random
        )
        self.start = self._reflector.start
        self.stop = self._reflector.stop

    def read(self) -> PodsReading:
        view = self._reflector.view()
        reason = view.problem or ("" if view.is_synced else "starting")
        pods = tuple(view.objects.values())
        return PodsReading(view.is_synced, pods, view.age, reason, view.detail, view.undecodable, view.failures)
