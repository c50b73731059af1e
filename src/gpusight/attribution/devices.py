"""The devices of a node as a table to look ids up in."""

from collections import defaultdict
from typing import NamedTuple

from gpusight.attribution.device_ids import DeviceId, is_uuid
from gpusight.model.hardware import HardwareSnapshot
from gpusight.model.ownership import JoinFailure


class Part(NamedTuple):
    """A whole GPU, or one MIG instance of it."""

    gpu: str
    mig: str | None = None


class Devices:
    """What the hardware reading names. With no reading at all, a UUID is taken at its word."""

    def __init__(self, hardware: HardwareSnapshot) -> None:
        self._is_blind = not hardware.is_up
        self._by_uuid: dict[str, Part] = {}
        self._by_minor: dict[int, str] = {}
        self._by_instance: dict[tuple[str, int, int | None], list[str]] = defaultdict(list)
        for down in hardware.down:
            if down.uuid:
                self._by_uuid[down.uuid] = Part(down.uuid)
        for gpu in hardware.gpus:
            self._by_uuid[gpu.uuid] = Part(gpu.uuid)
            self._by_minor[gpu.index if gpu.minor_number is None else gpu.minor_number] = gpu.uuid
            for mig in gpu.mig:
                self._by_uuid[mig.uuid] = Part(gpu.uuid, mig.uuid)
                self._by_instance[gpu.uuid, mig.gpu_instance_id, mig.compute_instance_id].append(mig.uuid)
                self._by_instance[gpu.uuid, mig.gpu_instance_id, None].append(mig.uuid)

    def named(self, uuid: str) -> Part | None:
        part = self._by_uuid.get(uuid)
        if part is None and self._is_blind and is_uuid(uuid):
            return Part("", uuid) if uuid.startswith("MIG-") else Part(uuid)
        return part

    def instance(self, gpu: str, gpu_instance_id: int, compute_instance_id: int | None) -> str | None:
        """The MIG instance with these ids, if they name exactly one."""
        found = self._by_instance.get((gpu, gpu_instance_id, compute_instance_id), ())
        return found[0] if len(found) == 1 else None

    def resolve(self, device: DeviceId) -> Part | JoinFailure:
        uuid = device.uuid if device.minor is None else self._by_minor.get(device.minor)
        part = self.named(uuid) if uuid else None
        if part is None:
            return "unknown_device_id"
        if device.gpu_instance_id is None:
            return part
        mig = self.instance(part.gpu, device.gpu_instance_id, device.compute_instance_id)
        return part._replace(mig=mig) if mig else "unknown_device_id"
