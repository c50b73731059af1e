"""All container directories of a node. Nothing is followed, written or deleted; a bad entry costs only itself.

<root>/<podUID>_<container>/<uuid>.cache
"""

import os
import re
from collections import Counter
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from gpusight.model.time import Clock
from gpusight.model.vgpu import ContainerRegion, Region, RegionProblem, VgpuSnapshot
from gpusight.sources.vgpu.region import RegionError, RegionMemory, read_region

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NAME = re.compile(r"([A-Za-z0-9.-]+)_([A-Za-z0-9._-]+)")

_Problems = Counter[RegionProblem]
_MOST_JUNK = 3
"""Names of entries that do not belong here, for people to find them by."""
_SETTLED = 2.0
"""Seconds since a directory changed after which a further change cannot have the same time."""


class _Known(NamedTuple):
    """A directory whose file was read without trouble; while the directory stays as it is, the file is the same one.

    Only the kernel sets a ctime, and sets it when an entry comes, goes or is replaced. Of the file's own times nothing
    can be learned: libvgpu writes through a mapping.
    """

    stamp: tuple[int, int, int]
    """Device, inode and ctime."""
    cache: str | None
    memory: RegionMemory


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
        self._known: dict[str, _Known] = {}

    def read(self) -> VgpuSnapshot:
        """What every container directory says now."""
        taken_at = self._clock.now()
        problems = _Problems()
        junk: list[str] = []
        try:
            containers = self._scan(problems, junk)
        except FileNotFoundError:
            return VgpuSnapshot(taken_at, is_present=False)
        except NotADirectoryError:
            containers = []
            problems["link" if self._root.is_symlink() else "not_a_file"] += 1
        except OSError:
            containers = []
            problems["unreadable"] += 1
        problems.update(container.problem for container in containers if container.problem)
        return VgpuSnapshot(taken_at, True, tuple(containers), tuple(sorted((+problems).items())), tuple(junk))

    def _scan(self, problems: _Problems, junk: list[str]) -> list[ContainerRegion]:
        until = self._clock.monotonic() + self._limits.seconds
        root = os.open(self._root, _DIRECTORY)
        try:
            names = self._names(root, problems, junk)
            before, self._known = self._known, {}
            found = [self._container(root, name, before.get(name), until) for name in names]
        finally:
            os.close(root)
        return sorted(filter(None, found), key=lambda container: (container.pod_uid, container.container))

    def _names(self, root: int, problems: _Problems, junk: list[str]) -> list[str]:
        with os.scandir(root) as entries:
            listed = list(islice(entries, self._limits.directories))
            problems["over_limit"] += sum(1 for _ in entries)
        links = [entry.name for entry in listed if entry.is_symlink()]
        names = [entry.name for entry in listed if entry.is_dir(follow_symlinks=False)]
        bad = [name for name in names if not _NAME.fullmatch(name)]
        problems["link"] += len(links)
        problems["bad_directory_name"] += len(bad)
        junk += nsmallest(_MOST_JUNK, links + bad)
        return [name for name in names if name not in bad] if bad else names

    def _container(self, root: int, name: str, known: _Known | None, until: float) -> ContainerRegion | None:
        """None if the directory has been removed since it was listed."""
        region: Region | None = None
        problem: RegionProblem | None = None
        try:
            if self._clock.monotonic() > until:
                raise RegionError("over_limit")
            region = self._region(root, name, known)
        except RegionError as error:
            problem = error.problem
        except FileNotFoundError:
            return None
        except OSError:
            problem = "unreadable"
        pod_uid, _, container = name.partition("_")
        return ContainerRegion(pod_uid, container, region, problem)

    def _region(self, root: int, name: str, known: _Known | None) -> Region | None:
        directory = os.open(name, _DIRECTORY, dir_fd=root)
        try:
            status = os.fstat(directory)
            stamp = status.st_dev, status.st_ino, status.st_ctime_ns
            is_known = known is not None and known.stamp == stamp
            if known is None or not is_known:
                known = _Known(stamp, self._cache_file(directory), RegionMemory())
            region = known.cache and read_region(known.cache, directory, known.memory, is_known_file=is_known)
            if self._clock.now() - status.st_ctime > _SETTLED:
                self._known[name] = known
            return region or None
        finally:
            os.close(directory)

    def _cache_file(self, directory: int) -> str | None:
        """The first regular file by name, like HAMi; others in front of it do not hide it, as they do from HAMi."""
        with os.scandir(directory) as entries:
            listed = list(islice(entries, self._limits.entries + 1))
        if len(listed) > self._limits.entries:
            raise RegionError("over_limit")
        caches = [entry for entry in listed if entry.name.endswith(".cache")]
        first = min(caches, key=lambda e: (not e.is_file(follow_symlinks=False), os.fsencode(e.name)), default=None)
        return None if first is None else first.name
