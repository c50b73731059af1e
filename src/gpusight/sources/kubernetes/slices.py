"""Which GPU a device of a ResourceClaim is: NVIDIA's DRA driver tells it in the ResourceSlices of its node.

The kubelet names such a device by driver, pool and name. The slice that has it among its devices gives its UUID, as an
attribute. A pool that is being changed has slices of two generations for a while; only the newer ones count.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Literal, NamedTuple

import msgspec

from gpusight.model.time import Clock
from gpusight.sources.kubernetes.client import ApiClient, ApiFailure
from gpusight.sources.kubernetes.reflector import Reflector, Timing, What

DRIVER = "gpu.nvidia.com"
PATHS = tuple(f"/apis/resource.k8s.io/{version}/resourceslices" for version in ("v1", "v1beta2", "v1beta1"))
"""The newest first. Kubernetes 1.34 has the first, 1.33 the second, 1.32 the third."""

_UUID = ("uuid", f"{DRIVER}/uuid")
"""An attribute without a domain is the driver's own."""

DeviceName = tuple[str, str, str]
"""Driver, pool and device."""


class _Pool(msgspec.Struct):
    name: str
    generation: int = 0


class _Spec(msgspec.Struct):
    driver: str
    pool: _Pool
    devices: list[msgspec.Raw] | None = None


class _Slice(msgspec.Struct):
    spec: _Spec


class _Attribute(msgspec.Struct):
    string: str | None = None


class _Basic(msgspec.Struct):
    attributes: dict[str, _Attribute] | None = None


class _Device(msgspec.Struct):
    name: str
    attributes: dict[str, _Attribute] | None = None
    basic: _Basic | None = None
    """Where v1beta1 has the attributes."""


_slice = msgspec.json.Decoder(_Slice)
_device = msgspec.json.Decoder(_Device)


class Slice(NamedTuple):
    """A part of a pool: the devices that have a UUID."""

    pool: str
    generation: int
    uuids: Mapping[str, str]


def decode_slice(raw: msgspec.Raw) -> Slice | None:
    """None for another driver's."""
    spec = _slice.decode(raw).spec
    if spec.driver != DRIVER:
        return None
    return Slice(spec.pool.name, spec.pool.generation, dict(_uuids(spec.devices or ())))


def _uuids(devices: Iterable[msgspec.Raw]) -> Iterator[tuple[str, str]]:
    for raw in devices:
        try:
            device = _device.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # the other devices are good
        attributes = device.attributes or (device.basic and device.basic.attributes) or {}
        uuid = next((attributes[name].string for name in _UUID if name in attributes), None)
        if uuid:
            yield device.name, uuid


def merge(slices: Iterable[Slice]) -> dict[DeviceName, str]:
    """The UUIDs of all devices."""
    known = list(slices)
    newest: dict[str, int] = {}
    for one in known:
        newest[one.pool] = max(one.generation, newest.get(one.pool, one.generation))
    return {
        (DRIVER, one.pool, device): uuid
        for one in known
        if one.generation == newest[one.pool]
        for device, uuid in one.uuids.items()
    }


@dataclass(frozen=True, slots=True)
class SlicesReading:
    """The node's devices, and how old the view is; like PodsReading."""

    is_up: bool
    devices: Mapping[DeviceName, str] = field(default_factory=dict)
    age: float | None = None
    reason: ApiFailure | Literal["", "starting"] = ""
    detail: str = ""
    undecodable: int = 0
    failures: Mapping[ApiFailure, int] = field(default_factory=dict)


class NodeSlices:
    """Follows the slices of one node from start() to stop()."""

    def __init__(
        self,
        client: ApiClient,
        node: str,
        clock: Clock,
        *,
        timing: Timing = Timing(),  # noqa: B008  (frozen)
        random: Random | None = None,
    ) -> None:
        what = What(PATHS[0], field_selector=f"spec.nodeName={node}", other_paths=PATHS[1:], may_start_stale=True)
        self._reflector = Reflector(client, what, decode_slice, clock, timing=timing, random=random)
        self.start = self._reflector.start
        self.stop = self._reflector.stop

    def read(self) -> SlicesReading:
        view = self._reflector.view()
        reason = view.problem or ("" if view.is_synced else "starting")
        devices = merge(view.objects.values())
        return SlicesReading(view.is_synced, devices, view.age, reason, view.detail, view.undecodable, view.failures)
