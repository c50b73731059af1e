"""The analyzer of this machine, if it runs: are its results of now?"""

import json
from collections.abc import Iterator

from gpusight.doctor.exam import Exam
from gpusight.doctor.findings import Finding, NotChecked, ok, warn
from gpusight.doctor.subject import Subject
from gpusight.exposition.listen import parse_address
from gpusight.store.http import HttpClient, HttpConfig, HttpError

_EVERYWHERE = ("", "0.0.0.0", "::")


def health(exam: Exam) -> Finding:
    for url in _urls(exam.subject):
        if (said := _asked(url, exam.subject)) is not None:
            status, reason = str(said.get("status")), str(said.get("reason") or "-")
            values = {"status": status, "last": str(said.get("last_analysis") or "-")}
            return (
                ok("analyzer.ok", **values) if status == "healthy" else warn("analyzer.unwell", **values, reason=reason)
            )
    raise NotChecked("analyzer.none")


def _urls(subject: Subject) -> Iterator[str]:
    for listen in subject.listen:
        if listen.role == "analyze" and listen.port:
            host, port = parse_address(listen.address)
            name = "127.0.0.1" if host in _EVERYWHERE else f"[{host}]" if ":" in host else host
            yield f"http://{name}:{port}"


def _asked(url: str, subject: Subject) -> dict[str, object] | None:
    """None if nobody answers there, or somebody else."""
    client = HttpClient(HttpConfig(url, timeout=subject.network_patience / 2, max_bytes=1 << 20), subject.clock)
    try:
        said = json.loads(client.get("/health", {}).body)
    except (HttpError, ValueError):
        return None
    finally:
        client.close()
    return said if isinstance(said, dict) and "last_analysis" in said else None
