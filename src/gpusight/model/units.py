"""Units as types, and the only places where one becomes another."""

from typing import NewType

Bytes = NewType("Bytes", int)
MiB = NewType("MiB", float)
Ratio = NewType("Ratio", float)
"""0 to 1; may exceed 1 where a limit can be exceeded."""
Percent = NewType("Percent", float)
"""0 to 100."""
Seconds = NewType("Seconds", float)
Milliseconds = NewType("Milliseconds", float)

_BYTES_PER_MIB = 1024 * 1024


def mib_to_bytes(value: MiB) -> Bytes:
    """Whole bytes; a fraction of a byte cannot be held and is rounded away."""
    return Bytes(round(value * _BYTES_PER_MIB))


def bytes_to_mib(value: Bytes) -> MiB:
    return MiB(value / _BYTES_PER_MIB)


def percent_to_ratio(value: Percent) -> Ratio:
    return Ratio(value / 100)


def ratio_to_percent(value: Ratio) -> Percent:
    return Percent(value * 100)


def seconds_to_ms(value: Seconds) -> Milliseconds:
    return Milliseconds(value * 1000)
