"""All container directories of a node. Nothing is followed, written or deleted; a bad entry costs only itself.

<root>/<podUID>_<container>/<uuid>.cache
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from gpusight.model.time import Clock
from gpusight.model.vgpu import ContainerRegion, Region, RegionProblem, VgpuSnapshot
from gpusight.sources.vgpu.region import RegionError, read_region

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NAME = re.compile(r"([A-Za-z0-9.-]+)_([A-Za-z0-9._-]+)")

_Problems = Counter[RegionProblem]


@dataclass(frozen=True, slots=True)
class ScanLimits:
    """How much one scan looks at: entries of the root, entries of a container's directory, seconds in all."""

    directories: int = 4096
    entries: int = 64
    seconds: float = 5.0


DEFAULT_LIMITS = ScanLimits()


class VgpuSource:
    """The shared regions under one directory, such as /usr/local/vgpu/containers."""

    def __init__(self, root: Path, clock: Clock, limits: ScanLimits = DEFAULT_LIMITS) -> None:
        self._root = root
        self._clock = clock
        self._limits = limits

    def read(self) -> VgpuSnapshot:
        """What every container directory says now."""
        taken_at = self._clock.now()
        problems = _Problems()
        try:
            containers = self._scan(problems)
        except FileNotFoundError:
            return VgpuSnapshot(taken_at, is_present=False)
        except NotADirectoryError:
            containers = []
            problems["link" if self._root.is_symlink() else "not_a_file"] += 1
        except OSError:
            containers = []
            problems["unreadable"] += 1
        problems.update(container.problem for container in containers if container.problem)
        return VgpuSnapshot(taken_at, True, tuple(containers), tuple(sorted((+problems).items())))

    def _scan(self, problems: _Problems) -> list[ContainerRegion]:
        until = self._clock.monotonic() + self._limits.seconds
        with _opened(self._root) as root:
            names = self._names(root, problems)
            found = [self._container(root, match, until) for match in map(_NAME.fullmatch, names) if match]
        problems["bad_directory_name"] += len(names) - len(found)
        return sorted(filter(None, found), key=lambda container: (container.pod_uid, container.container))

    def _names(self, root: int, problems: _Problems) -> list[str]:
        with os.scandir(root) as entries:
            listed = list(islice(entries, self._limits.directories))
            problems["over_limit"] += sum(1 for _ in entries)
        problems["link"] += sum(entry.is_symlink() for entry in listed)
        return [entry.name for entry in listed if entry.is_dir(follow_symlinks=False)]

    def _container(self, root: int, name: re.Match[str], until: float) -> ContainerRegion | None:
        """None if the directory has been removed since it was listed."""
        region: Region | None = None
        problem: RegionProblem | None = None
        try:
            if self._clock.monotonic() > until:
                raise RegionError("over_limit")
            region = self._region(root, name[0])
        except RegionError as error:
            problem = error.problem
        except FileNotFoundError:
            return None
        except OSError:
            problem = "unreadable"
        return ContainerRegion(name[1], name[2], region, problem)

    def _region(self, root: int, name: str) -> Region | None:
        with _opened(name, root) as directory:
            cache = self._cache_file(directory)
            return None if cache is None else read_region(cache, directory)

    def _cache_file(self, directory: int) -> str | None:
        """The first regular file by name, like HAMi; others in front of it do not hide it, as they do from HAMi."""
        with os.scandir(directory) as entries:
            listed = list(islice(entries, self._limits.entries + 1))
        if len(listed) > self._limits.entries:
            raise RegionError("over_limit")
        caches = [entry for entry in listed if entry.name.endswith(".cache")]
        first = min(caches, key=lambda e: (not e.is_file(follow_symlinks=False), os.fsencode(e.name)), default=None)
        return None if first is None else first.name


@contextmanager
def _opened(path: str | Path, dir_fd: int | None = None) -> Iterator[int]:
    fd = os.open(path, _DIRECTORY, dir_fd=dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)
