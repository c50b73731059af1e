"""The operations on the CPU: what the GPU is compared with, and what does the work when the GPU cannot."""

import hashlib
from collections.abc import Callable, Sequence
from itertools import pairwise

from examples.gpu_ops import keccak

DIGEST = 32


def _fast_keccak() -> Callable[[bytes], bytes] | None:
    try:
        from Crypto.Hash import keccak as compiled
    except ImportError:
        return None
    return lambda message: bytes(compiled.new(digest_bits=256, data=message).digest())


_compiled_keccak = _fast_keccak()
KECCAK_WITH = "pycryptodome" if _compiled_keccak else "pure Python"
keccak256_one: Callable[[bytes], bytes] = _compiled_keccak or keccak.keccak256


def sha256(messages: Sequence[bytes]) -> list[bytes]:
    return [hashlib.sha256(message).digest() for message in messages]


def keccak256(messages: Sequence[bytes]) -> list[bytes]:
    return [keccak256_one(message) for message in messages]


def level_sizes(leaves: int) -> list[int]:
    """Nodes per level of a Merkle tree, leaves first, root last."""
    sizes = [leaves]
    while sizes[-1] > 1:
        sizes.append((sizes[-1] + 1) // 2)
    return sizes


def merkle_nodes(leaves: Sequence[bytes]) -> list[bytes]:
    """Every node of the tree over 32-byte leaves, level by level, the root last.

    As in Bitcoin, a parent is SHA-256(SHA-256(left || right)) and the last node of an odd level is its own sibling.
    """
    level = list(leaves)
    nodes = list(level)
    for size, parents in pairwise(level_sizes(len(level))):
        if size % 2:
            level.append(level[-1])
        level = [_parent(level[2 * i] + level[2 * i + 1]) for i in range(parents)]
        nodes += level
    return nodes


def _parent(children: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(children).digest()).digest()
