"""The catalog as text: the pages of docs/metrics and the list of stable families. Pure: nothing is written here."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from gpusight.catalog.all import DIALECTS, FAMILIES, ONLY, SEEDS, TOPICS
from gpusight.catalog.spec import FamilySpec

COMMAND = "python scripts/catalog_docs.py"
_MARK = f"<!-- Written by `{COMMAND}` from src/gpusight/catalog. Do not edit. -->"

RULES: dict[str, str] = {
    "snake-case": "Names and label names are lower-case words joined by underscores.",
    "counter-suffix": "A counter's name ends in `_total`, and no other name does.",
    "unit-suffix": "A name ends in its unit, such as `_bytes`, `_seconds` or `_ratio`, and in no other unit.",
    "base-unit": "Values are in base units: bytes, seconds, ratios from 0 to 1.",
    "type-in-name": "A name does not say its kind, such as `_counter`.",
    "reserved-suffix": "`_count`, `_sum` and `_bucket` belong to histograms.",
    "target-label": "Labels that describe scrape targets, such as `job`, `zone` or `type`, are left to Prometheus.",
    "measured-label": "A label does not carry a measurement, because every new value starts a new series.",
}
"""The naming rules that families keep unless they have a waiver."""

ORIGINS: dict[str, str] = {
    "supervm": "SuperVM's GPU metrics guide (seed 000)",
    "hami-scheduler": "HAMi's scheduler (seed 001)",
    "hami-monitor": "HAMi's vGPU monitor (seed 001)",
    "gpu-oour": "gpu-oour (seeds 002 and 003)",
    "nvshare": "nvshare's metrics fork (seed 004)",
    "dcgm": "NVIDIA's dcgm-exporter",
    "kube-state-metrics": "kube-state-metrics",
    "gpusight": "gpusight",
}


class _Topic(NamedTuple):
    title: str
    where: str
    about: str
    dialects: str = ""


_HAMI_DIALECTS = (
    "HAMi changed names and labels from version to version. Dialects without a name in common can be exposed together,"
    " such as `seed` and `v2.10`. `seed` is the table of the seed document. A dialect named legacy is what its version"
    " adds when old names are asked for."
)
_SHARING_DIALECTS = (
    "`fork-v2` is the version that the seed document tests, `fork-v3` has more, and `designed` is what the fork's"
    " authors described but never built. No name differs between them."
)


_ABOUT: dict[str, _Topic] = {
    "ops": _Topic(
        "GPU operations inside a program",
        "the instrumented program",
        "What a program says of its own GPU work through `gpusight.instrument`.",
    ),
    "vgpu": _Topic(
        "What a node's GPUs and containers use",
        "`gpusight node`, port 9394",
        "Readings of the driver and of HAMi's library inside containers.",
        _HAMI_DIALECTS,
    ),
    "hardware": _Topic(
        "A node's GPUs and who uses them",
        "`gpusight node`, port 9394",
        "Readings of the driver in base units, and every container's share of them. A GPU's series have the labels"
        " `uuid` and `gpu` only; `gpusight_gpu_info` has the rest. What cannot be read is absent, never 0. For every"
        " GPU the containers' `gpusight_container_gpu_utilization_ratio`, `gpusight_gpu_unattributed_ratio` and"
        " `gpusight_gpu_idle_ratio` make 1.",
    ),
    "dcgm": _Topic(
        "A node's GPUs in dcgm-exporter's names",
        "`gpusight node`, port 9394",
        "For dashboards and rules written for dcgm-exporter up to 4.8. A GPU has one row, or in MIG mode one row per"
        " GPU instance where each has a reading of its own; never both. The row names the pod that holds the GPU or"
        " instance alone, and none if it is shared: `gpusight_container_gpu_utilization_ratio` has the shares then.",
    ),
    "node_health": _Topic(
        "How the reading of a node goes",
        "`gpusight node`, port 9394",
        "Whether the driver, the GPUs and HAMi's files could be read, and what found no owner.",
    ),
    "allocation": _Topic(
        "What the cluster handed out",
        "`gpusight cluster`, port 31993",
        "Grants of GPU memory and compute as HAMi's scheduler keeps them.",
        _HAMI_DIALECTS,
    ),
    "pods": _Topic(
        "Whose pods are",
        "`gpusight node --simulate`, page `/cluster/metrics`",
        "Which workload each pod belongs to. Of a simulated fleet until the role `cluster` tells it of real ones.",
    ),
    "utilization": _Topic(
        "How well GPUs are used",
        "`gpusight analyze`, port 8080",
        "The analyzer's view of every GPU that a pod holds, and of its own work.",
    ),
    "verdicts": _Topic(
        "Verdicts on workloads",
        "`gpusight analyze`",
        "What the analyzer concludes of each workload, what tenants hold, and how its rounds go.",
    ),
    "sharing": _Topic(
        "Time-sharing of GPUs",
        "`gpusight share`, port 9402",
        "The lock scheduler's GPUs, clients and queues. Without NVML the nvshare_gpu families are absent.",
        _SHARING_DIALECTS,
    ),
    "own": _Topic(
        "The program itself",
        "every role",
        "What each process says of its own health.",
    ),
}


def pages() -> dict[str, str]:
    """Every page of docs/metrics by file name."""
    return {"README.md": _index()} | {f"{topic}.md": _topic_page(topic) for topic in TOPICS}


def stable_list() -> str:
    """The stable families of every dialect, one a line: name, kind, labels."""
    return "\n".join(
        _stable_section(topic, dialect, stable)
        for topic, dialects in DIALECTS.items()
        for dialect, families in dialects.items()
        if (stable := [spec for spec in families if spec.stability == "stable"])
    )


def openmetrics_name(spec: FamilySpec) -> str:
    """The sample name under OpenMetrics, where every counter ends in `_total`."""
    return f"{spec.name.removesuffix('_total')}_total" if spec.kind == "counter" else spec.name


def _stable_section(topic: str, dialect: str, stable: Iterable[FamilySpec]) -> str:
    heading = topic if dialect == ONLY else f"{topic} {dialect}"
    lines = sorted(f"{spec.name} {spec.kind} {','.join(spec.label_names) or '-'}" for spec in stable)
    return "\n".join((f"# {heading}", *lines, ""))


# The index.


def _index() -> str:
    return _paragraphs(
        _MARK,
        "# Metrics",
        "Every metric family that gpusight knows, by the part that exposes it; parts that are not in this version are"
        " listed so that their names are fixed. `promtool check metrics` parses every page and exits with 3: it"
        " dislikes names that others gave (HAMi's capitals, the guide's milliseconds, counters without `_total`). Each"
        " such name has its waiver here.",
        _table(("topic", "exposed by", "families"), map(_topic_row, TOPICS)),
        "## Where they come from",
        "The documents that the product grew from, and how many families each describes.",
        _table(("document", "part", "families"), _seed_rows()),
        "## Naming rules and exceptions",
        "Names that users already have are kept as they are. Where one breaks a rule, its entry says so and why.",
        _table(("rule", "families that break it", "meaning"), (_rule_row(rule) for rule in RULES)),
        "## Names under OpenMetrics",
        "The text format shows names exactly as listed. OpenMetrics wants every counter to end in `_total`, so on"
        " OpenMetrics pages these differ:",
        _table(("text format", "OpenMetrics"), _openmetrics_rows()),
        "## All names",
        _table(("name", "kind", "unit"), _name_rows()),
    )


def _topic_row(topic: str) -> tuple[str, ...]:
    names = len({spec.name for spec in TOPICS[topic]})
    return f"[{_ABOUT[topic].title}]({topic}.md)", _ABOUT[topic].where, str(names)


def _seed_rows() -> Iterable[tuple[str, ...]]:
    for seed, parts in SEEDS.items():
        for part, families in parts.items():
            yield seed, part, str(len(families))
        if len(parts) > 1:
            yield seed, "together", str(sum(map(len, parts.values())))


def _rule_row(rule: str) -> tuple[str, ...]:
    names = {spec.name for spec in FAMILIES if rule in {waiver.rule for waiver in spec.waivers}}
    return rule, str(len(names)), RULES[rule]


def _openmetrics_rows() -> Iterable[tuple[str, ...]]:
    renamed = {spec.name: openmetrics_name(spec) for spec in FAMILIES if openmetrics_name(spec) != spec.name}
    return ((f"`{name}`", f"`{other}`") for name, other in sorted(renamed.items()))


def _name_rows() -> Iterable[tuple[str, ...]]:
    rows = {
        (spec.name, topic): (f"[`{spec.name}`]({topic}.md#{spec.name.lower()})", spec.kind, spec.unit)
        for topic, families in TOPICS.items()
        for spec in families
    }
    return (rows[key] for key in sorted(rows))


# A topic's page: one section per name, with what differs between dialects said in place.


class _Variant(NamedTuple):
    dialects: tuple[str, ...]
    spec: FamilySpec


def _topic_page(topic: str) -> str:
    about = _ABOUT[topic]
    return _paragraphs(
        _MARK,
        f"# {about.title}",
        f"{about.about} Exposed by: {about.where}.",
        *_dialect_note(topic),
        *(_family(variants) for variants in _by_name(topic).values()),
    )


def _dialect_note(topic: str) -> Iterable[str]:
    if _ABOUT[topic].dialects:
        yield "## Dialects"
        yield _ABOUT[topic].dialects
        yield _table(
            ("dialect", "families"), ((dialect, str(len(families))) for dialect, families in DIALECTS[topic].items())
        )
    if renames := _renames(topic):
        yield "## Old and new names"
        yield _table(("before v2.9", "since v2.9"), renames)


def _renames(topic: str) -> list[tuple[str, ...]]:
    found = {spec.name: spec.superseded_by for spec in TOPICS[topic] if spec.superseded_by}
    return [(_link(old), _link(new)) for old, new in found.items()]


def _link(name: str) -> str:
    return f"[`{name}`](#{name.lower()})"


def _by_name(topic: str) -> dict[str, list[_Variant]]:
    dialects = DIALECTS[topic]
    found: dict[str, list[_Variant]] = {}
    for spec in TOPICS[topic]:
        has = tuple(dialect for dialect, families in dialects.items() if spec in families)
        found.setdefault(spec.name, []).append(_Variant(has, spec))
    return found


def _family(variants: Sequence[_Variant]) -> str:
    spec = variants[0].spec
    return _paragraphs(
        f"## `{spec.name}`",
        _said(variants, lambda one: one.help, "\n\n"),
        "How to read: " + _said(variants, lambda one: one.how_to_read, "\n\n"),
        "\n".join(_facts(variants)),
    )


def _facts(variants: Sequence[_Variant]) -> Iterable[str]:
    spec = variants[0].spec
    yield f"- kind: {_said(variants, lambda one: one.kind)}"
    yield f"- unit: {_said(variants, lambda one: one.unit)}"
    if spec.buckets:
        yield f"- buckets: {', '.join(f'{bound:g}' for bound in spec.buckets)}"
    yield from _listed("labels", variants, lambda one: [f"`{label.name}`: {label.meaning}" for label in one.labels])
    yield f"- origin: {ORIGINS[spec.origin]}"
    yield f"- stability: {spec.stability}, since {spec.since}"
    if variants[0].dialects != (ONLY,):
        yield f"- dialects: {', '.join(chain.from_iterable(variant.dialects for variant in variants))}"
    if spec.superseded_by:
        yield f"- superseded by: {_link(spec.superseded_by)}"
    yield from _listed("under OpenMetrics", variants, _openmetrics_note)
    yield from _listed("exceptions", variants, lambda one: [f"{w.rule}: {w.reason}" for w in one.waivers])


def _openmetrics_note(spec: FamilySpec) -> list[str]:
    other = openmetrics_name(spec)
    return [] if other == spec.name else [f"`{other}`"]


def _said(variants: Sequence[_Variant], describe: Callable[[FamilySpec], str], between: str = "; ") -> str:
    """What the dialects say: once if they agree, else each with its dialects."""
    texts = _collect(variants, lambda spec: [describe(spec)])
    if len(texts) == 1:
        return next(iter(texts))
    return between.join(f"{text} ({', '.join(dialects)})" for text, dialects in texts.items())


def _listed(title: str, variants: Sequence[_Variant], describe: Callable[[FamilySpec], list[str]]) -> Iterable[str]:
    """A list of what the dialects have; what only some have names them."""
    everywhere = sum(len(variant.dialects) for variant in variants)
    items = [
        text if len(dialects) == everywhere else f"{text} ({', '.join(dialects)})"
        for text, dialects in _collect(variants, describe).items()
    ]
    if len(items) == 1:
        yield f"- {title}: {items[0]}"
    elif items:
        yield from (f"- {title}:", *(f"  - {item}" for item in items))


def _collect(variants: Sequence[_Variant], describe: Callable[[FamilySpec], list[str]]) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for variant in variants:
        for text in describe(variant.spec):
            texts.setdefault(text, []).extend(variant.dialects)
    return texts


# Markdown.


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
