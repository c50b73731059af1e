"""Settings, and the files that they name."""

import os
import stat
from pathlib import Path

from gpusight.doctor.exam import Exam
from gpusight.doctor.findings import Finding, fail, listed, ok, skip, warn
from gpusight.doctor.subject import NamedFile


def file(exam: Exam) -> Finding:
    report = exam.subject.settings
    if report.file is None:
        return skip("config.no-file")
    if report.file_problem:
        return fail("config.file-wrong", detail=report.file_problem)
    if _mode(report.file) & (stat.S_IWGRP | stat.S_IWOTH):
        return warn("file.writable", path=report.file)
    return ok("config.file-ok", path=report.file)


def settings(exam: Exam) -> Finding:
    report = exam.subject.settings
    if report.problems:
        return fail("config.wrong", count=len(report.problems), problems="; ".join(report.problems[:5]))
    return ok("config.ok", count=report.known)


def environment(exam: Exam) -> Finding:
    unknown = exam.subject.settings.unknown_variables
    return warn("config.unknown-variables", names=listed(unknown)) if unknown else ok("config.variables-ok")


def criteria(exam: Exam) -> Finding:
    try:
        exam.subject.settings.check_criteria()
    except Exception as error:
        return fail("config.criteria-wrong", detail=error)
    return ok("config.criteria-ok")


def named_file(_exam: Exam, named: NamedFile) -> Finding:
    """Whether it is there, can be read, and shows its secrets to nobody else."""
    try:
        with named.path.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
    except OSError as error:
        return fail("file.unreadable", path=named.path, setting=named.setting, detail=error.strerror)
    try:
        if named.load:
            named.load()
    except Exception as error:
        return fail("file.wrong", setting=named.setting, detail=error)
    if mode & stat.S_IWOTH:
        return warn("file.writable", path=named.path)
    if named.is_secret and mode & stat.S_IROTH:
        return warn("file.exposed", path=named.path, mode=f"{stat.S_IMODE(mode):o}")
    return ok("file.ok", path=named.path)


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return 0
