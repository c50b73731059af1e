"""docs/doctor.md has every check."""

import re
from pathlib import Path

from gpusight.doctor.table import PERMISSIONS, SYMPTOMS, all_checks
from tests.doctor.subjects import subject

DOCS = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()


def test_every_check_is_documented(tmp_path: Path) -> None:
    named = set(re.findall(r"`([a-z0-9.-]+)`", DOCS))
    ids = {check.id for check in all_checks(subject(tmp_path))}
    tabled = {f"k8s.permissions.{each.resource}.{each.verb}" for each in PERMISSIONS}
    tabled |= {f"prom.symptom.{each.name}" for each in SYMPTOMS}
    assert ids - tabled <= named
    assert {f"{each.resource}.{each.verb}" for each in PERMISSIONS} <= named
    assert {each.name for each in SYMPTOMS} <= named


def test_symptoms_lead_to_checks_that_exist(tmp_path: Path) -> None:
    section = DOCS.partition("## From a symptom to a check")[2].partition("\n\nSome things")[0]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("|")][2:]
    ids = [*(check.id for check in all_checks(subject(tmp_path))), "port.8080"]
    for name in re.findall(r"`([^`]+)`", " ".join(rows)):
        assert any(each == name or each.startswith(f"{name}.") for each in ids), name
