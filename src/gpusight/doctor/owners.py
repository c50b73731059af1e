"""Whether series say whose a GPU is: the dialect of their labels, and the trap of labels that are not honoured."""

from collections.abc import Iterable, Mapping

from gpusight.doctor.exam import Exam
from gpusight.doctor.findings import Finding, fail, ok, warn
from gpusight.doctor.generations import representatives
from gpusight.doctor.prometheus import Prometheus
from gpusight.store.labels import GPU_LABELS, HOLDER_DIALECTS
from gpusight.store.promql import ConditionError, any_of
from gpusight.store.promql import condition as matchers_of

_POD_LABELS = tuple(dialect.pod for dialect in HOLDER_DIALECTS)
_TARGET = "job,instance,namespace,pod"


def labels(exam: Exam) -> Finding:
    prometheus = exam.prometheus()
    which = _which(prometheus)
    total = prometheus.number(f"count({{{which}}})") or 0
    if not _carried(prometheus, which, GPU_LABELS):
        return fail("prom.labels-no-gpu", labels=", ".join(GPU_LABELS))
    pods = _carried(prometheus, which, _POD_LABELS)
    if not pods:
        return warn("prom.labels-nobody", count=f"{total:.0f}")
    shown = ", ".join(f"{name}: {count:.0f}" for name, count in pods.items())
    return ok("prom.labels-ok", labels=shown, count=f"{total:.0f}")


def honor_labels(exam: Exam) -> Finding:
    """Where labels are not honoured, `pod` is the exporter's own, and the workload's is `exported_pod` or lost."""
    prometheus = exam.prometheus()
    which = _which(prometheus)
    renamed = prometheus.number(f'count({{{which},exported_pod!=""}})') or 0
    if renamed:
        return warn("prom.labels-renamed", count=f"{renamed:.0f}")
    without = ",".join(f'{name}=""' for name in _POD_LABELS if name != "pod")
    up = f'up{{pod!=""}}'  # noqa: F541 - braces as in the queries around it
    own = prometheus.number(f'count({{{which},pod!="",{without}}} and on ({_TARGET}) {up})') or 0
    others = prometheus.number(f'count({{{which},pod!=""}} unless on ({_TARGET}) {up})') or 0
    if own and not others:
        return warn("prom.labels-exporters", count=f"{own:.0f}")
    return ok("prom.labels-honoured", count=f"{own:.0f}")


def condition(exam: Exam) -> Finding:
    prometheus = exam.prometheus()
    text = prometheus.config.condition
    try:
        inner = matchers_of(text)
    except ConditionError as error:
        return fail("prom.condition-wrong", detail=error)
    which = _which(prometheus)
    total = prometheus.number(f"count({{{which}}})") or 0
    chosen = prometheus.number(f"count({{{','.join(filter(None, (which, inner)))}}})") or 0
    values = {"condition": text, "chosen": f"{chosen:.0f}", "total": f"{total:.0f}"}
    return ok("prom.condition-ok", **values) if chosen else fail("prom.condition-empty", **values)


def _which(prometheus: Prometheus) -> str:
    """A matcher for series of every exporter that is there."""
    return f"__name__=~{any_of(representatives(prometheus.present()))}"


def _carried(prometheus: Prometheus, which: str, names: Iterable[str]) -> Mapping[str, float]:
    """How many of the series carry each label, in one query."""
    parts = (f'label_replace(count({{{which},{name}!=""}}), "carried", "{name}", "", "")' for name in names)
    found = {labels["carried"]: count for labels, count in prometheus.rows(" or ".join(parts)) if "carried" in labels}
    return dict(sorted(found.items(), key=lambda item: -item[1]))
