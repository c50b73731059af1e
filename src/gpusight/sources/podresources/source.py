"""The kubelet's pod-resources socket as a source: read() always answers, with grants or with the reason why not."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gpusight.model.ownership import ClaimGrant, DeviceGrant
from gpusight.model.time import Clock
from gpusight.sources.podresources.proto import BadMessage, Grants, parse_list

if TYPE_CHECKING:
    from gpusight.sources.podresources.grpc import CallFailure

LIST = "/v1.PodResourcesLister/List"
LARGEST_ANSWER = 16 << 20

KubeletReason = Literal["", "no_socket", "no_permission", "not_answering", "not_supported", "refused", "bad_answer"]
"""Why there are no grants; empty while there are."""

_REASONS: "dict[CallFailure, KubeletReason]" = {
    "no_socket": "no_socket",
    "no_permission": "no_permission",
    "refused": "not_answering",
    "timeout": "not_answering",
    "disconnected": "not_answering",
    "status": "refused",
}


@dataclass(frozen=True, slots=True)
class KubeletReading:
    """What the kubelet said at one instant."""

    taken_at: float
    is_up: bool
    reason: KubeletReason = ""
    detail: str = ""
    devices: tuple[DeviceGrant, ...] = ()
    claims: tuple[ClaimGrant, ...] = ()


class PodResources:
    """Asks the kubelet behind one socket, `/var/lib/kubelet/pod-resources/kubelet.sock` as a rule."""

    def __init__(self, socket: Path, clock: Clock, within: float = 2.0, largest: int = LARGEST_ANSWER) -> None:
        self._socket = socket
        self._clock = clock
        self._within = within
        self._largest = largest

    def read(self) -> KubeletReading:
        """Blocks for at most `within` seconds."""
        try:
            if not self._socket.exists():  # so that a machine without a kubelet never loads the HTTP/2 package
                return self._down("no_socket", f"{self._socket} does not exist")
        except OSError as error:
            return self._down("no_permission", f"{self._socket}: {error.strerror}")
        return self._ask()

    def _ask(self) -> KubeletReading:
        from gpusight.sources.podresources.grpc import CallError, call  # noqa: PLC0415  (1.4 MiB, see above)

        try:
            path = str(self._socket)
            answer = call(path, LIST, b"", within=self._within, largest=self._largest, clock=self._clock)
            return self._up(parse_list(answer))
        except CallError as error:
            reason = "not_supported" if error.code == "UNIMPLEMENTED" else _REASONS.get(error.reason, "bad_answer")
            return self._down(reason, str(error))
        except BadMessage as error:
            return self._down("bad_answer", f"the answer cannot be read: {error}")

    def _up(self, grants: Grants) -> KubeletReading:
        return KubeletReading(self._clock.now(), is_up=True, devices=grants.devices, claims=grants.claims)

    def _down(self, reason: KubeletReason, detail: str) -> KubeletReading:
        return KubeletReading(self._clock.now(), is_up=False, reason=reason, detail=detail)
