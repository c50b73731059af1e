"""`catalog.ops` enters any program: it must bring nothing along."""

import os
import subprocess
import sys
from pathlib import Path

LOADED = """
import sys
before = set(sys.modules)
import gpusight.catalog.ops
print(*sorted(set(sys.modules) - before))
"""


def _python(program: str, cache: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(cache)
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment, timeout=60
    )
    return run.stdout


def test_ops_imports_the_standard_library_and_its_own_three_modules_only(tmp_path: Path) -> None:
    loaded = _python(LOADED, tmp_path).split()
    ours = {name for name in loaded if name.split(".")[0] == "gpusight"}
    foreign = {name for name in loaded if name.split(".")[0] not in {*sys.stdlib_module_names, "gpusight"}}
    assert ours == {"gpusight", *(f"gpusight.catalog{part}" for part in ("", ".spec", ".labels", ".ops"))}
    # A probe of the standard library's copy module for Jython, found nowhere else.
    assert foreign <= {"org", "org.python", "org.python.core"}
