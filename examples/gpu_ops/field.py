"""The scalar field of BLS12-381 and its roots of unity."""

from functools import lru_cache

MODULUS = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
ELEMENT_BYTES = 32
GENERATOR = 7
TWO_ADICITY = 32
"""MODULUS - 1 is an odd number times 2**32, so transforms may have up to 2**32 points."""

MONTGOMERY_RADIX = 1 << (8 * ELEMENT_BYTES)


def root_of_unity(size: int) -> int:
    """A primitive `size`-th root of unity; `size` is a power of two."""
    if size < 1 or size & (size - 1) or size > 1 << TWO_ADICITY:
        raise ValueError(f"no transform of {size} points: the size must be a power of two up to 2**{TWO_ADICITY}")
    return pow(GENERATOR, (MODULUS - 1) // size, MODULUS)


@lru_cache(maxsize=8)
def powers(base: int, count: int) -> tuple[int, ...]:
    """`base` to the powers 0 .. count - 1."""
    result = [1] * count
    for i in range(1, count):
        result[i] = result[i - 1] * base % MODULUS
    return tuple(result)


def to_montgomery(value: int) -> int:
    return value * MONTGOMERY_RADIX % MODULUS


def pack(values: "list[int] | tuple[int, ...]") -> bytes:
    """Field elements as the shaders see them: eight little-endian 32-bit words each."""
    return b"".join([value.to_bytes(ELEMENT_BYTES, "little") for value in values])


def unpack(data: bytes) -> list[int]:
    return [
        int.from_bytes(data[start : start + ELEMENT_BYTES], "little") for start in range(0, len(data), ELEMENT_BYTES)
    ]
