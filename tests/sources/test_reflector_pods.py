"""Pods of the API in the smallest form."""

import json
from typing import Any

import msgspec
import pytest

from gpusight.model.identity import PodRef
from gpusight.model.ownership import PodInfo
from gpusight.model.time import SystemClock
from gpusight.sources.kubernetes.client import ApiClient, Limits
from gpusight.sources.kubernetes.pods import NodePods, pod_decoder
from tests.sources.test_reflector import eventually
from tests.support.fake_kube import Fault, fake_kube, pod

FULL: dict[str, Any] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "train-0",
        "namespace": "team",
        "uid": "u1",
        "resourceVersion": "5",
        "labels": {"app": "x", "hami.io/vgpu-node": "n1"},
        "annotations": {"hami.io/vgpu-time": "1", "secret.example/token": "s3cret", "kubernetes.io/config.hash": "h"},
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:metadata": {}}}],
    },
    "spec": {
        "nodeName": "n1",
        "initContainers": [{"name": "fetch", "image": "a"}],
        "containers": [{"name": "main", "env": [{"name": "PASSWORD", "value": "s3cret"}]}, {"name": "side"}],
    },
    "status": {
        "phase": "Running",
        "initContainerStatuses": [{"name": "fetch", "containerID": "containerd://f00d"}],
        "containerStatuses": [
            {"name": "main", "containerID": "cri-o://abc"},
            {"name": "side", "state": {"waiting": {}}},
        ],
        "ephemeralContainerStatuses": [{"name": "debug", "containerID": "docker://d0"}],
    },
}


def decode(given: object) -> PodInfo | None:
    return pod_decoder("east")(msgspec.Raw(json.dumps(given).encode()))


def test_what_joins_need_is_kept_and_nothing_else() -> None:
    assert decode(FULL) == PodInfo(
        PodRef("east", "team", "train-0", "u1"),
        ("fetch", "main", "side"),
        1,
        {"fetch": "f00d", "main": "abc", "debug": "d0"},
        "Running",
        {"hami.io/vgpu-node": "n1"},
        {"hami.io/vgpu-time": "1", "kubernetes.io/config.hash": "h"},
    )


def test_labels_and_annotations_to_keep_can_be_chosen() -> None:
    info = pod_decoder("", annotations=(), labels=("app",))(msgspec.Raw(json.dumps(FULL).encode()))
    assert info is not None
    assert (info.labels, info.annotations) == ({"app": "x"}, {})


def test_the_least_that_a_pod_has() -> None:
    given = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"containers": [{"name": "c"}]}}
    assert decode(given) == PodInfo(PodRef("east", "n", "p", "u"), ("c",), phase="Unknown")
    assert decode({**given, "status": {"phase": "", "containerStatuses": None}}) == decode(given)


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {}},
        {"metadata": None},
        {"spec": {"containers": None}},
        {"spec": {"containers": [{}]}},
        {"status": {"phase": 7}},
        {"metadata": {**FULL["metadata"], "labels": {"a": 1}}},
    ],
)
def test_a_pod_that_is_none_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode({**FULL, **change})


def test_readings_tell_how_the_watch_does() -> None:
    with fake_kube() as kube:
        kube.put(pod("mine"))
        kube.put(pod("elsewhere", "node-2"))
        kube.fail(*[Fault("status", code=403)] * 1000)
        pods = NodePods(ApiClient(kube.access, SystemClock(), Limits(requests=100)), "node-1", SystemClock())
        assert (pods.read().is_up, pods.read().reason) == (False, "starting")
        pods.start()
        try:
            assert eventually(lambda: pods.read().reason == "forbidden")
            kube.heal()
            assert eventually(lambda: pods.read().is_up)
            reading = pods.read()
            assert [each.ref.name for each in reading.pods] == ["mine"]
            assert (reading.reason, reading.undecodable) == ("", 0)
            assert reading.age is not None
        finally:
            pods.stop()
