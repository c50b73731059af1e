"""`gpusight up`: everything on one machine, over its own GPUs or simulated ones."""

import ctypes
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

from gpusight.errors import SettingsError, StartError
from gpusight.exposition.listen import ListenError, bind_all
from gpusight.journal.leader import FileLeader
from gpusight.journal.open import FILE_NAME as JOURNAL
from gpusight.model.time import ScaledClock, SystemClock
from gpusight.runtime.analyze_config import data_dir
from gpusight.runtime.analyze_store import FILE_NAME as SAMPLES
from gpusight.runtime.roles import role_named
from gpusight.runtime.supervise import ChildSpec, Family
from gpusight.settings import Resolved, Settings
from gpusight.simulate.spec import SpecError, load_spec

_log = logging.getLogger("gpusight.up")
_PROGRAM = "examples.gpu_ops"
_OWN = frozenset({"web.listen-address", "data.dir", "simulate", "simulate.speed", "store", "up.status-file"})
"""Settings that `up` gives its children itself."""


def run(settings: Settings) -> int:
    """Until SIGINT or SIGTERM; the exit code."""
    if _fleet(settings) is None and not _has_driver():
        raise StartError(
            "there is no NVIDIA driver on this machine: `gpusight up --simulate` shows simulated GPUs,"
            " and on a machine with a GPU `gpusight up` shows its own"
        )
    directory = _directory(settings)
    alone = FileLeader(directory / "up.lock")
    if not alone.acquire():
        raise StartError(f"another `gpusight up` uses {directory}: stop it, or give this one a --data.dir of its own")
    _clear_if_simulated(settings, directory)
    _check_addresses(settings.get("web.listen-address"))
    status_file = directory / "roles.json"
    specs = list(_Plan(settings, directory, status_file).children())
    family = Family(specs, SystemClock(), status_file)
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    family.start()
    try:
        _announce(specs[-1].url, stopped)
        stopped.wait()
        _log.info("stopping")
    finally:
        family.stop()
        status_file.unlink(missing_ok=True)
    return 0


def _fleet(settings: Settings) -> str | None:
    """Without a name it is the fleet that shows most."""
    named: str | None = settings.get("simulate")
    fleet = "demo" if named == "default" else named
    try:
        return fleet if fleet is None or load_spec(fleet) else None
    except SpecError as error:
        raise SettingsError(f"setting simulate: {error}") from error


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def _directory(settings: Settings) -> Path:
    """Simulated runs keep their data apart from real ones, and from each other's fleets."""
    base = data_dir(settings, os.environ)
    simulate = _fleet(settings)
    path = base / "up" if simulate is None else base / f"up-simulated-{quote(str(simulate), safe='')[:80]}"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def _clear_if_simulated(settings: Settings, directory: Path) -> None:
    """Each simulated world begins anew: another one's past would contradict it."""
    if _fleet(settings) is not None:
        for old in (*directory.glob(f"{SAMPLES}*"), *directory.glob(f"{JOURNAL}*")):
            old.unlink()


def _check_addresses(addresses: Sequence[str]) -> None:
    """A port that somebody has is said at once, and not by a child that is started again and again."""
    try:
        for sock in bind_all(addresses):
            sock.close()
    except ListenError as error:
        raise StartError(str(error)) from error


def _announce(url: str, stopped: threading.Event) -> None:
    """Say where the page is as soon as it answers."""
    while not stopped.wait(0.1):
        try:
            with urlopen(f"{url}/readyz", timeout=2) as answer:  # noqa: S310 - our own address
                if answer.status == 200:
                    _log.info("the page is at %s", url)
                    return
        except (URLError, OSError):
            continue


class _Plan:
    """Which children run, and how each is told what the user wished."""

    def __init__(self, settings: Settings, directory: Path, status_file: Path) -> None:
        self._settings = settings
        self._directory = directory
        self._status_file = status_file
        self._simulate = _fleet(settings)
        clock = ScaledClock(settings.get("simulate.speed"), time.time(), time.monotonic())
        self._clock = str(clock) if self._simulate is not None else ""

    def children(self) -> Iterator[ChildSpec]:
        """The analyzer last: it scrapes the others."""
        targets: list[str] = []
        node = f"http://127.0.0.1:{_free_port()}"
        if self._simulate is None:
            targets.append(f"{node}/metrics")
        yield self._child("node", node, self._node_habits(), self._node_environ())
        if self._simulate is not None and find_spec(_PROGRAM.partition(".")[0]) is not None:
            program = f"http://127.0.0.1:{_free_port()}"
            targets.append(f"{program}/metrics")
            port = program.rpartition(":")[2]
            yield ChildSpec("program", [sys.executable, "-m", _PROGRAM, "--port", port], program)
        yield self._analyzer(node, targets)

    def _node_environ(self) -> dict[str, str]:
        return {"GPUSIGHT_SIMULATE": self._simulate} if self._simulate is not None else {}

    def _node_habits(self) -> dict[str, str]:
        """One agent stands for many: it may take longer, reads each node when it is scraped, and saves series."""
        if self._simulate is None:
            return {}
        return {
            "GPUSIGHT_NVML_TIMEOUT": "2s",
            "GPUSIGHT_COLLECT_MAX_AGE": "200ms",
            "GPUSIGHT_HAMI_VALUE_LABELS": "false",
        }

    def _demonstration(self) -> dict[str, str]:
        """Owners and prices for the simulated fleet, unless the user has some."""
        if self._simulate is None:
            return {}
        return {
            "GPUSIGHT_PRICES_FILE": _demo_file("prices.yaml"),
            "GPUSIGHT_TENANTS_FILE": _demo_file("tenants.yaml"),
        }

    def _child(self, role: str, url: str, habits: Mapping[str, str], environ: Mapping[str, str]) -> ChildSpec:
        """`habits` are what the user may overrule, `environ` is what must be."""
        address = url.removeprefix("http://")
        own = {"GPUSIGHT_WEB_LISTEN_ADDRESS": address, "GPUSIGHT_SIMULATE_CLOCK": self._clock}
        told = {**habits, **environ_of(self._settings, role), **own, **environ}
        return ChildSpec(role, [sys.executable, "-m", "gpusight", role], url, environ=told)

    def _analyzer(self, node: str, targets: Iterable[str]) -> ChildSpec:
        addresses = self._settings.get("web.listen-address")
        told = {
            "GPUSIGHT_QUERY_CONDITION": "{}",  # free GPUs are part of the picture
            **self._demonstration(),
            **environ_of(self._settings, "analyze"),
            "GPUSIGHT_WEB_LISTEN_ADDRESS": ",".join(addresses),
            "GPUSIGHT_SIMULATE_CLOCK": self._clock,
            "GPUSIGHT_STORE": "embedded",
            "GPUSIGHT_DATA_DIR": str(self._directory),
            "GPUSIGHT_UP_STATUS_FILE": str(self._status_file),
            "GPUSIGHT_SCRAPE_TARGET": ",".join((*targets, *self._settings.get("scrape.target"))),
            **self._node_environ(),
            **({"GPUSIGHT_SIMULATE_AGENT": node} if self._simulate is not None else {}),
        }
        return ChildSpec("analyze", [sys.executable, "-m", "gpusight", "analyze"], _page(addresses[0]), "/", told)


def _demo_file(name: str) -> str:
    return str(resources.files("gpusight.simulate").joinpath("demo", name))


def environ_of(settings: Settings, role: str) -> dict[str, str]:
    """What the user gave, as the environment of a child: the command line of a process everybody can read."""
    known = {setting.name for setting in role_named(role).settings} - _OWN
    return {
        each.setting.env_names[0]: _text(each)
        for each in settings
        if each.setting.name in known and each.origin not in ("default", "not set")
    }


def _text(resolved: Resolved) -> str:
    values = resolved.value if isinstance(resolved.value, tuple) else (resolved.value,)
    return ",".join(f"{value:g}s" if resolved.setting.type == "duration" else str(value) for value in values)


def _page(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"http://{host if host not in ('', '0.0.0.0', '[::]') else 'localhost'}:{port}"


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
