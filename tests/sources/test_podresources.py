"""The kubelet's socket: against a real gRPC server, and against servers that lie, stall and babble."""

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gpusight.model.ownership import DeviceGrant
from gpusight.model.time import SystemClock
from gpusight.sources.podresources.grpc import CallError, call
from gpusight.sources.podresources.source import KubeletReading, PodResources
from tests.support.kubelet import (
    GRPC,
    LIST,
    Http2Peer,
    Kubelet,
    answer,
    container,
    devices,
    pod,
    running_kubelet,
    scripted_server,
)

GPU = "GPU-03cd1cf6-11f6-5ecc-feb0-af07406e1838"
SOME = answer(pod("team", "train-0", container("main", devices("nvidia.com/gpu", GPU))))
MESSAGE = b"\0" + len(SOME).to_bytes(4, "big") + SOME
OK = ("grpc-status", "0")
HTML = ("content-type", "text/html")

Script = Callable[[socket.socket], object]


@pytest.fixture(scope="module")
def kubelet() -> Iterator[Kubelet]:
    with TemporaryDirectory() as directory, running_kubelet(Path(directory)) as kubelet:
        yield kubelet


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory whose name fits into a socket address."""
    with TemporaryDirectory() as directory:
        yield Path(directory)


def read(path: Path, within: float = 5.0, largest: int = 1 << 20) -> KubeletReading:
    return PodResources(path, SystemClock(), within, largest).read()


# --- a real gRPC server ----------------------------------------------------------------------------------------------


def test_grants_are_read(kubelet: Kubelet) -> None:
    kubelet.behave(SOME)
    reading = read(kubelet.socket)
    assert reading.is_up, reading
    assert reading.devices == (DeviceGrant("team", "train-0", "main", "nvidia.com/gpu", GPU),)


def test_an_empty_answer_is_an_answer(kubelet: Kubelet) -> None:
    kubelet.behave(b"")
    reading = read(kubelet.socket)
    assert reading == KubeletReading(reading.taken_at, is_up=True)
    assert abs(reading.taken_at - time.time()) < 60


def test_a_large_answer_goes_through_many_windows(kubelet: Kubelet) -> None:
    """HTTP/2 starts with windows of 64 KiB."""
    pods = [
        pod("team", f"pod-{n}", container("c", devices("r", *(f"{GPU}-{i}" for i in range(100))))) for n in range(900)
    ]
    kubelet.behave(answer(*pods))
    reading = read(kubelet.socket, within=20, largest=16 << 20)
    assert len(reading.devices) == 90_000, reading.detail


def test_an_answer_over_the_limit_is_refused(kubelet: Kubelet) -> None:
    kubelet.behave(b"\x12\x7f" + b"x" * (3 << 20))
    reading = read(kubelet.socket, largest=1 << 20)
    assert (reading.reason, reading.devices) == ("bad_answer", ())
    assert "larger than" in reading.detail


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("RESOURCE_EXHAUSTED", "refused"),
        ("UNAVAILABLE", "refused"),
        ("PERMISSION_DENIED", "refused"),
        ("UNIMPLEMENTED", "not_supported"),
    ],
)
def test_an_error_of_the_server_is_told(kubelet: Kubelet, code: str, reason: str) -> None:
    """With grpcio these are trailers-only answers."""
    kubelet.behave(code=code, message="rejected: 100 % zu schnell, größer\n")
    reading = read(kubelet.socket)
    assert (reading.is_up, reading.reason) == (False, reason)
    assert reading.detail == f"the server answers {code}: rejected: 100 % zu schnell, größer"


def test_a_method_that_the_server_does_not_know(kubelet: Kubelet) -> None:
    with pytest.raises(CallError, match="UNIMPLEMENTED") as error:
        call(str(kubelet.socket), "/v9.Other/List", b"", within=5, largest=1000, clock=SystemClock())
    assert (error.value.reason, error.value.code) == ("status", "UNIMPLEMENTED")


def test_a_slow_server_is_not_waited_for(kubelet: Kubelet) -> None:
    kubelet.behave(SOME, delay=3)
    started = time.monotonic()
    reading = read(kubelet.socket, within=0.3)
    assert reading.reason in {"not_answering", "refused"}  # our clock or the server's own, from grpc-timeout
    assert time.monotonic() - started < 2


def test_a_compressed_answer_is_refused(kubelet: Kubelet) -> None:
    """We did not offer to read one; grpcio does it when told to, a kubelet does not."""
    kubelet.behave(SOME * 50, gzip=True)
    reading = read(kubelet.socket)
    assert (reading.reason, "compressed" in reading.detail) == ("bad_answer", True)


def test_many_callers_at_once(kubelet: Kubelet) -> None:
    kubelet.behave(SOME)
    source = PodResources(kubelet.socket, SystemClock(), within=10)
    readings: list[KubeletReading] = []
    threads = [threading.Thread(target=lambda: readings.append(source.read())) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [reading.is_up for reading in readings] == [True] * 16


def test_a_kubelet_that_comes_back_is_heard_again(short: Path) -> None:
    source = PodResources(short / "kubelet.sock", SystemClock(), within=5)
    assert source.read().reason == "no_socket"
    with scripted_server(short / "kubelet.sock", well_behaved):
        assert source.read().is_up
    assert source.read().reason == "not_answering"  # the socket's file is still there
    (short / "kubelet.sock").unlink()
    with scripted_server(short / "kubelet.sock", well_behaved):
        assert source.read().is_up


# --- no server, and worse ones ---------------------------------------------------------------------------------------


def well_behaved(sock: socket.socket) -> None:
    peer = Http2Peer(sock)
    assert peer.headers[":path"] == LIST
    assert peer.headers["te"] == "trailers"
    assert peer.headers["grpc-timeout"].endswith("m")
    peer.send(GRPC)
    peer.send_data(MESSAGE)
    peer.send([OK], end=True)
    peer.linger()


def sends(
    *pieces: bytes, headers: tuple[tuple[str, str], ...] = GRPC, trailers: tuple[tuple[str, str], ...] = (OK,)
) -> Script:
    def script(sock: socket.socket) -> None:
        peer = Http2Peer(sock)
        peer.send(headers)
        for piece in pieces:
            peer.send_data(piece)
        if trailers:
            peer.send(trailers, end=True)
        peer.linger()

    return script


def trailers_only(*headers: tuple[str, str]) -> Script:
    def script(sock: socket.socket) -> None:
        peer = Http2Peer(sock)
        peer.send([*GRPC, *headers], end=True)
        peer.linger()

    return script


def resets(sock: socket.socket) -> None:
    peer = Http2Peer(sock)
    peer.send(GRPC)
    peer.http2.reset_stream(peer.stream, 2)
    peer.flush()
    peer.linger()


def goes_away(sock: socket.socket) -> None:
    peer = Http2Peer(sock)
    peer.http2.close_connection(error_code=11)
    peer.flush()


def hangs_up(sock: socket.socket) -> None:
    Http2Peer(sock).send(GRPC)


def is_silent(sock: socket.socket) -> None:
    while sock.recv(65536):
        pass


def trickles(sock: socket.socket) -> None:
    """One byte of a valid SETTINGS frame at a time: never silent, never done."""
    for byte in bytes.fromhex("000000040000000000") * 1000:
        sock.sendall(bytes([byte]))
        time.sleep(0.02)


def pings_without_end(sock: socket.socket) -> None:
    peer = Http2Peer(sock)
    ping = struct.pack(">I", 8)[1:] + b"\x06\x00" + b"\0" * 4 + b"12345678"
    while True:
        peer.sock.sendall(ping * 1000)


def speaks_http1(sock: socket.socket) -> None:
    """Its first letters are the length of a very long frame."""
    sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    is_silent(sock)


def babbles(sock: socket.socket) -> None:
    """HEADERS for our stream that no table can decode."""
    sock.sendall(bytes.fromhex("000000040000000000") + bytes.fromhex("000004010400000001") + b"\xff\xff\xff\xff")
    is_silent(sock)


def floods(sock: socket.socket) -> None:
    while True:
        sock.sendall(b"\0" * 65536)


@pytest.mark.parametrize(
    ("script", "reason", "detail"),
    [
        (trailers_only(("grpc-status", "8"), ("grpc-message", "a%20b")), "refused", "RESOURCE_EXHAUSTED: a b"),
        (trailers_only(("grpc-status", "99")), "refused", "answers 99"),
        (trailers_only(("grpc-status", "x" * 5000)), "refused", "answers x"),
        (trailers_only(OK), "bad_answer", "no message"),
        (trailers_only(), "bad_answer", "without a status"),
        (sends(MESSAGE, trailers=(("x", "y"),)), "bad_answer", "without a status"),
        (sends(MESSAGE, headers=((":status", "503"), HTML)), "bad_answer", "HTTP 503 text/html"),
        (sends(MESSAGE, headers=((":status", "200"), HTML)), "bad_answer", "HTTP 200 text/html"),
        (sends(b"\1" + MESSAGE[1:]), "bad_answer", "compressed"),
        (sends(MESSAGE[:-1]), "bad_answer", "not exactly one message"),
        (sends(MESSAGE, MESSAGE), "bad_answer", "not exactly one message"),
        (sends(b"\0\xff\xff\xff\xff"), "bad_answer", "larger than"),
        (sends(b"\0\0"), "bad_answer", "no message"),
        (sends(b"\0\0\0\0\1\x0b"), "bad_answer", "cannot be read"),
        (resets, "not_answering", "broke the call off"),
        (goes_away, "not_answering", ""),
        (hangs_up, "not_answering", ""),
        (lambda _: None, "not_answering", ""),
        (speaks_http1, "not_answering", "no answer within"),
        (babbles, "bad_answer", "does not speak HTTP/2"),
        (floods, "bad_answer", ""),
        (is_silent, "not_answering", "no answer within"),
        (trickles, "not_answering", "no answer within"),
    ],
)  # fmt: skip
def test_a_server_that_misbehaves_costs_a_reason(short: Path, script: Script, reason: str, detail: str) -> None:
    with scripted_server(short / "s", script) as path:
        started = time.monotonic()
        reading = read(path, within=0.7)
    assert (reading.is_up, reading.reason) == (False, reason), reading
    assert detail in reading.detail
    assert len(reading.detail) < 500
    assert time.monotonic() - started < 3


def test_pings_without_end_are_ended(short: Path) -> None:
    with scripted_server(short / "s", pings_without_end) as path:
        reading = read(path, within=1.5, largest=1000)
    assert reading.reason in {"bad_answer", "not_answering"}, reading


def test_no_socket(tmp_path: Path) -> None:
    reading = read(tmp_path / "none")
    assert (reading.reason, reading.is_up) == ("no_socket", False)


def test_a_file_that_is_no_socket(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert read(tmp_path / "file").reason == "not_answering"


def test_a_name_too_long_for_a_socket(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 120)
    path.touch()
    assert read(path).reason == "bad_answer"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user for a moment")
@pytest.mark.parametrize("mode", [0o000, 0o700])
def test_no_permission(short: Path, mode: int) -> None:
    directory = short / "d"
    directory.mkdir()
    short.chmod(0o755)
    with scripted_server(directory / "s", well_behaved) as path:
        path.chmod(0o600)
        directory.chmod(0o755 if mode == 0 else mode)
        os.seteuid(65534)
        try:
            reading = read(path)
        finally:
            os.seteuid(0)
    assert reading.reason == "no_permission", reading


def test_a_machine_without_a_kubelet_does_not_load_http2(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys; from pathlib import Path; from gpusight.model.time import SystemClock;"
        "from gpusight.sources.podresources.source import PodResources;"
        f"print(PodResources(Path({str(tmp_path / 'none')!r}), SystemClock()).read().reason, 'h2' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["no_socket", "False"]
