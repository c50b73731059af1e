"""The library that is not there: ctypes callbacks for a table of functions, with handles, errors and faults.

Traps, all met: every pointer parameter is c_void_p and cast inside, for callers pass struct classes of their own; an
exception cannot cross C (ctypes would print it and return success); nvmlErrorString must return the address of a
buffer that is kept.
"""

import ctypes
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import c_char_p, c_int, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import Any, Final, NamedTuple

import pynvml

from gpusight.simulate.faults import RETURN_CODES
from gpusight.simulate.fleet import MigInstance, SimGpu
from gpusight.simulate.spec import Fault
from gpusight.simulate.state import GpuState, SimulatedNode

NOT_SUPPORTED: Final[int] = pynvml.NVML_ERROR_NOT_SUPPORTED
INVALID: Final[int] = pynvml.NVML_ERROR_INVALID_ARGUMENT
NOT_FOUND: Final[int] = pynvml.NVML_ERROR_NOT_FOUND
TOO_SMALL: Final[int] = pynvml.NVML_ERROR_INSUFFICIENT_SIZE
UNINITIALIZED: Final[int] = pynvml.NVML_ERROR_UNINITIALIZED
LOST: Final[int] = pynvml.NVML_ERROR_GPU_IS_LOST
UNKNOWN: Final[int] = pynvml.NVML_ERROR_UNKNOWN
NO_INSTANCE: Final = 0xFFFF_FFFF
"""What NVML gives as instance id where there is none."""
WAIT_STEP_SECONDS: Final = 0.02
"""A blocked or waiting call looks up this often."""

_SUCCESS: Final = 0
_TYPES: Final = {"d": c_void_p, "p": c_void_p, "u": c_uint, "U": c_ulonglong, "i": c_int}
_ERROR_TEXTS: Final = {
    0: "Success", 1: "Uninitialized", 2: "Invalid Argument", 3: "Not Supported", 4: "Insufficient Permissions",
    6: "Not Found", 7: "Insufficient Size", 9: "Driver Not Loaded", 10: "Timeout", 13: "Function Not Found",
    15: "GPU is lost", 16: "GPU requires reset", 18: "Driver/library version mismatch", 25: "Argument version mismatch",
    999: "Unknown Error",
}  # fmt: skip


class Refused(Exception):  # noqa: N818 - a return code, not an error
    """The call returns this code and writes nothing."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Device:
    """What a device handle stands for: a device, or an instance of one."""

    handle: int
    node: SimulatedNode
    gpu: SimGpu
    instance: MigInstance | None = None

    @property
    def is_unplugged(self) -> bool:
        return self.node.plan().is_active("unplugged", self.gpu.index, self.node.seconds())


def _handles(number: int, node: SimulatedNode, gpu: SimGpu) -> Iterator[Device]:
    """The device itself, then its instances."""
    base = 0x5500_0000 + number * 0x1000
    yield Device(base, node, gpu)
    for instance in gpu.mig or ():
        yield Device(base + 0x10 * (instance.index + 1), node, gpu, instance)


class Call(NamedTuple):
    """What a function does. Its signature has a letter per parameter: d(evice), p(ointer), u(int), U(int64), i(nt)."""

    signature: str
    run: Callable[..., int | None]
    """Gets the library and the parameters, a device handle as its `Device`; returns a code, or None for success."""
    on_instances: bool = False
    """Whether a MIG handle may ask."""
    needs_init: bool = True


class CallTable(dict[str, Call]):
    """Functions by name."""

    def add(
        self, signature: str, *names: str, on_instances: bool = False, needs_init: bool = True
    ) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
        """Make this what the named functions do."""

        def register(run: Callable[..., int | None]) -> Callable[..., int | None]:
            self.update(dict.fromkeys(names, Call(signature, run, on_instances, needs_init)))
            return run

        return register


class Library:
    """What `pynvml.nvmlLib` is set to: one attribute for each function that this driver has.

    The devices of several nodes stand one node after the other. They keep their numbers then: one that is unplugged is
    lost, while a single node counts anew without it.
    """

    def __init__(self, nodes: Sequence[SimulatedNode], table: Mapping[str, Call]) -> None:
        self.nodes = nodes
        self.is_closed = False
        self.inits = 0
        self.lock = Lock()
        placed = enumerate((node, gpu) for node in nodes for gpu in node.placed.gpus)
        families = [tuple(_handles(number, node, gpu)) for number, (node, gpu) in placed]
        self.whole = tuple(family[0] for family in families)
        """The devices themselves, without instances."""
        self.instances = {family[0].handle: family[1:] for family in families}
        self.devices = {device.handle: device for family in families for device in family}
        self.objects: dict[int, Any] = {}
        """GPM samples and event sets by handle."""
        self._numbers = count(0x7F00_0000, 0x10)
        self._texts = {code: ctypes.create_string_buffer(text.encode()) for code, text in _ERROR_TEXTS.items()}
        for name, call in table.items():
            setattr(self, name, self._callback(name, call))
        self.nvmlErrorString = ctypes.CFUNCTYPE(c_void_p, c_uint)(self._error_text)

    def gpu(self, device: Device) -> GpuState:
        return device.node.gpu(device.gpu.index)

    def visible(self) -> Sequence[Device]:
        """The devices that are still plugged in, in the order of their indexes."""
        if len(self.nodes) > 1:
            return self.whole
        return [device for device in self.whole if not device.is_unplugged]

    def keep(self, thing: Any) -> int:
        """A handle for the thing."""
        number = next(self._numbers)
        self.objects[number] = thing
        return number

    def kept(self, kind: type, number: int | None) -> Any:
        thing = self.objects.get(number or 0)
        if not isinstance(thing, kind):
            raise Refused(INVALID)
        return thing

    def meet_fault(self, device: Device | None, function: str) -> None:
        """Do to this call what its fault says; a call without a device is one to the whole of the (first) node."""
        fault = self._fault(device, function)
        if fault is None:
            return
        if fault.kind == "crash":
            os.abort()
        if fault.kind == "block":
            self._block(fault, device, function)
            return
        raise Refused(fault.code or UNKNOWN if fault.kind == "error" else RETURN_CODES[fault.kind])

    def refusal(self, device: Device) -> int | None:
        """What every call on the device returns for as long as it is not there, or its node has no driver."""
        if device.is_unplugged:
            return LOST
        return device.node.plan().of_init(device.node.seconds()) if len(self.nodes) > 1 else None

    def _fault(self, device: Device | None, function: str) -> Fault | None:
        if device is None:
            return self.nodes[0].plan().of_call(self.nodes[0].seconds(), None, function)
        plan = device.node.plan()
        return plan.of_call(device.node.seconds(), device.gpu.index, function) if plan.on_calls else None

    def _block(self, fault: Fault, device: Device | None, function: str) -> None:
        """Sleep without the interpreter lock, as a call stuck in the kernel does, until the fault goes away."""
        for _ in range(int(fault.seconds / WAIT_STEP_SECONDS)):
            time.sleep(WAIT_STEP_SECONDS)
            now = self._fault(device, function)
            if self.is_closed or now is None or now.kind != "block":
                return

    def _error_text(self, code: int) -> int:
        return ctypes.addressof(self._texts.get(code, self._texts[UNKNOWN]))

    def _callback(self, name: str, call: Call) -> Any:
        run = self._on_device if call.signature.startswith("d") else self._on_node

        def answer(*arguments: Any) -> int:
            try:
                if call.needs_init and not self.inits:
                    return UNINITIALIZED
                return run(name, call, *arguments) or _SUCCESS
            except Refused as refused:
                return refused.code
            except Exception:
                return UNKNOWN

        return ctypes.CFUNCTYPE(c_uint, *(_TYPES[letter] for letter in call.signature))(answer)

    def _on_node(self, name: str, call: Call, *arguments: Any) -> int | None:
        self.meet_fault(None, name)
        return call.run(self, *arguments)

    def _on_device(self, name: str, call: Call, handle: int | None, *arguments: Any) -> int | None:
        device = need(self.devices.get(handle or 0), INVALID)
        self.meet_fault(device, name)
        if refusal := self.refusal(device):
            return refusal
        if device.instance is not None and not call.on_instances:
            return NOT_SUPPORTED
        return call.run(self, device, *arguments)


def need(value: Any, code: int = NOT_SUPPORTED) -> Any:
    """The value; without one the call is refused."""
    if value is None:
        raise Refused(code)
    return value


def put(kind: Any, address: int | None, value: float) -> None:
    kind.from_address(need(address, INVALID)).value = value


def put_text(address: int | None, size: int, text: str) -> None:
    data = text.encode() + b"\0"
    if len(data) > size:
        raise Refused(TOO_SMALL)
    ctypes.memmove(need(address, INVALID), data, len(data))


def put_list(entry: Any, size: int, out: int | None, fill: Callable[[Any, Any], None], items: list[Any]) -> int | None:
    """NVML's way with lists: asked first for the number (no buffer, or a short one), then for the entries."""
    room = c_uint.from_address(need(size, INVALID))
    given, room.value = room.value, len(items)
    if items and (out is None or given < len(items)):
        return TOO_SMALL
    for target, item in zip((entry * len(items)).from_address(out) if items else (), items, strict=True):
        fill(target, item)
    return None


def text_at(address: int | None) -> str:
    return (c_char_p(need(address, INVALID)).value or b"").decode("utf-8", "replace")


def struct_at(kind: Any, address: int | None, version: int | None = None) -> Any:
    """The caller's struct, whose version it must have set."""
    struct = kind.from_address(need(address, INVALID))
    if version is not None and struct.version != version:
        raise Refused(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
    return struct
