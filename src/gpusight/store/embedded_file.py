"""The DuckDB file: opened by one process only, and whatever state a crash or a bad disk left it in."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import duckdb

from gpusight.model.series import StoreError
from gpusight.store import schema

_log = logging.getLogger("gpusight.store")

_HEADER_BYTES = 3 * 4096
_LOCKED = "Could not set lock"
_CORRUPT = (
    "not a valid DuckDB database file",
    "Corrupt database file",
    "Corrupt WAL file",
    "Could not read enough bytes",
    "does not match stored checksum",
)
_FULL = ("No space left on device", "File too large", "Disk quota exceeded", "Out of disk space", "out of disk space")


class Limits(NamedTuple):
    """What the engine may take for itself."""

    memory: str = "256MB"
    threads: int = 2
    spill: str = "1GB"
    """On disk beside the file, while a question needs more than `memory`."""
    log: int = 16 << 20
    """Bytes to which the write-ahead log may grow before it is worked into the file."""


def is_corruption(error: BaseException) -> bool:
    return any(sign in str(error) for sign in _CORRUPT)


def explained(path: Path, error: Exception) -> StoreError:
    """The sentence for a person."""
    text = " ".join(str(error).split())
    if _LOCKED in text:
        holder = text.partition("(PID ")[2].partition(")")[0]
        by = f" (process {holder})" if holder else ""
        return StoreError(f"the embedded store {path} is in use by another process{by}: only one may open it")
    if any(sign in text for sign in _FULL):
        return StoreError(f"the disk is full: the embedded store {path} cannot write ({text[:200]})")
    return StoreError(f"the embedded store {path} fails: {text[:300]}")


@contextmanager
def explaining(path: Path) -> Iterator[None]:
    """Errors of the engine leave as StoreError."""
    try:
        yield
    except (duckdb.Error, OSError) as error:
        raise explained(path, error) from error


def open_file(path: Path, limits: Limits) -> duckdb.DuckDBPyConnection:
    """The open database. What is beyond reading is set aside, first the log alone, and a new one is begun."""
    with explaining(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return _connect(path, limits)
        except duckdb.Error as error:
            if not is_corruption(error):
                raise
            log = _log_of(path)
            set_aside(log if "WAL file" in str(error) and log.exists() else path, str(error))
        try:
            return _connect(path, limits)
        except duckdb.Error as error:
            if not is_corruption(error):
                raise
            set_aside(path, str(error))
        return _connect(path, limits)


def set_aside(path: Path, why: str) -> None:
    """Rename to `<name>.corrupt`, in place of an older one, so that broken files cannot pile up."""
    for each in (path, _log_of(path)):
        if each.exists():
            kept = each.with_name(f"{each.name}.corrupt")
            each.replace(kept)
            _log.error("%s cannot be read and is set aside as %s: %s", each, kept.name, " ".join(why.split())[:300])


def size_on_disk(path: Path) -> int:
    """Bytes of the file and its log."""
    total = 0
    for each in (path, _log_of(path)):
        with suppress(OSError):
            total += each.stat().st_size
    return total


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.wal")


def _connect(path: Path, limits: Limits) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        str(path),
        config={
            "memory_limit": limits.memory,
            "threads": limits.threads,
            "max_temp_directory_size": limits.spill,
            "checkpoint_threshold": f"{limits.log}B",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "enable_external_access": False,
            "preserve_insertion_order": True,
        },
    )
    path.chmod(0o600)  # names of tenants are nobody else's business
    try:
        _check_length(connection, path)
        schema.prepare(connection, str(path))
    except BaseException:
        connection.close()
        raise
    return connection


def _check_length(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """A file that was cut opens, and fails only when a missing part is asked for.

    Free blocks do not count: the engine itself cuts them off the end.
    """
    row = connection.execute("SELECT used_blocks, block_size FROM pragma_database_size()").fetchone()
    if row and path.stat().st_size < _HEADER_BYTES + row[0] * row[1]:
        raise duckdb.IOException(f"Corrupt database file: {path} is shorter than its {row[0]} used blocks")
