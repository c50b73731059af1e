"""The pages that the embedded store is filled from."""

import threading
from collections.abc import Callable, Sequence

from gpusight.doctor.exam import Exam
from gpusight.doctor.findings import Finding, NotChecked, Private, fail, ok
from gpusight.doctor.subject import Subject
from gpusight.store.http import HttpClient, HttpError
from gpusight.store.scrape_target import target

_MOST = 50
_AT_ONCE = 8


def targets(exam: Exam) -> Finding:
    subject = exam.subject
    if subject.store != "embedded":
        raise NotChecked("scrape.not-used")
    if not subject.scrape_targets:
        return fail("scrape.nothing")
    asked = subject.scrape_targets[:_MOST]
    faults = [fault for fault in _side_by_side(lambda url: _fault(url, subject), asked) if fault]
    if faults:
        return fail("scrape.down", down=len(faults), count=len(asked), detail=Private(faults[0]))
    return ok("scrape.ok", count=len(asked))


def _fault(url: str, subject: Subject) -> str:
    """Why a page cannot be had; empty if it can."""
    try:
        http = target(url, timeout=subject.network_patience / 2, max_bytes=256 * 2**20).http
        client = HttpClient(http, subject.clock)
    except (ValueError, OSError) as error:
        return str(error)
    try:
        client.get("", {})
    except HttpError as error:
        return str(error)
    finally:
        client.close()
    return ""


def _side_by_side(ask: Callable[[str], str], urls: Sequence[str]) -> list[str]:
    found: list[str] = []

    def work(mine: Sequence[str]) -> None:
        found.extend([ask(url) for url in mine])

    threads = [threading.Thread(target=work, args=(urls[at::_AT_ONCE],), daemon=True) for at in range(_AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
