"""Every check there is, as data."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gpusight.doctor.subject import Subject


class Check(NamedTuple):
    """`run` is `module:function` within doctor; it gets an Exam and the arguments, and returns a Finding."""

    id: str
    run: str
    roles: tuple[str, ...] = ()
    """To whom it matters; empty means everybody."""
    extra: str = ""
    """Without which it cannot run."""
    arguments: tuple[Any, ...] = ()


class Permission(NamedTuple):
    """One thing to be allowed at the Kubernetes API; `query` may hold the node's name."""

    resource: str
    verb: str
    role: str
    paths: tuple[str, ...]
    """The first that the cluster knows."""
    query: str = ""
    group: str = ""


PERMISSIONS = (
    Permission("pods", "list", "node", ("/api/v1/pods",), "spec.nodeName={node}"),
    Permission("pods", "watch", "node", ("/api/v1/pods",), "spec.nodeName={node}"),
    Permission(
        "resourceslices",
        "list",
        "node",
        tuple(f"/apis/resource.k8s.io/{version}/resourceslices" for version in ("v1", "v1beta2", "v1beta1")),
        group="resource.k8s.io",
    ),
    Permission("namespaces", "list", "analyze", ("/api/v1/namespaces",)),
)


class Symptom(NamedTuple):
    """Something in Prometheus that tells of trouble elsewhere: `query` counts cases, and gives nothing without any."""

    name: str
    family: str
    query: str


SYMPTOMS = (
    Symptom("node-nvml", "gpusight_nvml_up", "count(gpusight_nvml_up == 0)"),
    Symptom("node-devices", "gpusight_device_up", "count(gpusight_device_up == 0)"),
    Symptom("node-sources", "gpusight_source_up", "count(gpusight_source_up == 0)"),
    Symptom("node-regions", "gpusight_vgpu_region_problems", "sum(gpusight_vgpu_region_problems) > 0"),
    Symptom("other-exporter", "gpusight_other_exporter", "count(gpusight_other_exporter > 0)"),
    Symptom("simulated", "gpusight_simulated", "count(gpusight_simulated == 1)"),
    Symptom("nvshare-nvml", "nvshare_nvml_up", "count(nvshare_nvml_up == 0)"),
    Symptom("nvshare-host-pid", "nvshare_client_info", 'count(nvshare_client_info{host_pid=~"0|1"})'),
    Symptom("ops-failures", "gpu_failure_rate", "count(gpu_failure_rate > 0.05)"),
    Symptom("ops-no-gpu", "gpu_available", "count(gpu_available == 0)"),
)

_NODE, _ANALYZE = ("node",), ("analyze",)

_FIRST = (
    Check("python.version", "machine:python"),
    Check("limits.files", "machine:file_limit"),
    Check("config.file", "configuration:file"),
    Check("config.settings", "configuration:settings"),
    Check("config.environment", "configuration:environment"),
    Check("config.criteria", "configuration:criteria", _ANALYZE),
)
_MACHINE = (
    Check("nvml.driver", "hardware:driver", _NODE),
    Check("nvml.devices", "hardware:devices", _NODE),
    Check("nvml.pids", "hardware:pids", _NODE),
    Check("node.neighbours", "containers:neighbours", _NODE),
    Check("vgpu.dir", "containers:vgpu_dir", _NODE),
    Check("vgpu.regions", "containers:vgpu_regions", _NODE),
    Check("kubelet.socket", "containers:kubelet", _NODE, "node"),
    Check("pods.logs", "containers:pod_logs", _NODE),
    Check("k8s.access", "kubernetes:access", extra="k8s"),
    Check("k8s.reachable", "kubernetes:reachable", extra="k8s"),
)
_PROMETHEUS = tuple(
    Check(f"prom.{name}", run, _ANALYZE, "analyze")
    for name, run in (
        ("reachable", "prometheus:reachable"),
        ("families", "families:families"),
        ("quantities", "families:quantities"),
        ("scale", "families:scales"),
        ("fresh", "families:fresh"),
        ("labels", "owners:labels"),
        ("honor-labels", "owners:honor_labels"),
        ("condition", "owners:condition"),
        ("targets", "alerting:targets"),
        ("rules", "alerting:rules"),
        ("alertmanager", "alerting:alertmanager"),
        ("recording", "alerting:recording"),
    )
)
_LAST = (
    Check("scrape.targets", "scraping:targets", _ANALYZE, "analyze"),
    Check("analyze.health", "analyzer:health", _ANALYZE),
    Check("ai.settings", "ai:settings", _ANALYZE),
    Check("ai.reachable", "ai:reachable", _ANALYZE),
    Check("clock.skew.prometheus", "prometheus:skew", _ANALYZE, "analyze"),
    Check("clock.skew.kubernetes", "kubernetes:skew", extra="k8s"),
    Check("disk.data", "disk:data", _ANALYZE),
    Check("journal.open", "disk:journal", _ANALYZE, "analyze"),
)


def all_checks(subject: Subject) -> list[Check]:
    """Those that matter to the subject's roles."""
    return [check for check in _every(subject) if not check.roles or not subject.roles.isdisjoint(check.roles)]


def _every(subject: Subject) -> Iterator[Check]:
    yield from _FIRST
    for file in subject.files:
        yield Check(f"file.{file.setting}", "configuration:named_file", arguments=(file,))
    for extra in subject.extras:
        yield Check(f"extra.{extra}", "machine:extra", arguments=(extra,))
    yield from _MACHINE
    for each in PERMISSIONS:
        name = f"k8s.permissions.{each.resource}.{each.verb}"
        yield Check(name, "kubernetes:permission", (each.role,), "k8s", (each,))
    yield Check("k8s.annotations", "annotations:annotations", _NODE, "k8s")
    yield from _PROMETHEUS
    for symptom in SYMPTOMS:
        yield Check(f"prom.symptom.{symptom.name}", "alerting:symptom", _ANALYZE, "analyze", (symptom,))
    yield from _LAST
    mine = [each for each in subject.listen if each.port and each.role in subject.roles]
    for listen in {each.port: each for each in reversed(mine)}.values():
        yield Check(f"port.{listen.port}", "ports:port", (listen.role,), arguments=(listen,))


def chosen(checks: Sequence[Check], only: Sequence[str]) -> tuple[list[Check], list[str]]:
    """The checks that `only` names by id or by its beginning, and what of it names none."""
    wanted = [(name, name.rstrip(".")) for name in only]
    unknown = [name for name, stem in wanted if not any(_is_within(check.id, stem) for check in checks)]
    if not wanted:
        return list(checks), unknown
    return [check for check in checks if any(_is_within(check.id, stem) for _, stem in wanted)], unknown


def _is_within(name: str, stem: str) -> bool:
    return name == stem or name.startswith(f"{stem}.")
