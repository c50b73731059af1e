"""Every knob of every role as data, and the one way in which a knob gets its value.

    flag  >  environment  >  YAML file (config.file)  >  default

`SETTINGS` is the table: flags, `--help`, `gpusight settings` and docs/settings.md are made from it. `resolve` turns
what the user wrote into an immutable `Settings`, or raises one sentence that names the knob, the value, the bound and
where it came from.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from gpusight.errors import MissingExtra, SettingsError

MASK = "********"

Type = Literal["str", "int", "float", "bool", "duration", "path", "url", "address", "choice"]

_PHRASES: Mapping[Type, str] = {
    "str": "text",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "duration": "a duration (300, 30s, 5m, 1h)",
    "path": "a path",
    "url": "an address that starts with http:// or https://",
    "address": "a listen address such as :9090, 127.0.0.1:9090 or [::1]:9090",
    "choice": "one of",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One knob. Its default is written the way a user would write it, and goes through the same check.

    `env` are further environment names after `GPUSIGHT_<NAME>`; no `roles` means every role. A default that differs
    from role to role stands in the role table instead.
    """

    name: str
    type: Type
    help: str
    _: KW_ONLY
    env: tuple[str, ...] = ()
    default: str | None = None
    bounds: tuple[float, float] | None = None
    choices: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    required: bool = False
    secret: bool = False
    repeatable: bool = False
    implied: str = ""
    """The value of a flag that is given without one."""
    since: str = "0.1.0"

    @property
    def flag(self) -> str:
        return f"--{self.name}"

    @property
    def env_names(self) -> tuple[str, ...]:
        own = re.sub("[.-]", "_", self.name).upper()
        return (f"GPUSIGHT_{own}", *self.env)

    @property
    def expects(self) -> str:
        """What a value must be, as the end of the sentence `... is not`."""
        if self.bounds is None:
            return " ".join((_PHRASES[self.type], ", ".join(self.choices))).rstrip()
        low, high = (f"{bound:g}{'s' if self.type == 'duration' else ''}" for bound in self.bounds)
        return f"{_PHRASES[self.type]} between {low} and {high}"

    def applies_to(self, roles: Sequence[str]) -> bool:
        return not self.roles or not set(self.roles).isdisjoint(roles)


_node = partial(Setting, roles=("node",))
_analyze = partial(Setting, roles=("analyze",))
_weight = partial(_analyze, type="float", bounds=(0, 1))

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "web.listen-address",
        "address",
        "Address to listen on, host:port; no host means all interfaces, port 0 any free port. May be repeated.",
        repeatable=True,
    ),
    Setting(
        "web.config.file",
        "path",
        "Web configuration file with TLS and basic authentication, in the format that Prometheus exporters share.",
    ),
    Setting(
        "web.max-requests",
        "int",
        "Different pages that are made at the same time; further scrapes are refused.",
        default="40",
        bounds=(1, 10_000),
    ),
    Setting(
        "web.openmetrics",
        "bool",
        "Offer OpenMetrics too, which has to append `_total` to the names of counters that lack it.",
    ),
    Setting("config.file", "path", "YAML file with settings; its keys are setting names, nested or dotted."),
    Setting("data.dir", "path", "Directory for what a role keeps from one run to the next."),
    Setting(
        "log.level",
        "choice",
        "Least important messages to log.",
        env=("LOG_LEVEL",),
        default="info",
        choices=("debug", "info", "warning", "error"),
    ),
    Setting(
        "log.format",
        "choice",
        "Form of a log line: key=value pairs, JSON, or `time - name - LEVEL - message`.",
        default="logfmt",
        choices=("logfmt", "json", "seed"),
    ),
    Setting(
        "ops.dir",
        "path",
        "Directory where the worker processes of the measured program keep their metric files.",
        roles=("ops",),
        required=True,
    ),
    _node("node.name", "str", "Name of this node; by default the machine's host name.", env=("NODE_NAME",)),
    _node("cluster.name", "str", "Name of the cluster that this node belongs to."),
    _node(
        "simulate",
        "str",
        "Simulated GPUs instead of real ones: the name of a built-in fleet, or a YAML file.",
        implied="default",
    ),
    _node(
        "simulate.control",
        "path",
        "File with faults for the simulated GPUs; it is re-read when it changes.",
    ),
    _node(
        "hami.dialect",
        "choice",
        "Generation of HAMi's metric names; may be repeated, as long as no two give one name different labels.",
        default="seed,v2.10",
        choices=("seed", "v2.8", "v2.9", "v2.10"),
        repeatable=True,
    ),
    _node(
        "hami.value-labels",
        "bool",
        "Fill the labels of HAMi's that hold measured sizes: each change starts a new series.",
        default="true",
    ),
    _node(
        "collect.sets",
        "choice",
        "Sets of metrics to expose; may be repeated.",
        default="hami,dcgm,gpu,containers,health",
        choices=("hami", "dcgm", "gpu", "containers", "processes", "health"),
        repeatable=True,
    ),
    _node(
        "collect.interval",
        "duration",
        "Longest time between two readings of the GPUs when nobody scrapes.",
        default="15s",
        bounds=(1, 3600),
    ),
    _node(
        "collect.max-age",
        "duration",
        "Age up to which a reading serves further scrapes, too.",
        default="1s",
        bounds=(0.1, 60),
    ),
    _node(
        "nvml.timeout",
        "duration",
        "Time a reading waits for a GPU that does not answer.",
        default="400ms",
        bounds=(0.05, 60),
    ),
    _node(
        "vgpu.dir",
        "path",
        "Directory with one sub-directory per container that libvgpu serves.",
        default="/usr/local/vgpu/containers",
    ),
    _node("path.procfs", "path", "Where the host's /proc is mounted.", default="/proc"),
    _node("path.pod-logs", "path", "Where the kubelet keeps the pods' logs: their names.", default="/var/log/pods"),
    _node(
        "kubelet.socket",
        "path",
        "The kubelet's pod-resources socket.",
        default="/var/lib/kubelet/pod-resources/kubelet.sock",
    ),
    _node(
        "k8s.watch-pods",
        "bool",
        "Watch this node's pods at the Kubernetes API: more names and MIG annotations, at the API server's cost.",
        default="false",
    ),
    _node(
        "k8s.kubeconfig", "path", "kubeconfig file; without it $KUBECONFIG, the pod's service account, ~/.kube/config."
    ),
    # The names and defaults below are those of the GPU utilization monitor that the role analyze succeeds.
    _analyze(
        "prom.url", "url", "Prometheus-compatible server to ask.", env=("PROM_URL",), default="http://prometheus:9090"
    ),
    _analyze(
        "threshold",
        "int",
        "Score in percent below which a GPU counts as little used.",
        env=("THRESHOLD",),
        default="20",
        bounds=(0, 100),
    ),
    _analyze(
        "interval",
        "duration",
        "Time between two rounds of analysis.",
        env=("INTERVAL",),
        default="300s",
        bounds=(1, 86_400),
    ),
    _analyze(
        "max-workers", "int", "Queries that run at the same time.", env=("MAX_WORKERS",), default="8", bounds=(1, 256)
    ),
    _analyze(
        "time-window-min",
        "int",
        "Minutes that one round looks back.",
        env=("TIME_WINDOW_MIN",),
        default="10",
        bounds=(1, 10_080),
    ),
    _analyze(
        "step", "duration", "Distance between two samples of a query.", env=("STEP",), default="30s", bounds=(1, 3600)
    ),
    _analyze(
        "query-condition",
        "str",
        "Label condition that selects the GPUs to judge.",
        env=("QUERY_CONDITION",),
        default='{pod!=""}',
    ),
    _weight("gpu-util-weight", help="Core utilization in the score.", env=("GPU_UTIL_WEIGHT",), default="0.5"),
    _weight("mem-copy-weight", help="Memory bandwidth in the score.", env=("MEM_COPY_WEIGHT",), default="0.2"),
    _weight("mem-used-weight", help="Memory in use in the score.", env=("MEM_USED_WEIGHT",), default="0.2"),
    _weight("power-weight", help="Power draw in the score.", env=("POWER_WEIGHT",), default="0.1"),
    _analyze("ai.enabled", "bool", "Ask a language model, too.", env=("AI_ENABLED",), default="false"),
    _analyze("ai.api-url", "url", "Address of the model's API.", env=("AI_API_URL",)),
    _analyze("ai.api-key", "str", "Key for the model's API.", env=("AI_API_KEY",), secret=True),
    _analyze("ai.model", "str", "Name of the model.", env=("AI_MODEL",), default="gpt-4"),
    _analyze(
        "control.api-enabled",
        "bool",
        "Call the control API for GPUs that are little used.",
        env=("CONTROL_API_ENABLED",),
        default="false",
    ),
    _analyze("control.api", "url", "Address of the control API.", env=("CONTROL_API",)),
)

_BY_NAME: Mapping[str, Setting] = {setting.name: setting for setting in SETTINGS}
_CONFIG_FILE = _BY_NAME["config.file"]


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


def _duration(text: str) -> float:
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
    "duration": _duration,
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
        return path.read_text("utf-8-sig")
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
    for name, node in _entries(root, ""):
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
