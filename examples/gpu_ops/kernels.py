"""The operations on the GPU: what goes into which buffer, and which shaders run over it."""

import struct
from collections.abc import Sequence
from functools import cache, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from examples.gpu_ops import field, keccak, ntt
from examples.gpu_ops.cpu import DIGEST, level_sizes
from examples.gpu_ops.gpu import Buffer, Gpu, Kernel, Memory

SHADERS = Path(__file__).parent / "shaders"
SHA256_BLOCK = 64

BLOCKS_PER_TURN = 64
"""Blocks of a message that one dispatch absorbs.

Lavapipe silently leaves all loops of an invocation after 65,535 iterations in total, which gives a wrong digest for a
message of 60 kB; and the watchdog of a real GPU ends dispatches that take seconds.
"""


class Hashing(NamedTuple):
    """A hash function's shaders, and its block and state sizes in bytes; a digest is the head of a final state."""

    shaders: tuple[str, ...]
    block: int
    state: int


SHA256 = Hashing(("sha256", "sha256_batch"), block=SHA256_BLOCK, state=DIGEST)
KECCAK256 = Hashing(("keccak",), block=keccak.RATE, state=200)


@cache
def shader(*names: str) -> str:
    """The sources of these files, one after the other."""
    return "\n".join((SHADERS / f"{name}.wgsl").read_text(encoding="utf-8") for name in names)


def sha256(gpu: Gpu, messages: Sequence[bytes]) -> list[bytes]:
    return _hash(gpu, SHA256, [_sha256_padded(message) for message in messages])


def keccak256(gpu: Gpu, messages: Sequence[bytes]) -> list[bytes]:
    return _hash(gpu, KECCAK256, [keccak.pad(message) for message in messages])


def merkle_nodes(gpu: Gpu, leaves: Sequence[bytes]) -> list[bytes]:
    """Every node of the tree, as `cpu.merkle_nodes` gives them."""
    sizes = level_sizes(len(leaves))
    if len(sizes) == 1:
        return list(leaves)
    with gpu.memory() as memory:
        nodes = memory.empty(sum(sizes) * DIGEST)
        gpu.write(nodes, b"".join(leaves))
        kernels = _merkle_kernels(memory, nodes, sizes)
        return _digests(gpu.run(kernels, result=nodes))


def forward_ntt(gpu: Gpu, values: Sequence[int]) -> list[int]:
    """The transform, as `ntt.forward` gives it."""
    coefficients = ntt.pad(values)
    if len(coefficients) == 1:
        return coefficients
    with gpu.memory() as memory:
        kernels, result = _ntt_kernels(gpu, memory, coefficients)
        return field.unpack(gpu.run(kernels, result))


def _hash(gpu: Gpu, hashing: Hashing, padded: Sequence[bytes]) -> list[bytes]:
    if not padded:
        return []
    counts = [len(message) // hashing.block for message in padded]
    with gpu.memory() as memory:
        blocks = memory.filled(b"".join(padded))
        spans = memory.filled(_spans(counts))
        states = memory.empty(len(padded) * hashing.state)
        kernels = [
            Kernel(shader(*hashing.shaders), "absorb", {0: blocks, 1: spans, 2: states, 3: turn}, len(padded))
            for turn in memory.parameters(_turns(max(counts)))
        ]
        return _digests(gpu.run(kernels, result=states), stride=hashing.state)


def _spans(block_counts: Sequence[int]) -> bytes:
    """(first block, number of blocks) of each message."""
    firsts = accumulate(block_counts, initial=0)
    return b"".join([struct.pack("<2I", first, count) for first, count in zip(firsts, block_counts, strict=False)])


def _turns(most_blocks: int) -> list[bytes]:
    """(begin, end) of the blocks that each dispatch absorbs."""
    return [struct.pack("<2I", begin, begin + BLOCKS_PER_TURN) for begin in range(0, most_blocks, BLOCKS_PER_TURN)]


def _sha256_padded(message: bytes) -> bytes:
    zeros = -(len(message) + 9) % SHA256_BLOCK
    return message + b"\x80" + bytes(zeros) + struct.pack(">Q", 8 * len(message))


def _digests(data: bytes, stride: int = DIGEST) -> list[bytes]:
    return [data[start : start + DIGEST] for start in range(0, len(data), stride)]


def _merkle_kernels(memory: Memory, nodes: Buffer, sizes: Sequence[int]) -> list[Kernel]:
    firsts = list(accumulate(sizes[:-1], initial=0))
    levels = [
        struct.pack("<4I", firsts[i], children, firsts[i + 1], parents)
        for i, (children, parents) in enumerate(pairwise(sizes))
    ]
    return [
        Kernel(shader("sha256", "merkle"), "hash_level", {0: nodes, 1: level}, parents)
        for level, parents in zip(memory.parameters(levels), sizes[1:], strict=True)
    ]


def _ntt_kernels(gpu: Gpu, memory: Memory, coefficients: list[int]) -> tuple[list[Kernel], Buffer]:
    size = len(coefficients)
    butterflies = size // 2
    bits = size.bit_length() - 1
    source = shader("field", "ntt")
    given = memory.filled(field.pack(coefficients))
    values = memory.empty(given.size)
    twiddles = gpu.resident(("twiddles", size), partial(_twiddles, size))
    stages = memory.parameters(
        [struct.pack("<4I", 1 << stage, butterflies >> stage, butterflies, bits) for stage in range(bits)]
    )
    reorder = Kernel(source, "reorder", {0: values, 1: stages[0], 3: given}, size)
    merge = [Kernel(source, "butterfly", {0: values, 1: stage, 2: twiddles}, butterflies) for stage in stages]
    return [reorder, *merge], values


def _twiddles(size: int) -> bytes:
    powers = field.powers(field.root_of_unity(size), size // 2)
    return field.pack([field.to_montgomery(power) for power in powers])
