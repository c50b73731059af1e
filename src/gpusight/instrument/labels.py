"""Label values from a host program: any object may come in, bounded text goes out."""

from binascii import crc32

_LONGEST = 128
DEVICE_PREFIXES = ("GPU-", "MIG-")
UNPRINTABLE = "unprintable"


def clean(value: object) -> str:
    """Text of bounded length; what is cut keeps a checksum, so that two long names stay two."""
    text = value if type(value) is str else _text(value)
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}~{crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return UNPRINTABLE


class DeviceIds:
    """Which id a device goes by.

    `GPU-0:NVIDIA-RTX-4090` names its id before the first colon. A bare name gets the next free GPU-<n>, the first one
    GPU-0, and keeps it.
    """

    def __init__(self) -> None:
        self._of_bare_name: dict[str, str] = {}
        self._taken: set[str] = set()

    def register(self, text: object) -> tuple[str, str]:
        """Id and name of a device that is announced."""
        full = clean(text)
        head, colon, tail = full.partition(":")
        if colon and head:
            return self._take(head), tail
        if full.startswith(DEVICE_PREFIXES):
            return self._take(full), ""
        if full not in self._of_bare_name:
            self._of_bare_name[full] = self._take(self._next_free())
        return self._of_bare_name[full], full

    def resolve(self, text: object) -> str:
        """The id of a device that an operation names; a number n is GPU-<n>."""
        if isinstance(text, int) and not isinstance(text, bool):
            return f"GPU-{text}"
        full = clean(text)
        if full in self._of_bare_name:
            return self._of_bare_name[full]
        head, colon, _ = full.partition(":")
        return head if colon and head else full

    def _take(self, device: str) -> str:
        self._taken.add(device)
        return device

    def _next_free(self) -> str:
        return next(name for name in map("GPU-{}".format, range(len(self._taken) + 1)) if name not in self._taken)
