"""Faults: which are in force at a moment, from the spec's schedule and from a control file that others may rewrite."""

import json
import logging
import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from gpusight.simulate.spec import Fault, FaultKind, SpecError, parse_faults_text

RETURN_CODES: Final[Mapping[FaultKind, int]] = MappingProxyType({
    "not_supported": 3,
    "no_permission": 4,
    "function_not_found": 13,
    "gpu_lost": 15,
    "reset_required": 16,
    "unknown_error": 999,
})  # fmt: skip
"""What a call returns under a fault that does nothing but fail."""

INIT_CODES: Final[Mapping[FaultKind, int]] = MappingProxyType({"init_failure": 9, "version_mismatch": 18})

_log = logging.getLogger("gpusight.simulate")
_ON_CALLS: Final = frozenset({*RETURN_CODES, "error", "block", "crash"})
_STICKY: Final = frozenset({"xid", "ecc"})
"""What has happened cannot be taken back: these outlive their entry in the control file."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """All faults of one node. Questions about it are pure functions of time."""

    faults: tuple[Fault, ...] = ()
    on_calls: tuple[Fault, ...] = field(init=False)
    xid_times: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "on_calls", tuple(fault for fault in self.faults if fault.kind in _ON_CALLS))
        object.__setattr__(self, "xid_times", tuple(sorted(fault.at for fault in self.faults if fault.kind == "xid")))

    def of_call(self, t: float, gpu: int | None, function: str) -> Fault | None:
        """The fault that this call meets; `gpu` is None for calls about the whole node."""
        for fault in self.on_calls:
            if fault.is_active(t) and _concerns(fault, gpu) and _is_of(fault, function):
                return fault
        return None

    def of_init(self, t: float) -> int | None:
        """The return code of nvmlInit, when it fails."""
        return next((INIT_CODES[f.kind] for f in self.faults if f.kind in INIT_CODES and f.is_active(t)), None)

    def xids(self, gpu: int, t: float) -> tuple[tuple[float, int], ...]:
        """Time and code of every XID so far, oldest first; those of one moment in the order in which they came."""
        happened = ((f.at, f.code or 0) for f in self.faults if f.kind == "xid" and f.gpu == gpu and f.at <= t)
        return tuple(sorted(happened, key=lambda xid: xid[0]))

    def xid_count(self, t: float) -> int:
        """How many XIDs there were on all devices so far: asked all the time, by those who wait for the next."""
        return bisect_right(self.xid_times, t)

    def ecc_errors(self, gpu: int, t: float) -> int:
        return sum(f.code or 1 for f in self.faults if f.kind == "ecc" and f.gpu == gpu and f.at <= t)

    def is_active(self, kind: FaultKind, gpu: int, t: float) -> bool:
        return any(f.kind == kind and f.gpu == gpu and f.is_active(t) for f in self.faults)


def _concerns(fault: Fault, gpu: int | None) -> bool:
    """A fault without a device concerns all of them; a call without one meets only faults that name it."""
    if gpu is None:
        return fault.gpu is None and fault.function is not None
    return fault.gpu is None or fault.gpu == gpu


def _is_of(fault: Fault, function: str) -> bool:
    """A function's name stands for all of its versions."""
    named = fault.function
    return named is None or function == named or function.startswith(f"{named}_v")


def scheduled(faults: Iterable[Fault], node: str) -> FaultPlan:
    """The plan of one node of a spec."""
    return FaultPlan(tuple(fault for fault in faults if fault.node in {None, node}))


class FaultControl:
    """The schedule and, read again whenever it changes, a control file of further faults.

    An entry of the file is in force from when it is first seen (or from its `at`, if that is later) until it leaves the
    file or its `for` has passed. An entry that stands there twice counts twice, and one that comes back is a new one. A
    file that is empty or cannot be parsed changes nothing: it is taken to be half written.
    """

    def __init__(self, plan: FaultPlan, node: str, control_file: Path | None = None) -> None:
        self._scheduled = plan
        self._node = node
        self._file = control_file
        self._stamp: tuple[int, int, int] | None = None
        self._seen: list[_Dated] = []
        self._happened: list[Fault] = []
        self._plan = plan
        self._lock = Lock()
        self.problem = ""
        """Why the control file was last refused; empty while it is fine."""

    def plan(self, t: float) -> FaultPlan:
        if self._file is not None and self._stamp != (stamp := _stamp(self._file)):
            with self._lock:
                self._read(stamp, t)
        return self._plan

    def _read(self, stamp: tuple[int, int, int] | None, t: float) -> None:
        if self._file is None:
            return
        try:
            entries = parse_faults_text(_text(self._file), str(self._file)) if stamp else ()
        except (OSError, UnicodeDecodeError, SpecError) as error:
            self.problem, self._stamp = str(error), stamp
            _log.warning("the faults stay as they were: %s", error)
            return
        self._take_over([fault for fault in entries if fault.node in {None, self._node}], t)
        self._plan = FaultPlan((*self._scheduled.faults, *self._happened, *(dated.fault for dated in self._seen)))
        self.problem, self._stamp = "", stamp

    def _take_over(self, entries: list[Fault], t: float) -> None:
        """Entries that were there before keep their date, new ones begin now, and what has happened is kept."""
        new = list(entries)
        kept = []
        for dated in self._seen:
            if dated.entry in new:
                new.remove(dated.entry)
                kept.append(dated)
            elif dated.entry.kind in _STICKY and dated.fault.at <= t:
                self._happened.append(dated.fault)
        self._seen = kept + [_Dated(entry, replace(entry, at=max(entry.at, t))) for entry in new]


class _Dated(NamedTuple):
    entry: Fault
    """As it is written."""
    fault: Fault
    """As it is in force."""


def _text(path: Path) -> str:
    text = path.read_text("utf-8")
    if not text:
        raise SpecError(f"{path}: the file is empty, but must hold a list of faults.")
    return text


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - asked on every call: half the cost of Path.stat
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def inject(control_file: Path, faults: Iterable[Fault | Mapping[str, Any]]) -> None:
    """Make these the faults of the control file, in one step, so that no reader sees half of them."""
    entries = [_entry(fault) if isinstance(fault, Fault) else dict(fault) for fault in faults]
    temporary = control_file.with_name(control_file.name + ".new")
    temporary.write_text(json.dumps({"faults": entries}), "utf-8")
    temporary.replace(control_file)


def _entry(fault: Fault) -> dict[str, Any]:
    names = {"kind": "kind", "node": "node", "gpu": "gpu", "at": "at", "lasts": "for", "function": "function",
             "code": "code", "seconds": "seconds"}  # fmt: skip
    return {key: value for name, key in names.items() if (value := getattr(fault, name)) is not None}
