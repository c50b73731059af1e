"""Number-theoretic transforms: the definition on small sizes, the CPU's answers on the GPU."""

from functools import partial
from random import Random

import pytest

from examples.gpu_ops import field, kernels, ntt
from examples.gpu_ops.field import MODULUS
from examples.gpu_ops.gpu import Gpu

EXTREMES = [0, 1, MODULUS - 1, MODULUS - 2, (1 << 254) - 1, 0xFFFF, 1 << 16, MODULUS // 2]


def elements(count: int) -> list[int]:
    rng = Random(1)
    return [rng.randrange(MODULUS) for _ in range(count)]


def by_definition(values: list[int]) -> list[int]:
    root = field.root_of_unity(len(values))
    return [sum(v * pow(root, i * k, MODULUS) for i, v in enumerate(values)) % MODULUS for k in range(len(values))]


@pytest.mark.parametrize("bits", [0, 1, 5, 16, 32])
def test_roots_of_unity_have_their_order(bits: int) -> None:
    root = field.root_of_unity(1 << bits)
    assert pow(root, 1 << bits, MODULUS) == 1
    assert bits == 0 or pow(root, 1 << (bits - 1), MODULUS) == MODULUS - 1


@pytest.mark.parametrize("size", [0, 3, 1 << 33])
def test_there_is_no_root_for_other_sizes(size: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        field.root_of_unity(size)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 32])
def test_forward_is_the_definition(size: int) -> None:
    assert ntt.forward(elements(size)) == by_definition(elements(size))


@pytest.mark.parametrize("count", [1, 2, 3, 100, 1024])
def test_inverse_undoes_forward(count: int) -> None:
    assert ntt.inverse(ntt.forward(elements(count))) == ntt.pad(elements(count))


@pytest.mark.parametrize(("count", "padded"), [(1, 1), (2, 2), (3, 4), (1024, 1024), (1025, 2048), (10_000, 16_384)])
def test_constraints_are_padded_to_a_power_of_two(count: int, padded: int) -> None:
    assert ntt.padded_size(count) == padded


def test_packing_is_little_endian_and_reversible() -> None:
    assert field.pack([1])[:2] == b"\x01\x00"
    assert field.unpack(field.pack(EXTREMES)) == EXTREMES


@pytest.mark.parametrize("count", [1, 2, 3, 64, 100, 128, 129, 1000, 5000])
def test_the_gpu_transforms_as_the_cpu_does(gpu: Gpu, count: int) -> None:
    assert gpu.perform(partial(kernels.forward_ntt, values=elements(count))) == ntt.forward(elements(count))


@pytest.mark.parametrize("value", EXTREMES)
def test_the_gpu_carries_and_borrows_correctly(gpu: Gpu, value: int) -> None:
    """All limbs full, all empty, and one below and above the modulus' edges."""
    values = [value] * 200
    assert gpu.perform(partial(kernels.forward_ntt, values=values)) == ntt.forward(values)


def test_the_gpu_mixes_extremes_correctly(gpu: Gpu) -> None:
    values = [Random(2).choice(EXTREMES) for _ in range(2)] + EXTREMES * 64
    assert gpu.perform(partial(kernels.forward_ntt, values=values)) == ntt.forward(values)
