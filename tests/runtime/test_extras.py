"""The table of optional packages, against pyproject.toml and against this installation."""

import re
import tomllib
from pathlib import Path

import pytest

from gpusight.errors import MissingExtra
from gpusight.runtime import extras

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.mark.parametrize("extra", extras.EXTRAS)
def test_an_extra_holds_what_pyproject_installs(extra: str) -> None:
    declared = PROJECT["optional-dependencies"][extra]

    assert set(extras.EXTRAS[extra]) == {re.split(r"[<>=~! ;\[]", requirement)[0] for requirement in declared}


def test_nothing_is_missing_where_all_is_installed() -> None:
    assert [extras.missing(extra) for extra in extras.EXTRAS] == [()] * len(extras.EXTRAS)
    extras.require("this test", "node")


def test_what_cannot_be_found_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda module: None if module == "yaml" else object())

    assert extras.missing("node") == ("pyyaml",)
    with pytest.raises(MissingExtra, match=r"^the role ops needs optional packages: pip install 'gpusight\[node\]'"):
        extras.require("the role ops", "node")
