"""Every knob of every role as data, and the one way in which a knob gets its value.

    changed at run time  >  flag  >  environment  >  YAML file (config.file)  >  default

The table is in `gpusight.knobs`. `resolve` turns
what the user wrote into an immutable `Settings`, or raises one sentence that names the knob, the value, the bound and
where it came from.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gpusight.errors import MissingExtra, SettingsError
from gpusight.knobs import SETTINGS, Setting, Type

MASK = "********"

_BY_NAME: Mapping[str, Setting] = {setting.name: setting for setting in SETTINGS}
_BY_ALIAS: Mapping[str, Setting] = {alias: setting for setting in SETTINGS for alias in setting.env}
_CONFIG_FILE = _BY_NAME["config.file"]
_LARGEST_FILE = 1 << 20


@dataclass(frozen=True, slots=True)
class Resolved:
    """One setting with its value and where that came from; neither `repr` nor `shown` tells a secret."""

    setting: Setting
    value: Any = field(repr=False)
    origin: str

    @property
    def shown(self) -> Any:
        """The value as anyone may see it, in types that JSON knows."""
        if self.value is None or isinstance(self.value, int | float):
            return self.value
        if isinstance(self.value, tuple):
            return [_masked(self.setting, str(item)) for item in self.value]
        return _masked(self.setting, str(self.value))


@dataclass(frozen=True, slots=True, repr=False)
class Settings:
    """The settings of one run: values that were checked, each with its origin."""

    _resolved: Mapping[str, Resolved]

    def get(self, name: str) -> Any:
        return self._resolved[name].value

    def origin(self, name: str) -> str:
        return self._resolved[name].origin

    def __iter__(self) -> Iterator[Resolved]:
        return iter(self._resolved.values())

    def with_changes(self, changes: Mapping[str, str]) -> "Settings":
        """These settings with some changed while the role runs; raises SettingsError before anything is changed."""
        changed = {name: self._changed(name, text) for name, text in changes.items()}
        return Settings(MappingProxyType({**self._resolved, **changed}))

    def _changed(self, name: str, text: str) -> Resolved:
        setting = setting_named(name, "change")
        if not setting.changeable or name not in self._resolved:
            raise SettingsError(f"setting {name} cannot be changed while the role runs")
        return _resolved(setting, _Given(_split(setting, text), "a change at run time"), complete=True)

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{each.setting.name}={each.shown!r}' for each in self)})"


def _masked(setting: Setting, text: str) -> str:
    if setting.secret:
        return MASK
    # An address may carry a password: http://user:password@host
    return re.sub(r"^(\w+://)?.*@", rf"\1{MASK}@", text) if setting.type == "url" else text


# From text to value: each parser raises ValueError when the text means nothing.

_SECONDS: Mapping[str, float] = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def _match(pattern: str, text: str) -> re.Match[str]:
    found = re.fullmatch(pattern, text, re.ASCII | re.IGNORECASE)
    if found is None:
        raise ValueError(text)
    return found


def _integer(text: str) -> int:
    return int(_match(r"[+-]?\d+", text)[0])


def _number(text: str) -> float:
    return float(_match(r"[+-]?[\d.]+(e[+-]?\d+)?", text)[0])


def _boolean(text: str) -> bool:
    return (_TRUE + _FALSE).index(text.lower()) < len(_TRUE)


def parse_duration(text: str) -> float:
    """Seconds; ValueError for what is none."""
    number, unit = _match(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", text).groups(default="s")
    return float(number) * _SECONDS[unit.lower()]


def _path(text: str) -> Path:
    if not text or "\0" in text:
        raise ValueError(text)
    return Path(text)


def _url(text: str) -> str:
    parts = urlsplit(text)  # asking it for the port raises when that is none
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0 or not re.fullmatch(r"\S+", text):
        raise ValueError(text)
    return text


def _address(text: str) -> str:
    port = _match(r"(?:(?:[\w.-]*|\[[\w:.%-]+\]):)?(\d{1,5})", text)[1]
    if int(port) > 65_535:
        raise ValueError(text)
    return text


_PARSERS: Mapping[Type, Callable[[str], Any]] = {
    "str": str,
    "int": _integer,
    "float": _number,
    "bool": _boolean,
    "duration": parse_duration,
    "path": _path,
    "url": _url,
    "address": _address,
    "choice": str.lower,
}


def _parse(setting: Setting, text: str) -> Any:
    value = _PARSERS[setting.type](text)
    if setting.choices and value not in setting.choices:
        raise ValueError(text)
    if setting.bounds and not (math.isfinite(value) and setting.bounds[0] <= value <= setting.bounds[1]):
        raise ValueError(text)
    return value


def _checked(setting: Setting, text: str, origin: str) -> Any:
    try:
        return _parse(setting, text)
    except ValueError:
        # `from None`: the cause would carry a secret along
        raise _wrong(setting, f'"{_masked(setting, text)}"', origin) from None


def _wrong(setting: Setting, shown: str, origin: str) -> SettingsError:
    return SettingsError(f"setting {setting.name}: {shown} from {origin} is not {setting.expects}")


# From the four places to one result.

Flags = Mapping[str, str | Sequence[str]]


class _Given(NamedTuple):
    """A value as somebody wrote it, and where; more than one text only for a repeatable setting."""

    texts: tuple[str, ...]
    origin: str


def resolve(
    argv_values: Flags,
    environ: Mapping[str, str],
    roles: Sequence[str],
    defaults: Mapping[str, str] = MappingProxyType({}),
    *,
    complete: bool = True,
) -> Settings:
    """The settings of these roles; of the world it reads the configuration file and nothing else.

    `argv_values` are flags by setting name, `defaults` what the role table brings. With `complete=False` required
    settings may be missing.
    """
    for name in argv_values:
        _known(name, "command line")
    file = _from_file(_from_flag(_CONFIG_FILE, argv_values) or _from_environment(_CONFIG_FILE, environ))

    def given(setting: Setting) -> _Given | None:
        return (
            _from_flag(setting, argv_values)
            or _from_environment(setting, environ)
            or file.get(setting.name)
            or _from_defaults(setting, defaults)
        )

    wanted = (setting for setting in SETTINGS if setting.applies_to(roles))
    return Settings(MappingProxyType({each.name: _resolved(each, given(each), complete) for each in wanted}))


def _from_flag(setting: Setting, argv_values: Flags) -> _Given | None:
    value = argv_values.get(setting.name)
    if value is None:
        return None
    texts = (value,) if isinstance(value, str) else value
    return _Given(tuple(part for text in texts for part in _split(setting, text)), f"flag {setting.flag}")


def _from_environment(setting: Setting, environ: Mapping[str, str]) -> _Given | None:
    """An empty variable counts as not set: that is how compose files and charts write "no value"."""
    name = next((name for name in setting.env_names if environ.get(name, "").strip()), None)
    return None if name is None else _Given(_split(setting, environ[name]), f"environment {name}")


def _from_defaults(setting: Setting, defaults: Mapping[str, str]) -> _Given | None:
    text = defaults.get(setting.name, setting.default)
    return None if text is None else _Given(_split(setting, text), "default")


def _split(setting: Setting, text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text.split(",") if setting.repeatable else (text,)))


def _resolved(setting: Setting, given: _Given | None, complete: bool) -> Resolved:
    if given is None:
        if setting.required and complete:
            raise SettingsError(_missing(setting))
        return Resolved(setting, () if setting.repeatable else None, "not set")
    values = tuple(_checked(setting, text, given.origin) for text in given.texts)
    return Resolved(setting, values if setting.repeatable else values[-1], given.origin)


def _missing(setting: Setting) -> str:
    return (
        f"setting {setting.name} is required: give {setting.flag}, the environment variable {setting.env_names[0]} "
        f"or the key {setting.name} in a configuration file"
    )


def setting_named(name: str, where: str) -> Setting:
    """The setting of that name, or of that environment name, as the configuration file may write it, too."""
    return _BY_ALIAS.get(name) or _known(name, where)


def _known(name: str, where: str) -> Setting:
    if name in _BY_NAME:
        return _BY_NAME[name]
    near = get_close_matches(name, _BY_NAME, n=1)
    hint = f"did you mean {near[0]}?" if near else "gpusight settings lists the known ones"
    raise SettingsError(f'{where}: unknown setting "{name}", {hint}')


# The YAML file. Its node tree, unlike loaded values, keeps the lines and leaves every scalar the text that was written.


def _from_file(given: _Given | None) -> Mapping[str, _Given]:
    path = _resolved(_CONFIG_FILE, given, complete=False).value
    return {} if path is None else _settings_in(path, _compose(path, _text_of(path)))


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            read = file.read(_LARGEST_FILE + 1)
        if len(read) > _LARGEST_FILE:
            raise SettingsError(f"configuration file {path} is larger than {_LARGEST_FILE >> 20} MiB")
        return read.decode("utf-8-sig")
    except OSError as error:
        raise SettingsError(f"configuration file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"configuration file {path} line {line}: not UTF-8 text") from error


def _compose(path: Path, text: str) -> Any:
    try:
        import yaml  # noqa: PLC0415 - optional: only who has a configuration file needs it
    except ImportError:
        raise MissingExtra(f"the configuration file {path}", "node") from None
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise SettingsError(f"configuration file {path} {_yaml_problem(error, text)}") from error


def _yaml_problem(error: Exception, text: str) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = mark.line if mark else text.count("\n", 0, getattr(error, "position", 0))
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "nested too deeply"
    return f"line {line + 1}: not valid YAML: {problem}"


def _settings_in(path: Path, root: Any) -> Mapping[str, _Given]:
    if root is None or _is_null(root):
        return {}
    if root.id != "mapping":
        raise SettingsError(f"configuration file {path} line 1: expected names with values, found {_shape(root)}")
    found: dict[str, _Given] = {}
    for written, node in _entries(root, ""):
        name = _BY_ALIAS[written].name if written in _BY_ALIAS else written
        where = f"{path} line {node.start_mark.line + 1}"
        if name in found:
            raise SettingsError(f"{where}: setting {name} is given twice")
        if not (_is_null(node) and (name in _BY_NAME or _is_section(name))):
            found[name] = _Given(_texts(_known(name, where), node, where), where)
    return found


def _entries(mapping: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Dotted names with their nodes. Only sections that settings have are entered: an alias to itself ends, too."""
    for key, node in mapping.value:
        name = prefix + (key.value if key.id == "scalar" else _shape(key))
        if node.id == "mapping" and _is_section(name):
            yield from _entries(node, f"{name}.")
        else:
            yield name, node


def _texts(setting: Setting, node: Any, where: str) -> tuple[str, ...]:
    if setting is _CONFIG_FILE:
        raise SettingsError(f"{where}: setting config.file cannot stand in the configuration file itself")
    if node.id == "scalar":
        return _split(setting, node.value)
    if setting.repeatable and node.id == "sequence" and node.value and all(item.id == "scalar" for item in node.value):
        return tuple(item.value for item in node.value)
    raise _wrong(setting, _shape(node), where)


def _is_section(name: str) -> bool:
    return any(known.startswith(f"{name}.") for known in _BY_NAME)


def _is_null(node: Any) -> bool:
    return bool(node.tag == "tag:yaml.org,2002:null")


def _shape(node: Any) -> str:
    return {"scalar": "a single value", "sequence": "a list"}.get(node.id, "a mapping")
