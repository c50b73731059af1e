"""`GET /results` of 10,000 GPUs: our encoded-once answer beside the same rows through FastAPI's response validation.

"Ready-made" is the peer at its best: rows that are pydantic models already, which it only has to serialize. All
applications run under uvicorn in a process of their own; one client process asks over one connection each, in
turns, so that both see the same machine.

    python -m bench.results_api [--gpus 10000] [--seconds 3]
"""

import argparse
import asyncio
import multiprocessing
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from multiprocessing.connection import Connection
from typing import Any

from bench.figures import Figure

_ROUNDS = 3


def rows_of(count: int) -> Sequence[Any]:
    from tests.web.fakes import result

    return [result(number, (number * 37 % 1000) / 10, f"team-{number % 50}") for number in range(count)]


def our_app(gpus: int, *, stalled: bool = False) -> Any:
    from gpusight.model.time import SystemClock
    from gpusight.web.app import create_app
    from gpusight.web.auth import Auth
    from tests.web.fakes import FakeAnalyzer, make_round

    clock = SystemClock()
    analyzer = FakeAnalyzer(last=make_round(rows_of(gpus)), stall=threading.Event() if stalled else None)
    return create_app(analyzer, auth=Auth(clock=clock), clock=clock)


def pydantic_app(gpus: int, *, ready_made: bool) -> Any:
    """What one writes with FastAPI: a response model that the rows are validated by, or rows made of it beforehand."""
    from fastapi import FastAPI
    from msgspec.structs import fields
    from pydantic import ConfigDict, create_model

    from gpusight.analysis.records import AiAnalysis, GpuResult

    def twin(kind: Any, **instead: Any) -> Any:
        named: dict[str, Any] = {field.name: (instead.get(field.name, field.type), ...) for field in fields(kind)}
        return create_model(kind.__name__, __config__=ConfigDict(from_attributes=True), **named)

    model = twin(GpuResult, ai_analysis=twin(AiAnalysis) | None)
    latest = rows_of(gpus)
    if ready_made:
        latest = [model.model_validate(row) for row in latest]
    app = FastAPI()
    app.state.web_config = None

    async def results() -> Any:
        return latest

    app.add_api_route("/results", results, response_model=list[model])  # type: ignore[valid-type]  # made above
    return app


COMPARED = ("ours", "validated", "ready-made")
APPS: dict[str, Callable[[int], Any]] = {
    "ours": our_app,
    "stalled": lambda gpus: our_app(gpus, stalled=True),
    "validated": lambda gpus: pydantic_app(gpus, ready_made=False),
    "ready-made": lambda gpus: pydantic_app(gpus, ready_made=True),
}


def run_server(pipe: Connection, kind: str, gpus: int) -> None:
    """Serve until the parent says stop; tell the port."""
    from gpusight.web.serve import serve_app

    async def main() -> None:
        server = await serve_app(APPS[kind](gpus), listen=["127.0.0.1:0"])
        pipe.send(int(server.addresses[0].rpartition(":")[2]))
        await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
        await server.close()

    asyncio.run(main())


@contextmanager
def serving(kind: str, gpus: int) -> Iterator[int]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=run_server, args=(there, kind, gpus))
    process.start()
    try:
        yield here.recv()
    finally:
        here.send("stop")
        process.join(20)


class Client:
    """One kept connection that reads answers and throws them away."""

    def __init__(self, port: int, headers: str = "", path: str = "/results") -> None:
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._request = f"GET {path} HTTP/1.1\r\nHost: bench\r\n{headers}\r\n".encode()
        self._buffer = bytearray(1 << 20)

    def get(self) -> int:
        """The size of the body."""
        self._sock.sendall(self._request)
        head = b""
        while b"\r\n\r\n" not in head:
            head += self._sock.recv(65536)
        fields, _, rest = head.partition(b"\r\n\r\n")
        if not fields.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(fields.decode("latin-1"))
        length = int(fields.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        left = length - len(rest)
        while left > 0:
            left -= self._sock.recv_into(self._buffer, min(left, len(self._buffer)))
        return length

    def rate(self, seconds: float) -> float:
        """Requests per second."""
        started = time.perf_counter()
        done = 0
        while time.perf_counter() - started < seconds or not done:
            self.get()
            done += 1
        return done / (time.perf_counter() - started)

    def close(self) -> None:
        self._sock.close()


def measure(gpus: int, seconds: float) -> dict[str, float]:
    with ExitStack() as stack:
        ports = {kind: stack.enter_context(serving(kind, gpus)) for kind in COMPARED}
        clients = {kind: Client(port) for kind, port in ports.items()}
        clients["ours zipped"] = Client(ports["ours"], "Accept-Encoding: gzip\r\n")
        sizes = {name: client.get() for name, client in clients.items()}
        rates: dict[str, list[float]] = {name: [] for name in clients}
        for _ in range(_ROUNDS):
            for name, client in clients.items():
                rates[name].append(client.rate(seconds))
        for client in clients.values():
            client.close()
    if not 0.9 < sizes["ours"] / sizes["validated"] < 1.1:
        raise RuntimeError(f"the answers differ in kind: {sizes}")
    return {name: max(found) for name, found in rates.items()}


def p99_while_the_store_stalls(gpus: int, seconds: float) -> float:
    """Milliseconds for what is answered from memory, while 32 clients wait for charts that never come."""
    with serving("stalled", gpus) as port, ExitStack() as stack:
        for _ in range(32):
            stuck = stack.enter_context(closing(socket.create_connection(("127.0.0.1", port))))
            stuck.sendall(b"GET /api/v1/results/0000000000000001/window HTTP/1.1\r\nHost: bench\r\n\r\n")
        paths = ("/health", "/results/stats", "/api/v1/results?limit=100", "/results/low", "/metrics")
        clients = [Client(port, path=path) for path in paths]
        taken = []
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            for client in clients:
                before = time.perf_counter()
                client.get()
                taken.append(time.perf_counter() - before)
        for client in clients:
            client.close()
    return 1000 * sorted(taken)[int(len(taken) * 0.99)]


def figures(gpus: int = 10_000, seconds: float = 2.0) -> Iterator[Figure]:
    """Milliseconds from request to the last byte, the smaller the better; the ratio is that of requests/s."""
    taken = {name: 1000 / rate for name, rate in measure(gpus, seconds).items()}
    validated = ("FastAPI response_model", taken["validated"])
    ready_made = ("the same, ready-made", taken["ready-made"])
    yield Figure("results_api_request", taken["ours"], "ms", (">=", 10.0), *validated)
    yield Figure("results_api_request_ready_made", taken["ours"], "ms", None, *ready_made)
    yield Figure("results_api_request_gzip", taken["ours zipped"], "ms", (">=", 10.0), *ready_made)
    yield Figure("api_p99_while_store_stalls", p99_while_the_store_stalls(gpus, seconds), "ms", ("<=", 250.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    for figure in figures(given.gpus, given.seconds):
        print(figure.line())


if __name__ == "__main__":
    main()
