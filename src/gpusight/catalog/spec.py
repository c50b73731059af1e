"""What a metric family is: the declaration that docs, encoders, rules, dashboards and tests share."""

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
Stability = Literal["stable", "experimental", "deprecated"]
Origin = Literal[
    "supervm", "hami-scheduler", "hami-monitor", "gpu-oour", "nvshare", "dcgm", "kube-state-metrics", "gpusight"
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Label:
    """One label: its exact name and what its value means."""

    name: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Waiver:
    """A naming rule broken on purpose, with the reason."""

    rule: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FamilySpec:
    """A metric family as declared. Families are singletons: two specs are equal only if they are one object.

    `name` is exactly what the text format shows. `unit` is what the number is, also where the name does not say it.
    `buckets` are a histogram's upper bounds without +Inf.
    """

    name: str
    kind: Kind
    unit: str
    labels: tuple[Label, ...] = ()
    help: str
    origin: Origin
    endpoint: str
    stability: Stability = "stable"
    since: str = "0.1.0"
    superseded_by: str = ""
    how_to_read: str = ""
    waivers: tuple[Waiver, ...] = ()
    buckets: tuple[float, ...] = ()
    label_names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "label_names", tuple(label.name for label in self.labels))
