"""Child processes that are always ended."""

import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def running(command: Sequence[str], log: Path, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose output goes to a file; terminated, then killed, at the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, **options)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for_http(url: str, process: subprocess.Popen[bytes], within: float = 20.0) -> None:
    """Until the address answers 200; fails if the process ends before."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the process ended with {process.returncode} before {url} answered"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
    raise AssertionError(f"{url} did not answer within {within} s")
