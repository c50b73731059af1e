"""Fuzz the decoder of shared regions with atheris: any bytes give a region that holds together, or a RegionError.

    python3.11 -m venv /tmp/fuzz && /tmp/fuzz/bin/pip install atheris
    PYTHONPATH=src:. /tmp/fuzz/bin/python -m tests.fuzz.fuzz_region -max_total_time=600

Further arguments go to libFuzzer. The corpus starts from valid regions of every layout, in a temporary directory that
stays, since libFuzzer ends the process itself. An input is what matters of a file, for most of its 2 MB is zeros:

    1 byte    which of the known sizes (low bits), and whether somebody writes (64) or truncates (128) meanwhile
    24 bytes  the end of the file, from proc_num on
    the rest  the beginning of the file: head and slots
"""

import importlib
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import get_args

from gpusight.model.vgpu import Layout, Region
from gpusight.simulate.regions import SimDevice, SimProcess, SimRegion, SimUse, encode_region
from gpusight.sources.vgpu import region as fuzzed
from gpusight.sources.vgpu.layouts import LAYOUTS, LAYOUTS_BY_SIZE

SIZES = sorted(LAYOUTS_BY_SIZE)
TAIL_SIZE = 24
WRITES, TRUNCATES = 64, 128
MAX_LEN = 1 + TAIL_SIZE + LAYOUTS["E"].procs + 4 * LAYOUTS["E"].slot.size
UUID = re.compile(r"[!-~]{1,40}")


class Sparse:
    """A file of zeros with something at its beginning and its end, which may change from one read to the next."""

    def __init__(self, data: bytes) -> None:
        self._mode = data[0]
        self.size = SIZES[self._mode % len(SIZES)]
        self._tail_at = LAYOUTS_BY_SIZE[self.size][0].proc_num
        self._tail, self._start = data[1 : 1 + TAIL_SIZE], data[1 + TAIL_SIZE :]
        self._reads = 0

    def at(self, offset: int, size: int) -> bytes:
        self._reads += 1
        if self._mode & TRUNCATES and self._reads == 1 + len(self._start) % 8:
            raise fuzzed.RegionError("truncated")
        if offset >= self._tail_at:
            found = self._tail[offset - self._tail_at :][:size]
        else:
            found = self._start[offset : offset + size]
        if self._mode & WRITES and offset and self._reads % 3 == 0:
            found = bytes(byte ^ 1 for byte in found[:64]) + found[64:]
        return found.ljust(size, b"\0")


def one_input(data: bytes) -> None:
    """Fails by any exception but RegionError."""
    with suppress(fuzzed.RegionError):
        fuzzed.parse_region(data)
    if data:
        file = Sparse(data)
        with suppress(fuzzed.RegionError):
            check(fuzzed.decode_region(file.at, file.size))


def check(region: Region) -> None:
    """What a collector may rely on."""
    assert len(region.devices) <= 16
    assert len(region.processes) <= 1024
    for device in region.devices:
        assert UUID.fullmatch(device.uuid), device
        numbers = (device.limit, device.sm_limit, device.used, device.context, device.module, device.buffer)
        more = (device.offset, device.monitor_used, device.sm_percent, device.encoder_percent, device.decoder_percent)
        assert all(number is None or 0 <= number < 1 << 63 for number in numbers + more), device
    for process in region.processes:
        assert process.container_pid > 0, process
        assert process.host_pid is None or process.host_pid > 0, process
        assert process.status != 0, process
        assert len(process.used) == len(region.devices), process


def seeds() -> Iterator[bytes]:
    """Regions of every layout, with no, one and three processes."""
    use = SimUse(context=1 << 28, buffer=1 << 33, monitor_used=1 << 33, sm_percent=40)
    devices = [SimDevice(f"GPU-0000000{index}-aaaa-bbbb-cccc-dddddddddddd", 1 << 34) for index in range(2)]
    for name in get_args(Layout):
        for count in (0, 1, 3):
            processes = [SimProcess(100 + i, 4000 + i, 1 + i % 2, [use, use]) for i in range(count)]
            yield as_input(encode_region(SimRegion(name, devices, processes, last_kernel_at=1_700_000_000)))


def as_input(data: bytes) -> bytes:
    """The input that stands for this file."""
    tail_at = LAYOUTS_BY_SIZE[len(data)][0].proc_num
    start = data[:tail_at].rstrip(b"\0")
    return bytes([SIZES.index(len(data))]) + data[tail_at : tail_at + TAIL_SIZE].ljust(TAIL_SIZE, b"\0") + start


def main() -> None:
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["gpusight.sources"]):
        importlib.reload(importlib.import_module("gpusight.sources.vgpu.layouts"))
        importlib.reload(fuzzed)
    corpus = Path(tempfile.mkdtemp(prefix="fuzz-region-"))
    for index, seed in enumerate(seeds()):
        (corpus / f"seed-{index}").write_bytes(seed)
    atheris.Setup([sys.argv[0], f"-max_len={MAX_LEN}", *sys.argv[1:], str(corpus)], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
