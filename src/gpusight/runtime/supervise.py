"""Child processes kept alive: one that ends is started again, a little later each time, and the state is told."""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

import msgspec
from msgspec import Struct

from gpusight.model.time import Clock

_log = logging.getLogger("gpusight.up")
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_HEALTHY_AFTER = 60.0
_PATIENCE = 10.0
_LONGEST_LINE = 64 * 1024

State = Literal["starting", "running", "restarting", "stopped"]


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One program to keep running. `url` is where it can be reached, `page` its page on the web UI."""

    name: str
    command: Sequence[str]
    url: str = ""
    page: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)


class ChildStatus(Struct, frozen=True, kw_only=True):
    """What the API tells of a child."""

    name: str
    url: str
    page: str
    state: State
    pid: int | None
    restarts: int
    since: float
    """Unix time of the last change of state."""
    last_exit: str


class Child:
    """One process and its restarts."""

    def __init__(self, spec: ChildSpec, clock: Clock, changed: Callable[[], None]) -> None:
        self.spec = spec
        self._clock = clock
        self._changed = changed
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._status = ChildStatus(
            name=spec.name,
            url=spec.url,
            page=spec.page,
            state="starting",
            pid=None,
            restarts=0,
            since=clock.now(),
            last_exit="",
        )
        self._thread = threading.Thread(target=self._keep, name=f"child-{spec.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def status(self) -> ChildStatus:
        return self._status

    def stop(self) -> None:
        """Ask it to end; insist after a while."""
        self._stopping.set()
        with self._lock:
            process = self._process
        if process is not None:
            _end(process)
        self._thread.join(timeout=_PATIENCE + 5)
        self._tell("stopped", pid=None)

    def _keep(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stopping.is_set():
            began = self._clock.monotonic()
            ended = self._run()
            if self._stopping.is_set():
                return
            lived = self._clock.monotonic() - began
            pause = _FIRST_PAUSE if lived > _HEALTHY_AFTER else min(pause * 2, _LONGEST_PAUSE)
            _log.warning("%s %s after %.0f s; it is started again in %.1f s", self.spec.name, ended, lived, pause)
            self._tell("restarting", pid=None, restarts=self._status.restarts + 1, last_exit=ended)
            self._stopping.wait(pause)

    def _run(self) -> str:
        """Until it ends; the words how."""
        try:
            process = subprocess.Popen(  # noqa: S603 - commands of our own
                list(self.spec.command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.spec.environ},
                start_new_session=True,  # Ctrl-C comes to us alone: we end the others in order
            )
        except OSError as error:
            return f"could not be started: {error.strerror}"
        with self._lock:
            self._process = process
        if self._stopping.is_set():
            _end(process)
        self._tell("running", pid=process.pid)
        if process.stdout is not None:
            _pass_on(self.spec.name, process.stdout)
        code = process.wait()
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def _tell(self, state: State, **changes: object) -> None:
        self._status = msgspec.structs.replace(self._status, state=state, since=self._clock.now(), **changes)
        self._changed()


def _pass_on(name: str, stream: IO[bytes]) -> None:
    """Its words, under its name, on our stderr."""
    with stream:
        while line := stream.readline(_LONGEST_LINE):
            text = line.decode("utf-8", "backslashreplace").rstrip("\n")
            print(f"{name} | {text}", file=sys.stderr, flush=True)


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()


class Family:
    """All children, and a file that tells their state to whoever shows it."""

    def __init__(self, specs: Sequence[ChildSpec], clock: Clock, status_file: Path) -> None:
        self._status_file = status_file
        self._lock = threading.Lock()
        self.children = [Child(spec, clock, self._write) for spec in specs]

    def start(self) -> None:
        for child in self.children:
            child.start()

    def stop(self) -> None:
        """All at once: none waits for another to end."""
        threads = [threading.Thread(target=child.stop) for child in self.children]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _write(self) -> None:
        with self._lock:
            content = msgspec.json.encode([child.status for child in self.children])
            beside = self._status_file.with_suffix(".new")
            try:
                beside.write_bytes(content)
                beside.replace(self._status_file)
            except OSError as error:
                _log.warning("the state of the roles cannot be written: %s", error.strerror)


def read_status(path: Path) -> tuple[ChildStatus, ...]:
    """What a Family last wrote; nothing if it is not there or not whole."""
    try:
        return tuple(msgspec.json.decode(path.read_bytes(), type=list[ChildStatus]))
    except (OSError, msgspec.DecodeError):
        return ()
