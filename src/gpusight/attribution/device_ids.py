"""What device plugins call their devices. Each spelling is one row of a table; an id that fits none is not guessed at.

GPU-<uuid>                   NVIDIA's plugin
GPU-<uuid>::2                the same, time-sliced or MPS: the third replica
MIG-<uuid>, MIG-<uuid>::2    a MIG instance
MIG-GPU-<uuid>/5/0           a MIG instance as drivers before 470 named it: GPU instance 5, compute instance 0
GPU-<uuid>-7, MIG-<uuid>-7   HAMi: any of its slots. The kubelet picks one blindly; HAMi then gives another device
GPU-<uuid>__3                nvshare
nvidia0, nvidia0/vgpu1       GKE: /dev/nvidia0, and the second of those who share it
nvidia0/gi3, nvidia0/gi3/vgpu1   GKE: GPU instance 3 of /dev/nvidia0
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Plugin = Literal["nvidia", "hami", "nvshare", "gke"]

_HEX = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_NUMBER = r"[0-9]{1,6}"


@dataclass(frozen=True, slots=True)
class DeviceId:
    """A device as an id names it: by UUID, or by minor number, with the GPU instance where it is a part."""

    plugin: Plugin
    uuid: str | None = None
    """Of the GPU, or of the MIG instance."""
    minor: int | None = None
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
    replica: str = ""

    @property
    def is_binding(self) -> bool:
        """Whether the container really gets the device that the id names."""
        return self.plugin != "hami"


_SPELLINGS: tuple[tuple[Plugin, str], ...] = (
    ("nvidia", rf"(?P<uuid>(?:GPU|MIG)-{_HEX})(?:::(?P<replica>{_NUMBER}))?"),
    ("nvidia", rf"MIG-(?P<uuid>GPU-{_HEX})/(?P<gi>{_NUMBER})/(?P<ci>{_NUMBER})(?:::(?P<replica>{_NUMBER}))?"),
    ("hami", rf"(?P<uuid>(?:GPU|MIG)-{_HEX})-(?P<replica>{_NUMBER})"),
    ("nvshare", rf"(?P<uuid>GPU-{_HEX})__(?P<replica>{_NUMBER})"),
    ("gke", rf"nvidia(?P<minor>{_NUMBER})(?:/gi(?P<gi>{_NUMBER}))?(?:/vgpu(?P<replica>{_NUMBER}))?"),
)


@lru_cache(maxsize=4096)
def parse_device_id(text: str) -> DeviceId | None:
    """None for an id that is not in the table."""
    for plugin, pattern in _SPELLINGS:
        if found := re.fullmatch(pattern, text):
            parts = found.groupdict()
            return DeviceId(
                plugin,
                parts.get("uuid"),
                _int(parts.get("minor")),
                _int(parts.get("gi")),
                _int(parts.get("ci")),
                parts.get("replica") or "",
            )
    return None


def is_uuid(text: str) -> bool:
    """Whether this is a UUID of a GPU or MIG instance and nothing more."""
    device = parse_device_id(text)
    return device is not None and device.uuid == text


def _int(text: str | None) -> int | None:
    return None if text is None else int(text)


def is_gpu_resource(name: str) -> bool:
    """Whether a resource is a GPU by its name; plugins let administrators rename them, so ids count for more."""
    domain, _, kind = name.lower().partition("/")
    return domain in {"nvidia.com", "nvshare.com"} and kind.startswith(("gpu", "mig-", "vgpu", "pgpu"))
