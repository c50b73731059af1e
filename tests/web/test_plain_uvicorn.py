"""`uvicorn gpusight.web.app:app`: made at the start, guarded like our own server."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.net import Client, connected, fetch, free_port
from tests.support.process import running, wait_for_http

REPOSITORY = Path(__file__).parents[2]


def command(app: str, port: int) -> list[str]:
    return [sys.executable, "-m", "uvicorn", app, "--host", "127.0.0.1", "--port", str(port)]


def test_importing_the_module_starts_nothing() -> None:
    code = "import sys, gpusight.web.app; sys.exit('gpusight.runtime' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=REPOSITORY).returncode == 0


def test_it_starts_serves_outlives_dawdlers_and_stops(tmp_path: Path) -> None:
    port = free_port()
    log = tmp_path / "log"
    with running(command("tests.web.plain_root:app", port), log, cwd=REPOSITORY) as process:
        wait_for_http(f"http://127.0.0.1:{port}/results", process)
        asyncio.run(_dawdle(port))
    said = log.read_text()
    assert said.index("started") < said.index("stopped")
    assert "Traceback" not in said
    assert process.returncode in (0, -signal.SIGTERM), "uvicorn passes the signal on when it has tidied up"


async def _dawdle(port: int) -> None:
    async with asyncio.timeout(25), connected(port) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost:")
        assert (await fetch(port, "/health")).status == 200
        assert await _status(client) == 408


async def _status(client: Client) -> int:
    return (await client.answer()).status


def test_a_start_that_fails_is_one_sentence(tmp_path: Path) -> None:
    port = free_port()
    ended = subprocess.run(
        command("tests.web.plain_root:failing", port), capture_output=True, text=True, check=False, cwd=REPOSITORY
    )
    assert ended.returncode == 3
    assert "the token file is not there" in ended.stderr
    assert "Traceback" not in ended.stderr
