"""`gpusight doctor`: check this installation, say what to do, pack what helps others to find a fault."""

import json
import logging
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from gpusight import __version__
from gpusight.doctor.bundle import as_json as to_json
from gpusight.doctor.bundle import tail, write_bundle
from gpusight.doctor.findings import exit_code
from gpusight.doctor.phrases import Lang, language
from gpusight.doctor.redact import Redactor
from gpusight.doctor.report import as_data, as_text
from gpusight.doctor.run import Examined, run_checks
from gpusight.doctor.table import all_checks, chosen
from gpusight.errors import StartError, UsageError
from gpusight.knobs import SETTINGS, Setting
from gpusight.model.time import Clock, SystemClock
from gpusight.runtime.doctor_subject import Known, known_settings, make_subject, own_names
from gpusight.runtime.roles import ROLES

DEADLINE = 20.0
_MOST_FAMILIES = 500
_GPU_FAMILY = re.compile(r"gpu|dcgm|hami|nvidia|nvshare|cuda|npu_|dcu_|mlu_|mx_", re.IGNORECASE)
_SECRET_FILES = ("prom.bearer-token-file", "prom.password-file")


def run(
    *,
    only: Sequence[str] = (),
    roles: Sequence[str] = (),
    as_json: bool = False,
    lang: Lang | None = None,
    bundle: Path | None = None,
    log: Path | None = None,
    deadline: float = DEADLINE,
    config_file: str | None = None,
    prom_url: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> int:
    """Exit code 0 if all is well, 1 with warnings, 2 with failures."""
    if not 0 < deadline <= 600:
        raise UsageError(f"--deadline {deadline:g} is not between 0 and 600 seconds")
    if bundle is not None and os.path.lexists(bundle):
        raise StartError(f"{bundle} is there already: name another file for the archive")
    if strangers := set(roles) - {role.name for role in ROLES}:
        raise UsageError(f'unknown role "{min(strangers)}": known are {", ".join(role.name for role in ROLES)}')
    clock = SystemClock()
    given = {"config.file": config_file, "prom.url": prom_url}
    known = known_settings({name: value for name, value in given.items() if value}, environ)
    subject = make_subject(known, environ, clock, roles)
    checks, unknown = chosen(all_checks(subject), only)
    if unknown:
        raise UsageError(f'no check is called "{unknown[0]}": gpusight doctor --json lists the ids')
    with _silence():
        examined = run_checks(subject, checks, deadline)
    if bundle is not None:
        _pack(bundle, examined, known, environ, log, clock)
    chosen_lang = lang or language(environ)
    if as_json:
        _write(json.dumps(as_data(examined.results, chosen_lang, __version__), indent=2, ensure_ascii=False) + "\n")
    else:
        _write(as_text(examined.results, chosen_lang, colours=_has_colours(environ)))
    return exit_code(examined.results)


@contextmanager
def _silence() -> Iterator[None]:
    """What the parts would log is what the checks tell."""
    logger = logging.getLogger("gpusight")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def _has_colours(environ: Mapping[str, str]) -> bool:
    return sys.stdout.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def _write(text: str) -> None:
    """Whatever the terminal's encoding, and also if whoever reads has seen enough."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), end="", flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more at exit


# The archive.


def _pack(
    path: Path, examined: Examined, known: Known, environ: Mapping[str, str], log: Path | None, clock: Clock
) -> None:
    hosts, users = own_names(environ, known)
    redactor = Redactor(_secrets(known, environ), [*hosts, *_hosts(known)], users)
    families = sorted(name for name in examined.families if _GPU_FAMILY.search(name))[:_MOST_FAMILIES]
    members = {
        "doctor.json": to_json(redactor.data(as_data(examined.results, "en", __version__, withhold=True))),
        "settings.json": to_json(redactor.data(_settings(known))),
        "versions.json": to_json(redactor.data(_versions())),
        "families.txt": redactor.text("\n".join(families) + "\n"),
    }
    try:
        if log is not None:
            members["log.txt"] = redactor.text(tail(log))
        write_bundle(path, members, clock.now())
    except FileExistsError:
        raise StartError(f"{path} is there already: name another file for the archive") from None
    except OSError as error:
        raise StartError(f"the archive {path} cannot be written: {error.strerror}: {error.filename}") from error


def _settings(known: Known) -> dict[str, Any]:
    return {
        role: {each.setting.name: {"value": each.shown, "origin": each.origin} for each in settings}
        for role, settings in known.by_role.items()
    }


def _versions() -> dict[str, Any]:
    packages = {str(each.metadata["Name"]): each.version for each in distributions() if each.metadata["Name"]}
    return {
        "gpusight": __version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": dict(sorted(packages.items())),
    }


def _secrets(known: Known, environ: Mapping[str, str]) -> Iterator[str]:
    """Everything that we know to be one, however it is spelled."""
    for setting in SETTINGS:
        for text in filter(None, (environ.get(name, "") for name in setting.env_names)):
            yield from _within(text) if setting.secret else _credentials(text)
    for setting, text in _texts(known):
        yield from _within(text) if setting.secret else _credentials(text)
    for name in _SECRET_FILES:
        yield from _content(known.get(name))


def _hosts(known: Known) -> Iterator[str]:
    """Of the addresses in settings. A name without a dot, such as `prometheus`, is a word and says nothing."""
    yield from (host for _, text in _texts(known) if "." in (host := _host(text)))


def _texts(known: Known) -> Iterator[tuple[Setting, str]]:
    for settings in known.by_role.values():
        for each in settings:
            values = each.value if isinstance(each.value, tuple) else (each.value,)
            yield from ((each.setting, value) for value in values if isinstance(value, str))


def _host(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _within(secret: str) -> Iterator[str]:
    """The whole, and what is secret alone: the value of a header, the credentials in an address."""
    yield secret
    for part in secret.split(","):
        yield part.partition(":")[2].strip()
        yield from (word for word in part.partition(":")[2].split() if word.lower() not in ("basic", "bearer"))
    yield from _credentials(secret)


def _credentials(text: str) -> Iterator[str]:
    """User and password of an address, as written and as meant."""
    if "://" not in text:
        return
    user, _, password = urlsplit(text).netloc.rpartition("@")[0].partition(":")
    for part in (user, password):
        yield part
        yield unquote(part)


def _content(path: Path | None) -> Iterator[str]:
    try:
        if path is not None:
            with path.open("rb") as file:
                yield file.read(1 << 16).decode("utf-8", "replace").strip()
    except OSError:
        return
