"""A support archive: what helps to find a fault, and nothing that must not leave the site."""

import gzip
import io
import json
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TAIL = 256 << 10
_ROOT = "gpusight-doctor"


def write_bundle(path: Path, members: Mapping[str, str], now: float) -> None:
    """A new file for its owner's eyes. OSError if it is there already, or cannot be written; then nothing is left."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(packed(members, now))
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def packed(members: Mapping[str, str], now: float) -> bytes:
    """The archive's bytes: no owner, no path, no name of this machine in them."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=int(now)) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, text in members.items():
            body = text.encode("utf-8", "backslashreplace")
            entry = tarfile.TarInfo(f"{_ROOT}/{name}")
            entry.size, entry.mode, entry.mtime = len(body), 0o600, int(now)
            archive.addfile(entry, io.BytesIO(body))
    return buffer.getvalue()


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n"


def tail(path: Path) -> str:
    """The end of a log, from the beginning of a line."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - _TAIL))
        text = file.read(_TAIL).decode("utf-8", "replace")
    return text.partition("\n")[2] if size > _TAIL else text
