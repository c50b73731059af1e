"""Reading a spec: mappings taken apart key by key, so that every mistake becomes one sentence."""

import math
import re
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

_REQUIRED: Final[Any] = object()
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_OWNER: Final = re.compile(rf"[A-Z][A-Za-z]{{0,62}}/{_NAME.pattern}")
_NAMED: Final = 20
"""How many options a sentence names."""
_ANY: Final = (-(2**63), 2**63)
_T = TypeVar("_T")


class Owner(NamedTuple):
    """The workload that a pod belongs to."""

    kind: str
    name: str


class SpecError(ValueError):
    """A spec that cannot be used; the message is one sentence naming file, key and value."""


class Section:
    """One mapping of a spec, taken apart key by key; a key that nobody asked for is an error."""

    def __init__(self, source: str, path: str, data: Any) -> None:
        if not isinstance(data, Mapping):
            raise SpecError(f"{source}: {path or 'the top level'} is {_short(data)}, but must be a mapping.")
        self._source = source
        self._path = path
        self._left = {str(key): value for key, value in data.items()}

    def error(self, key: str, value: Any, must_be: str) -> SpecError:
        return SpecError(f"{self._source}: {self._name(key)} is {_short(value)}, but must be {must_be}.")

    def close(self) -> None:
        for key, value in self._left.items():
            raise SpecError(f"{self._source}: unknown key {self._name(key)} (with the value {_short(value)}).")

    def name(self, key: str, default: Any = _REQUIRED) -> str:
        """Names become parts of paths, so that nothing but a Kubernetes name will do."""
        return str(self._take(key, default, lambda v: isinstance(v, str) and bool(_NAME.fullmatch(v)), "a name"))

    def owner(self, key: str) -> Owner:
        """`Kind/name`."""
        wanted = "a kind and a name, such as Deployment/server"
        text = self._take(key, _REQUIRED, lambda v: isinstance(v, str) and bool(_OWNER.fullmatch(v)), wanted)
        return Owner(*text.split("/"))

    def function(self, key: str) -> str:
        wanted = "the name of an NVML function"
        return str(self._take(key, _REQUIRED, lambda v: isinstance(v, str) and v.startswith("nvml"), wanted))

    def integer(self, key: str, default: Any = _REQUIRED, *, between: tuple[int, int] = _ANY) -> int:
        wanted = "a whole number" if between == _ANY else f"a whole number from {between[0]} to {between[1]}"
        return int(self._take(key, default, lambda v: _is_integer(v) and between[0] <= v <= between[1], wanted))

    def count(self, key: str, default: Any = _REQUIRED) -> int:
        return self.integer(key, default, between=(0, 1_000_000))

    def number(self, key: str, default: Any = _REQUIRED) -> float:
        return float(self._take(key, default, _is_number, "a number of seconds"))

    def optional(self, key: str, read: Callable[[str], _T]) -> _T | None:
        if self._left.get(key) is not None:
            return read(key)
        self._left.pop(key, None)
        return None

    def choice(self, key: str, options: Collection[str], default: Any = None) -> Any:
        wanted = f"one of {', '.join(islice(options, _NAMED))}{' or others' if len(options) > _NAMED else ''}"
        return self._take(key, _REQUIRED if default is None else default, lambda v: v in options, wanted)

    def strings(self, key: str) -> tuple[str, ...] | None:
        value = self._take(key, None, lambda v: v is None or _is_list_of(v, str), "a list of names")
        return None if value is None else tuple(value)

    def integers(self, key: str) -> tuple[int, ...]:
        value = self._take(
            key, _REQUIRED, lambda v: _is_list_of(v, int) and len(set(v)) == len(v) > 0, "a list of indexes"
        )
        return tuple(value)

    def section(self, key: str) -> "Section | None":
        value = self._left.pop(key, None)
        return None if value is None else Section(self._source, self._name(key), value)

    def sections(self, key: str, *, required: bool = False) -> "list[Section]":
        value = self._take(key, _REQUIRED if required else None, lambda v: v is None or isinstance(v, list), "a list")
        if required and not value:
            raise self.error(key, value, "a list with at least one entry")
        return [Section(self._source, f"{self._name(key)}[{i}]", item) for i, item in enumerate(value or ())]

    def _take(self, key: str, default: Any, accepts: Callable[[Any], bool], wanted: str) -> Any:
        if key not in self._left:
            if default is _REQUIRED:
                raise SpecError(f"{self._source}: {self._name(key)} is missing, and must be {wanted}.")
            return default
        value = self._left.pop(key)
        if not accepts(value):
            raise self.error(key, value, wanted)
        return value

    def _name(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_integer(value) or (isinstance(value, float) and math.isfinite(value))


def _is_list_of(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) and not isinstance(item, bool) for item in value)


def _short(value: Any) -> str:
    """The value in one line that cannot drown the sentence."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
