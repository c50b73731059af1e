"""Samples of any age into a real Prometheus: its remote-write receiver, spoken with the standard library only."""

import struct
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.net import free_port
from tests.support.process import running, wait_for_http

STALE: float = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
"""The value that ends a series: what Prometheus writes when a target no longer exposes it."""


@contextmanager
def writable_prometheus(directory: Path, rules: str = "") -> Iterator[str]:
    """The address of a Prometheus that takes samples; it evaluates `rules` every second."""
    config = directory / "prometheus.yml"
    config.write_text("global: {evaluation_interval: 1s}\nrule_files: [rules.yml]\n")
    (directory / "rules.yml").write_text(rules)
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--web.enable-remote-write-receiver",
    ]
    with running(command, directory / "prometheus.log") as process:
        wait_for_http(f"{url}/-/ready", process)
        yield url


class Series(NamedTuple):
    """One series and its samples, the oldest first: Unix seconds and values."""

    labels: Mapping[str, str]
    samples: Sequence[tuple[float, float]] | bytes
    """Bytes are what `encoded` made of samples that many series share."""


def write(url: str, series: Iterable[Series], batch: int = 5000) -> None:
    """Send the series; samples that are older than what a series already has are refused."""
    pending: list[bytes] = []
    for each in series:
        pending.append(_field(1, _timeseries(each)))
        if len(pending) == batch:
            _post(url, pending)
            pending.clear()
    if pending:
        _post(url, pending)


def _post(url: str, parts: Sequence[bytes]) -> None:
    headers = {
        "Content-Encoding": "snappy",
        "Content-Type": "application/x-protobuf",
        "X-Prometheus-Remote-Write-Version": "0.1.0",
    }
    request = urllib.request.Request(f"{url}/api/v1/write", _uncompressed_snappy(b"".join(parts)), headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        assert answer.status in (200, 204)


def _uncompressed_snappy(data: bytes) -> bytes:
    """Snappy's block format without any compression: literals only."""
    return _varint(len(data)) + b"\xfc" + struct.pack("<I", len(data) - 1) + data


def _timeseries(series: Series) -> bytes:
    labels = b"".join(
        _field(1, _field(1, name.encode()) + _field(2, value.encode()))
        for name, value in sorted(series.labels.items())
        if value
    )
    return labels + (series.samples if isinstance(series.samples, bytes) else encoded(series.samples))


def encoded(samples: Iterable[tuple[float, float]]) -> bytes:
    return b"".join(_field(2, _sample(time, value)) for time, value in samples)


def _sample(time: float, value: float) -> bytes:
    return b"\x09" + struct.pack("<d", value) + b"\x10" + _varint(round(time * 1000))


def _field(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(payload)) + payload


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
