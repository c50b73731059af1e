"""Keccak-256 in plain Python: the original Keccak padding, which hashlib's SHA-3 does not use."""

RATE = 136
"""Bytes absorbed per permutation: 1600 bits of state less twice the 256 bits of output."""

ROUNDS = 24
_MASK = (1 << 64) - 1


def pad(message: bytes) -> bytes:
    """Fill up to whole blocks: a one bit first, a one bit last."""
    gap = RATE - len(message) % RATE
    if gap == 1:
        return message + b"\x81"
    return message + b"\x01" + bytes(gap - 2) + b"\x80"


def keccak256(message: bytes) -> bytes:
    lanes = [0] * 25
    padded = pad(message)
    for start in range(0, len(padded), RATE):
        for i in range(RATE // 8):
            lanes[i] ^= int.from_bytes(padded[start + 8 * i : start + 8 * i + 8], "little")
        lanes = _permute(lanes)
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[:4])


def _round_constants() -> tuple[int, ...]:
    """The bits of a linear feedback shift register, placed at the bit positions 2**j - 1 of each round's word."""
    register = 1
    constants = []
    for _ in range(ROUNDS):
        word = 0
        for j in range(7):
            word |= (register & 1) << ((1 << j) - 1)
            register = (register << 1) ^ (0x171 if register & 0x80 else 0)
        constants.append(word)
    return tuple(constants)


def _walk() -> tuple[tuple[int, int], ...]:
    x, y = 1, 0
    steps = []
    for t in range(24):
        steps.append((x + 5 * y, (t + 1) * (t + 2) // 2 % 64))
        x, y = y, (2 * x + 3 * y) % 5
    return tuple(steps)


ROUND_CONSTANTS = _round_constants()
WALK = _walk()
"""The 24 lanes in the order in which pi moves each to the next, with the rotation rho gives it on the way."""


def _rotate(lane: int, by: int) -> int:
    return (lane << by | lane >> (64 - by)) & _MASK


def _permute(lanes: list[int]) -> list[int]:
    for constant in ROUND_CONSTANTS:
        lanes = _chi(_rho_pi(_theta(lanes)))
        lanes[0] ^= constant
    return lanes


def _theta(a: list[int]) -> list[int]:
    columns = [a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20] for x in range(5)]
    mix = [columns[(x + 4) % 5] ^ _rotate(columns[(x + 1) % 5], 1) for x in range(5)]
    return [lane ^ mix[i % 5] for i, lane in enumerate(a)]


def _rho_pi(a: list[int]) -> list[int]:
    moved = [a[0]] * 25
    for i, (lane, rotation) in enumerate(WALK):
        moved[WALK[(i + 1) % 24][0]] = _rotate(a[lane], rotation)
    return moved


def _chi(a: list[int]) -> list[int]:
    return [a[i] ^ (~a[i - i % 5 + (i + 1) % 5] & a[i - i % 5 + (i + 2) % 5]) for i in range(25)]
