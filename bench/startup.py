"""How fast the library enters a program and the command answers."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Figure, best

_TIMED = "import time; t = time.perf_counter(); import gpusight.instrument; print((time.perf_counter() - t) * 1000)"
_LOADED = "import dataclasses, threading, typing; "


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yield Figure("import_with_common_modules_loaded", _import(_LOADED + _TIMED, environment), "ms", ("<=", 30))
        yield Figure("import_bare", _import(_TIMED, environment), "ms", ("<=", 90))
        yield Figure("gpusight_version", _version(environment), "ms", ("<=", 150))


def _import(code: str, environment: dict[str, str]) -> float:
    def run() -> float:
        command = [sys.executable, "-c", code]
        return float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)

    run()  # writes the bytecode, as an installation does
    return min(run() for _ in range(7))


def _version(environment: dict[str, str]) -> float:
    command = [str(Path(sys.executable).parent / "gpusight"), "--version"]

    def run() -> None:
        subprocess.run(command, capture_output=True, check=True, env=environment)

    run()
    return best(run, 10) * 1000
