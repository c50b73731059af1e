"""One request: bounds, deadlines, and an end that comes from elsewhere."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from gpusight.model.time import ManualClock, SystemClock
from gpusight.sources.kubernetes.access import Access, Fixed
from gpusight.sources.kubernetes.client import ApiClient, ApiError, Limits, Pacer

Script = Callable[[socket.socket], object]


@contextmanager
def scripted(script: Script) -> Iterator[str]:
    """A server that reads a request's head, does what the script says, and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with suppress(OSError):
            while True:
                peer, _ = listener.accept()
                with peer, suppress(OSError):
                    peer.settimeout(10)
                    heard = b""
                    while b"\r\n\r\n" not in heard:
                        heard += peer.recv(65536)
                    script(peer)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def client(url: str, **limits: int) -> ApiClient:
    return ApiClient(Access(url, Fixed()), SystemClock(), Limits(requests=1000, **limits))


def sends(*pieces: bytes, pause: float = 0.0) -> Script:
    def script(sock: socket.socket) -> None:
        for piece in pieces:
            sock.sendall(piece)
            time.sleep(pause)

    return script


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def fails_with(script: Script, within: float = 2.0, **limits: int) -> ApiError:
    with scripted(script) as url, pytest.raises(ApiError) as error:
        client(url, **limits).get("/x", within=within)
    return error.value


def test_an_answer_with_a_length_chunks_or_neither() -> None:
    for answer in (
        HEAD + b"Content-Length: 5\r\n\r\nhello",
        CHUNKED + chunk(b"hel") + chunk(b"lo") + b"0\r\n\r\n",
        HEAD + b"\r\nhello",
    ):
        with scripted(sends(answer)) as url:
            assert client(url).get("/x", {"a": "b c"}) == b"hello"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "disconnected"),
        (b"rubbish\r\n\r\n", "disconnected"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", "disconnected"),
        (b"HTTP/1.1 200 " + b"x" * 100_000, "disconnected"),
        (HEAD + b"Content-Length: 50\r\n\r\nhello", "disconnected"),
        (CHUNKED + b"5\r\nhe", "disconnected"),
        (CHUNKED + b"zz\r\nhe", "disconnected"),
        (CHUNKED + chunk(b"hello"), "disconnected"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "bad_answer"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "bad_answer"),
        (b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", "expired"),
        (b"HTTP/1.1 429 X\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", "throttled"),
        (b"HTTP/1.1 599 X\r\nContent-Length: 2\r\n\r\n\xff\xfe", "server_error"),
    ],
)
def test_an_answer_that_is_none(answer: bytes, reason: str) -> None:
    error = fails_with(sends(answer))
    assert error.reason == reason
    assert len(str(error)) < 500


@pytest.mark.parametrize(("text", "seconds"), [("7", 7), ("0", 0), ("99999", 300), ("-1", 0), ("soon", 0), ("٣", 0)])
def test_retry_after(text: str, seconds: float) -> None:
    answer = f"HTTP/1.1 503 X\r\nRetry-After: {text}\r\nContent-Length: 0\r\n\r\n".encode()
    assert fails_with(sends(answer)).retry_after == seconds


def test_an_answer_may_be_too_large() -> None:
    endless = sends(CHUNKED, *[chunk(b"x" * 60_000)] * 100)
    assert fails_with(endless, body=1_000_000).reason == "too_large"


@pytest.mark.parametrize(
    "script",
    [
        lambda sock: sock.recv(1),
        sends(*[b"X"] * 1000, pause=0.02),
        sends(HEAD, *[b"X: y\r\n"] * 90, pause=0.02),
        sends(CHUNKED, *[chunk(b"x")] * 1000, pause=0.02),
    ],
)
def test_the_deadline_covers_everything(script: Script) -> None:
    """Also the server that is never silent and never done."""
    started = time.monotonic()
    assert fails_with(script, within=0.4).reason == "timeout"
    assert time.monotonic() - started < 3


def test_lines_come_as_they_are_sent() -> None:
    line = b'{"a": 1}'
    pieces = [
        chunk(line + b"\n" + line[:3]),
        chunk(line[3:] + b"\n\n" + line + b"\n"),
        chunk(b"half a li"),
        b"0\r\n\r\n",
    ]
    with scripted(sends(CHUNKED, *pieces)) as url, client(url).exchange("/x", {}, idle=2, within=5) as exchange:
        assert list(exchange.lines()) == [line] * 3


def test_a_line_may_be_too_long() -> None:
    pieces = [chunk(b"x" * 50_000)] * 10
    with (
        scripted(sends(CHUNKED, *pieces)) as url,
        client(url, line=100_000).exchange("/x", {}, idle=2, within=5) as exchange,
        pytest.raises(ApiError) as error,
    ):
        list(exchange.lines())
    assert error.value.reason == "too_large"


def test_a_silent_stream_is_left() -> None:
    def silent(sock: socket.socket) -> None:
        sock.sendall(CHUNKED + chunk(b"line\n"))
        sock.recv(1)

    with scripted(silent) as url, client(url).exchange("/x", {}, idle=0.2, within=5) as exchange:
        lines = exchange.lines()
        assert next(lines) == b"line"
        with pytest.raises(ApiError) as error:
            next(lines)
    assert error.value.reason == "timeout"


@pytest.mark.parametrize("is_head_sent", [False, True])
def test_another_thread_may_end_it(is_head_sent: bool) -> None:
    def silent(sock: socket.socket) -> None:
        sock.sendall(CHUNKED if is_head_sent else b"")
        sock.recv(1)

    with scripted(silent) as url:
        exchange = client(url).exchange("/x", {}, idle=10, within=10)
        timer = threading.Timer(0.1, exchange.abort)
        timer.start()
        with pytest.raises(ApiError) as error, exchange:
            list(exchange.lines())
        timer.join()
    assert error.value.reason == "stopped"


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ApiError) as error:
        client(f"http://127.0.0.1:{port}").get("/x")
    assert error.value.reason == "unreachable"
    with pytest.raises(ApiError) as error:
        client("http://no-such-host.invalid").get("/x")
    assert error.value.reason == "unreachable"


def test_a_gateway_may_have_a_path() -> None:
    heard: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        peer, _ = listener.accept()
        with peer:
            heard.append(peer.recv(65536))
            peer.sendall(HEAD + b"Content-Length: 0\r\n\r\n")

    thread = threading.Thread(target=run)
    thread.start()
    client(f"http://127.0.0.1:{listener.getsockname()[1]}/k8s/clusters/c-1").get("/api/v1/pods", {"limit": "5"})
    thread.join()
    listener.close()
    assert heard[0].startswith(b"GET /k8s/clusters/c-1/api/v1/pods?limit=5 HTTP/1.1\r\n")
    assert b"Authorization" not in heard[0]


def test_the_pacer_never_lets_more_through() -> None:
    clock = ManualClock()
    pacer = Pacer(clock, 5, 1.0)
    begun: list[float] = []
    for number in range(40):
        clock.advance(0.01 if number % 7 else 0.9)
        begun.append(clock.monotonic() + pacer.book())
    assert all(later - earlier >= 1.0 - 1e-9 for earlier, later in zip(begun, begun[5:], strict=False))
    clock.advance(100)
    assert pacer.book() == 0
