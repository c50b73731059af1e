"""The node's own pods from the Kubernetes API, for agents that are told to watch it."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from gpusight.errors import StartError
from gpusight.model.ownership import PodInfo
from gpusight.model.time import Clock
from gpusight.runtime.extras import require
from gpusight.settings import Settings


@contextmanager
def watched_pods(settings: Settings, node: str, clock: Clock) -> Iterator[Callable[[], Sequence[PodInfo]]]:
    """What the watch knows now; it is kept in step until the context ends."""
    require("watching pods", "k8s")
    from gpusight.sources.kubernetes.access import AccessError, find_access  # noqa: PLC0415
    from gpusight.sources.kubernetes.client import ApiClient  # noqa: PLC0415
    from gpusight.sources.kubernetes.pods import NodePods  # noqa: PLC0415

    try:
        access = find_access(os.environ, clock, kubeconfig=settings.get("k8s.kubeconfig"))
    except AccessError as error:
        raise StartError(f"the Kubernetes API cannot be reached: {error}") from error
    pods = NodePods(ApiClient(access, clock), node, clock, cluster=settings.get("cluster.name") or "")
    pods.start()
    try:
        yield lambda: pods.read().pods
    finally:
        pods.stop()
