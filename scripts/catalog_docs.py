"""Write docs/metrics from the catalog, or check that it is in step.

python scripts/catalog_docs.py                  write the pages
python scripts/catalog_docs.py --check          fail if a page or the list of stable families is out of step
python scripts/catalog_docs.py --update-golden  write tests/golden/stable_families.txt as well
"""

import argparse
import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

from gpusight.catalog.docs import COMMAND, pages, stable_list

ROOT = Path(__file__).resolve().parent.parent
DOCS = Path("docs/metrics")
GOLDEN = Path("tests/golden/stable_families.txt")


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if anything is out of step")
    parser.add_argument("--update-golden", action="store_true", help="rewrite the list of stable families as well")
    options = parser.parse_args(arguments)
    if options.check:
        return _check(root)
    _write(root, _docs() | (_golden() if options.update_golden else {}))
    return 0


def _docs() -> dict[Path, str]:
    return {DOCS / name: text for name, text in pages().items()}


def _golden() -> dict[Path, str]:
    return {GOLDEN: stable_list()}


def _check(root: Path) -> int:
    problems = list(_differences(root, _docs() | _golden()))
    if problems:
        print(*problems, sep="\n", file=sys.stderr)
        print(f"\nRun `{COMMAND}` to write the pages.", file=sys.stderr)
        print(f"If stable families are meant to change, run `{COMMAND} --update-golden`.", file=sys.stderr)
    return 1 if problems else 0


def _differences(root: Path, wanted: dict[Path, str]) -> Iterator[str]:
    for path, text in wanted.items():
        there = (root / path).read_text(encoding="utf-8") if (root / path).exists() else ""
        changes = _changed_lines(there, text)
        if changes:
            yield f"{path}: {len(changes)} lines differ, the first being\n  {changes[0]}"
    yield from (f"{path}: no topic has this page" for path in _strays(root))


def _changed_lines(there: str, wanted: str) -> list[str]:
    diff = difflib.unified_diff(there.splitlines(), wanted.splitlines(), lineterm="", n=0)
    return [line for line in diff if line[0] in "+-" and not line.startswith(("+++", "---"))]


def _strays(root: Path) -> list[Path]:
    known = set(_docs())
    return sorted(path for found in (root / DOCS).glob("*.md") if (path := found.relative_to(root)) not in known)


def _write(root: Path, wanted: dict[Path, str]) -> None:
    for path, text in wanted.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    for path in _strays(root):
        (root / path).unlink()


if __name__ == "__main__":
    sys.exit(main())
