"""Thousands of trickling connections against the exporter endpoint: what does an honest scrape notice?

Server, slow clients and the honest client are three processes. A slow client sends one byte of a request head a second,
never finishes it, and comes back as soon as it is closed. Meanwhile the honest one scrapes over fresh connections.
With --tls it is the first message of a handshake that they never finish; with --tls-stalled they send it at once, which
costs the server far more, and say nothing after it.

    python -m bench.slow_clients [--connections 5000] [--seconds 20] [--series 2000] [--tls | --tls-stalled]
"""

import argparse
import asyncio
import multiprocessing
import os
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from bench.figures import Figure
from gpusight.catalog.spec import FamilySpec, Label
from gpusight.exposition.blocks import FamilyBlock
from gpusight.exposition.endpoint import Endpoint, Scrape, ScrapeRequest
from gpusight.exposition.http import raise_open_files_limit, serve
from gpusight.exposition.webconfig import WebConfigFile
from gpusight.model.time import SystemClock

SPEC = FamilySpec(
    name="bench_value",
    kind="gauge",
    unit="1",
    labels=(Label("series", "its number"),),
    help="Numbers.",
    origin="gpusight",
    endpoint="bench",
)
HEAD = b"GET /metrics HTTP/1.1\r\nHost: bench\r\nX-Slow: "
HONEST = ("127.0.0.2", 0)
"""The honest client has an address of its own, as it would have in life."""
SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n"


def run_server(pipe: Connection, series: int, web_config: str) -> None:
    """Serve until the parent says stop; tell the port."""
    raise_open_files_limit()
    keys = tuple((str(number),) for number in range(series))
    scrapes = 0

    async def gather(_request: ScrapeRequest) -> Scrape:
        nonlocal scrapes
        scrapes += 1
        return Scrape([FamilyBlock(SPEC, keys, range(scrapes, scrapes + series))])

    async def main() -> None:
        clock = SystemClock()
        endpoint = Endpoint(gather, role="bench", title="Bench", version="0", is_ready=lambda: True, clock=clock)
        config = WebConfigFile(web_config) if web_config else None
        server = await serve(endpoint, listen=["127.0.0.1:0"], web_config=config, clock=clock)
        pipe.send(int(server.addresses[0].rpartition(":")[2]))
        await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
        await server.close()

    asyncio.run(main())


def resident(pid: int) -> float:
    """A process' memory in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def client_hello() -> bytes:
    """The first flight of a TLS handshake."""
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


class Slow(asyncio.Protocol):
    """Sends a byte now and then; starts again when it is closed."""

    def __init__(self, attack: "Attack") -> None:
        self.attack = attack
        self.made = 0.0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.made = time.monotonic()
        self.transport = transport
        transport.write(self.attack.first)
        self.attack.open.add(self)
        if len(self.attack.open) >= self.attack.connections:
            self.attack.is_full.set()

    def connection_lost(self, _error: Exception | None) -> None:
        self.attack.open.discard(self)
        self.attack.lifetimes.append(time.monotonic() - self.made)
        self.attack.missing += 1


class Attack:
    """Keeps so many slow connections open."""

    def __init__(self, port: int, connections: int, first: bytes, more: bytes) -> None:
        self.first, self.more = first, more
        self.open: set[Slow] = set()
        self.lifetimes: list[float] = []
        self.connections = self.missing = connections
        self.is_full = asyncio.Event()
        self._port = port

    async def run(self) -> None:
        turn = 0
        while True:
            loop, batch = asyncio.get_running_loop(), min(self.missing, 200)
            self.missing -= batch
            made = await asyncio.gather(
                *(loop.create_connection(lambda: Slow(self), "127.0.0.1", self._port) for _ in range(batch)),
                return_exceptions=True,
            )
            self.missing += sum(isinstance(result, BaseException) for result in made)
            for slow in list(self.open)[turn::20]:  # each one a byte a second
                if slow.transport is not None:
                    slow.transport.write(self.more)
            turn = (turn + 1) % 20
            await asyncio.sleep(0.05)


def run_attack(pipe: Connection, port: int, connections: int, first: bytes, more: bytes) -> None:
    """Attack until the parent says stop; tell when it is in full swing, and at the end how long connections lived."""
    raise_open_files_limit()

    async def main() -> None:
        attack = Attack(port, connections, first, more)
        run = asyncio.create_task(attack.run())
        stop = asyncio.get_running_loop().run_in_executor(None, pipe.recv)
        with suppress(TimeoutError):
            async with asyncio.timeout(10):
                await attack.is_full.wait()
        pipe.send(len(attack.open))
        await stop
        run.cancel()
        pipe.send(attack.lifetimes)

    asyncio.run(main())


async def scrape(port: int, context: ssl.SSLContext | None) -> float:
    """Seconds of one scrape over a connection of its own, or infinity."""
    started = time.monotonic()
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, local_addr=HONEST)
            writer.write(SCRAPE)
            page = await reader.read()
    except (OSError, TimeoutError):
        return float("inf")
    finally:
        if writer is not None:
            writer.transport.abort()
            with suppress(Exception):
                await writer.wait_closed()
    return time.monotonic() - started if page.startswith(b"HTTP/1.1 200") else float("inf")


async def measure(port: int, pid: int, seconds: float, context: ssl.SSLContext | None) -> tuple[list[float], float]:
    times, most = [], 0.0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        times.append(await scrape(port, context))
        most = max(most, resident(pid))
        await asyncio.sleep(0.02)
    return times, most


def percentile(times: list[float], part: float) -> float:
    return sorted(times)[min(int(len(times) * part), len(times) - 1)] * 1000


class Result(NamedTuple):
    """What came out: seconds of scrapes (infinite: failed), MiB, seconds that slow connections lived."""

    kind: str
    held: int
    calm: list[float]
    times: list[float]
    before: float
    most: float
    lives: list[float]

    @property
    def failed(self) -> int:
        return self.times.count(float("inf"))


def attacked(port: int, pid: int, options: argparse.Namespace, context: ssl.SSLContext | None) -> Result:
    calm, before = asyncio.run(measure(port, pid, 2, context))
    hello = client_hello()
    kind, first, more = "plain", HEAD, b"a"
    if options.tls:
        kind, first, more = "tls", hello[:100], hello[100:101]
    if options.tls_stalled:
        kind, first, more = "tls stalled", hello, b""
    with child(run_attack, port, options.connections, first, more) as (attack, _):
        held = attack.recv()
        times, most = asyncio.run(measure(port, pid, options.seconds, context))
        attack.send("stop")
        lives = attack.recv() or [float("nan")]
    return Result(kind, held, calm, times, before, most, lives)


def described(result: Result, options: argparse.Namespace) -> str:
    times, calm = result.times, result.calm
    return (
        f"slow_clients: {result.held} open ({result.kind}), {options.seconds:g} s, {len(times)} scrapes, "
        f"{result.failed} failed; p50 {percentile(times, 0.5):.1f} ms, p99 {percentile(times, 0.99):.1f} ms, "
        f"max {percentile(times, 1):.1f} ms (calm p50 {percentile(calm, 0.5):.1f}, p99 {percentile(calm, 0.99):.1f}); "
        f"RSS +{result.most - result.before:.1f} MiB over {result.before:.1f}; slow ones closed after "
        f"{statistics.median(result.lives):.1f} s (median), {max(result.lives):.1f} s (max)"
    )


def figures() -> Iterator[Figure]:
    options = parse([])
    with child(run_server, options.series, "") as (server, pid):
        result = attacked(server.recv(), pid, options, None)
    yield Figure("slow_clients_scrape_p99", percentile(result.times, 0.99), "ms", ("<=", 250))
    yield Figure("slow_clients_failed_scrapes", result.failed, "scrapes", ("==", 0))
    yield Figure("slow_clients_memory_growth", result.most - result.before, "MiB", ("<=", 64))
    yield Figure("slow_clients_closed_after", max(result.lives), "s", ("<=", 6))


@contextmanager
def child(target: Callable[..., None], *args: object) -> Iterator[tuple[Connection, int]]:
    processes = multiprocessing.get_context("spawn")
    here, there = processes.Pipe()
    process = processes.Process(target=target, args=(there, *args))
    process.start()
    try:
        yield here, process.pid or 0
    finally:
        with suppress(OSError):
            here.send("stop")
        process.join(10)
        process.kill()


def tls_files(directory: Path) -> tuple[str, ssl.SSLContext]:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.support.certificates import Authority

    authority = Authority(directory)
    authority.issue("server")
    config = directory / "web.yml"
    config.write_text("tls_server_config: {cert_file: server.pem, key_file: server.key}")
    return str(config), ssl.create_default_context(cafile=authority.cert)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--series", type=int, default=2000)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--tls-stalled", action="store_true")
    return parser.parse_args(arguments)


def main() -> None:
    options = parse(sys.argv[1:])
    with tempfile.TemporaryDirectory() as directory:
        config, context = tls_files(Path(directory)) if options.tls or options.tls_stalled else ("", None)
        with child(run_server, options.series, config) as (server, pid):
            print(described(attacked(server.recv(), pid, options, context), options))


if __name__ == "__main__":
    main()
