"""One piece of work that either side can do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from examples.gpu_ops import cpu, kernels, ntt
from examples.gpu_ops.gpu import Gpu


@dataclass(frozen=True)
class Job:
    """The two ways return equal results, or one of them is wrong."""

    module: str
    title: str
    size: int
    on_cpu: Callable[[], object]
    on_gpu: Callable[[Gpu], object]
    patience: float | None = None
    """Seconds to wait for the GPU; None: as long as for any job."""


def sha256(messages: Sequence[bytes]) -> Job:
    return Job(
        "crypto", "SHA-256", len(messages), partial(cpu.sha256, messages), partial(kernels.sha256, messages=messages)
    )


def keccak256(messages: Sequence[bytes]) -> Job:
    return Job(
        "crypto",
        "Keccak-256",
        len(messages),
        partial(cpu.keccak256, messages),
        partial(kernels.keccak256, messages=messages),
    )


def merkle(leaves: Sequence[bytes]) -> Job:
    return Job(
        "merkle",
        "Merkle tree",
        len(leaves),
        partial(cpu.merkle_nodes, leaves),
        partial(kernels.merkle_nodes, leaves=leaves),
    )


def transform(values: Sequence[int]) -> Job:
    """A forward transform with one field element per constraint."""
    return Job("zk", "NTT", len(values), partial(ntt.forward, values), partial(kernels.forward_ntt, values=values))
