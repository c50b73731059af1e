"""The node's own pods and DRA devices from the Kubernetes API, for agents that are told to watch it."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, get_args

from gpusight.attribution.join import ClaimedDevice
from gpusight.collectors.view import SourceHealth
from gpusight.errors import StartError
from gpusight.model.ownership import PodInfo
from gpusight.model.time import Clock
from gpusight.runtime.extras import require
from gpusight.settings import Settings

if TYPE_CHECKING:
    from gpusight.sources.kubernetes.client import ApiClient
    from gpusight.sources.kubernetes.pods import PodsReading
    from gpusight.sources.kubernetes.slices import NodeSlices, SlicesReading


class ApiWatch:
    """What the API says of this node. Slices are followed from the first question on: most clusters have none."""

    def __init__(self, client: "ApiClient", node: str, clock: Clock, cluster: str = "") -> None:
        from gpusight.sources.kubernetes.pods import NodePods  # noqa: PLC0415  (needs the extra k8s)

        self._client = client
        self._node = node
        self._clock = clock
        self._pods = NodePods(client, node, clock, cluster=cluster)
        self._slices: NodeSlices | None = None

    def start(self) -> None:
        self._pods.start()

    def stop(self) -> None:
        self._pods.stop()
        if self._slices:
            self._slices.stop()

    def pods(self) -> Sequence[PodInfo]:
        return self._pods.read().pods

    def claimed_devices(self) -> Mapping[ClaimedDevice, str]:
        from gpusight.sources.kubernetes.slices import NodeSlices  # noqa: PLC0415

        if self._slices is None:
            self._slices = NodeSlices(self._client, self._node, self._clock)
            self._slices.start()
        return self._slices.read().devices

    def health(self) -> Iterator[SourceHealth]:
        yield self._health("kubernetes_pods", self._pods.read())
        if self._slices:
            yield self._health("kubernetes_slices", self._slices.read())

    def _health(self, name: str, reading: "PodsReading | SlicesReading") -> SourceHealth:
        from gpusight.sources.kubernetes.client import ApiFailure  # noqa: PLC0415

        heard_at = None if reading.age is None else self._clock.now() - reading.age
        failures = {reason: reading.failures.get(reason, 0) for reason in get_args(ApiFailure) if reason != "stopped"}
        return SourceHealth(name, not reading.reason, reading.reason, heard_at, failures, reading.undecodable)


@contextmanager
def api_watch(settings: Settings, node: str, clock: Clock) -> Iterator[ApiWatch]:
    """Kept in step until the context ends."""
    require("watching pods", "k8s")
    from gpusight.sources.kubernetes.access import AccessError, find_access  # noqa: PLC0415
    from gpusight.sources.kubernetes.client import ApiClient  # noqa: PLC0415

    try:
        access = find_access(os.environ, clock, kubeconfig=settings.get("k8s.kubeconfig"))
    except AccessError as error:
        raise StartError(f"the Kubernetes API cannot be reached: {error}") from error
    watch = ApiWatch(ApiClient(access, clock), node, clock, settings.get("cluster.name") or "")
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()
