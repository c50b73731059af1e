"""The Kubernetes API: a way in, and what we may do there, asked by doing it."""

from typing import NamedTuple

from gpusight.doctor import skew as skewed
from gpusight.doctor.exam import Exam
from gpusight.doctor.findings import Finding, NotChecked, Private, bad, fail, ok, skip
from gpusight.doctor.subject import Subject
from gpusight.doctor.table import Permission
from gpusight.sources.kubernetes.access import Access, AccessError
from gpusight.sources.kubernetes.client import ApiClient, ApiError, Exchange, Limits


class Cluster(NamedTuple):
    client: ApiClient
    server: str
    ahead: float | None
    """Seconds by which its clock is ahead of ours."""


class Unreached(NotChecked):
    def __init__(self, error: ApiError) -> None:
        super().__init__("k8s.unreached")
        self.error = error


class _Greeting(Exchange):
    def date(self) -> str:
        return (self._response.headers.get("Date") or "") if self._response else ""


def reach(subject: Subject) -> Cluster:
    try:
        access_found = subject.kubernetes()
    except AccessError:
        raise NotChecked("k8s.no-access") from None
    limits = Limits(connect=subject.network_patience, requests=50)
    ahead = _greet(subject, access_found, limits)
    return Cluster(ApiClient(access_found, subject.clock, limits), access_found.server, ahead)


def _greet(subject: Subject, found: Access, limits: Limits) -> float | None:
    within = subject.network_patience
    asked_at = subject.clock.now()
    greeting = _Greeting(found, "/version", limits, within, within, lambda: None)
    try:
        with greeting:
            pass
    except ApiError as error:
        if error.reason not in ("unauthorized", "forbidden", "not_found"):  # these are answers, too
            raise Unreached(error) from None
    return skewed.seconds_ahead(greeting.date(), asked_at, subject.clock.now())


def access(exam: Exam) -> Finding:
    try:
        found = exam.subject.kubernetes()
    except AccessError as error:
        needed_by = ", ".join(sorted(set(exam.subject.kubernetes_needed_by.values())))
        if needed_by:
            return fail("k8s.access-needed", detail=error, setting=needed_by)
        return skip("k8s.no-access")
    return ok("k8s.access-ok", server=Private(found.server))


def reachable(exam: Exam) -> Finding:
    try:
        cluster = exam.cluster()
    except Unreached as unreached:
        is_needed = bool(exam.subject.kubernetes_needed_by)
        return bad(is_needed, "k8s.unreachable", detail=Private(unreached.error), reason=unreached.error.reason)
    return ok("k8s.reachable", server=Private(cluster.server))


def skew(exam: Exam) -> Finding:
    return skewed.judge(exam.cluster().ahead, "Kubernetes")


def permission(exam: Exam, wanted: Permission) -> Finding:
    client = exam.cluster().client
    setting = exam.subject.kubernetes_needed_by.get(wanted.resource, "")
    values = {"verb": wanted.verb, "resource": wanted.resource}
    try:
        _try(client, wanted, exam.subject)
    except ApiError as error:
        if error.reason in ("forbidden", "unauthorized"):
            group = wanted.group or '""'
            return bad(bool(setting), f"k8s.{error.reason}", **values, group=group, setting=setting or "-")
        if error.reason == "not_found":
            return skip("k8s.not-found", **values)
        return bad(bool(setting), "k8s.asked-in-vain", **values, detail=Private(error), reason=error.reason)
    return ok("k8s.allowed", **values)


def _try(client: ApiClient, wanted: Permission, subject: Subject) -> None:
    """One object at most, from the first path that the cluster knows."""
    within = subject.network_patience
    query = {"limit": "1"} if wanted.verb == "list" else {"watch": "true", "timeoutSeconds": "1"}
    if wanted.query and subject.node_name:
        query["fieldSelector"] = wanted.query.format(node=subject.node_name)
    for path in wanted.paths[:-1]:
        try:
            return _ask(client, path, query, within)
        except ApiError as error:
            if error.reason != "not_found":
                raise
    return _ask(client, wanted.paths[-1], query, within)


def _ask(client: ApiClient, path: str, query: dict[str, str], within: float) -> None:
    """The answer's status says it all."""
    with client.exchange(path, query, idle=within, within=within):
        pass
