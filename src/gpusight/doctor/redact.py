"""Text that may leave the site: without secrets, and without names of hosts and people.

What is known to be secret goes wherever it stands; beyond that go shapes that secrets have. A name is replaced by its
kind, so that what is left can still be read.
"""

import re
from collections.abc import Iterable
from typing import Any

SECRET, HOST, USER, ADDRESS = "<secret>", "<host>", "<user>", "<address>"
_SHORT = 4
_NOBODY = frozenset({"", "root", "nobody", "localhost", "none"})
"""Names that say nothing of anybody."""
_LOCAL = re.compile(r"127\.\d+\.\d+\.\d+|0\.0\.0\.0")
_PLAIN_PATH = re.compile(r"/?|/metrics/?|/api/v1/[a-z_/]{0,60}|/-/[a-z]+")
"""Paths of URLs that are no secrets; those of web hooks are."""

_PEM = re.compile(r"-----BEGIN [^-]+-----.*?(?:-----END [^-]+-----|\Z)", re.DOTALL)
_URL = re.compile(
    r"\b(\w[\w+.-]*://)(?:[^\s/\"'<>]*@)?(\[[^\]\s]*\]|[^\s/:?#\"'<>]*)(:\d+)?([^\s?#\"'<>,;]*)(\?[^\s\"'<>]*)?"
)
_ASSIGNED = re.compile(
    r"(?i)((?:authorization|password|passwd|pwd|secret|token|api[-_]?key|credential|cookie)\w*[\"']?\s*[:=]\s*[\"']?)"
    r"((?:bearer |basic )?[^\s\"',;&]+)"
)
_SCHEME = re.compile(r"(?i)\b(bearer|basic) +[\w.~+/=-]{8,}")
_TOKENS = re.compile(
    r"\b(?:gst_[\w-]+|eyJ[\w-]+(?:\.[\w-]*)*|sk-[\w-]{8,}|gh[pousr]_\w{16,}|glpat-[\w-]+|xox[a-z]-[\w-]+|AKIA\w{12,}"
    r"|\$2[aby]\$\S+)"
)
_LONG = re.compile(r"[A-Za-z0-9+/_=-]{32,}")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
_IPV6 = re.compile(r"(?i)(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?:%\w+)?(?![\w:])")


class Redactor:
    """Made once for all that goes into one archive."""

    def __init__(self, secrets: Iterable[str] = (), hosts: Iterable[str] = (), users: Iterable[str] = ()) -> None:
        self._secrets = sorted({each for each in secrets if each.strip()}, key=len, reverse=True)
        self._names = [(_name(host, r"(?:\.[\w.-]+)?"), HOST) for host in _by_length(hosts)]
        self._names += [(_name(user, ""), USER) for user in _by_length(users)]

    def text(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, SECRET) if len(secret) >= _SHORT else _name(secret, "").sub(SECRET, text)
        text = _PEM.sub(SECRET, text)
        text = _URL.sub(_url, text)
        text = _ASSIGNED.sub(rf"\1{SECRET}", text)
        text = _SCHEME.sub(rf"\1 {SECRET}", text)
        text = _TOKENS.sub(SECRET, text)
        text = _LONG.sub(_long, text)
        text = _EMAIL.sub(ADDRESS, text)
        text = _IPV4.sub(_ipv4, text)
        text = _IPV6.sub(_ipv6, text)
        for pattern, kind in self._names:
            text = pattern.sub(kind, text)
        return text

    def data(self, value: Any) -> Any:
        """The same of every text within."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.data(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(item) for item in value]
        return value


def _by_length(names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.lower() not in _NOBODY}, key=len, reverse=True)


def _name(name: str, more: str) -> re.Pattern[str]:
    return re.compile(rf"(?i)(?<![\w-]){re.escape(name)}{more}(?![\w-])")


def _url(found: re.Match[str]) -> str:
    scheme, host, port, path, query = found.groups(default="")
    shown = host if host == "localhost" or _LOCAL.fullmatch(host) else HOST
    rest = path if _PLAIN_PATH.fullmatch(path) else f"/{SECRET}"
    return f"{scheme}{shown}{port}{rest}{'?' + SECRET if query else ''}"


def _long(found: re.Match[str]) -> str:
    """Names of metrics are long, too, but words; keys are a mixture."""
    text = found[0]
    is_hex = re.fullmatch(r"[0-9a-f]+", text) is not None
    is_mixed = all(re.search(kind, text) for kind in ("[0-9]", "[a-z]", "[A-Z]"))
    return SECRET if is_hex or (is_mixed and "/" not in text.strip("/")) else text


def _ipv4(found: re.Match[str]) -> str:
    return found[0] if _LOCAL.fullmatch(found[0]) else ADDRESS


def _ipv6(found: re.Match[str]) -> str:
    """A time such as 12:30:05 looks alike."""
    text = found[0]
    is_address = ("::" in text and len(text) > 3) or text.count(":") == 7
    return ADDRESS if is_address else text
