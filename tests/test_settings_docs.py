"""docs/settings.md says what the table says."""

import subprocess
import sys
from pathlib import Path

from gpusight.errors import EXIT_CODES
from gpusight.knobs import SETTINGS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "settings.md").read_text("utf-8")


def test_page_is_in_step_with_the_table() -> None:
    done = subprocess.run(
        (sys.executable, ROOT / "scripts" / "settings_docs.py", "--check"), capture_output=True, check=False, timeout=30
    )

    assert (done.stderr, done.returncode) == (b"", 0)


def test_page_names_every_setting_variable_and_exit_code() -> None:
    assert all(f"| `{setting.name}` |" in PAGE for setting in SETTINGS)
    assert all(f"`{name}`" in PAGE for setting in SETTINGS for name in setting.env_names)
    assert all(f"| {code} | {meaning} |" in PAGE for code, meaning in EXIT_CODES.items())
