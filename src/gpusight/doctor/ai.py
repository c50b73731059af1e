"""The language model: whether it could be asked. It is not asked, and its key goes nowhere."""

import socket
from urllib.parse import urlsplit

from gpusight.doctor.exam import Exam
from gpusight.doctor.findings import Finding, NotChecked, Private, fail, ok
from gpusight.doctor.subject import Ai


def settings(exam: Exam) -> Finding:
    wanted = _enabled(exam)
    lacking = [name for name, has in (("ai.api-url", wanted.url), ("ai.api-key", wanted.has_key)) if not has]
    return fail("ai.lacking", settings=", ".join(lacking)) if lacking else ok("ai.settings-ok")


def reachable(exam: Exam) -> Finding:
    url = urlsplit(_enabled(exam).url)
    if not url.hostname:
        raise NotChecked("ai.no-url")
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        with socket.create_connection((url.hostname, port), exam.subject.network_patience):
            return ok("ai.reachable", host=Private(url.hostname))
    except OSError as error:
        detail = error.strerror or type(error).__name__
        return fail("ai.unreachable", host=Private(url.hostname), detail=detail)


def _enabled(exam: Exam) -> Ai:
    if not exam.subject.ai.enabled:
        raise NotChecked("ai.off")
    return exam.subject.ai
