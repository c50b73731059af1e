"""The token file: who may read and who may change, without a single token in it.

    - name: grafana
      sha256: 5e88...   # of the token, as `gpusight token` prints it
      role: read
      namespaces: [team-a]   # optional: sees nothing else

It is looked at again with every request. A new version that cannot be used changes nothing: the old one stays in
force and one log line says why.
"""

import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from msgspec import Struct

log = logging.getLogger("gpusight.web")

Role = Literal["read", "admin"]

_LARGEST_FILE = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")
_KEYS = {"name", "sha256", "role", "namespaces"}
_Fingerprint = tuple[int, int, int]


class TokenFileError(ValueError):
    """A token file that cannot be used; the message names the file, the entry and the reason."""


class Token(Struct, frozen=True, kw_only=True):
    """One entry: the token itself is not known here."""

    name: str
    sha256: str
    role: Role
    namespaces: frozenset[str] | None

    def __repr__(self) -> str:
        return f"Token(name={self.name!r}, role={self.role!r})"


def new_token() -> str:
    """A token that nobody can guess."""
    return "gst_" + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """What the token file keeps of it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class TokenFile:
    """A token file and what it said when it was last readable. Raises TokenFileError if it cannot be used at first."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._seen = _fingerprint(self._path)
        self._tokens = read_tokens(self._path)

    def current(self) -> Sequence[Token]:
        seen = _fingerprint(self._path)
        if seen != self._seen:
            self._seen = seen
            self._reload()
        return self._tokens

    def find(self, token: str) -> Token | None:
        """The entry of a token. Takes the same time whichever it is."""
        given = hash_token(token)
        found = None
        for entry in self.current():
            if hmac.compare_digest(entry.sha256, given):
                found = entry
        return found

    def named(self, name: str) -> Token | None:
        return next((entry for entry in self.current() if entry.name == name), None)

    def _reload(self) -> None:
        try:
            self._tokens = read_tokens(self._path)
        except TokenFileError as error:
            log.error("%s; the previous tokens stay in force", error)  # noqa: TRY400  (no traceback)
        else:
            log.info("token file %s read anew: %d tokens", self._path, len(self._tokens))


def read_tokens(path: Path) -> tuple[Token, ...]:
    try:
        return _parse(_load(path))
    except _Wrong as error:
        raise TokenFileError(f"token file {path}: {error}") from None


class _Wrong(ValueError):  # noqa: N818  (becomes a TokenFileError that also names the file)
    """What is wrong, said without quoting the file."""


def _load(path: Path) -> Any:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise _Wrong("it is not a regular file")
        if found.st_size > _LARGEST_FILE:
            raise _Wrong(f"it is larger than {_LARGEST_FILE} bytes")
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _Wrong(f"it cannot be read: {(error.strerror or str(error)).lower()}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        if isinstance(error, _Wrong):
            raise
        raise _Wrong("it is neither YAML nor JSON") from None  # the parser's own words quote the file


def _parse(content: Any) -> tuple[Token, ...]:
    if not isinstance(content, list):
        raise _Wrong("it must be a list of tokens")
    tokens = tuple(_token(entry, number) for number, entry in enumerate(content, 1))
    for what, values in (("name", [t.name for t in tokens]), ("sha256", [t.sha256 for t in tokens])):
        if len(set(values)) < len(values):
            raise _Wrong(f"two tokens have the same {what}")
    return tokens


def _token(entry: Any, number: int) -> Token:
    where = f"token {number}"
    if not isinstance(entry, dict) or not set(entry) <= _KEYS:
        raise _Wrong(f"{where} must be a mapping with the keys {', '.join(sorted(_KEYS))}")
    name, digest, role = entry.get("name"), entry.get("sha256"), entry.get("role", "read")
    if not isinstance(name, str) or not name or not name.isprintable() or len(name) > 200:
        raise _Wrong(f"{where} needs a name of printable text")
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest.lower()):
        raise _Wrong(f"{where} ({name}) needs the sha256 of the token, 64 hexadecimal digits")
    if role not in ("read", "admin"):
        raise _Wrong(f"{where} ({name}) has a role that is neither read nor admin")
    return Token(name=name, sha256=digest.lower(), role=role, namespaces=_namespaces(entry, f"{where} ({name})"))


def _namespaces(entry: dict[str, Any], where: str) -> frozenset[str] | None:
    if "namespaces" not in entry:
        return None
    given = entry["namespaces"]  # an empty list is no namespace at all, never every one of them
    if not isinstance(given, list) or not all(isinstance(name, str) and name for name in given):
        raise _Wrong(f"{where} has namespaces that are not a list of names")
    if entry.get("role") == "admin":
        raise _Wrong(f"{where} is an admin and cannot be bound to namespaces")
    return frozenset(given)


def _fingerprint(path: Path) -> _Fingerprint | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
