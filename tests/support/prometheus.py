"""A real Prometheus on loopback with a throw-away database."""

import json
import shutil
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.net import free_port
from tests.support.process import running, wait_for_http

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="the `prometheus` program is not installed (apt install prometheus)"
)


class Prometheus:
    """Its HTTP API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant vector."""
        found: list[dict[str, Any]] = self._get("/api/v1/query", query=expression)["result"]
        return found

    def targets(self) -> dict[str, dict[str, Any]]:
        """The active targets by job."""
        return {target["labels"]["job"]: target for target in self._get("/api/v1/targets")["activeTargets"]}

    def wait_until(self, holds: Callable[["Prometheus"], bool], within: float = 15.0) -> None:
        deadline = time.monotonic() + within
        while not holds(self):
            assert time.monotonic() < deadline, f"in vain; targets: {self.targets()}"
            time.sleep(0.1)

    def _get(self, path: str, **parameters: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(parameters)}", timeout=10) as answer:
            return json.load(answer)["data"]


@contextmanager
def temporary_prometheus(directory: Path, scrape_configs: list[dict[str, Any]]) -> Iterator[Prometheus]:
    """Scrapes every 250 ms unless a job says otherwise."""
    config = directory / "prometheus.yml"
    config.write_text(
        yaml.safe_dump(
            {"global": {"scrape_interval": "250ms", "scrape_timeout": "250ms"}, "scrape_configs": scrape_configs}
        )
    )
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}",
    ]
    with running(command, directory / "prometheus.log") as process:
        wait_for_http(f"{url}/-/ready", process)
        yield Prometheus(url)
