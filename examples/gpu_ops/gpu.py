"""A GPU through wgpu: opening it, compiling shaders, tracking buffers, running kernels, all failures named."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from examples.gpu_ops.failures import GpuFailure, Reason, failure_from
from examples.gpu_ops.worker import Worker

_Result = TypeVar("_Result")

WORKGROUP = 64
"""Invocations per workgroup, as every shader here declares."""

STORAGE = "STORAGE|COPY_SRC|COPY_DST"
UNIFORM = "UNIFORM|COPY_DST"
STAGING = "MAP_READ|COPY_DST"

UNIFORM_STRIDE = 256
"""Distance of the parameter blocks in one uniform buffer: the largest alignment any device may ask for."""


@dataclass(frozen=True)
class Adapter:
    """What is known about the device before any work."""

    name: str
    kind: str
    backend: str
    driver: str

    @property
    def device(self) -> str:
        """The device label's value."""
        return "GPU-0:" + self.name.split(" (")[0].replace(" ", "-")

    @property
    def is_cpu(self) -> bool:
        return self.kind.upper() == "CPU"


@dataclass(frozen=True)
class Buffer:
    """A range of device memory."""

    raw: Any
    offset: int
    size: int

    def part(self, offset: int, size: int) -> "Buffer":
        return Buffer(self.raw, self.offset + offset, size)


@dataclass(frozen=True)
class Kernel:
    """One dispatch: a shader's entry point over numbered buffers."""

    source: str
    entry_point: str
    bindings: Mapping[int, Buffer]
    invocations: int


class Gpu:
    """An open device. Its worker thread does what `perform` is given, and nothing else may call the other methods.

    wgpu-native ends the whole process when one thread reads a buffer that another one has just destroyed.
    """

    def __init__(self, wgpu: Any, adapter: Any, timeout: float, on_memory: Callable[[int], None]) -> None:
        self._wgpu = wgpu
        self._device = adapter.request_device_sync(label="gpu_ops")
        self._on_memory = on_memory
        self._pipelines: dict[tuple[str, str], Any] = {}
        self._resident: dict[object, Buffer] = {}
        self.adapter = _describe(adapter)
        self.memory_used = 0
        self._timeout = timeout
        self._worker = Worker("gpu")

    @classmethod
    def open(cls, timeout: float = 10.0, on_memory: Callable[[int], None] = lambda _used: None) -> "Gpu":
        """The most powerful adapter's device; GpuFailure says why there is none."""
        try:
            wgpu = _wgpu()
            adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
            return cls(wgpu, adapter, timeout, on_memory)
        except Exception as error:
            raise failure_from(error, Reason.DEVICE_UNAVAILABLE) from error

    @property
    def largest_buffer(self) -> int:
        return int(self._device.limits["max-buffer-size"])

    def perform(self, work: Callable[["Gpu"], _Result], timeout: float | None = None) -> _Result:
        """Let the worker do it; any error is a GpuFailure, also that it takes longer than `timeout` seconds."""
        with _step(Reason.OTHER):
            return self._worker.call(lambda: work(self), self._timeout if timeout is None else timeout)

    def close(self) -> None:
        """Give up the device, and the worker once it comes back."""
        with suppress(GpuFailure):
            self.perform(Gpu.lose)
        self._worker.stop()

    def lose(self) -> None:
        """Destroy the device: every later call fails with DEVICE_LOST."""
        self._device.destroy()
        self._resident.clear()
        self._account(-self.memory_used)

    @contextmanager
    def memory(self) -> Iterator["Memory"]:
        """Buffers that live as long as the block."""
        memory = Memory(self)
        try:
            yield memory
        finally:
            memory.free()

    def resident(self, key: object, content: Callable[[], bytes]) -> Buffer:
        """A read-only table uploaded once and kept."""
        if key not in self._resident:
            self._resident[key] = self.upload(content())
        return self._resident[key]

    def allocate(self, size: int, usage: str = STORAGE) -> Buffer:
        with _step(Reason.BUFFER_ALLOCATION):
            raw = self._device.create_buffer(size=size, usage=usage)
        self._account(size)
        return Buffer(raw, 0, size)

    def upload(self, data: bytes, usage: str = STORAGE) -> Buffer:
        buffer = self.allocate(len(data), usage)
        self.write(buffer, data)
        return buffer

    def write(self, buffer: Buffer, data: bytes) -> None:
        with _step(Reason.OTHER):
            self._device.queue.write_buffer(buffer.raw, buffer.offset, data)

    def free(self, buffer: Buffer) -> None:
        with _step(Reason.OTHER):
            buffer.raw.destroy()
        self._account(-buffer.size)

    def run(self, kernels: Sequence[Kernel], result: Buffer) -> bytes:
        """Run the kernels one after the other; what `result` holds then."""
        pipelines = [self._pipeline(kernel) for kernel in kernels]
        with self.memory() as memory:
            staging = memory.empty(result.size, STAGING)
            with _step(Reason.OTHER):
                encoder = self._device.create_command_encoder()
                self._encode(encoder, kernels, pipelines)
                encoder.copy_buffer_to_buffer(result.raw, result.offset, staging.raw, 0, result.size)
                self._device.queue.submit([encoder.finish()])
                return self._read(staging)

    def compile(self, source: str, entry_point: str) -> Any:
        with _step(Reason.SHADER_COMPILE):
            module = self._device.create_shader_module(code=source)
            return self._device.create_compute_pipeline(
                layout="auto", compute={"module": module, "entry_point": entry_point}
            )

    def _pipeline(self, kernel: Kernel) -> Any:
        key = (kernel.source, kernel.entry_point)
        if key not in self._pipelines:
            self._pipelines[key] = self.compile(*key)
        return self._pipelines[key]

    def _encode(self, encoder: Any, kernels: Sequence[Kernel], pipelines: Sequence[Any]) -> None:
        compute = encoder.begin_compute_pass()
        for kernel, pipeline in zip(kernels, pipelines, strict=True):
            compute.set_pipeline(pipeline)
            compute.set_bind_group(0, self._bind(pipeline, kernel.bindings))
            compute.dispatch_workgroups(-(-kernel.invocations // WORKGROUP))
        compute.end()

    def _bind(self, pipeline: Any, bindings: Mapping[int, Buffer]) -> Any:
        entries = [
            {"binding": number, "resource": {"buffer": part.raw, "offset": part.offset, "size": part.size}}
            for number, part in bindings.items()
        ]
        return self._device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)

    def _read(self, staging: Buffer) -> bytes:
        staging.raw.map_sync(self._wgpu.MapMode.READ)
        return bytes(staging.raw.read_mapped())

    def _account(self, change: int) -> None:
        self.memory_used = max(0, self.memory_used + change)
        self._on_memory(self.memory_used)


class Memory:
    """The buffers of one run."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._buffers: list[Buffer] = []

    def empty(self, size: int, usage: str = STORAGE) -> Buffer:
        return self._kept(self._gpu.allocate(size, usage))

    def filled(self, data: bytes) -> Buffer:
        return self._kept(self._gpu.upload(data))

    def parameters(self, blocks: Sequence[bytes]) -> list[Buffer]:
        """One uniform buffer; each block a binding of its own."""
        data = b"".join(block.ljust(UNIFORM_STRIDE, b"\0") for block in blocks)
        buffer = self._kept(self._gpu.upload(data, "UNIFORM|COPY_DST"))
        return [buffer.part(i * UNIFORM_STRIDE, len(block)) for i, block in enumerate(blocks)]

    def free(self) -> None:
        while self._buffers:
            self._gpu.free(self._buffers.pop())

    def _kept(self, buffer: Buffer) -> Buffer:
        self._buffers.append(buffer)
        return buffer


def _wgpu() -> Any:
    wgpu = import_module("wgpu")
    # Whatever goes wrong is raised too. Not before the import: wgpu refuses to load if its logger exists already.
    logging.getLogger("wgpu").setLevel(logging.CRITICAL)
    return wgpu


def _describe(adapter: Any) -> Adapter:
    info = adapter.info
    return Adapter(
        name=str(info["device"]),
        kind=str(info["adapter_type"]),
        backend=str(info["backend_type"]).lower(),
        driver=str(info["description"]),
    )


@contextmanager
def _step(usual: Reason) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise failure_from(error, usual) from error
