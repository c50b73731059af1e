"""Subjects with nothing wrong with them, for tests to break one thing of."""

from pathlib import Path
from typing import Any

from gpusight.doctor.exam import Exam
from gpusight.doctor.findings import Result
from gpusight.doctor.run import run_checks
from gpusight.doctor.subject import SettingsReport, Subject
from gpusight.doctor.table import all_checks, chosen
from gpusight.model.time import SystemClock
from gpusight.sources.kubernetes.access import Access, AccessError
from gpusight.store.prometheus import PrometheusConfig


def no_access() -> Access:
    raise AccessError("there is none")


def subject(directory: Path, **more: Any) -> Subject:
    given: dict[str, Any] = {
        "clock": SystemClock(),
        "roles": frozenset({"node", "analyze", "ops"}),
        "settings": SettingsReport(3),
        "kubernetes": no_access,
        "prometheus": lambda: PrometheusConfig("http://127.0.0.1:9"),
        "data_dir": directory,
        "journal": directory / "journal.sqlite3",
        "vgpu_dir": directory / "no-vgpu",
        "sysfs": directory / "no-sysfs",
        "pod_logs": directory / "no-logs",
        "kubelet_socket": directory / "no" / "pod-resources" / "kubelet.sock",
    }
    return Subject(**{**given, **more})


def exam(directory: Path, **more: Any) -> Exam:
    return Exam(subject(directory, **more))


def results_of(examined: Subject, *only: str, within: float = 20.0) -> dict[str, Result]:
    checks, unknown = chosen(all_checks(examined), only)
    assert not unknown
    return {result.id: result for result in run_checks(examined, checks, within).results}


def outcome(result: Result) -> tuple[str, str]:
    return result.finding.status, result.finding.outcome
