"""HAMi's annotations on pods, decoded: which devices and MIG instances its scheduler gave to which container.

Whoever may edit a pod may write anything there. Every decoder is total: it returns what the text says or raises
BadAnnotation, whatever the text, and does a bounded amount of work.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpusight.model.ownership import DeviceAllocation, MigAllocation, PodAllocations, PodInfo
from gpusight.model.units import MiB, mib_to_bytes

DEVICES_ALLOCATED = "hami.io/vgpu-devices-allocated"
MIG_ALLOCATIONS = "hami.io/vgpu-mig-allocations"

_T = TypeVar("_T")
_LONGEST = 256 * 1024
_MOST_ENTRIES = 1024
_LARGEST_INT = (1 << 31) - 1
_NUMBER = re.compile(r"[0-9]{1,10}")
_LEGACY_MIG = re.compile(r"(.+)\[([0-9]{1,4})-([0-9]{1,4})\]")
_RUNTIME_FIELDS = ("migUUID", "gpuInstanceID", "computeInstanceID")


class BadAnnotation(ValueError):  # noqa: N818  (it names the thing)
    """A text that is not what its annotation should hold."""


@dataclass(frozen=True, slots=True)
class AllocationsReading:
    """What the pods' annotations say, by pod uid. A pod with a bad annotation is in both, with the good one."""

    of_pod: Mapping[str, PodAllocations] = field(default_factory=dict)
    bad: Mapping[str, str] = field(default_factory=dict)
    """Sentences."""


def decode_allocations(pods: Iterable[PodInfo]) -> AllocationsReading:
    """A pod without such annotations is in neither."""
    of_pod: dict[str, PodAllocations] = {}
    bad: dict[str, str] = {}
    for pod in pods:
        devices, no_devices = _tried(decode_devices, pod.annotations.get(DEVICES_ALLOCATED, ""))
        mig, no_mig = _tried(decode_mig, pod.annotations.get(MIG_ALLOCATIONS, ""))
        if devices or mig:
            of_pod[pod.ref.uid] = PodAllocations(devices, mig)
        if no_devices or no_mig:
            bad[pod.ref.uid] = f"{pod.ref.namespace}/{pod.ref.name}: {no_devices or no_mig}"
    return AllocationsReading(of_pod, bad)


def _tried(decode: Callable[[str], tuple[_T, ...]], text: str) -> tuple[tuple[_T, ...], str]:
    try:
        return decode(text), ""
    except BadAnnotation as error:
        return (), str(error)


def decode_devices(text: str) -> tuple[tuple[DeviceAllocation, ...], ...]:
    """`uuid,type,MiB,cores:` for each device, `;` after each container. Empty containers keep their place."""
    _check_length(text)
    if text.count(",") > 8 * _MOST_ENTRIES or text.count(";") > _MOST_ENTRIES:
        raise BadAnnotation(f"more than {_MOST_ENTRIES} entries")
    segments = text.split(";")
    if not segments[-1].strip():
        segments.pop()
    return tuple(
        tuple(_device(part) for part in segment.split(":") if "," in part)  # as HAMi itself reads it
        for segment in segments
    )


def _device(text: str) -> DeviceAllocation:
    fields = [part.strip() for part in text.split(",")]
    if len(fields) < 4 or not fields[0]:
        raise BadAnnotation(f"a device needs a UUID, a type, memory and cores, not {text[:100]!r}")
    uuid, kind, memory, cores = fields[:4]
    legacy = _LEGACY_MIG.fullmatch(uuid)
    slot = (int(legacy[2]), int(legacy[3])) if legacy else None
    size = mib_to_bytes(MiB(_number(memory)))
    return DeviceAllocation(legacy[1] if legacy else uuid, kind, size, _number(cores), slot)


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > _LARGEST_INT:
        raise BadAnnotation(f"{text[:100]!r} is not a number from 0 to {_LARGEST_INT}")
    return int(text)


def decode_mig(text: str) -> tuple[MigAllocation, ...]:
    """A JSON array of allocations, refused as a whole when one of them makes no sense, as HAMi does."""
    if not text.strip():
        return ()
    _check_length(text)
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        raise BadAnnotation("not JSON") from None
    if not isinstance(entries, list) or len(entries) > _MOST_ENTRIES:
        raise BadAnnotation(f"not an array of at most {_MOST_ENTRIES} entries")
    allocations = tuple(map(_mig, entries))
    if len({(each.container_index, each.device_index) for each in allocations}) < len(allocations):
        raise BadAnnotation("the same container and device index twice")
    return allocations


def _mig(entry: object) -> MigAllocation:
    given = _mapping(entry)
    placement = _mapping(given.get("placement"))
    present = [name for name in _RUNTIME_FIELDS if given.get(name) is not None]
    if len(present) not in {0, len(_RUNTIME_FIELDS)}:
        raise BadAnnotation(f"only {' and '.join(present)} of the three that a real instance has")
    return MigAllocation(
        _index(given, "containerIndex"),
        _index(given, "deviceIndex"),
        _text(given, "gpuUUID"),
        _text(given, "profile"),
        _index(placement, "start"),
        _index(placement, "size", least=1),
        _text(given, "migUUID") if present else None,
        _index(given, "gpuInstanceID") if present else None,
        _index(given, "computeInstanceID") if present else None,
    )


def _mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadAnnotation("an entry or a placement that is not an object")
    return value


def _index(given: dict[str, Any], key: str, least: int = 0) -> int:
    value = given.get(key, 0)
    if type(value) is not int or not least <= value <= _LARGEST_INT:
        raise BadAnnotation(f"{key} must be a whole number from {least}")
    return value


def _text(given: dict[str, Any], key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not value or len(value) > 256:
        raise BadAnnotation(f"{key} must be a short text")
    return value


def _check_length(text: str) -> None:
    if len(text) > _LONGEST:
        raise BadAnnotation(f"longer than {_LONGEST} characters")
