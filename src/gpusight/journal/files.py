"""Files that appear whole or not at all."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


@contextmanager
def written_beside(destination: Path, *, force: bool = False) -> Iterator[Path]:
    """A file for the caller to fill, only for the owner's eyes; it takes its name when all of it is on disk.

    FileExistsError when there is one by that name and not `force`.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{destination.name}.", suffix=".tmp", dir=destination.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        _sync(temporary)
        _give_name(temporary, destination, force=force)
        with suppress(OSError):  # not every file system can sync a directory
            _sync(destination.parent)
    finally:
        for leftover in temporary.parent.glob(f"{temporary.name}*"):  # SQLite puts files beside its own
            leftover.unlink(missing_ok=True)


def _give_name(temporary: Path, destination: Path, *, force: bool) -> None:
    if force:
        temporary.replace(destination)
        return
    try:
        os.link(temporary, destination)  # unlike a rename it refuses what is there
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if destination.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(destination)) from None
        temporary.replace(destination)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
