"""The sentences of phrases.toml, in English and Chinese."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from gpusight.doctor.findings import Finding, Private

Lang = Literal["en", "zh"]
LANGS: tuple[Lang, ...] = ("en", "zh")
WITHHELD = "<withheld>"


class Sentences(NamedTuple):
    """What was found, or why nothing was looked for, and what to do; the latter is empty where nothing is wrong."""

    found: str
    fix: str


@cache
def phrases() -> Mapping[str, Mapping[str, Any]]:
    """By outcome: `en`, `zh`, and perhaps `fix` with the same keys."""
    return tomllib.loads(files("gpusight.doctor").joinpath("phrases.toml").read_text("utf-8"))


def sentences(finding: Finding, lang: Lang, *, withhold: bool = False) -> Sentences:
    """With `withhold`, names that do not leave the site are left out."""
    entry = phrases()[finding.outcome]
    values = {name: _shown(value, withhold) for name, value in finding.values.items()}
    found = entry[lang].format(**values)
    fix = entry["fix"][lang].format(**values) if finding.status in ("warn", "fail") else ""
    return Sentences(_ended_once(found), fix)


def _ended_once(sentence: str) -> str:
    """Others' words may bring a full stop of their own."""
    return sentence[:-1] if sentence.endswith("..") and not sentence.endswith("...") else sentence


def _shown(value: object, withhold: bool) -> str:
    return WITHHELD if withhold and isinstance(value, Private) else str(value)


def language(environ: Mapping[str, str]) -> Lang:
    """As the locale says."""
    said = next((environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environ.get(name)), "")
    return "zh" if said.lower().startswith("zh") else "en"
