"""What a series is about, read from its labels in every dialect that exporters and scrape configurations speak.

dcgm-exporter says UUID, modelName, Hostname, GPU_I_ID; its version 1 uuid, pod_name, pod_namespace; HAMi deviceuuid,
podname, vdeviceid and later device_uuid, pod, vdevice_index; nvshare gpu_uuid. Where Prometheus is told not to honour
labels (`honorLabels: false`, the default of many charts) a workload's labels come as exported_pod and so on, and `pod`
is the exporter's own pod: on every series, also on those of GPUs that nobody holds.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpusight.model.series import Place, SeriesKey

GPU_LABELS = ("UUID", "uuid", "gpu_uuid", "device_uuid", "deviceuuid", "vdie_id", "hw_id", "device_id")
MIG_LABELS = ("GPU_I_ID", "gpu_instance_id")
SLOT_LABELS = ("vgpu", "vdevice_index", "vdeviceid")
NODE_LABELS = (
    "Hostname",
    "hostname",
    "exported_node",
    "node",
    "nodeid",
    "nodename",
    "nodeName",
    "node_name",
    "kubernetes_node",
    "k8s_node_name",
    "host_name",
)
MODEL_LABELS = (
    "modelName",
    "model_name",
    "device_type",
    "devicetype",
    "gpu_name",
    "hw_model",
    "model",
    "name",
)
INSTANCE_LABELS = ("instance", "job")


class HolderDialect(NamedTuple):
    """The three labels of one dialect that name who holds the GPU; they are taken together or not at all."""

    pod: str
    namespaces: tuple[str, ...]
    containers: tuple[str, ...]


PLAIN = HolderDialect("pod", ("namespace",), ("container",))
HOLDER_DIALECTS: tuple[HolderDialect, ...] = (
    HolderDialect("exported_pod", ("exported_namespace",), ("exported_container",)),
    HolderDialect("podname", ("podnamespace",), ("ctrname",)),
    HolderDialect("exported_pod_name", ("exported_pod_namespace", "exported_namespace"), ("exported_container_name",)),
    HolderDialect("pod_name", ("pod_namespace", "namespace"), ("container_name",)),
    HolderDialect("dcu_pod_name", ("dcu_pod_namespace",), ("container",)),
    HolderDialect("k8s_pod_name", ("k8s_namespace_name",), ("k8s_container_name",)),
    PLAIN,
)
"""The first whose pod is there wins: what an exporter says of a workload before what a scrape configuration adds."""

Exporters = Mapping[tuple[str, str], tuple[str, str]]
"""Namespace and pod of the exporter behind each (job, instance), as `up` says."""

_BARE_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


HOLDER_LABELS = _unique(
    name for dialect in HOLDER_DIALECTS for name in (dialect.pod, *dialect.namespaces, *dialect.containers)
)
IDENTITY_LABELS = _unique((*GPU_LABELS, *MIG_LABELS, *SLOT_LABELS, *HOLDER_LABELS))
"""All labels that may tell one subject from another, but for the cluster's, whose name is a setting."""
FULL_LABELS = _unique((*IDENTITY_LABELS, *NODE_LABELS, *MODEL_LABELS, "gpu", *INSTANCE_LABELS))
"""What is needed to say of a series whose it is, where it is and whether its pod is the exporter."""


def _first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    for name in names:
        if value := labels.get(name):
            return value
    return ""


def gpu_of(labels: Mapping[str, str]) -> str:
    """The GPU's UUID; the prefix that nvidia_gpu_exporter leaves out is put back, so that exporters agree."""
    found = _first(labels, GPU_LABELS)
    if len(found) == 36 and _BARE_UUID.fullmatch(found):
        return f"GPU-{found}"
    return found


def spellings(gpu: str) -> tuple[str, ...]:
    """How series may spell what `gpu_of` gives."""
    bare = gpu.removeprefix("GPU-")
    return (gpu, bare) if bare != gpu else (gpu,)


def holder_dialect(labels: Mapping[str, str]) -> HolderDialect | None:
    """In which words the series names a pod, if it does."""
    return next((dialect for dialect in HOLDER_DIALECTS if labels.get(dialect.pod)), None)


def holder_of(labels: Mapping[str, str]) -> tuple[str, str, str]:
    """Namespace, pod and container; empty text if the series names no pod."""
    dialect = holder_dialect(labels)
    if dialect is None:
        return "", "", ""
    return _first(labels, dialect.namespaces), labels[dialect.pod], _first(labels, dialect.containers)


def series_key(labels: Mapping[str, str], cluster_label: str = "cluster") -> SeriesKey:
    """Whose the series is. `gpu` is empty where no label names the device: such a series is of no use."""
    return SeriesKey(
        labels.get(cluster_label, ""),
        gpu_of(labels),
        _first(labels, MIG_LABELS),
        _first(labels, SLOT_LABELS),
        *holder_of(labels),
    )


def place(labels: Mapping[str, str]) -> Place:
    """Node and model as far as the series says; all-smi has the model in `gpu`, where others have a number."""
    model = _first(labels, MODEL_LABELS)
    if not model and not labels.get("gpu", "").isdigit():
        model = labels.get("gpu", "")
    return Place(_first(labels, NODE_LABELS), model)


def exporters(up: Iterable[Mapping[str, str]]) -> Exporters:
    """Which pod is the exporter behind each target, from the labels of `up` series."""
    return {
        (labels.get("job", ""), labels.get("instance", "")): (labels.get("namespace", ""), labels["pod"])
        for labels in up
        if labels.get("pod")
    }


def holder_labels(labels: Mapping[str, str], exporter_pods: Exporters) -> Mapping[str, str]:
    """The labels without a pod that is not a holder but the exporter itself.

    The proof is in the data: the target's own `up` series carries the same pod. A workload that exposes metrics of its
    own is not mistaken, because its pod is that of another target.
    """
    target = (labels.get("job", ""), labels.get("instance", ""))
    if holder_dialect(labels) is not PLAIN or exporter_pods.get(target) != holder_of(labels)[:2]:
        return labels
    own = {PLAIN.pod, *PLAIN.namespaces, *PLAIN.containers}
    return {name: value for name, value in labels.items() if name not in own}
