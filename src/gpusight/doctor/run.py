"""Runs checks side by side. None of them can hang, crash or change the others."""

import queue
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple

from gpusight.doctor.exam import Exam
from gpusight.doctor.findings import Finding, NotChecked, Result, fail, skip
from gpusight.doctor.subject import Subject
from gpusight.doctor.table import Check
from gpusight.model.series import StoreError

Run = Callable[..., Finding]


class Examined(NamedTuple):
    """`families` are the metric names that were seen on the way."""

    results: Sequence[Result]
    families: frozenset[str]


def run_checks(subject: Subject, checks: Sequence[Check], within: float) -> Examined:
    """In the order of the checks. One that has not ended `within` so many seconds is a failure and is left behind."""
    clock = subject.clock
    exam = Exam(subject)
    done: queue.SimpleQueue[Result] = queue.SimpleQueue()
    started = clock.monotonic()
    for check in checks:
        # daemons: what hangs in a driver or a dead file system must not keep the program from ending
        threading.Thread(target=_run, args=(check, exam, done), name=f"doctor {check.id}", daemon=True).start()
    results: dict[str, Result] = {}
    while len(results) < len(checks) and (left := started + within - clock.monotonic()) > 0:
        try:
            result = done.get(timeout=left)
        except queue.Empty:
            break
        results[result.id] = result
    if len(results) == len(checks):
        exam.close()  # else it may be in use; the end of the process closes it
    late = fail("doctor.timeout", seconds=f"{within:g}")
    ordered = [results.get(check.id) or Result(check.id, late, within) for check in checks]
    return Examined(ordered, exam.families_seen())


def _run(check: Check, exam: Exam, done: "queue.SimpleQueue[Result]") -> None:
    clock = exam.subject.clock
    started = clock.monotonic()
    finding = _finding(check, exam)
    done.put(Result(check.id, finding, clock.monotonic() - started))


def _finding(check: Check, exam: Exam) -> Finding:
    if check.extra and exam.subject.missing(check.extra):
        return skip("doctor.no-extra", extra=check.extra)
    try:
        return _loaded(check.run)(exam, *check.arguments)
    except NotChecked as reason:
        return reason.finding
    except StoreError as error:
        return fail("prom.sick", detail=error)
    except BaseException as error:  # its words may hold secrets: only its kind is told
        return fail("doctor.crashed", kind=type(error).__name__)


def _loaded(name: str) -> Run:
    """Imported only now: what a check needs may not be installed."""
    module, _, function = name.partition(":")
    run: Run = getattr(import_module(f"gpusight.doctor.{module}"), function)
    return run
