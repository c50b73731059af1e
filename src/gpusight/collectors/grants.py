"""What HAMi's scheduler wrote on the pods of this node: each container's devices with their limits."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpusight.collectors.view import NodeView
from gpusight.model.identity import GpuUuid
from gpusight.model.ownership import DeviceAllocation, PodInfo
from gpusight.model.units import Bytes

_ENDED = ("Succeeded", "Failed")


class Grant(NamedTuple):
    """One device of a container; `place` is its number among the container's devices."""

    place: int
    uuid: GpuUuid
    memory: Bytes


Grants = Mapping[tuple[str, str], tuple[Grant, ...]]
"""By pod UID and container."""


def find_grants(view: NodeView) -> Grants:
    """The grants of all pods that still hold them."""
    if "grants" not in view.memo:
        view.memo["grants"] = _find_grants(view)
    found: Grants = view.memo["grants"]
    return found


def _find_grants(view: NodeView) -> Grants:
    return {
        (pod.ref.uid, container): tuple(_grants(devices))
        for pod in view.pods
        if pod.ref.uid in view.allocations and pod.phase not in _ENDED
        for container, devices in _by_container(pod, view.allocations[pod.ref.uid].containers)
    }


def _by_container(
    pod: PodInfo, allocated: tuple[tuple[DeviceAllocation, ...], ...]
) -> Iterator[tuple[str, tuple[DeviceAllocation, ...]]]:
    """Up to v2.8 regular containers only, since v2.9 init containers first; what fits neither count is not used."""
    for containers in (pod.containers, pod.containers[pod.init_containers :]):
        if len(containers) == len(allocated):
            yield from zip(containers, allocated, strict=True)
            return


def _grants(devices: tuple[DeviceAllocation, ...]) -> Iterator[Grant]:
    for place, device in enumerate(devices):
        yield Grant(place, GpuUuid(device.uuid), device.memory)
