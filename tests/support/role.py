"""A role of ours as a real process."""

import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple

from tests.support.process import running


class Role(NamedTuple):
    """Where a running role listens."""

    address: str
    process: "Popen[bytes]"
    log: Path

    @property
    def url(self) -> str:
        return f"http://{self.address}"


@contextmanager
def running_role(directory: Path, role: str, *flags: str, environ: dict[str, str] | None = None) -> Iterator[Role]:
    """`gpusight ROLE` on a free port of loopback, ready to be scraped."""
    log = directory / f"{role}.log"
    command: Sequence[str] = [
        *(sys.executable, "-m", "gpusight", role),
        *("--web.listen-address", "127.0.0.1:0", *flags),
    ]
    with running(command, log, env=environ) as process:
        yield Role(_address(log, process), process, log)


def _address(log: Path, process: "Popen[bytes]", within: float = 20.0) -> str:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        found = re.search(r"listens on (127\.0\.0\.1:\d+)", log.read_text())
        if found:
            return found[1]
        assert process.poll() is None, f"it ended with {process.returncode}: {log.read_text()}"
        time.sleep(0.02)
    raise AssertionError(f"it did not say where it listens: {log.read_text()}")
