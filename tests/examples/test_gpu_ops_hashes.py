"""SHA-256, Keccak-256 and Merkle trees: published answers on the CPU, the CPU's answers on the GPU."""

from functools import partial
from random import Random

import pytest

from examples.gpu_ops import cpu, kernels
from examples.gpu_ops.gpu import Gpu
from examples.gpu_ops.keccak import RATE, keccak256, pad

SHA256_ANSWERS = {
    b"": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    b"abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq": (
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
    ),
    b"a" * 1_000_000: "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
}
KECCAK256_ANSWERS = {
    b"": "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470",
    b"abc": "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45",
    b"testing": "5f16f4c7f149ac4f9510d9cf8cf384038ad348b3bcdc01915f95de12df9d1b02",
}

# Bitcoin's block 170: the first one with two transactions.
BLOCK_170 = (
    "b1fea52486ce0c62bb442b530a3f0132b826c74e473d1f2c220bfa78111c5082",
    "f4184fc596403b9d638783cf57adfe4c75c605f6356fbc91338530e9831e9e16",
)
BLOCK_170_ROOT = "7dac2c5666815c17a3b36427de37bb9d2e2c5ccec3f8633eb91a4205cb4c10ff"

BOUNDARIES = (0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 134, 135, 136, 137, 271, 272, 273)


def messages_of(lengths: "tuple[int, ...]") -> list[bytes]:
    rng = Random(1)
    return [rng.randbytes(length) for length in lengths]


def leaves(count: int) -> list[bytes]:
    return messages_of((32,) * count)


def backwards(text: str) -> bytes:
    """Bitcoin shows its hashes in reverse."""
    return bytes.fromhex(text)[::-1]


def test_sha256_gives_the_published_answers() -> None:
    """FIPS 180's examples."""
    assert [digest.hex() for digest in cpu.sha256(list(SHA256_ANSWERS))] == list(SHA256_ANSWERS.values())


def test_keccak256_gives_the_published_answers() -> None:
    """Whichever implementation the CPU side found."""
    assert [digest.hex() for digest in cpu.keccak256(list(KECCAK256_ANSWERS))] == list(KECCAK256_ANSWERS.values())


@pytest.mark.parametrize("message", KECCAK256_ANSWERS)
def test_own_keccak256_gives_the_published_answers(message: bytes) -> None:
    assert keccak256(message).hex() == KECCAK256_ANSWERS[message]


@pytest.mark.parametrize("length", BOUNDARIES)
def test_own_keccak256_equals_pycryptodome(length: int) -> None:
    """Around every block boundary, where padding goes wrong first."""
    compiled = pytest.importorskip("Crypto.Hash.keccak", reason="needs pycryptodome")
    (message,) = messages_of((length,))
    assert keccak256(message) == compiled.new(digest_bits=256, data=message).digest()


def test_keccak_padding_fills_whole_blocks() -> None:
    assert {len(pad(bytes(length))) for length in range(2 * RATE)} == {RATE, 2 * RATE}


@pytest.mark.parametrize("answers", [SHA256_ANSWERS, KECCAK256_ANSWERS], ids=["SHA-256", "Keccak-256"])
def test_the_gpu_gives_the_published_answers(gpu: Gpu, answers: dict[bytes, str]) -> None:
    on_gpu = kernels.sha256 if answers is SHA256_ANSWERS else kernels.keccak256
    digests = gpu.perform(partial(on_gpu, messages=list(answers)))
    assert [digest.hex() for digest in digests] == list(answers.values())


def test_the_gpu_hashes_all_lengths_as_the_cpu_does(gpu: Gpu) -> None:
    """In one batch, so that messages of different length stand side by side."""
    messages = messages_of((*BOUNDARIES, *range(300)))
    assert gpu.perform(partial(kernels.sha256, messages=messages)) == cpu.sha256(messages)
    assert gpu.perform(partial(kernels.keccak256, messages=messages)) == cpu.keccak256(messages)


def test_the_gpu_hashes_long_messages_as_the_cpu_does(gpu: Gpu) -> None:
    """Lavapipe leaves loops after 65,535 iterations: with one dispatch per message these digests were wrong."""
    messages = messages_of((200_000, 3, 64 * 64, 64 * 136, 0, 70_000))
    assert gpu.perform(partial(kernels.sha256, messages=messages)) == cpu.sha256(messages)
    assert gpu.perform(partial(kernels.keccak256, messages=messages)) == cpu.keccak256(messages)


def test_an_empty_batch_is_no_work(gpu: Gpu) -> None:
    assert gpu.perform(partial(kernels.sha256, messages=[])) == []


def test_merkle_root_of_a_bitcoin_block() -> None:
    assert cpu.merkle_nodes([backwards(leaf) for leaf in BLOCK_170])[-1] == backwards(BLOCK_170_ROOT)


def test_an_odd_last_node_is_its_own_sibling() -> None:
    a, b, c = leaves(3)
    assert cpu.merkle_nodes([a, b, c])[-1] == cpu.merkle_nodes([a, b, c, c])[-1]


@pytest.mark.parametrize(
    ("count", "sizes"), [(1, [1]), (2, [2, 1]), (5, [5, 3, 2, 1]), (1024, [2**k for k in range(10, -1, -1)])]
)
def test_level_sizes(count: int, sizes: list[int]) -> None:
    assert cpu.level_sizes(count) == sizes


@pytest.mark.parametrize("count", [1, 2, 3, 5, 64, 65, 127, 129, 1000, 1024, 3001])
def test_the_gpu_builds_every_node_of_the_tree(gpu: Gpu, count: int) -> None:
    assert gpu.perform(partial(kernels.merkle_nodes, leaves=leaves(count))) == cpu.merkle_nodes(leaves(count))
