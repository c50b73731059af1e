"""Every family keeps the naming rules or has a waiver for exactly those that it breaks."""

import re
from collections.abc import Callable
from types import ModuleType

import pytest

from gpusight.catalog import allocation, dcgm, hardware, labels, ops, own, sharing, utilization, vgpu
from gpusight.catalog.all import FAMILIES, TOPICS
from gpusight.catalog.docs import ORIGINS, RULES
from gpusight.catalog.spec import FamilySpec, Label

SUFFIX_OF_UNIT = {
    "bytes": "_bytes",
    "seconds": "_seconds",
    "timestamp": "_timestamp_seconds",
    "ratio": "_ratio",
    "watts": "_watts",
    "joules": "_joules",
    "hertz": "_hertz",
    "celsius": "_celsius",
    "bytes per second": "_bytes_per_second",
    "info": "_info",
    "milliseconds": "_ms",
    "percent": "_percent",
    "mebibytes": "_mb",
    "mebibytes per second": "_mb_per_second",
    "megahertz": "_mhz",
    "millijoules": "_mj",
}
NOT_BASE = {"milliseconds", "percent", "mebibytes", "mebibytes per second", "megahertz", "millijoules"}
WITHOUT_SUFFIX = {"boolean", "count", "score", "bitmap", "quota units", "level", "code"}
RESERVED_SUFFIXES = ("_count", "_sum", "_bucket")
TARGET_LABELS = {"instance", "job", "cluster", "region", "zone", "env", "service", "type"}
MEASURED_LABELS = {
    *("devicecores", "sharedcontainers", "devicememorylimit", "context", "data", "offset", "limit"),
    *("device_cores", "shared_containers", "device_memory_limit", "context_size", "module_size", "buffer_size"),
}
TYPE_IN_NAME = re.compile(r"_(counter|gauge|histogram|summary)(_|$)", re.IGNORECASE)
SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def _misses_unit(spec: FamilySpec) -> bool:
    name = spec.name.removesuffix("_total") if spec.kind == "counter" else spec.name
    claimed = {unit for unit, suffix in SUFFIX_OF_UNIT.items() if name.endswith(suffix)}
    if "timestamp" in claimed:
        claimed.remove("seconds")
    return claimed != {spec.unit} & set(SUFFIX_OF_UNIT)


CHECKS: dict[str, Callable[[FamilySpec], bool]] = {
    "snake-case": lambda spec: not all(map(SNAKE_CASE.fullmatch, (spec.name, *spec.label_names))),
    "counter-suffix": lambda spec: spec.name.endswith("_total") != (spec.kind == "counter"),
    "unit-suffix": _misses_unit,
    "base-unit": lambda spec: spec.unit in NOT_BASE,
    "type-in-name": lambda spec: bool(TYPE_IN_NAME.search(spec.name)),
    "reserved-suffix": lambda spec: spec.name.endswith(RESERVED_SUFFIXES),
    "target-label": lambda spec: bool(TARGET_LABELS & set(spec.label_names)),
    "measured-label": lambda spec: bool(MEASURED_LABELS & set(spec.label_names)),
}

every_family = pytest.mark.parametrize("spec", FAMILIES, ids=lambda spec: f"{spec.endpoint}:{spec.name}")


def test_every_rule_is_checked() -> None:
    assert list(CHECKS) == list(RULES)


@every_family
def test_waivers_are_exactly_for_the_rules_that_are_broken(spec: FamilySpec) -> None:
    broken = {rule for rule, is_broken in CHECKS.items() if is_broken(spec)}
    assert {waiver.rule for waiver in spec.waivers} == broken
    assert len(spec.waivers) == len(broken)


@every_family
def test_waivers_have_reasons(spec: FamilySpec) -> None:
    assert all(waiver.reason.endswith(".") for waiver in spec.waivers)


@every_family
def test_names_can_be_exposed(spec: FamilySpec) -> None:
    assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", spec.name)
    for name in spec.label_names:
        assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name)
        assert not name.startswith("__")
        assert name not in ("le", "quantile")
    assert len(set(spec.label_names)) == len(spec.labels)


@every_family
def test_help_is_one_sentence(spec: FamilySpec) -> None:
    assert re.fullmatch(r"[A-Z][^\n]*[^\n.]\.", spec.help)
    assert not re.search(r"[.!?] [A-Z]", spec.help)


@every_family
def test_how_to_read_helps_the_reader(spec: FamilySpec) -> None:
    assert re.fullmatch(r"\S[^\n]*\.", spec.how_to_read)
    assert spec.how_to_read != spec.help


@every_family
def test_units_are_known(spec: FamilySpec) -> None:
    assert spec.unit in WITHOUT_SUFFIX | set(SUFFIX_OF_UNIT)


@every_family
def test_families_named_in_a_text_exist(spec: FamilySpec) -> None:
    known = {family.name for family in FAMILIES}
    text = f"{spec.help} {spec.how_to_read} {' '.join(waiver.reason for waiver in spec.waivers)}"
    named = set(re.findall(r"\b(?:gpu|gpusight|nvshare|hami)_[a-z_]*[a-z]\b", text)) - set(labels_by_name())
    assert {name for name in named if not any(other.startswith(name) for other in known)} == set()


def labels_by_name() -> dict[str, Label]:
    return {label.name: label for label in vars(labels).values() if isinstance(label, Label)}


@every_family
def test_buckets_belong_to_histograms_and_rise(spec: FamilySpec) -> None:
    assert bool(spec.buckets) == (spec.kind == "histogram")
    assert list(spec.buckets) == sorted(set(spec.buckets))


@every_family
def test_superseding_families_exist(spec: FamilySpec) -> None:
    assert not spec.superseded_by or spec.superseded_by in {family.name for family in FAMILIES}


@every_family
def test_origin_is_described(spec: FamilySpec) -> None:
    assert spec.origin in ORIGINS


@pytest.mark.parametrize(
    "module", [ops, vgpu, hardware, dcgm, allocation, utilization, sharing, own], ids=lambda module: module.__name__
)
def test_no_declared_family_is_forgotten(module: ModuleType) -> None:
    declared = {name: spec for name, spec in vars(module).items() if isinstance(spec, FamilySpec)}
    assert [name for name, spec in declared.items() if spec not in FAMILIES] == []


def test_labels_mean_something() -> None:
    for label in labels_by_name().values():
        assert re.fullmatch(r"\S[^\n]*\.", label.meaning), label


def test_labels_are_the_shared_ones() -> None:
    shared = [label for label in vars(labels).values() if isinstance(label, Label)]
    for spec in FAMILIES:
        assert all(any(label is one for one in shared) for label in spec.labels), spec.name


def test_no_label_constant_is_unused() -> None:
    used = {label for spec in FAMILIES for label in spec.labels}
    unused = [name for name, label in vars(labels).items() if isinstance(label, Label) and label not in used]
    assert unused == []


def test_each_topic_has_its_endpoint() -> None:
    assert {topic: {spec.endpoint for spec in families} for topic, families in TOPICS.items()} == {
        "ops": {"ops"},
        "vgpu": {"node"},
        "hardware": {"node"},
        "dcgm": {"node"},
        "node_health": {"node"},
        "allocation": {"cluster"},
        "pods": {"cluster"},
        "utilization": {"analyze"},
        "verdicts": {"analyze"},
        "sharing": {"share"},
        "own": {"every role"},
    }


def test_only_what_nobody_built_is_experimental() -> None:
    assert {spec for spec in FAMILIES if spec.stability != "stable"} == set(sharing.DESIGNED)
