"""The process that alone opens NVML: `python -m gpusight.sources.nvml.child`, started by the supervisor.

It answers sweeps on its standard input, a socket, and ends when that ends. Devices are read in a thread; one that does
not answer at once keeps that thread to itself, so that a call that never returns costs its own device only. The main
thread calls nothing that can block. It imports as little as it can: what it costs in memory comes on top of the agent.
"""

import ctypes
import os
import signal
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any, Final, NamedTuple

from gpusight.model.hardware import DeviceDown, GpuReading
from gpusight.model.identity import GpuUuid
from gpusight.model.time import Clock, ScaledClock, SystemClock
from gpusight.sources.nvml.calls import BackendFailed, demand
from gpusight.sources.nvml.reader import DeviceReader, Periods
from gpusight.sources.nvml.wire import Answer, Frames, Garbled, Part, Sweep, decode_sweep, encode_answer
from gpusight.sources.nvml.xid import XidLog, XidWatcher

_COUNT_SECONDS: Final = 0.05
_TURN_SECONDS: Final = 0.02
"""A device that keeps the others waiting for longer gets the thread for itself, and they another one."""
_LEAVE_SECONDS: Final = 1.0
_PR_SET_PDEATHSIG: Final = 1
_M_ARENA_MAX: Final = -8


class Done(NamedTuple):
    """What a device's thread brings back."""

    sweep: int
    gpu: int
    result: GpuReading | DeviceDown | BackendFailed
    implausible: Mapping[str, int]


class Worker:
    """One device. Everything but `read` belongs to the main thread."""

    def __init__(self, index: int, clock: Clock, periods: Periods) -> None:
        self.index = index
        self.busy_since: float | None = None
        self.handle: Any = None
        """Of the device that was last read without trouble."""
        self._reader = DeviceReader(index, clock, periods)
        self._clock = clock

    @property
    def uuid(self) -> GpuUuid | None:
        return self._reader.device.uuid if self._reader.device else None

    def start(self) -> None:
        self.busy_since = self._clock.now()

    def finish(self, result: object) -> None:
        self.busy_since = None
        device = self._reader.device
        self.handle = device.handle if device and isinstance(result, GpuReading) else None

    def blocked(self) -> DeviceDown:
        device = self._reader.device
        since = self.busy_since or self._clock.now()
        return DeviceDown(self.index, "blocked", since, self.uuid, device.name if device else None)

    def read(self, sweep: int) -> Done:
        return Done(sweep, self.index, self._read(), self._reader.take_implausible())

    def _read(self) -> GpuReading | DeviceDown | BackendFailed:
        try:
            return self._reader.read()
        except BackendFailed as failure:
            return failure
        except Exception as error:
            print(f"gpusight: GPU {self.index} cannot be read: {error!r}", file=sys.stderr)
            return DeviceDown(self.index, "error", self._clock.now(), self.uuid)


class Crew:
    """The threads that read: one after the other as long as devices answer at once, one more for each that does not.

    Threads that fight for the interpreter cost more than what they do, so most of the time a single one works, and it
    rings only when it has nothing left to do.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Worker, int]] = SimpleQueue()
        self._done: deque[Done] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._hands = 0

    @property
    def is_behind(self) -> bool:
        return not self._jobs.empty()

    def put(self, worker: Worker, sweep: int) -> None:
        worker.start()
        self._jobs.put((worker, sweep))

    def hire(self) -> None:
        """One more thread. It stays: at most as many as there are devices ever get stuck at once."""
        self._hands += 1
        Thread(target=self._work, name=f"reader-{self._hands}", daemon=True).start()

    def take(self) -> Done | None:
        return self._done.popleft() if self._done else None

    def wait(self, seconds: float) -> None:
        """Until the bell rings, or no longer than that."""
        with suppress(Empty):
            self._bell.get(timeout=max(seconds, 0.0))

    @property
    def has_hands(self) -> bool:
        return self._hands > 0

    def _work(self) -> None:
        while True:
            worker, sweep = self._jobs.get()
            self._done.append(worker.read(sweep))
            if self._jobs.empty():
                self._bell.put(None)


class Backend:
    """NVML as a whole, opened and counted in a thread of its own: either may block."""

    def __init__(self) -> None:
        self.is_ready = Event()
        """Opened, or known to be down."""
        self.failure: BackendFailed | None = None
        self.count = 0
        self.versions: tuple[str | None, str | None, str | None] = (None, None, None)
        self._asked = Event()
        self._counted = Event()
        self.started = monotonic()
        Thread(target=self._run, name="nvml", daemon=True).start()

    def recount(self) -> int:
        """How many devices there are now, or were when last told: a count that takes long is not waited for twice."""
        if self._counted.is_set():
            self._counted.clear()
            self._asked.set()
            self._counted.wait(_COUNT_SECONDS)
        return self.count

    def _run(self) -> None:
        try:
            demand("nvmlInit")
            self.versions = (_version("nvmlSystemGetDriverVersion"), _version("nvmlSystemGetNVMLVersion"), _cuda())
            self.count = demand("nvmlDeviceGetCount")
        except BackendFailed as failure:
            self.failure = failure
        except Exception as error:  # whatever the binding does, somebody waits for an answer
            self.failure = BackendFailed("error", None, f"NVML cannot be opened: {error!r}")
        self._counted.set()
        self.is_ready.set()
        while not self.failure:
            self._asked.wait()
            self._asked.clear()
            self._recount()
            self._counted.set()

    def _recount(self) -> None:
        try:
            self.count = demand("nvmlDeviceGetCount")
        except BackendFailed:
            return  # if it lasts, no device can be read either


def _version(function: str) -> str | None:
    try:
        return str(demand(function))
    except (BackendFailed, UnicodeDecodeError):
        return None


def _cuda() -> str | None:
    """13020 is 13.2."""
    number = _version("nvmlSystemGetCudaDriverVersion_v2")
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}" if number else None


class Child:
    """The main thread's work: sweeps."""

    def __init__(self, clock: Clock, periods: Periods, *, is_simulated: bool = False) -> None:
        self._clock = clock
        self._periods = periods
        self._is_simulated = is_simulated
        self._crew = Crew()
        self._workers: list[Worker] = []
        self._implausible: dict[str, int] = {}
        self._xids = XidLog()
        self._backend = Backend()
        self._watcher: XidWatcher | None = None

    def answer(self, sweep: Sweep) -> Answer:
        deadline = monotonic() + sweep.within
        if not self._backend.is_ready.wait(sweep.within):
            return self._not_yet(sweep)
        if self._backend.failure:
            return self._failed(sweep, self._backend.failure)
        self._take_late()
        roster = self._roster(sweep.part)
        results = self._sweep(sweep.number, roster, deadline)
        self._listen()
        return _numbered(self._told(sweep, roster, results), sweep.part)

    def leave(self) -> None:
        """Let calls that are under way return: to be killed inside one is said to hurt the device. Then go."""
        until = monotonic() + _LEAVE_SECONDS
        while any(worker.busy_since for worker in self._workers) and monotonic() < until:
            self._take_late()
            sleep(0.01)
        os._exit(0)

    def _roster(self, part: Part | None) -> list[Worker]:
        count = self._backend.recount()
        while len(self._workers) < count:
            self._workers.append(Worker(len(self._workers), self._clock, self._periods))
        return self._workers[part.first : min(count, part.first + part.size)] if part else self._workers[:count]

    def _sweep(self, number: int, roster: list[Worker], deadline: float) -> list[Any]:
        """What the devices say, in their order; one that is busy since an earlier sweep is not waited for again."""
        results: dict[int, Any] = {}
        started = [worker for worker in roster if worker.busy_since is None]
        for worker in started:
            self._crew.put(worker, number)
        if not self._crew.has_hands:
            self._crew.hire()
        while len(results) < len(started) and (left := deadline - monotonic()) > 0:
            self._crew.wait(min(left, _TURN_SECONDS) if self._crew.is_behind else left)
            news = dict(self._news(number))
            results |= news
            if not news and self._crew.is_behind:
                self._crew.hire()
        return [results.get(worker.index) or worker.blocked() for worker in roster]

    def _news(self, number: int) -> Iterator[tuple[int, Any]]:
        """Results of this sweep. What came after its own sweep was answered is not news any more."""
        while done := self._crew.take():
            self._workers[done.gpu].finish(done.result)
            for field, count in done.implausible.items():
                self._implausible[field] = self._implausible.get(field, 0) + count
            if done.sweep == number:
                yield done.gpu, done.result

    def _take_late(self) -> None:
        for _ in self._news(-1):
            pass

    def _listen(self) -> None:
        if self._watcher is None:
            self._watcher = XidWatcher(self._xids, self._handles, self._clock)
            self._watcher.start()

    def _handles(self) -> dict[GpuUuid, Any]:
        return {worker.uuid: worker.handle for worker in self._workers if worker.uuid and worker.handle}

    def _told(self, sweep: Sweep, roster: list[Worker], results: list[Any]) -> Answer:
        readings = [result for result in results if isinstance(result, GpuReading)]
        failures = [result for result in results if isinstance(result, BackendFailed)]
        if failures and not readings:
            return self._failed(sweep, failures[0])
        driver, nvml, cuda = self._backend.versions
        gpus, bad = _without_doubles(readings, self._clock.now())
        down = [*bad, *(self._down(worker, result) for worker, result in zip(roster, results, strict=True))]
        implausible, self._implausible = self._implausible, {}
        return Answer(
            number=sweep.number,
            state="up",
            driver_version=driver,
            nvml_version=nvml,
            cuda_version=cuda,
            gpus=gpus,
            down=tuple(sorted((one for one in down if one), key=lambda one: one.index)),
            xids=self._xids.take(),
            implausible=implausible,
            is_simulated=self._is_simulated,
            taken_at=self._clock.now(),
        )

    def _down(self, worker: Worker, result: Any) -> DeviceDown | None:
        """Where others can be read, a failure of NVML as a whole is this device's own."""
        if isinstance(result, BackendFailed):
            return DeviceDown(worker.index, "error", self._clock.now(), worker.uuid, code=result.code)
        return result if isinstance(result, DeviceDown) else None

    def _failed(self, sweep: Sweep, failure: BackendFailed) -> Answer:
        return Answer(
            sweep.number, "down", failure.reason, str(failure), xids=self._xids.take(), is_simulated=self._is_simulated
        )

    def _not_yet(self, sweep: Sweep) -> Answer:
        seconds = monotonic() - self._backend.started
        detail = f"NVML has been opening for {seconds:.0f} s"
        return Answer(sweep.number, "starting", "blocked", detail, is_simulated=self._is_simulated)


def _numbered(answer: Answer, part: Part | None) -> Answer:
    """The devices of a part begin at 0, as on a machine of their own."""
    if part is None or not part.first:
        return answer
    gpus = tuple(replace(gpu, index=gpu.index - part.first) for gpu in answer.gpus)
    return answer._replace(gpus=gpus, down=tuple(replace(one, index=one.index - part.first) for one in answer.down))


def _without_doubles(readings: list[GpuReading], now: float) -> tuple[tuple[GpuReading, ...], list[DeviceDown]]:
    """Of devices with the same UUID none can be told from the other: all of them are down."""
    uuids = [reading.uuid for reading in readings]
    bad = [DeviceDown(r.index, "bad_identity", now, name=r.name) for r in readings if uuids.count(r.uuid) > 1]
    return tuple(reading for reading in readings if uuids.count(reading.uuid) == 1), bad


def serve(child: Child, channel: int) -> None:
    """Answer what comes until nobody asks any more."""
    frames = Frames()
    while data := os.read(channel, 65536):
        frames.feed(data)
        while (body := frames.next()) is not None:
            _send(channel, child.answer(decode_sweep(body)))


def _send(channel: int, answer: Answer) -> None:
    try:
        frame = encode_answer(answer)
    except Garbled as error:
        frame = encode_answer(Answer(answer.number, "down", "error", str(error)))
    view = memoryview(frame)
    while view:
        view = view[os.write(channel, view) :]


def _settle_in(child: Child) -> None:
    """End with the parent even where somebody else holds its end of the socket; leave interrupts to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: child.leave())
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _save_memory() -> None:
    """One heap for all threads instead of one for each: they allocate little and seldom at the same time."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_ARENA_MAX, 1)


def _simulate(options: Mapping[str, str], clock: Clock) -> None:
    from pathlib import Path  # noqa: PLC0415 - none of this is needed beside a real driver

    from gpusight.simulate.nvml import install_nodes  # noqa: PLC0415

    control = Path(options["--control"]) if "--control" in options else None
    started_at = float(options["--started-at"]) if "--started-at" in options else None
    install_nodes(options["--simulate"], options.get("--node"), clock, control, started_at)


def main(arguments: list[str]) -> None:
    """Options are pairs of name and value: the parser of the standard library would cost more than all of this."""
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    clock: Clock = SystemClock()
    if "--clock" in options:
        clock = ScaledClock(*map(float, options["--clock"].split(",")))
    _save_memory()
    if "--simulate" in options:
        _simulate(options, clock)
    child = Child(clock, Periods(), is_simulated="--simulate" in options)
    _settle_in(child)
    serve(child, sys.stdin.fileno())
    child.leave()


if __name__ == "__main__":
    main(sys.argv[1:])
