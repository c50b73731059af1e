"""What HAMi's scheduler wrote on this node's pods: without it, containers have no devices."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gpusight.doctor.exam import Exam
from gpusight.doctor.findings import Finding, NotChecked, Private, listed, ok, warn
from gpusight.sources.annotations import DEVICES_ALLOCATED, MIG_ALLOCATIONS, BadAnnotation, decode_devices, decode_mig
from gpusight.sources.kubernetes.client import ApiError

_BOUND = "hami.io/vgpu-node"
_MOST = "500"


def annotations(exam: Exam) -> Finding:
    subject = exam.subject
    query = {"fieldSelector": f"spec.nodeName={subject.node_name}", "limit": _MOST, "resourceVersion": "0"}
    try:
        body = exam.cluster().client.get("/api/v1/pods", query, within=subject.network_patience)
        pods = [metadata for metadata in _metadata(json.loads(body)) if _BOUND in (metadata.get("annotations") or {})]
    except ApiError as error:
        raise NotChecked("k8s.no-pods", reason=error.reason) from None
    if not pods:
        raise NotChecked("k8s.no-vgpu-pods")
    bad = [f"{each.get('namespace')}/{each.get('name')}" for each in pods if not _is_complete(each["annotations"])]
    if bad:
        return warn("k8s.annotations-bad", bad=len(bad), count=len(pods), pods=Private(listed(bad)))
    return ok("k8s.annotations-ok", count=len(pods))


def _metadata(page: Any) -> Iterator[Mapping[str, Any]]:
    for item in page.get("items") or () if isinstance(page, dict) else ():
        metadata = item.get("metadata") if isinstance(item, dict) else None
        if isinstance(metadata, dict):
            yield metadata


def _is_complete(given: Mapping[str, str]) -> bool:
    try:
        decode_mig(given.get(MIG_ALLOCATIONS, ""))
        return any(decode_devices(given.get(DEVICES_ALLOCATED, "")))
    except BadAnnotation:
        return False
