"""A real PostgreSQL on loopback with a throw-away cluster."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from tests.support.net import free_port

PASSWORD = "p@ss/w0rd:%41 ü"


def _programs() -> Path | None:
    """Debian keeps the server's programs out of PATH, by version."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = str(debian[-1]) if debian else shutil.which("initdb")
    return Path(found).parent if found else None


PROGRAMS = _programs()
needs_postgres = pytest.mark.skipif(
    PROGRAMS is None, reason="the programs of PostgreSQL are not installed (apt install postgresql)"
)


class Postgres:
    """One server, which can be killed and started again."""

    user = "gpusight"

    def __init__(self, directory: Path) -> None:
        assert PROGRAMS is not None
        self.port = free_port()
        self._data = directory / "data"
        self._log = directory / "log"
        # The server refuses to run as root.
        self._as: dict[str, Any] = {"cwd": directory}
        if os.geteuid() == 0:
            shutil.chown(directory, "postgres", "postgres")
            self._as |= {"user": "postgres", "group": "postgres", "extra_groups": []}
        password = directory / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        how = ["--no-sync", "--encoding=UTF8", "--locale=C.UTF-8", "--auth=scram-sha-256", f"--pwfile={password}"]
        command = [str(PROGRAMS / "initdb"), f"--username={self.user}", f"--pgdata={self._data}", *how]
        subprocess.run(command, check=True, capture_output=True, **self._as)
        self._command = [str(PROGRAMS / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        for option in ("listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=40"):
            self._command += ["-c", option]
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres", password: str = PASSWORD) -> str:
        return f"postgres://{self.user}:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def run(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def start(self, within: float = 30.0) -> None:
        """Until it answers. Right after a kill it refuses for a moment, while its children still end."""
        deadline = time.monotonic() + within
        while not self._answers():
            assert time.monotonic() < deadline, self._log.read_text(errors="replace")[-2000:]
            if self._process is None or self._process.poll() is not None:
                with self._log.open("ab") as log:
                    self._process = subprocess.Popen(self._command, stdout=log, stderr=log, **self._as)
            time.sleep(0.05)

    def kill(self) -> None:
        """As a power cut would, for this server: all its processes at once."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        self._process.kill()
        self._process.wait()
        for child in map(int, children):
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # fast: it does not wait for clients
            self._process.wait(30)

    def _answers(self) -> bool:
        try:
            self.run("select 1")
        except psycopg.OperationalError:
            return False
        return True


_MEMORY = Path("/dev/shm")


def _fast_disk() -> Path | None:
    """A server syncs often; what it wrote survives its own death on a disk in memory, too."""
    has_room = os.access(_MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(_MEMORY).free > 512 << 20
    return _MEMORY if has_room else None


@contextmanager
def temporary_postgres() -> Iterator[Postgres]:
    directory = Path(tempfile.mkdtemp(prefix="gpusight-postgres-", dir=_fast_disk()))
    try:
        server = Postgres(directory)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(directory)
