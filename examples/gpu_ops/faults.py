"""Real errors on purpose: nothing is simulated, wgpu itself refuses, and the CPU has to do the work."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from examples.gpu_ops.failures import Reason
from examples.gpu_ops.gpu import Gpu, Kernel
from examples.gpu_ops.jobs import Job

BROKEN_SHADER = """
@compute @workgroup_size(64)
fn main() {
    let whole: u32 = 1.5;
}
"""

SLOW_INVOCATIONS = 1 << 12
SLOW_SHADER = """
@group(0) @binding(0) var<storage, read_write> state: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var x = state[id.x] + id.x + 1u;
    for (var i = 0u; i < 1000000u; i++) {
        x ^= x << 13u;
        x ^= x >> 17u;
        x ^= x << 5u;
    }
    state[id.x] = x;
}
"""


def with_fault(job: Job, fault: Reason) -> Job:
    """The same work, with a GPU that fails at it."""
    patience = 0.001 if fault is Reason.TIMEOUT else None
    return replace(job, on_gpu=partial(FAULTS[fault], job), patience=patience)


def _shader_compile(job: Job, gpu: Gpu) -> object:
    gpu.compile(BROKEN_SHADER, "main")
    return job.on_gpu(gpu)


def _buffer_allocation(job: Job, gpu: Gpu) -> object:
    gpu.free(gpu.allocate(4 * (gpu.largest_buffer // 4 + 1)))
    return job.on_gpu(gpu)


def _device_lost(job: Job, gpu: Gpu) -> object:
    gpu.lose()
    return job.on_gpu(gpu)


def _timeout(job: Job, gpu: Gpu) -> object:
    with gpu.memory() as memory:
        state = memory.empty(4 * SLOW_INVOCATIONS)
        gpu.run([Kernel(SLOW_SHADER, "main", {0: state}, SLOW_INVOCATIONS)], result=state)
    return job.on_gpu(gpu)


FAULTS: dict[Reason, Callable[[Job, Gpu], object]] = {
    Reason.SHADER_COMPILE: _shader_compile,
    Reason.BUFFER_ALLOCATION: _buffer_allocation,
    Reason.DEVICE_LOST: _device_lost,
    Reason.TIMEOUT: _timeout,
}
