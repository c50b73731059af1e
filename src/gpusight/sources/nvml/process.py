"""One child process: started, asked, signalled. Nothing here waits longer than it is told to."""

import select
import signal
import socket
import subprocess
from collections.abc import Sequence
from threading import Event, Thread
from typing import Final

from gpusight.model.time import Clock
from gpusight.sources.nvml.wire import Answer, Frames, Sweep, decode_answer, encode_sweep

_PIECE: Final = 262_144
_START_SECONDS: Final = 1.0
"""For the fork; a program that is slow to load does so while it is already being asked."""


class ChildGone(Exception):  # noqa: N818 - a state, not an error
    """It ended, and says how."""


class ChildProcess:
    """A child and our end of its socket."""

    def __init__(self, command: Sequence[str], clock: Clock) -> None:
        self._clock = clock
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        self._frames = Frames()
        self.has_answered = False
        self._process: subprocess.Popen[bytes] | None = None
        self._problem = ""
        self._is_started = Event()
        self._has_ended = Event()
        self.started_at = clock.monotonic()
        Thread(target=self._keep, args=(command, theirs), name="nvml-child", daemon=True).start()
        self._is_started.wait(_START_SECONDS)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def has_ended(self) -> bool:
        return self._has_ended.is_set()

    def ask(self, sweep: Sweep) -> None:
        try:
            self._socket.send(encode_sweep(sweep))
        except BlockingIOError:
            return  # it does not read any more: no answer will come, and that is noticed
        except OSError as error:
            raise ChildGone(self.how_it_ended()) from error

    def answer(self, within: float) -> Answer | None:
        """The next answer, or None if it does not come in time."""
        deadline = self._clock.monotonic() + within
        while True:
            body = self._frames.next()
            if body is not None:
                self.has_answered = True
                return decode_answer(body)
            if not self._receive(deadline - self._clock.monotonic()):
                return None

    def hang_up(self) -> None:
        """It ends by itself when nobody is at the other end."""
        self._socket.close()

    def send_signal(self, number: signal.Signals) -> None:
        if self._process and not self.has_ended:
            self._process.send_signal(number)

    def wait(self, within: float) -> bool:
        return self._has_ended.wait(within)

    def how_it_ended(self) -> str:
        self.wait(0.2)  # the socket closes a little before the process is gone
        code = self._process.returncode if self._process else None
        if code is None:
            return self._problem or "its socket closed"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def _receive(self, within: float) -> bool:
        """Take what is there, or comes in time. `poll` and not `select`: the agent may hold more than 1,024 files."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        if within < 0 or not poll.poll(within * 1000):
            return False
        try:
            data = self._socket.recv(_PIECE)
        except OSError as error:
            raise ChildGone(self.how_it_ended()) from error
        if not data:
            raise ChildGone(self.how_it_ended())
        self._frames.feed(data)
        return True

    def _keep(self, command: Sequence[str], theirs: socket.socket) -> None:
        """Lives as long as the child: Linux tells a child of its parent's death when the thread that forked it ends."""
        try:
            with theirs:
                self._process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)  # noqa: S603
        except OSError as error:
            self._problem = f"cannot be started: {error}"
        self._is_started.set()
        if self._process:
            self._process.wait()
        self._has_ended.set()
