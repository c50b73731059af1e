"""What any API server must do for a reflector: run against the fake one, and a real one where there is one.

For a real one (kube-apiserver and etcd are enough: no scheduler, no kubelet) let GPUSIGHT_TEST_KUBECONFIG name a
kubeconfig that may create and delete pods in the namespace `gpusight-test`, which must exist with its default service
account.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpusight.model.ownership import PodInfo
from gpusight.model.time import SystemClock
from gpusight.sources.kubernetes.access import Access, from_kubeconfig
from gpusight.sources.kubernetes.client import ApiClient, Limits
from gpusight.sources.kubernetes.pods import NodePods
from gpusight.sources.kubernetes.reflector import Reflector, Timing, What
from tests.sources.test_reflector import eventually
from tests.support.fake_kube import Driver, fake_kube

KUBECONFIG = os.environ.get("GPUSIGHT_TEST_KUBECONFIG", "")
UNHURRIED = Limits(requests=100)


@pytest.fixture(
    params=[
        "fake",
        pytest.param("real", marks=pytest.mark.skipif(not KUBECONFIG, reason="GPUSIGHT_TEST_KUBECONFIG is not set")),
    ]
)
def access(request: pytest.FixtureRequest) -> Iterator[Access]:
    if request.param == "real":
        yield from_kubeconfig(Path(KUBECONFIG), os.environ, SystemClock())
    else:
        with fake_kube() as kube:
            yield kube.access


class Node:
    """A node of its own for each test, so that tests can share a server."""

    def __init__(self, access: Access) -> None:
        self.name = f"node-{uuid.uuid4().hex[:8]}"
        self._driver = Driver(access, "gpusight-test")
        self._made: set[str] = set()

    def path(self, name: str) -> str:
        return f"{name}-{self.name}"

    def create(self, name: str) -> None:
        self._driver.create(self.path(name), self.name)
        self._made.add(name)

    def label(self, name: str, **labels: str) -> None:
        self._driver.label(self.path(name), **labels)

    def delete(self, name: str) -> None:
        self._driver.delete(self.path(name))
        self._made.discard(name)

    def clear(self) -> None:
        for name in list(self._made):
            self.delete(name)


@pytest.fixture
def node(access: Access) -> Iterator[Node]:
    node = Node(access)
    try:
        yield node
    finally:
        node.clear()


@contextmanager
def following(access: Access, node: Node, page: int = 500) -> Iterator[NodePods]:
    client = ApiClient(access, SystemClock(), UNHURRIED)
    pods = NodePods(client, node.name, SystemClock(), cluster="test", timing=Timing(page=page))
    pods.start()
    try:
        yield pods
    finally:
        pods.stop()


def shown(pods: NodePods, node: Node) -> dict[str, PodInfo]:
    return {pod.ref.name.removesuffix(f"-{node.name}"): pod for pod in pods.read().pods}


def test_what_is_there_is_listed(access: Access, node: Node) -> None:
    node.create("a")
    node.create("b")
    with following(access, node) as pods:
        assert eventually(lambda: set(shown(pods, node)) == {"a", "b"}, within=15)
        pod = shown(pods, node)["a"]
    assert (pod.ref.cluster, pod.ref.namespace) == ("test", "gpusight-test")
    assert len(pod.ref.uid) == 36
    assert pod.containers == ("main",)
    assert pod.phase == "Pending"


def test_changes_are_seen(access: Access, node: Node) -> None:
    with following(access, node) as pods:
        assert eventually(lambda: pods.read().is_up, within=15)
        node.create("a")
        assert eventually(lambda: set(shown(pods, node)) == {"a"}, within=15)
        node.label("a", **{"hami.io/vgpu-node": "x"})
        assert eventually(lambda: shown(pods, node)["a"].labels == {"hami.io/vgpu-node": "x"}, within=15)
        node.delete("a")
        assert eventually(lambda: shown(pods, node) == {}, within=15)


def test_pods_of_other_nodes_are_not_seen(access: Access, node: Node) -> None:
    other = Node(access)
    other.create("other")
    try:
        with following(access, node) as pods:
            node.create("mine")
            assert eventually(lambda: set(shown(pods, node)) == {"mine"}, within=15)
    finally:
        other.clear()


def test_a_pod_made_anew_is_another_one(access: Access, node: Node) -> None:
    node.create("db-0")
    with following(access, node) as pods:
        assert eventually(lambda: "db-0" in shown(pods, node), within=15)
        before = shown(pods, node)["db-0"].ref.uid
        node.delete("db-0")
        node.create("db-0")
        assert eventually(lambda: any(pod.ref.uid != before for pod in shown(pods, node).values()), within=15)


def test_a_consistent_list_comes_in_pages(access: Access, node: Node) -> None:
    for number in range(5):
        node.create(f"pod-{number}")
    client = ApiClient(access, SystemClock(), UNHURRIED)
    what = What("/api/v1/pods", field_selector=f"spec.nodeName={node.name}")
    reflector: Reflector[bool] = Reflector(client, what, lambda _: True, SystemClock(), timing=Timing(page=2))
    reflector.start()
    try:
        assert eventually(lambda: len(reflector.view().objects) == 5, within=15)
    finally:
        reflector.stop()


def test_a_path_that_does_not_exist(access: Access) -> None:
    client = ApiClient(access, SystemClock(), UNHURRIED)
    reflector: Reflector[bool] = Reflector(client, What("/apis/none.example/v1/nothing"), lambda _: True, SystemClock())
    reflector.start()
    try:
        assert eventually(lambda: reflector.view().problem == "not_found", within=15)
    finally:
        reflector.stop()
