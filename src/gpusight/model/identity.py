"""Who and what a number is about. Two kinds of id never mix: each has its own type."""

from typing import NamedTuple, NewType

GpuUuid = NewType("GpuUuid", str)
"""A whole device as the driver names it: `GPU-03cd1cf6-11f6-5ecc-feb0-af07406e1838`."""

MigUuid = NewType("MigUuid", str)
"""One MIG instance: `MIG-...`."""

HostPid = NewType("HostPid", int)
"""A process id in the host's PID namespace: the only kind that NVML speaks of."""

ContainerPid = NewType("ContainerPid", int)
"""A process id inside a container's PID namespace: often 1, never comparable with a HostPid."""


class PodRef(NamedTuple):
    """One pod of one cluster; `uid` tells a recreated pod from its predecessor."""

    cluster: str
    namespace: str
    name: str
    uid: str


class ContainerRef(NamedTuple):
    """One container of a pod."""

    pod: PodRef
    name: str
