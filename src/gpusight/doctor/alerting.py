"""What Prometheus makes of its series: targets, rules, alerts, recordings, and signs of trouble elsewhere."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpusight.doctor.exam import Exam
from gpusight.doctor.findings import Finding, NotChecked, Private, listed, ok, skip, warn
from gpusight.doctor.generations import representatives
from gpusight.doctor.prometheus import Prometheus
from gpusight.doctor.table import Symptom
from gpusight.store.promql import any_of

_GPU_JOB = re.compile(r"gpu|dcgm|hami|nvidia|nvshare|cuda", re.IGNORECASE)
_OURS = "gpusight:digest_"


def targets(exam: Exam) -> Finding:
    """Exporters of GPU metrics that do not answer Prometheus."""
    prometheus = exam.prometheus()
    jobs = _gpu_jobs(prometheus)
    states = [(row, value) for row, value in prometheus.rows("up") if _is_gpu(row.get("job", ""), jobs)]
    if not states:
        raise NotChecked("prom.no-up")
    down = [f"{row.get('job', '')} {row.get('instance', '')}" for row, value in states if value == 0]
    if down:
        return warn("prom.targets-down", down=len(down), count=len(states), targets=Private(listed(sorted(down))))
    return ok("prom.targets-ok", count=len(states))


def _gpu_jobs(prometheus: Prometheus) -> set[str]:
    try:
        which = any_of(representatives(prometheus.present()))
    except NotChecked:
        return set()
    return {labels.get("job", "") for labels, _ in prometheus.rows(f"group by (job) ({{__name__=~{which}}})")}


def _is_gpu(job: str, jobs: set[str]) -> bool:
    return bool(job) and (job in jobs or _GPU_JOB.search(job) is not None)


def rules(exam: Exam) -> Finding:
    found = list(_rules(exam.prometheus()))
    broken = [rule for rule in found if rule.get("health") == "err"]
    if broken:
        names = listed(str(rule.get("name", "?"))[:100] for rule in broken)
        return warn("prom.rules-broken", broken=len(broken), names=names, error=str(broken[0].get("lastError"))[:300])
    alerts = sum(rule.get("type") == "alerting" for rule in found)
    return ok("prom.rules-ok", alerts=alerts, recordings=len(found) - alerts)


def alertmanager(exam: Exam) -> Finding:
    prometheus = exam.prometheus()
    if not any(rule.get("type") == "alerting" for rule in _rules(prometheus)):
        return skip("prom.no-alerts")
    data = prometheus.data("/api/v1/alertmanagers")
    active = data.get("activeAlertmanagers") if isinstance(data, dict) else None
    return ok("prom.alertmanager-ok", count=len(active)) if active else warn("prom.alertmanager-none")


def _rules(prometheus: Prometheus) -> Iterator[Mapping[str, Any]]:
    data = prometheus.data("/api/v1/rules")
    groups = data.get("groups") if isinstance(data, dict) else None
    for group in groups or ():
        members = group.get("rules") if isinstance(group, dict) else None
        yield from (rule for rule in members or () if isinstance(rule, dict))


def recording(exam: Exam) -> Finding:
    """Whether the analyzer's own recording rules are there, and for the settings that are in force."""
    there = {name for name in exam.prometheus().names() if name.startswith(_OURS)}
    wanted = exam.subject.recorded_names()
    if not there:
        return skip("prom.recording-none")
    if wanted <= there:
        return ok("prom.recording-ok", count=len(wanted))
    return warn("prom.recording-others", count=len(there), lacking=len(wanted - there))


def symptom(exam: Exam, wanted: Symptom) -> Finding:
    prometheus = exam.prometheus()
    if wanted.family not in prometheus.names():
        raise NotChecked("prom.no-family", family=wanted.family)
    count = prometheus.number(wanted.query)
    return warn(f"symptom.{wanted.name}", count=f"{count:.0f}") if count else ok("symptom.none", family=wanted.family)
