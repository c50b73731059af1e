"""Other exporters that run on the same host: what they publish about a GPU would stand beside ours."""

import os
from collections.abc import Iterator
from pathlib import Path

_KNOWN = {
    "dcgm-exporter": "dcgm-exporter",
    "vGPUmonitor": "hami-vgpu-monitor",
    "nvidia_gpu_expo": "nvidia_gpu_exporter",  # the kernel cuts names at 15 bytes
    "nvitop-exporter": "nvitop-exporter",
}
_MOST_PROCESSES = 100_000


def find_exporters(procfs: Path) -> tuple[str, ...]:
    """Their names, sorted. None where the host's processes cannot be seen: not seeing one proves nothing."""
    try:
        return tuple(sorted({name for comm in _commands(procfs) if (name := _KNOWN.get(comm[:15].rstrip()))}))
    except OSError:
        return ()


def _commands(procfs: Path) -> Iterator[str]:
    with os.scandir(procfs) as entries:
        for count, entry in enumerate(entries):
            if count >= _MOST_PROCESSES:
                return
            if entry.name.isdecimal():
                yield _command(Path(entry.path))


def _command(process: Path) -> str:
    try:
        return (process / "comm").read_bytes()[:64].decode("utf-8", "replace").rstrip("\n")
    except OSError:  # it has ended
        return ""
