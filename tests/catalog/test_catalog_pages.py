"""Example pages of every dialect, before the real readers: promtool and prometheus_client's parsers."""

import shutil
import subprocess
from collections.abc import Callable, Iterable

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as untyped_parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gpusight.catalog import own, sharing
from gpusight.catalog.all import DIALECTS, ONLY
from gpusight.catalog.docs import openmetrics_name
from gpusight.catalog.spec import FamilySpec
from gpusight.exposition.blocks import FamilyBlock, Histogram
from gpusight.exposition.text import OPENMETRICS, TEXT, encode

PAGES: dict[str, tuple[FamilySpec, ...]] = {
    (topic if dialect == ONLY else f"{topic} {dialect}"): families
    for topic, dialects in DIALECTS.items()
    for dialect, families in dialects.items()
} | {"sharing in full": sharing.FAMILIES}

parse_openmetrics: Callable[[str], Iterable[Metric]] = untyped_parse_openmetrics

RULES_OF_FINDINGS = {
    "snake_case": "snake-case",
    'counter metrics should have "_total" suffix': "counter-suffix",
    "abbreviated units": "base-unit",
    "should not include type": "type-in-name",
    'should not have "_count" suffix': "reserved-suffix",
}

every_page = pytest.mark.parametrize("page", PAGES)


def _example(spec: FamilySpec) -> FamilyBlock:
    key = tuple(f"some {name}" for name in spec.label_names)
    counts = (1,) * (len(spec.buckets) + 1)
    return FamilyBlock(spec, (key,), (Histogram(counts, 2.5) if spec.kind == "histogram" else 1,))


def _blocks(page: str) -> list[FamilyBlock]:
    return [_example(spec) for spec in _families(page)]


def _families(page: str) -> tuple[FamilySpec, ...]:
    """What stands on the page: its topic, and what every role says of itself."""
    return PAGES[page] if page == "own" else (*PAGES[page], *own.FAMILIES)


@every_page
def test_names_are_unique_on_a_page(page: str) -> None:
    names = [spec.name for spec in _families(page)]
    assert len(set(names)) == len(names)


@every_page
def test_openmetrics_family_and_sample_names_are_unique_on_a_page(page: str) -> None:
    families = [OPENMETRICS.family_name(spec) for spec in _families(page)]
    samples = [OPENMETRICS.sample_name(spec) for spec in _families(page)]
    assert len(set(families)) == len(families)
    assert len(set(samples)) == len(samples)


@every_page
def test_openmetrics_names_are_those_of_the_encoder(page: str) -> None:
    for spec in _families(page):
        assert openmetrics_name(spec) == OPENMETRICS.sample_name(spec)


def _legal_findings(families: tuple[FamilySpec, ...]) -> set[tuple[str, str]]:
    return {(spec.name, waiver.rule) for spec in families for waiver in spec.waivers}


@every_page
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing_but_what_is_waived(page: str) -> None:
    text = encode(_blocks(page), dialect=TEXT)
    run = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    lines = (run.stdout + run.stderr).decode().splitlines()
    found = {(line.split(" ")[0], _rule(line)) for line in lines}
    assert found <= _legal_findings(_families(page)), lines
    assert run.returncode == (3 if lines else 0)


def _rule(line: str) -> str:
    return next((rule for finding, rule in RULES_OF_FINDINGS.items() if finding in line), line)


@every_page
def test_the_text_page_is_read_as_declared(page: str) -> None:
    parsed = {family.name: family for family in parse_text(encode(_blocks(page), dialect=TEXT).decode())}
    for spec in _families(page):
        # prometheus_client knows counters by the name without `_total`.
        family = parsed[spec.name.removesuffix("_total") if spec.kind == "counter" else spec.name]
        assert family.type == spec.kind
        assert family.documentation == spec.help
        assert set(spec.label_names) <= set(family.samples[0].labels)


@every_page
def test_the_openmetrics_page_is_read_as_declared(page: str) -> None:
    parsed = {family.name: family for family in parse_openmetrics(encode(_blocks(page), dialect=OPENMETRICS).decode())}
    for spec in _families(page):
        family = parsed[OPENMETRICS.family_name(spec)]
        assert family.type == spec.kind
        if spec.kind != "histogram":
            assert [sample.name for sample in family.samples] == [openmetrics_name(spec)]
