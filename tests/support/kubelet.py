"""Kubelets to ask for pod resources: a real gRPC server (grpcio, in a process of its own) and scripted liars.

grpcio stays out of the tests' own process: its threads and its fork handlers would meddle with other tests.
Run as a program, this module is that server: `python -m tests.support.kubelet SOCKET CONTROL_FILE`.
"""

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived, StreamEnded

from tests.support.process import running

LIST = "/v1.PodResourcesLister/List"
GRPC = (":status", "200"), ("content-type", "application/grpc")


# --- messages, encoded by hand ---------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: str | bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def devices(resource: str, *ids: str, numa: int | None = None) -> bytes:
    """A ContainerDevices message."""
    topology = b"" if numa is None else field(3, field(1, field(1, numa)))
    return field(1, resource) + b"".join(field(2, each) for each in ids) + topology


def claim(name: str, *given: tuple[str, str, str]) -> bytes:
    """A DynamicResource message; `given` are driver, pool and device."""
    resources = [field(1, field(1, "vendor.com/gpu=x")) + field(2, d) + field(3, p) + field(4, v) for d, p, v in given]
    return field(2, name) + field(3, "team") + b"".join(field(4, each) for each in resources)


def container(name: str, *given: bytes, claims: Sequence[bytes] = ()) -> bytes:
    """A ContainerResources message, with processor ids and memory as a real kubelet adds them."""
    extras = field(3, b"\x00\x01\x02\x03") + field(4, field(1, "memory") + field(2, 1 << 30))
    return field(1, name) + b"".join(field(2, each) for each in given) + extras + b"".join(field(5, c) for c in claims)


def pod(namespace: str, name: str, *containers: bytes) -> bytes:
    """A PodResources message."""
    return field(1, name) + field(2, namespace) + b"".join(field(3, each) for each in containers)


def answer(*pods: bytes) -> bytes:
    """A ListPodResourcesResponse message."""
    return b"".join(field(1, each) for each in pods)


# --- the real server -------------------------------------------------------------------------------------------------


class Kubelet:
    """A gRPC server in a child process; what it does next is in a file that it reads with every call."""

    def __init__(self, directory: Path) -> None:
        self.socket = directory / "kubelet.sock"
        self.control = directory / "control.json"
        self._answer = directory / "answer.bin"
        self.behave()

    def behave(self, response: bytes = b"", **how: Any) -> None:
        """`delay` seconds, `code` and `message` for an error, `gzip` to compress where the client allows it."""
        self._answer.write_bytes(response)
        self.control.write_text(json.dumps({"answer": str(self._answer), **how}))


@contextmanager
def running_kubelet(directory: Path) -> Iterator[Kubelet]:
    kubelet = Kubelet(directory)
    command = [sys.executable, "-m", "tests.support.kubelet", str(kubelet.socket), str(kubelet.control)]
    with running(command, directory / "kubelet.log") as process:
        deadline = time.monotonic() + 20
        while not kubelet.socket.exists():
            assert process.poll() is None, (directory / "kubelet.log").read_text()
            assert time.monotonic() < deadline, "the gRPC server did not start"
            time.sleep(0.02)
        yield kubelet


def _serve(path: str, control: str) -> None:
    grpc: Any = import_module("grpc")

    def list_pods(_: bytes, context: Any) -> bytes:
        how = json.loads(Path(control).read_text())
        time.sleep(how.get("delay", 0))
        if how.get("gzip"):
            context.set_compression(grpc.Compression.Gzip)
        if how.get("code"):
            context.abort(grpc.StatusCode[how["code"]], how.get("message", ""))
        return Path(how["answer"]).read_bytes()

    handler = grpc.unary_unary_rpc_method_handler(list_pods)  # without (de)serialisers: bytes in, bytes out
    server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": handler}),),
    )
    server.add_insecure_port(f"unix://{path}")
    server.start()
    server.wait_for_termination()


# --- servers that misbehave ------------------------------------------------------------------------------------------


@contextmanager
def scripted_server(path: Path, script: Callable[[socket.socket], object]) -> Iterator[Path]:
    """Listens on a Unix socket and does with each connection what the script says."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(8)

    def run() -> None:
        with suppress(OSError):
            while True:
                peer, _ = listener.accept()
                with peer, suppress(OSError):
                    peer.settimeout(10)
                    script(peer)

    thread = threading.Thread(target=run, name="scripted kubelet", daemon=True)
    thread.start()
    try:
        yield path
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


class Http2Peer:
    """The server's side of one request, frame by frame."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.http2 = H2Connection(H2Configuration(client_side=False, validate_outbound_headers=False))
        self.stream = 0
        self.headers: dict[str, str] = {}
        self._wait_for_request()

    def _wait_for_request(self) -> None:
        self.http2.initiate_connection()
        self.flush()
        is_over = False
        while not is_over:
            for event in self.http2.receive_data(self.sock.recv(65536)):
                if isinstance(event, RequestReceived):
                    self.stream = event.stream_id or 0
                    self.headers = {_str(name): _str(value) for name, value in event.headers or ()}
                is_over = is_over or isinstance(event, StreamEnded)
            self.flush()

    def flush(self) -> None:
        self.sock.sendall(self.http2.data_to_send())

    def send(self, headers: Sequence[tuple[str, str]], *, end: bool = False) -> None:
        self.http2.send_headers(self.stream, list(headers), end_stream=end)
        self.flush()

    def send_data(self, data: bytes) -> None:
        self.http2.send_data(self.stream, data)
        self.flush()

    def linger(self) -> None:
        """Read until the client hangs up."""
        while self.sock.recv(65536):
            pass


def _str(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()


if __name__ == "__main__":
    _serve(*sys.argv[1:])
