"""Settings between API and analyzer: the published analyzer's names and groups, and changes as they are sent."""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec.structs import replace

from gpusight.web.answers import SeedConfig, ServiceConfig
from gpusight.web.errors import ApiError
from gpusight.web.service import ConfigValue

_SERVICE = {
    "prometheus_url": "prom.url",
    "threshold": "threshold",
    "interval": "interval",
    "time_window_min": "time-window-min",
    "max_workers": "max-workers",
}
_GROUPS: Mapping[str, Mapping[str, str]] = {
    "prometheus": {
        "url": "prom.url",
        "time_window_min": "time-window-min",
        "step": "step",
        "query_condition": "query-condition",
    },
    "scoring": {
        "gpu_util_weight": "gpu-util-weight",
        "mem_copy_weight": "mem-copy-weight",
        "mem_used_weight": "mem-used-weight",
        "power_weight": "power-weight",
    },
    "thresholds": {"threshold": "threshold"},
    "scheduler": {"interval": "interval", "max_workers": "max-workers"},
    "ai": {"enabled": "ai.enabled", "model": "ai.model"},
    "control": {"enabled": "control.api-enabled", "api_url": "control.api"},
}


def service_config(values: Iterable[ConfigValue]) -> ServiceConfig:
    shown = _shown(values)
    return ServiceConfig(**{key: shown.get(name) for key, name in _SERVICE.items()})


def seed_config(values: Iterable[ConfigValue]) -> SeedConfig:
    shown = _shown(values)
    groups = {group: {key: shown.get(name) for key, name in keys.items()} for group, keys in _GROUPS.items()}
    return SeedConfig(**groups)


def public(values: Iterable[ConfigValue]) -> tuple[ConfigValue, ...]:
    """As anybody may see them: an address does not show the password in it."""
    return tuple(replace(value, value=_show(value.value)) for value in values)


def _shown(values: Iterable[ConfigValue]) -> dict[str, Any]:
    return {value.name: _show(value.value) for value in values}


def _show(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and "://" in value:
        return without_credentials(value)
    return value


def without_credentials(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class Changes:
    """What a client wants changed: by the name it used, and as the analyzer takes it."""

    def __init__(self, values: Iterable[ConfigValue]) -> None:
        self._known = {_plain(value.name): value for value in values}
        self.asked: dict[str, str] = {}
        self.wanted: dict[str, str] = {}

    def add(self, name: str, value: Any) -> None:
        known = self._known.get(_plain(name))
        if known is None:
            raise ApiError(422, "invalid_setting", f"There is no setting {name[:100]!r}; /api/v1/config lists them.")
        if not known.changeable:
            message = f"The setting {known.name} cannot be changed at run time."
            raise ApiError(422, "invalid_setting", message)
        if known.name in self.wanted:
            raise ApiError(422, "invalid_setting", f"The setting {known.name} is given twice.")
        self.asked[known.name] = name
        self.wanted[known.name] = _as_text(known.name, value)

    def add_all(self, body: bytes) -> None:
        """The settings of a JSON object."""
        if not body.strip():
            return
        try:
            given = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ApiError(422, "invalid_request", "The body is not JSON.") from None
        if not isinstance(given, dict):
            raise ApiError(422, "invalid_request", "The body must be a JSON object of settings and their values.")
        for name, value in given.items():
            self.add(name, value)

    def named_as_asked(self, updated: Mapping[str, Any]) -> dict[str, Any]:
        return {self.asked.get(name, name): _show(value) for name, value in updated.items()}


def _plain(name: str) -> str:
    return re.sub("[.-]", "_", name).lower()


def _as_text(name: str, value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case str():
            return value
    raise ApiError(422, "invalid_setting", f"The setting {name} takes text, a number, true or false.")
