"""The token file: what it takes, what it refuses, and that a bad new version changes nothing."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusight.web.tokens import TokenFile, TokenFileError, hash_token, new_token
from tests.web.clients import ADMIN, TEAM_A, TOKENS


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_tokens_are_found_by_what_they_are(tmp_path: Path) -> None:
    tokens = TokenFile(written(tmp_path / "t.yml", TOKENS))
    found = tokens.find(ADMIN)
    assert found is not None
    assert (found.name, found.role, found.namespaces) == ("ops", "admin", None)
    team = tokens.find(TEAM_A)
    assert team is not None
    assert team.namespaces == frozenset({"team-a"})
    assert tokens.find("gst_wrong") is None
    assert tokens.find(hash_token(ADMIN)) is None
    assert tokens.find("\ud800") is None


def test_json_will_do(tmp_path: Path) -> None:
    assert len(TokenFile(written(tmp_path / "t.json", json.dumps(TOKENS))).current()) == 3


def test_a_token_bound_to_no_namespace_sees_none(tmp_path: Path) -> None:
    entry = {"name": "x", "sha256": "0" * 64, "namespaces": []}
    [token] = TokenFile(written(tmp_path / "t.yml", [entry])).current()
    assert token.namespaces == frozenset()
    assert token.role == "read"


GOOD = {"name": "x", "sha256": "0" * 64}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "neither YAML nor JSON"),
        ({}, "a list"),
        (["x"], "a mapping"),
        ([{**GOOD, "token": "gst_secret"}], "a mapping with the keys"),
        ([{**GOOD, "name": ""}], "needs a name"),
        ([{**GOOD, "name": "a\nb"}], "needs a name"),
        ([{**GOOD, "sha256": "gst_secret"}], "64 hexadecimal digits"),
        ([{**GOOD, "role": "root"}], "neither read nor admin"),
        ([{**GOOD, "namespaces": "team-a"}], "not a list of names"),
        ([{**GOOD, "namespaces": [""]}], "not a list of names"),
        ([{**GOOD, "namespaces": None}], "not a list of names"),
        ([{**GOOD, "role": "admin", "namespaces": ["a"]}], "cannot be bound"),
        ([GOOD, {**GOOD, "name": "y"}], "the same sha256"),
        ([GOOD, {**GOOD, "sha256": "1" * 64}], "the same name"),
    ],
)
def test_what_is_wrong_is_said_without_a_secret(tmp_path: Path, content: Any, reason: str) -> None:
    path = written(tmp_path / "t.yml", content)
    with pytest.raises(TokenFileError, match=reason) as error:
        TokenFile(path)
    assert str(path) in str(error.value)
    assert "gst_secret" not in str(error.value)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TokenFileError, match="no such file"):
        TokenFile(tmp_path / "t.yml")
    with pytest.raises(TokenFileError, match="not a regular file"):
        TokenFile(tmp_path)


def test_changes_are_taken_up_and_bad_ones_are_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path / "t.yml", TOKENS)
    tokens = TokenFile(path)
    with caplog.at_level(logging.ERROR):
        written(path, "- name: half")
        assert tokens.find(ADMIN) is not None
        assert tokens.find(ADMIN) is not None
        path.unlink()
        assert tokens.find(ADMIN) is not None
    assert len(caplog.records) == 2
    written(path, TOKENS[1:])
    assert tokens.find(ADMIN) is None


def test_new_tokens_differ_and_a_repr_shows_no_hash(tmp_path: Path) -> None:
    one, other = new_token(), new_token()
    assert one != other
    assert len(one) > 40
    [token] = TokenFile(written(tmp_path / "t.yml", [{"name": "x", "sha256": hash_token(one)}])).current()
    assert token.sha256 not in repr(token)
