"""The one funnel for NVML calls: what each return code means, what is not asked again, what is not believed."""

import ctypes
from collections.abc import Callable, Mapping
from string import ascii_letters, digits
from typing import Any, Final, Literal, NamedTuple

import pynvml

from gpusight.model.hardware import BackendReason, DownReason


class Consequence(NamedTuple):
    """What follows from a return code."""

    kind: Literal["absent", "refused", "device", "backend"]
    """No value this time; none and not asked again for a while; the device is down; NVML as a whole is down."""
    device: DownReason = "error"
    """The reason where the device itself cannot do without the answer."""
    backend: BackendReason = "error"
    """The reason where NVML as a whole cannot do without it."""


_ABSENT: Final = Consequence("absent")
_REFUSED: Final = Consequence("refused")
_BROKEN: Final = Consequence("device")

CONSEQUENCES: Final[Mapping[int, Consequence]] = {
    pynvml.NVML_SUCCESS: _ABSENT,  # the binding raises it where a list of samples is empty
    pynvml.NVML_ERROR_UNINITIALIZED: Consequence("backend"),
    pynvml.NVML_ERROR_INVALID_ARGUMENT: _REFUSED,
    pynvml.NVML_ERROR_NOT_SUPPORTED: _REFUSED,
    pynvml.NVML_ERROR_NO_PERMISSION: Consequence("refused", "no_permission", "no_permission"),
    pynvml.NVML_ERROR_ALREADY_INITIALIZED: _ABSENT,
    pynvml.NVML_ERROR_NOT_FOUND: _ABSENT,
    pynvml.NVML_ERROR_INSUFFICIENT_SIZE: _ABSENT,  # the list grew between the two calls of the binding
    pynvml.NVML_ERROR_INSUFFICIENT_POWER: _BROKEN,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: Consequence("backend", backend="no_driver"),
    pynvml.NVML_ERROR_TIMEOUT: _ABSENT,
    pynvml.NVML_ERROR_IRQ_ISSUE: _BROKEN,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: Consequence("backend", backend="no_library"),
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: _REFUSED,
    pynvml.NVML_ERROR_CORRUPTED_INFOROM: _REFUSED,  # costs serial and ECC; the device computes on
    pynvml.NVML_ERROR_GPU_IS_LOST: Consequence("device", "lost"),
    pynvml.NVML_ERROR_RESET_REQUIRED: Consequence("device", "reset_required"),
    pynvml.NVML_ERROR_OPERATING_SYSTEM: Consequence("device", "no_permission", "no_permission"),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: Consequence("backend", backend="version_mismatch"),
    pynvml.NVML_ERROR_IN_USE: _ABSENT,
    pynvml.NVML_ERROR_MEMORY: _ABSENT,
    pynvml.NVML_ERROR_NO_DATA: _ABSENT,
    pynvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED: _REFUSED,
    pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES: _ABSENT,
    pynvml.NVML_ERROR_FREQ_NOT_SUPPORTED: _REFUSED,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: _REFUSED,
    pynvml.NVML_ERROR_DEPRECATED: _REFUSED,
    pynvml.NVML_ERROR_NOT_READY: _ABSENT,
    pynvml.NVML_ERROR_GPU_NOT_FOUND: Consequence("device", "lost"),
    pynvml.NVML_ERROR_INVALID_STATE: _ABSENT,
    pynvml.NVML_ERROR_RESET_TYPE_NOT_SUPPORTED: _REFUSED,
    pynvml.NVML_ERROR_UNKNOWN: _BROKEN,
}
"""Every code of nvidia-ml-py; one that is not here takes its device down under its number."""


_LETTERS: Final = frozenset(digits + ascii_letters + "-_.:")
_Key = tuple[str | int, ...]


class DeviceFailed(Exception):  # noqa: N818 - a state, not an error
    """The device cannot be read now."""

    def __init__(self, reason: DownReason, code: int | None = None) -> None:
        super().__init__(f"{reason} (NVML code {code})")
        self.reason: DownReason = reason
        self.code = code


class BackendFailed(Exception):  # noqa: N818 - likewise
    """No device can be read now."""

    def __init__(self, reason: BackendReason, code: int | None, detail: str) -> None:
        super().__init__(detail)
        self.reason: BackendReason = reason
        self.code = code


def is_identity(uuid: str) -> bool:
    """NVML's buffer has 96 bytes with the closing NUL; nothing in a UUID needs escaping anywhere."""
    return 0 < len(uuid) < 96 and _LETTERS.issuperset(uuid)


def consequence(code: int) -> Consequence:
    return CONSEQUENCES.get(code, _BROKEN)


def address(handle: Any) -> int:
    """What a handle points to, which tells devices apart without a call: asking a lost one who it is may block."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def demand(function: str, *args: Any) -> Any:
    """The answer to a question that NVML as a whole must be able to answer."""
    try:
        return getattr(pynvml, function)(*args)
    except pynvml.NVMLError as error:
        raise BackendFailed(consequence(error.value).backend, error.value, f"{function}: {error}") from error


class Calls:
    """The calls on one device or MIG instance."""

    def __init__(self, monotonic: Callable[[], float], refusal_seconds: float = 300.0) -> None:
        self._monotonic = monotonic
        self._refusal_seconds = refusal_seconds
        self._refused: dict[_Key, tuple[float, int | None]] = {}
        self.last_code: int | None = None
        """Why the last question without an answer had none."""
        self.implausible: dict[str, int] = {}
        """How many values of each field were not believed."""

    def attempt(self, function: str, *args: Any, key: _Key | None = None) -> Any:
        """The answer, or None where there is none; raises where the device or NVML as a whole is down.

        `key` says which question it is where the function and its numbers do not: a refusal is remembered by it.
        """
        key = key or _key(function, args)
        if key in self._refused and self._is_fresh(key):
            return None
        try:
            return getattr(pynvml, function)(*args)
        except pynvml.NVMLError as error:
            self._consider(key, error)
        except UnicodeDecodeError:
            self.disbelieve(function)
        except (pynvml.NVMLLibraryMismatchError, AttributeError):  # older than the binding, or the binding than us
            self._refuse(key, None)
        return None

    def first(self, functions: tuple[str, ...], *args: Any) -> Any:
        """The answer of the first of several versions of a function that has one."""
        for function in functions:
            value = self.attempt(function, *args)
            if value is not None:
                return value
        return None

    def demand(self, function: str, *args: Any) -> Any:
        """The answer to a question without which there is no reading at all."""
        try:
            return getattr(pynvml, function)(*args)
        except pynvml.NVMLError as error:
            self._fail(error)
        except UnicodeDecodeError:
            raise DeviceFailed("bad_identity") from None

    def sibling(self) -> "Calls":
        """For a part of the same device: what it refuses is its own, what is not believed counts together."""
        calls = Calls(self._monotonic, self._refusal_seconds)
        calls.implausible = self.implausible
        return calls

    def take_implausible(self) -> dict[str, int]:
        """What was counted since this was last asked."""
        taken = dict(self.implausible)
        self.implausible.clear()
        return taken

    def forget(self) -> None:
        """Ask everything again: the device is not in the mode that it was in."""
        self._refused.clear()

    def believe(self, field: str, value: Any, low: float, high: float) -> Any:
        """The value if it can be true, else None, counted. Never the nearest believable one."""
        if value is None:
            return None
        if low <= value <= high:
            return value
        self.disbelieve(field)
        return None

    def disbelieve(self, field: str) -> None:
        self.implausible[field] = self.implausible.get(field, 0) + 1

    def _is_fresh(self, key: _Key) -> bool:
        until, code = self._refused[key]
        if self._monotonic() < until:
            self.last_code = code
            return True
        del self._refused[key]
        return False

    def _consider(self, key: _Key, error: Any) -> None:
        self.last_code = error.value
        kind = consequence(error.value).kind
        if kind == "refused":
            self._refuse(key, error.value)
        elif kind != "absent":
            self._fail(error)

    def _fail(self, error: Any) -> None:
        outcome = consequence(error.value)
        if outcome.kind == "backend":
            raise BackendFailed(outcome.backend, error.value, str(error)) from error
        raise DeviceFailed(outcome.device, error.value) from error

    def _refuse(self, key: _Key, code: int | None) -> None:
        self._refused[key] = (self._monotonic() + self._refusal_seconds, code)


def _key(function: str, args: tuple[Any, ...]) -> _Key:
    """Which question it is: the function and its numbers, whatever the handles and buffers."""
    return (function, *[arg for arg in args if isinstance(arg, int)])
