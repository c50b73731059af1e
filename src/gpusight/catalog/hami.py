"""What the node's (`vgpu`) and the cluster's (`allocation`) families share: HAMi's dialects.

HAMi renamed and relabelled its families from version to version. A dialect is the set of names and labels of one
version: "seed" (the unreleased code that seed 001 describes, without HAMi's constant label `zone`), "v2.8", "v2.9" and
"v2.10". Since v2.9 the names begin with `hami_`; the old names, called legacy, come only in addition and on request.
"""

from collections.abc import Iterable
from dataclasses import replace

from gpusight.catalog import labels as label
from gpusight.catalog.spec import FamilySpec, Label, Origin, Waiver

_KEPT = "HAMi's name, kept so that its users' dashboards and rules go on working."
CAMEL_CASE = Waiver("snake-case", _KEPT)
UNIT_UNSAID = Waiver("unit-suffix", _KEPT)
UNIT_MISNAMED = Waiver("unit-suffix", "HAMi's name; `_ratio` promises 0 to 1 but the value is in percent.")
PERCENT = Waiver("base-unit", "HAMi counts compute in percent of one GPU.")
RESERVED_SUFFIX = Waiver("reserved-suffix", _KEPT)
MEASURED_LABEL = Waiver("measured-label", "HAMi's label; every change of its value starts a new series.")
_ZONE = Waiver("target-label", "HAMi's label `zone`, which its users' queries may select on.")


def zoned(spec: FamilySpec) -> FamilySpec:
    """The family as a released HAMi exposes it: with the constant label `zone`."""
    return replace(spec, labels=(*spec.labels, label.ZONE), waivers=(*spec.waivers, _ZONE))


def relabeled(spec: FamilySpec, *labels: Label) -> FamilySpec:
    return replace(spec, labels=labels)


def renamed(legacy: FamilySpec, labels: Iterable[Label], *waivers: Waiver) -> FamilySpec:
    """The family that took over from a legacy one, under the `hami_` name and with the waivers that this name needs."""
    return replace(legacy, name=legacy.superseded_by, superseded_by="", labels=tuple(labels), waivers=waivers)


def mistyped_counter(spec: FamilySpec) -> FamilySpec:
    """The same family where HAMi declares it a counter although its value goes up and down."""
    why = Waiver("counter-suffix", "HAMi up to v2.8 declares this gauge a counter, under the same name.")
    return replace(
        spec,
        kind="counter",
        how_to_read="HAMi up to v2.8 types it a counter although it goes up and down: never use rate() on it.",
        waivers=(*spec.waivers, why),
    )


def present(families: Iterable[FamilySpec | None]) -> tuple[FamilySpec, ...]:
    """Those families that the dialect has."""
    return tuple(family for family in families if family is not None)


def build_info(origin: Origin, endpoint: str) -> FamilySpec:
    return FamilySpec(
        name="hami_build_info",
        kind="gauge",
        unit="info",
        labels=(
            label.VERSION,
            label.REVISION,
            label.BUILD_DATE,
            label.GO_VERSION,
            label.COMPILER,
            label.PLATFORM,
        ),
        help="The build that serves this page, always 1.",
        origin=origin,
        endpoint=endpoint,
        how_to_read="Count by (version) to find nodes that an upgrade left behind. It never has the label `zone`.",
    )
