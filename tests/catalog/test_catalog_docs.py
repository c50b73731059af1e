"""Pages and golden list in step with the catalog, and the script that keeps them so."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from gpusight.catalog.all import DIALECTS, FAMILIES, TOPICS
from gpusight.catalog.docs import pages, stable_list

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("catalog_docs", ROOT / "scripts" / "catalog_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def written(script: ModuleType, tmp_path: Path) -> Path:
    assert script.main(["--update-golden"], root=tmp_path) == 0
    return tmp_path


def test_docs_and_golden_list_are_in_step(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    code = script.main(["--check"])
    assert code == 0, capsys.readouterr().err


def test_what_was_just_written_is_in_step(script: ModuleType, written: Path) -> None:
    assert script.main(["--check"], root=written) == 0


def test_an_edited_page_is_out_of_step(script: ModuleType, written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = written / "docs/metrics/ops.md"
    page.write_text(page.read_text().replace("kind: counter", "kind: gauge", 1))
    assert script.main(["--check"], root=written) == 1
    message = capsys.readouterr().err
    assert "docs/metrics/ops.md: 2 lines differ" in message
    assert "- kind: gauge" in message
    assert "python scripts/catalog_docs.py" in message


def test_a_missing_page_is_out_of_step(script: ModuleType, written: Path) -> None:
    (written / "docs/metrics/own.md").unlink()
    assert script.main(["--check"], root=written) == 1


def test_a_page_without_topic_is_found_and_removed(script: ModuleType, written: Path) -> None:
    stray = written / "docs/metrics/gone.md"
    stray.write_text("gone\n")
    assert script.main(["--check"], root=written) == 1
    script.main([], root=written)
    assert not stray.exists()


def test_writing_the_docs_leaves_the_golden_list_alone(
    script: ModuleType, written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = written / "tests/golden/stable_families.txt"
    golden.write_text(golden.read_text().replace("gpu_available gauge", "gpu_present gauge"))
    script.main([], root=written)
    assert script.main(["--check"], root=written) == 1
    assert "--update-golden" in capsys.readouterr().err


@pytest.mark.parametrize("topic", TOPICS)
def test_every_family_has_a_section_with_its_texts_and_labels(topic: str) -> None:
    page = pages()[f"{topic}.md"]
    sections = dict(re.findall(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert set(sections) == {spec.name for spec in TOPICS[topic]}
    for spec in TOPICS[topic]:
        section = sections[spec.name]
        expected = [spec.help, spec.how_to_read, spec.kind, spec.unit, spec.superseded_by]
        expected += [f"`{label.name}`: {label.meaning}" for label in spec.labels]
        expected += [f"{waiver.rule}: {waiver.reason}" for waiver in spec.waivers]
        assert [text for text in expected if text not in section] == []


def test_links_lead_somewhere() -> None:
    written = pages()
    anchors = {
        name: {heading.strip("`").lower() for heading in re.findall(r"^## (.*)$", text, re.MULTILINE)}
        for name, text in written.items()
    }
    for name, text in written.items():
        for target, anchor in re.findall(r"\]\(([\w.]*)#?([\w]*)\)", text):
            assert (target or name) in written
            assert not anchor or anchor in anchors[target or name], anchor


def test_the_index_names_every_family_and_the_counts() -> None:
    index = pages()["README.md"]
    assert [spec.name for spec in FAMILIES if f"[`{spec.name}`]" not in index] == []
    for row in ("| 000 | the program's operations | 32 |", "| 001 | together | 23 |", "| 003 | analyzer | 18 |"):
        assert row in index
    assert "| `gpu_total_executions` | `gpu_total_executions_total` |" in index


def test_the_golden_list_has_every_stable_family_of_every_dialect() -> None:
    lines = [line for line in stable_list().splitlines() if line and not line.startswith("#")]
    stable = [spec for group in DIALECTS.values() for families in group.values() for spec in families]
    assert len(lines) == sum(spec.stability == "stable" for spec in stable)
