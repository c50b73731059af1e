"""Deadlines and a cap for the connections of uvicorn, which has neither.

A client has so long for the head of a request, so long for its body, and so long to read the answer. At the cap,
whoever has been connected longest without having sent a whole request makes room, then who idles; so an honest request
gets through while hundreds dawdle. `guard_class` changes one protocol class in place: a subclass of ours, or, when
somebody runs plain `uvicorn`, uvicorn's own.
"""

import asyncio
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpusight.exposition.http import connection_cap, raise_open_files_limit

_PLAIN_CLASSES = (
    ("uvicorn.protocols.http.h11_impl", "H11Protocol"),
    ("uvicorn.protocols.http.httptools_impl", "HttpToolsProtocol"),
)
_TOO_LATE_BODY = b'{"error":{"code":"too_late","message":"The request did not arrive in time.","detail":null}}'
_TOO_LATE = (
    b"HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_TOO_LATE_BODY), _TOO_LATE_BODY)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardLimits:
    """How long a client may take, in seconds, and how much it may hold."""

    handshake: float = 5.0
    head: float = 10.0
    body: float = 20.0
    idle: float = 120.0
    """Between requests, whatever uvicorn's own keep-alive time is."""
    write: float = 60.0
    """For one piece of an answer to be taken."""
    request_bytes: int = 3 << 20
    """Of one request, what is refused and thrown away included."""
    connections: int | None = None
    """At most that many; None takes it from the limit on open files."""
    tls_connections: int = 512
    """At most that many where they are TLS: each takes some 65 KiB, many times as much as a plain one."""
    grace: float = 1.0
    """At the cap, so long a newcomer has before it must leave ahead of those who only idle."""
    stalled: int = 64
    """Answers waiting for their readers; one more cuts off the one that has waited longest."""


class Crowd:
    """Who is connected, each group from the longest to the shortest waiting."""

    def __init__(self, limits: GuardLimits, on_refusal: Callable[[], None] = lambda: None) -> None:
        self.limits = limits
        self._on_refusal = on_refusal
        self._cap = limits.connections or connection_cap(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self._newcomers: dict[Watch, None] = {}
        self._idle: dict[Watch, None] = {}
        self._busy: dict[Watch, None] = {}
        self._stalled: dict[Watch, None] = {}
        self._groups = (self._newcomers, self._idle, self._busy)

    def __len__(self) -> int:
        return sum(map(len, self._groups))

    def enter(self, watch: "Watch", *, is_tls: bool) -> None:
        """Let it in; if there is no room, somebody leaves, if need be the one that has just come."""
        cap = min(self._cap, self.limits.tls_connections) if is_tls else self._cap
        if len(self) >= cap and not self._make_room():
            self._on_refusal()
            watch.cut()
            return
        self._newcomers[watch] = None

    def leave(self, watch: "Watch") -> None:
        for group in (*self._groups, self._stalled):
            group.pop(watch, None)

    def begin(self, watch: "Watch") -> None:
        self._move(watch, self._newcomers)

    def serve(self, watch: "Watch") -> None:
        self._move(watch, self._busy)

    def rest(self, watch: "Watch") -> None:
        self._move(watch, self._idle)

    def stall(self, watch: "Watch") -> None:
        self._stalled.setdefault(watch)
        if len(self._stalled) > self.limits.stalled:
            next(iter(self._stalled)).cut()

    def flow(self, watch: "Watch") -> None:
        if watch not in self._busy:  # else the rest of its answer may stall again, and it keeps its place
            self.forgive(watch)

    def forgive(self, watch: "Watch") -> None:
        self._stalled.pop(watch, None)

    def cut_all(self) -> None:
        for group in self._groups:
            for watch in list(group):
                watch.cut()

    def _make_room(self) -> bool:
        newcomer, idler = next(iter(self._newcomers), None), next(iter(self._idle), None)
        if idler is not None and (newcomer is None or newcomer.age < self.limits.grace):
            idler.cut()
        elif newcomer is not None:
            newcomer.cut()
        else:
            return False
        return True

    def _move(self, watch: "Watch", group: "dict[Watch, None]") -> None:
        if watch in group:
            return
        for other in self._groups:
            other.pop(watch, None)
        group[watch] = None


class Watch:
    """What is expected of one connection next, and by when."""

    __slots__ = ("_crowd", "_is_stalled", "_loop", "_phase", "_protocol", "_received", "_since", "_timer", "_transport")

    def __init__(self, crowd: Crowd, transport: asyncio.Transport, protocol: Any, *, is_tls: bool = False) -> None:
        self._crowd = crowd
        self._transport = transport
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._received = 0
        self._phase = "head"
        self._timer: asyncio.TimerHandle | None = None
        self._is_stalled = False
        self._arm()
        crowd.enter(self, is_tls=is_tls)

    @property
    def age(self) -> float:
        return self._loop.time() - self._since

    def receive(self, size: int) -> None:
        """Bytes have come in and are about to be taken."""
        if self._phase == "idle":
            self._enter("head")
        self._received += size
        if self._received > self._crowd.limits.request_bytes:
            self.cut()

    def look(self) -> None:
        """The protocol has taken a step: see where it stands."""
        cycle = self._protocol.cycle
        if cycle is None or self._transport.is_closing():
            return
        if cycle.more_body:
            self._enter("body")
        elif not cycle.response_complete:
            self._enter("busy")
        elif self._phase != "head":
            self._enter("idle")

    def answered(self) -> None:
        """A response is complete; the next request may have come with the one before."""
        if not self._is_stalled:
            self._crowd.forgive(self)
        if self._phase == "busy":
            self._enter("idle")
        self.look()

    def stall(self) -> None:
        """The client does not read; until it does, nothing else counts."""
        self._is_stalled = True
        self._wait(self._crowd.limits.write, self.cut)
        self._crowd.stall(self)

    def flow(self) -> None:
        self._is_stalled = False
        self._crowd.flow(self)
        self._arm()

    def cut(self) -> None:
        """End it now, whatever it is doing."""
        self.gone()
        self._transport.abort()

    def gone(self) -> None:
        self._calm()
        self._crowd.leave(self)

    def _enter(self, phase: str) -> None:
        if phase == self._phase:
            return
        self._phase = phase
        if phase == "idle":
            self._received = 0
            self._crowd.rest(self)
        elif phase == "busy":
            self._crowd.serve(self)
        elif phase == "head":
            self._since = self._loop.time()
            self._crowd.begin(self)
        self._arm()

    def _arm(self) -> None:
        """One deadline at a time."""
        if self._is_stalled:
            return
        limits = self._crowd.limits
        match self._phase:
            case "head":
                self._wait(limits.head, self._head_expired)
            case "body":
                self._wait(limits.body, self.cut)
            case "idle":
                self._wait(limits.idle, self.cut)
            case _:
                self._calm()

    def _head_expired(self) -> None:
        self.gone()
        if self._received:
            self._transport.write(_TOO_LATE)
            self._transport.close()
            self._wait(1.0, self._transport.abort)
        else:
            self._transport.abort()

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        self._calm()
        self._timer = self._loop.call_later(seconds, then)

    def _calm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def guard_class(protocol_class: Any, crowd: Callable[[], Crowd]) -> None:
    """Have every connection of this class watched. Doing it twice changes nothing."""
    if "_gpusight_guarded" in vars(protocol_class):
        return
    protocol_class._gpusight_guarded = True  # noqa: SLF001
    made, lost = protocol_class.connection_made, protocol_class.connection_lost
    received, answered = protocol_class.data_received, protocol_class.on_response_complete
    pause, resume = protocol_class.pause_writing, protocol_class.resume_writing
    stop = protocol_class.shutdown

    def connection_made(self: Any, transport: asyncio.Transport) -> None:
        made(self, transport)
        self.gpusight_watch = Watch(crowd(), transport, self)

    def connection_lost(self: Any, error: Exception | None) -> None:
        self.gpusight_watch.gone()
        lost(self, error)

    def data_received(self: Any, data: bytes) -> None:
        self.gpusight_watch.receive(len(data))
        if not self.transport.is_closing():
            received(self, data)
            self.gpusight_watch.look()

    def on_response_complete(self: Any) -> None:
        answered(self)
        self.gpusight_watch.answered()

    def pause_writing(self: Any) -> None:
        self.gpusight_watch.stall()
        pause(self)

    def resume_writing(self: Any) -> None:
        self.gpusight_watch.flow()
        resume(self)

    def shutdown(self: Any) -> None:
        stop(self)
        end_stream = (self.scope or {}).get("gpusight.stop")
        if end_stream is not None:  # an answer without an end would keep the server from stopping
            end_stream()

    for method in (
        shutdown,
        connection_made,
        connection_lost,
        data_received,
        on_response_complete,
        pause_writing,
        resume_writing,
    ):
        setattr(protocol_class, method.__name__, method)


def guard_plain_uvicorn(limits: GuardLimits | None = None) -> None:
    """Guard the protocols of a uvicorn that runs in this process already, if one does."""
    raise_open_files_limit()
    crowd = Crowd(limits or GuardLimits())
    for module, name in _PLAIN_CLASSES:
        if module in sys.modules:
            guard_class(getattr(sys.modules[module], name), lambda: crowd)
