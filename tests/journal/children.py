"""Processes that the tests kill: `python -m tests.journal.children record|lead`, the location in $LOCATION."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpusight.journal.leader import leadership
from gpusight.journal.open import open_journal
from gpusight.journal.retention import Retention
from gpusight.model.time import SystemClock
from tests.journal.rows import CHANGE, EPISODE, HOUR

_ROOT = Path(__file__).parents[2]


@contextmanager
def child(verb: str, location: str | Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.journal.children", verb]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
        env={**os.environ, "LOCATION": str(location)},
    )
    try:
        with process:
            try:
                yield process
            finally:
                process.kill()
    finally:
        process.wait()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def record() -> None:
    """Rounds without end, each acknowledged when the journal says that it is kept."""
    journal = open_journal(os.environ["LOCATION"], retention=Retention(), clock=SystemClock())
    number = int(journal.state() or b"0")
    while True:
        number += 1
        journal.record_round(
            [CHANGE._replace(at=float(number))],
            [HOUR._replace(used_gpu_hours=float(number), subject=str(part)) for part in range(200)],
            [EPISODE._replace(opened=float(number))],
            str(number).encode(),
            at=float(number),
        )
        print(number, flush=True)


def lead() -> None:
    """Try once for every line that comes in, and tell."""
    leader = leadership(os.environ["LOCATION"])
    for _ in sys.stdin:
        print(leader.acquire(), flush=True)


if __name__ == "__main__":
    {"record": record, "lead": lead}[sys.argv[1]]()
