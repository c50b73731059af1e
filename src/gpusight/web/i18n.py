"""The texts of the pages in English and Chinese, from the table `i18n.toml`."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

LANGUAGES = ("en", "zh")


def _load() -> dict[str, dict[str, str]]:
    sections = tomllib.loads(files("gpusight.web").joinpath("i18n.toml").read_text(encoding="utf-8"))
    return {
        language: {
            f"{section}.{name}": texts[column] for section, words in sections.items() for name, texts in words.items()
        }
        for column, language in enumerate(LANGUAGES)
    }


TEXTS: Mapping[str, Mapping[str, str]] = _load()


class Words:
    """One language: `words("fleet.shown", shown=3, total=9)`. A name that does not exist is a KeyError."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._texts = TEXTS[language]

    def __call__(self, name: str, /, **values: Any) -> str:
        text = self._texts[name]
        return text.format(**values) if values else text

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def some(self, *sections: str) -> dict[str, str]:
        """All words of these sections: for scripts."""
        beginnings = tuple(f"{section}." for section in sections)
        return {name: text for name, text in self._texts.items() if name.startswith(beginnings)}

    def age(self, seconds: float) -> str:
        """`40 s`, `12 min`, `3.5 h`, `2 d`."""
        for unit, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
            if seconds >= 2 * unit:
                return self(
                    f"age.{name}",
                    n=f"{seconds / unit:.1f}".removesuffix(".0") if unit > 60 else f"{seconds / unit:.0f}",
                )
        return self("age.seconds", n=f"{max(seconds, 0):.0f}")
