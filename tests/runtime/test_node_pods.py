"""What the API says of a node."""

from collections.abc import Iterator
from contextlib import contextmanager

from gpusight.model.time import SystemClock
from gpusight.runtime.node_pods import ApiWatch
from gpusight.sources.kubernetes.client import ApiClient, Limits
from gpusight.sources.kubernetes.slices import PATHS
from tests.sources.test_reflector import eventually
from tests.sources.test_reflector_slices import GPU, device, resource_slice
from tests.support.fake_kube import FakeKube, Fault, fake_kube, pod


@contextmanager
def watching(kube: FakeKube) -> Iterator[ApiWatch]:
    watch = ApiWatch(ApiClient(kube.access, SystemClock(), Limits(requests=100)), "node-1", SystemClock())
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()


def test_pods_and_their_watch() -> None:
    with fake_kube() as kube, watching(kube) as watch:
        kube.put(pod("mine"))
        assert eventually(lambda: [each.ref.name for each in watch.pods()] == ["mine"])
        (health,) = watch.health()
        assert (health.name, health.is_up, health.reason, health.unusable) == ("kubernetes_pods", True, "", 0)
        assert health.heard_at is not None
        assert health.failures["forbidden"] == 0


def test_a_watch_that_fails_says_why() -> None:
    with fake_kube() as kube:
        kube.fail(*[Fault("status", code=403)] * 1000)
        with watching(kube) as watch:
            assert eventually(lambda: next(watch.health()).reason == "forbidden")
            (health,) = watch.health()
            assert (health.is_up, health.heard_at) == (False, None)
            assert health.failures["forbidden"] >= 1


def test_slices_are_followed_from_the_first_question_on() -> None:
    with fake_kube() as kube:
        kube.paths |= {PATHS[0]}
        kube.put(resource_slice("mine", device("gpu-0")))
        with watching(kube) as watch:
            assert eventually(lambda: next(watch.health()).is_up)
            assert {request.path for request in kube.requests} == {"/api/v1/pods"}
            assert eventually(lambda: watch.claimed_devices() == {("gpu.nvidia.com", "node-1", "gpu-0"): GPU})
            assert [health.name for health in watch.health()] == ["kubernetes_pods", "kubernetes_slices"]
