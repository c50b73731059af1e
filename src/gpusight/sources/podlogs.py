"""Names of this node's pods from the kubelet's log directories: no API server and no token needed.

`/var/log/pods/<namespace>_<pod>_<uid>/<container>/` names everything but the containers' ids. Those stand in the names
of the links `/var/log/containers/<pod>_<namespace>_<container>-<id>.log`, whose targets lead into the former. Links are
read, never followed, and no log is opened.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from gpusight.model.identity import PodRef
from gpusight.model.ownership import PodInfo
from gpusight.model.time import Clock

PodLogsReason = Literal["", "no_directory", "no_permission", "error"]

_MOST_PODS = 4096
_MOST_CONTAINERS = 128
_MOST_LINKS = 16_384
_NAME = r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"
_UID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}"
_POD = re.compile(rf"({_NAME})_({_NAME})_({_UID})")
_CONTAINER = re.compile(_NAME)
_LINK = re.compile(r".+-([0-9a-f]{64})\.log")


@dataclass(frozen=True, slots=True)
class PodLogsReading:
    """The pods of a node, those first whose directories changed last: a pod recreated comes before its predecessor."""

    is_up: bool
    reason: PodLogsReason = ""
    pods: tuple[PodInfo, ...] = ()
    skipped: int = 0
    """Entries that are no pod's directory, or one too many."""


class _Found(NamedTuple):
    pods: list[tuple[float, PodInfo]]
    skipped: int


class PodLogs:
    """The directory `pods`, and the one with links where there is one, looked at again after `every` seconds."""

    def __init__(
        self, pods: Path, clock: Clock, cluster: str = "", links: Path | None = None, every: float = 5.0
    ) -> None:
        self._pods = pods
        self._links = links
        self._clock = clock
        self._cluster = cluster
        self._every = every
        self._reading = PodLogsReading(is_up=False)
        self._read_at: float | None = None

    def read(self) -> PodLogsReading:
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= self._every:
            self._reading = self._scan()
            self._read_at = now
        return self._reading

    def _scan(self) -> PodLogsReading:
        try:
            ids = _container_ids(self._links) if self._links else {}
            found = _scan_pods(self._pods, self._cluster, ids)
        except (FileNotFoundError, NotADirectoryError):
            return PodLogsReading(is_up=False, reason="no_directory")
        except PermissionError:
            return PodLogsReading(is_up=False, reason="no_permission")
        except OSError:
            return PodLogsReading(is_up=False, reason="error")
        newest_first = sorted(found.pods, key=lambda pair: pair[0], reverse=True)
        return PodLogsReading(is_up=True, pods=tuple(pod for _, pod in newest_first), skipped=found.skipped)


def parse_directory_name(name: str, cluster: str = "") -> PodRef | None:
    found = _POD.fullmatch(name)
    return PodRef(cluster, *found.groups()) if found else None


def _scan_pods(root: Path, cluster: str, ids: dict[tuple[str, str], str]) -> _Found:
    pods: list[tuple[float, PodInfo]] = []
    skipped = 0
    with os.scandir(root) as entries:
        for entry in islice(entries, _MOST_PODS):
            ref = parse_directory_name(entry.name, cluster)
            if ref is None or not entry.is_dir(follow_symlinks=False):
                skipped += 1
                continue
            containers = tuple(sorted(_directories(entry.path)))
            known = {name: ids[ref.uid, name] for name in containers if (ref.uid, name) in ids}
            pods.append((_changed_at(entry), PodInfo(ref, containers, container_ids=known)))
        skipped += sum(1 for _ in islice(entries, _MOST_PODS))
    return _Found(pods, skipped)


def _directories(path: str) -> Iterator[str]:
    """The container names in a pod's directory; none when it has just gone or cannot be read."""
    try:
        with os.scandir(path) as entries:
            for entry in islice(entries, _MOST_CONTAINERS):
                if entry.is_dir(follow_symlinks=False) and _CONTAINER.fullmatch(entry.name):
                    yield entry.name
    except OSError:
        return


def _changed_at(entry: "os.DirEntry[str]") -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return 0.0


def _container_ids(links: Path) -> dict[tuple[str, str], str]:
    """(pod uid, container) to the id of the container that started last. Without the directory there are none."""
    try:
        with os.scandir(links) as entries:
            return dict(_newest_last(islice(entries, _MOST_LINKS)))
    except OSError:
        return {}


def _newest_last(entries: Iterable["os.DirEntry[str]"]) -> list[tuple[tuple[str, str], str]]:
    """A restarted container leaves the link of its predecessor behind for a while."""
    found = [(_changed_at(entry), *pair) for entry in entries if (pair := _parse_link(entry))]
    return [(key, container_id) for _, key, container_id in sorted(found)]


def _parse_link(entry: "os.DirEntry[str]") -> tuple[tuple[str, str], str] | None:
    named = _LINK.fullmatch(entry.name)
    if named is None:
        return None
    try:
        parts = Path(os.readlink(entry.path)).parts  # noqa: PTH115  (Path.readlink is this and slower)
    except OSError:
        return None
    ref = parse_directory_name(parts[-3]) if len(parts) >= 3 else None
    return ((ref.uid, parts[-2]), named[1]) if ref else None
