"""Number-theoretic transforms with Python integers: what the GPU's results are compared with."""

from collections.abc import Sequence

from examples.gpu_ops.field import MODULUS, powers, root_of_unity


def padded_size(count: int) -> int:
    """The power of two that holds `count` elements."""
    return 1 << max(count - 1, 0).bit_length()


def pad(values: Sequence[int]) -> list[int]:
    return [*values, *[0] * (padded_size(len(values)) - len(values))]


def forward(values: Sequence[int]) -> list[int]:
    """The polynomial with these coefficients, zero-padded to a power of two, at every root of unity of that order."""
    coefficients = pad(values)
    return _transform(coefficients, root_of_unity(len(coefficients)))


def inverse(values: Sequence[int]) -> list[int]:
    """The coefficients behind the evaluations; undoes `forward`."""
    size = len(values)
    coefficients = _transform(values, pow(root_of_unity(size), -1, MODULUS))
    scale = pow(size, -1, MODULUS)
    return [value * scale % MODULUS for value in coefficients]


def _transform(values: Sequence[int], root: int) -> list[int]:
    size = len(values)
    result = _bit_reversed(values)
    twiddles = powers(root, size // 2)
    half = 1
    while half < size:
        _stage(result, twiddles[:: size // (2 * half)], half)
        half *= 2
    return result


def _stage(values: list[int], twiddles: Sequence[int], half: int) -> None:
    """Merge neighbouring transforms of `half` points, in place."""
    for start in range(0, len(values), 2 * half):
        low = values[start : start + half]
        high = [v * t % MODULUS for v, t in zip(values[start + half : start + 2 * half], twiddles, strict=True)]
        values[start : start + half] = [(a + b) % MODULUS for a, b in zip(low, high, strict=True)]
        values[start + half : start + 2 * half] = [(a - b) % MODULUS for a, b in zip(low, high, strict=True)]


def _bit_reversed(values: Sequence[int]) -> list[int]:
    order = [0]
    step = len(values) // 2
    while step:
        order += [index + step for index in order]
        step //= 2
    return [values[index] for index in order]
