"""Why work meant for the GPU ends on the CPU."""

from enum import StrEnum


class Reason(StrEnum):
    """The values of the `reason` label this program writes."""

    SHADER_COMPILE = "shader_compile"
    BUFFER_ALLOCATION = "buffer_allocation"
    DEVICE_LOST = "device_lost"
    TIMEOUT = "timeout"
    OTHER = "other"
    BELOW_THRESHOLD = "below_threshold"
    """Routed by design: too small to be worth the transfer."""
    DEVICE_UNAVAILABLE = "device_unavailable"
    """There was no device to try."""


class GpuFailure(Exception):  # noqa: N818 - a failure is an event here, counted and survived
    """The GPU did not do what it was asked for."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def failure_from(error: Exception, step: Reason) -> GpuFailure:
    """What `error` means when it came up in a step that usually fails as `step`."""
    if isinstance(error, GpuFailure):
        return error
    return GpuFailure(_reason_of(error, step), f"{type(error).__name__}: {_gist(error)}")


def _reason_of(error: Exception, step: Reason) -> Reason:
    # wgpu has no exception of its own for a lost device: every call then ends in a validation error saying so.
    if "device is lost" in str(error).lower():
        return Reason.DEVICE_LOST
    if isinstance(error, TimeoutError):
        return Reason.TIMEOUT
    if isinstance(error, MemoryError):
        return Reason.BUFFER_ALLOCATION
    return step


def _gist(error: Exception) -> str:
    """The one line of wgpu's many that says what was wrong."""
    cause = str(error).rpartition("Caused by:")[2]
    lines = [line.strip() for line in cause.splitlines()]
    return next((line for line in lines if line and not line.startswith("In wgpu")), "no message")
