"""The program's own endpoint."""

import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from gpusight.instrument import GpuMetrics, MetricsConfig, serve
from gpusight.instrument import endpoint as endpoint_module
from gpusight.instrument.endpoint import MetricsServer
from tests.instrument.reading import value


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    metrics = GpuMetrics(MetricsConfig(export_interval=0))
    metrics.record_crypto_gpu(1, 0.1)
    server = serve(metrics, 0, "127.0.0.1")
    assert server.error is None
    yield server
    server.close()


def ask(server: MetricsServer, method: str, path: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port or 0, timeout=5)
    connection.request(method, path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


def test_metrics_health_and_landing_page(server: MetricsServer) -> None:
    status, headers, body = ask(server, "GET", "/metrics")
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "\ngpu_crypto_executions_total 1\n" in body
    assert ask(server, "GET", "/health")[::2] == (200, "OK")
    assert 'href="/metrics"' in ask(server, "GET", "/")[2]
    assert ask(server, "GET", "/nothing")[0] == 404
    assert ask(server, "POST", "/metrics")[0] == 405


def test_head_has_the_headers_of_get(server: MetricsServer) -> None:
    status, headers, body = ask(server, "HEAD", "/metrics")
    assert (status, body) == (200, "")
    assert int(headers["Content-Length"]) > 1000


def test_a_busy_port_does_not_stop_the_program(server: MetricsServer, caplog: pytest.LogCaptureFixture) -> None:
    metrics = GpuMetrics(MetricsConfig(export_interval=0))
    second = serve(metrics, server.port or 0, "127.0.0.1")
    assert second.error
    assert str(server.port) in second.error
    assert second.port is None
    assert "goes on without" in caplog.text
    assert value(metrics, "gpusight_instrument_errors_total", reason="serve") == 1
    second.close()


def test_silent_clients_do_not_delay_an_honest_one(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "_MOST_CONNECTIONS", 50)
    with ExitStack() as stack:
        for _ in range(200):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port or 0)))
            client.send(b"GET /metrics HTTP/1.1\r\nX: ")
        started = time.monotonic()
        assert ask(server, "GET", "/metrics")[0] == 200
        assert time.monotonic() - started < 2


@pytest.mark.parametrize("rubbish", [b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/9\r\n\r\n"])
def test_rubbish_is_answered_with_400(server: MetricsServer, rubbish: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port or 0), timeout=5) as client:
        client.sendall(rubbish)
        assert client.recv(100).startswith(b"HTTP/1.1 400")
    assert ask(server, "GET", "/health")[0] == 200


def test_an_endless_head_is_cut_off(server: MetricsServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port or 0), timeout=5) as client:
        with pytest.raises(OSError):
            for _ in range(1000):
                client.sendall(b"x" * 10_000)
        assert ask(server, "GET", "/health")[0] == 200


def test_all_interfaces_by_default() -> None:
    server = serve(GpuMetrics(), 0)
    try:
        assert server.url == f"http://localhost:{server.port}/metrics"
        assert ask(server, "GET", "/healthz")[0] == 200
    finally:
        server.close()
        server.close()
