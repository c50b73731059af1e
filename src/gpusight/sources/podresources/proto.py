"""The kubelet's `ListPodResourcesResponse` (v1), read with a small protocol buffers reader of our own.

The bytes may be anything: every length is checked against what is there, the number of fields is bounded, fields that
we do not know are skipped, and whatever makes no sense is a BadMessage. Everything that we look for is text or a nested
message, that is, length-delimited; processor ids, memory blocks and topology are passed over.
"""

from collections.abc import Iterator
from typing import NamedTuple

from gpusight.model.ownership import ClaimGrant, DeviceGrant

MOST_FIELDS = 100_000
"""Fields in one answer; a node with 250 pods and 8 shared GPUs has some 10,000."""
_LONGEST_TEXT = 4096
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}
_LAST_FIELD_NUMBER = (1 << 29) - 1

_Message = dict[int, list[memoryview]]


class BadMessage(ValueError):  # noqa: N818  (it names the thing)
    """These bytes are no such message."""


class Grants(NamedTuple):
    """What the kubelet handed out."""

    devices: tuple[DeviceGrant, ...] = ()
    claims: tuple[ClaimGrant, ...] = ()


class _Reader:
    """Takes messages apart while the budget of fields lasts."""

    def __init__(self, most_fields: int) -> None:
        self._left = most_fields

    def read(self, data: memoryview) -> _Message:
        """The length-delimited fields of a message by number, in their order."""
        message: _Message = {}
        at = 0
        while at < len(data):
            self._left -= 1
            if self._left < 0:
                raise BadMessage("more fields than any node has")
            key, at = _varint(data, at)
            at = self._field(key, data, at, message)
        return message

    def _field(self, key: int, data: memoryview, at: int, message: _Message) -> int:
        number, kind = key >> 3, key & 7
        if not 1 <= number <= _LAST_FIELD_NUMBER:
            raise BadMessage(f"a field with the impossible number {number}")
        if kind == _VARINT:
            return _varint(data, at)[1]
        if kind == _DELIMITED:
            size, at = _varint(data, at)
            message.setdefault(number, []).append(_piece(data, at, size))
            return at + size
        if kind in _FIXED_SIZES:
            return at + len(_piece(data, at, _FIXED_SIZES[kind]))
        raise BadMessage(f"a field of the unknown kind {kind}")

    def nested(self, message: _Message, number: int) -> Iterator[_Message]:
        for data in message.get(number, ()):
            yield self.read(data)


def parse_list(data: bytes, most_fields: int = MOST_FIELDS) -> Grants:
    """The grants of all containers; a device named twice (once per NUMA node) counts once."""
    reader = _Reader(most_fields)
    devices: dict[DeviceGrant, None] = {}
    claims: dict[ClaimGrant, None] = {}
    for pod in reader.nested(reader.read(memoryview(data)), 1):
        name, namespace = _text(pod, 1), _text(pod, 2)
        for container in reader.nested(pod, 3):
            devices.update(dict.fromkeys(_devices(reader, container, namespace, name)))
            claims.update(dict.fromkeys(_claims(reader, container, namespace, name)))
    return Grants(tuple(devices), tuple(claims))


def _devices(reader: _Reader, container: _Message, namespace: str, pod: str) -> Iterator[DeviceGrant]:
    for given in reader.nested(container, 2):
        for device_id in filter(None, _texts(given, 2)):
            yield DeviceGrant(namespace, pod, _text(container, 1), _text(given, 1), device_id)


def _claims(reader: _Reader, container: _Message, namespace: str, pod: str) -> Iterator[ClaimGrant]:
    for claim in reader.nested(container, 5):
        for given in reader.nested(claim, 4):
            driver, pool, device = (_text(given, number) for number in (2, 3, 4))
            yield ClaimGrant(namespace, pod, _text(container, 1), _text(claim, 2), driver, pool, device)


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """A number and the place after it."""
    value = shift = 0
    for byte in data[at : at + 10]:
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
    raise BadMessage("a number without an end")


def _piece(data: memoryview, at: int, size: int) -> memoryview:
    if size > len(data) - at:
        raise BadMessage("a field longer than its message")
    return data[at : at + size]


def _texts(message: _Message, number: int) -> list[str]:
    return [_decoded(value) for value in message.get(number, ())]


def _text(message: _Message, number: int) -> str:
    """A single text: the last one counts, as the format wants it."""
    values = message.get(number)
    return _decoded(values[-1]) if values else ""


def _decoded(value: memoryview) -> str:
    if len(value) > _LONGEST_TEXT:
        raise BadMessage(f"a text longer than {_LONGEST_TEXT} bytes")
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        raise BadMessage("a text that is not UTF-8") from None
