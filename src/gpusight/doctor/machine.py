"""Python, its packages, and what the machine allows a process."""

import platform
import resource
import sys

from gpusight.doctor.exam import Exam
from gpusight.doctor.findings import Finding, fail, ok, skip, warn

_OLDEST = (3, 11)
_FEW_FILES = 1024


def python(_exam: Exam) -> Finding:
    version = platform.python_version()
    return ok("python.ok", version=version) if sys.version_info >= _OLDEST else fail("python.old", version=version)


def file_limit(_exam: Exam) -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _FEW_FILES:
        return ok("limits.ok", soft="-" if soft == resource.RLIM_INFINITY else soft)
    return warn("limits.few", soft=soft, hard=hard, wanted=_FEW_FILES)


def extra(exam: Exam, name: str) -> Finding:
    missing = ", ".join(exam.subject.missing(name))
    needed_by = exam.subject.extras[name]
    if not missing:
        return ok("extra.ok", extra=name)
    if needed_by:
        return fail("extra.needed", extra=name, missing=missing, needed_by=needed_by)
    return skip("extra.absent", extra=name, missing=missing)
