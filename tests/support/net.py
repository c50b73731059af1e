"""Loopback ports and a raw HTTP client that can also misbehave."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple


def free_port(host: str = "127.0.0.1") -> int:
    """A port that was free a moment ago."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
        sock.bind((host, 0))
        port: int = sock.getsockname()[1]
        return port


class Answer(NamedTuple):
    """One HTTP response as it came over the wire."""

    status: int
    raw_headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str:
        return next((value for key, value in self.raw_headers if key.lower() == name.lower()), "")

    @property
    def text(self) -> str:
        return self.body.decode()


class Client:
    """A connection under the test's control, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        with suppress(ConnectionError):
            await self.writer.drain()

    async def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        lines = [
            f"{method} {path} HTTP/1.1",
            "Host: test",
            *(f"{k.replace('_', '-')}: {v}" for k, v in headers.items()),
        ]
        await self.send(("\r\n".join(lines) + "\r\n\r\n").encode())
        return await self.answer(has_body=method != "HEAD")

    async def answer(self, *, has_body: bool = True) -> Answer:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = [(k, v.strip()) for k, _, v in (line.partition(":") for line in head[1:] if line)]
        answer = Answer(int(head[0].split(" ", 2)[1]), headers, b"")
        body = await self.reader.readexactly(int(answer.header("content-length") or 0)) if has_body else b""
        return answer._replace(body=body)

    async def is_closed(self, within: float = 5.0) -> bool:
        """Whether the server ends the connection, whatever it may still send."""
        try:
            async with asyncio.timeout(within):
                while await self.reader.read(65536):
                    pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True

    def reset(self) -> None:
        """Drop the connection with a TCP reset."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


@asynccontextmanager
async def connected(port: int, host: str = "127.0.0.1", **options: object) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection(host, port, **options)  # type: ignore[arg-type]
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()
        with suppress(Exception):
            await writer.wait_closed()


async def fetch(port: int, path: str, method: str = "GET", host: str = "127.0.0.1", **headers: str) -> Answer:
    """One request on a connection of its own."""
    async with connected(port, host) as client:
        return await client.get(path, method, **headers)


async def talk(port: int, data: bytes, within: float = 5.0) -> bytes:
    """Send bytes, and read until the server ends the connection."""
    async with connected(port) as client, asyncio.timeout(within):
        await client.send(data)
        return await client.reader.read()
