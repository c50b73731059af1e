"""Which GPU metrics a server holds, and whether a score can be made of them."""

from gpusight.doctor.exam import Exam
from gpusight.doctor.findings import Finding, NotChecked, fail, listed, ok, warn
from gpusight.doctor.generations import by_generation, representatives
from gpusight.model.series import Quantity
from gpusight.store.normalize import BY_FAMILY, resolve_scale, sources_for

_SUBSTITUTES: dict[Quantity, tuple[Quantity, ...]] = {"utilization": ("utilization", "engine_active")}
"""MIG parts have no utilization; their engines' activity takes its place."""


def families(exam: Exam) -> Finding:
    prometheus = exam.prometheus()
    try:
        present = prometheus.present()
    except NotChecked:
        return fail("prom.families-none", count=len(prometheus.names()))
    shown = listed((f"{name}: {len(members)}" for name, members in by_generation(present).items()), 8)
    return ok("prom.families-ok", generations=shown, count=len(present))


def quantities(exam: Exam) -> Finding:
    """What the score weighs must be measured by something whose unit is known."""
    prometheus = exam.prometheus()
    present, scales = prometheus.present(), prometheus.config.scales
    lacking = [
        quantity
        for quantity, weight in exam.subject.weights.items()
        if weight
        and not any(
            resolve_scale(source, scales) is not None
            for name in _SUBSTITUTES.get(quantity, (quantity,))
            for source in sources_for(name, present)
        )
    ]
    if lacking:
        return warn("prom.quantities-lacking", quantities=", ".join(lacking))
    return ok("prom.quantities-ok", quantities=", ".join(exam.subject.weights))


def scales(exam: Exam) -> Finding:
    prometheus = exam.prometheus()
    unclear = [
        family
        for family in sorted(prometheus.present())
        if resolve_scale(BY_FAMILY[family], prometheus.config.scales) is None
    ]
    if unclear:
        return warn("prom.scale-unclear", families=listed(unclear), example=unclear[0])
    return ok("prom.scale-ok")


def fresh(exam: Exam) -> Finding:
    """The age of the newest sample of each exporter."""
    prometheus, limit = exam.prometheus(), exam.subject.stale_after
    ages = (
        (family, prometheus.number(f"time() - max(timestamp({family}))"))
        for family in representatives(prometheus.present())
    )
    known = {family: age for family, age in ages if age is not None}
    if not known:
        return warn("prom.fresh-none")
    family, oldest = max(known.items(), key=lambda item: item[1])
    if oldest > limit:
        return warn("prom.stale", family=family, age=f"{oldest:.0f}", limit=f"{limit:g}")
    return ok("prom.fresh-ok", age=f"{max(oldest, 0.0):.0f}")
