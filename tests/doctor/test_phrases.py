"""Every outcome of every check has its sentences, in both languages, with a fix where one is due."""

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, get_args

import pytest

import gpusight.doctor
from gpusight.doctor.findings import Finding, Private, listed
from gpusight.doctor.phrases import LANGS, language, phrases, sentences
from gpusight.doctor.table import SYMPTOMS
from gpusight.model.hardware import BackendReason
from gpusight.sources.podresources.source import KubeletReason

KINDS = ("ok", "warn", "fail", "skip", "bad", "NotChecked")
DYNAMIC = {
    "nvml.": [reason for reason in get_args(BackendReason) if reason],
    "kubelet.": [reason for reason in get_args(KubeletReason) if reason],
    "k8s.": ["forbidden", "unauthorized"],
    "symptom.": [symptom.name for symptom in SYMPTOMS],
}
"""Outcomes whose names are put together."""


class Use(NamedTuple):
    kind: str
    outcome: str
    names: frozenset[str] | None
    """Of the values that are given; None where they come as a mapping."""


def uses() -> Iterator[Use]:
    for path in Path(gpusight.doctor.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _called(node) in KINDS:
                yield from _uses(node)
    yield Use("NotChecked", "prom.unreached", frozenset())
    yield Use("NotChecked", "k8s.unreached", frozenset())


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _uses(node: ast.Call) -> Iterator[Use]:
    given = [keyword.arg for keyword in node.keywords]
    names = None if None in given else frozenset(filter(None, given))
    text = node.args[1 if _called(node) == "bad" else 0]
    for outcome in _outcomes(text):
        yield Use(_called(node), outcome, names)


def _outcomes(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _outcomes(node.body)
        yield from _outcomes(node.orelse)
    elif isinstance(node, ast.JoinedStr):
        start = node.values[0]
        assert isinstance(start, ast.Constant)
        yield from (f"{start.value!s}{end}" for end in DYNAMIC[str(start.value)])


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


USES = sorted(uses(), key=lambda use: use[:2])


def test_every_outcome_has_a_phrase_and_every_phrase_an_outcome() -> None:
    known = {use.outcome for use in USES} | {"nvml.up", "nvml.simulated"}
    assert len(USES) > 130
    assert set(phrases()) == known


@pytest.mark.parametrize("use", [use for use in USES if use.names is not None], ids=lambda use: f"{use[0]} {use[1]}")
def test_what_a_sentence_needs_is_given(use: Use) -> None:
    entry = phrases()[use.outcome]
    for lang in LANGS:
        texts = [entry[lang]] + ([entry["fix"][lang]] if "fix" in entry else [])
        if use.kind in ("skip", "NotChecked"):
            texts = texts[:1]  # a skip shows no fix
        for text in texts:
            assert use.names is not None
            assert placeholders(text) <= use.names


@pytest.mark.parametrize("outcome", sorted(phrases()))
def test_both_languages_say_the_same(outcome: str) -> None:
    entry = phrases()[outcome]
    for texts in filter(None, (entry, entry.get("fix"))):
        assert placeholders(texts["en"]) == placeholders(texts["zh"])
        assert texts["en"].endswith(".")
        assert texts["zh"].endswith("。")
        assert re.search("[\u4e00-\u9fff]", texts["zh"]) or outcome == "python.ok" or "chmod" in texts["zh"]


def test_whatever_is_wrong_has_a_fix() -> None:
    wrong = {use.outcome for use in USES if use.kind in ("warn", "fail", "bad")}
    assert [outcome for outcome in sorted(wrong) if "fix" not in phrases()[outcome]] == []


def test_words_of_others_are_no_templates() -> None:
    hostile = "{0.__class__} {nope} %s"
    found = sentences(Finding("fail", "journal.wrong", {"detail": hostile}), "en").found
    assert hostile in found


def test_a_full_stop_of_others_is_not_doubled() -> None:
    assert sentences(Finding("fail", "journal.wrong", {"detail": "Gone."}), "en").found.endswith("Gone.")
    assert sentences(Finding("fail", "journal.wrong", {"detail": "Gone.."}), "en").found.endswith("Gone...")


def test_private_names_are_withheld_on_request() -> None:
    finding = Finding("ok", "k8s.reachable", {"server": Private("https://secret-cluster:6443")})
    assert "secret-cluster" in sentences(finding, "en").found
    assert "secret-cluster" not in sentences(finding, "en", withhold=True).found


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LC_MESSAGES": "zh_TW", "LANG": "de_DE"}, "zh"),
        ({"LC_ALL": "", "LANG": "zh"}, "zh"),
    ],
)
def test_the_language_is_the_locales(environ: dict[str, str], expected: str) -> None:
    assert language(environ) == expected


def test_long_lists_are_cut() -> None:
    assert listed(range(7)) == "0, 1, 2, 3, 4 (+2)"
    assert listed(range(5)) == "0, 1, 2, 3, 4"
    assert listed([]) == ""
