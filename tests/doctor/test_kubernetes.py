"""A Kubernetes API that lets us in, or does not."""

from pathlib import Path

import pytest

from gpusight.doctor.skew import judge, seconds_ahead
from gpusight.sources.kubernetes.access import Access, Fixed
from tests.doctor.subjects import outcome, results_of, subject
from tests.support.fake_kube import FakeKube, Fault, fake_kube, pod
from tests.support.net import free_port

EVERYTHING = {
    "/version",
    "/api/v1/pods",
    "/api/v1/namespaces",
    "/apis/resource.k8s.io/v1beta1/resourceslices",
}
PODS, WATCH = "k8s.permissions.pods.list", "k8s.permissions.pods.watch"


def examine(directory: Path, access: Access, *only: str, needed: bool = False) -> dict[str, tuple[str, str]]:
    needs = {"pods": "k8s.watch-pods"} if needed else {}
    examined = subject(
        directory, kubernetes=lambda: access, kubernetes_needed_by=needs, node_name="n1", network_patience=3.0
    )
    return {name: outcome(each) for name, each in results_of(examined, *(only or ("k8s", "clock"))).items()}


def test_all_is_allowed(tmp_path: Path) -> None:
    with fake_kube(token="t0ken") as kube:
        kube.paths |= EVERYTHING
        found = examine(tmp_path, kube.access)
        asked = [(request.path, request.query) for request in kube.requests]
    assert found.pop("clock.skew.prometheus") == ("skip", "prom.unreached")
    assert found.pop("clock.skew.kubernetes") == ("ok", "clock.ok")
    assert found.pop("k8s.annotations") == ("skip", "k8s.no-vgpu-pods")
    assert set(found.values()) == {("ok", "k8s.access-ok"), ("ok", "k8s.reachable"), ("ok", "k8s.allowed")}
    assert ("/api/v1/pods", {"limit": "1", "fieldSelector": "spec.nodeName=n1"}) in asked
    assert ("/apis/resource.k8s.io/v1beta1/resourceslices", {"limit": "1"}) in asked


@pytest.mark.parametrize(("needed", "status"), [(False, "warn"), (True, "fail")])
def test_what_is_forbidden_is_told_one_by_one(tmp_path: Path, needed: bool, status: str) -> None:
    with fake_kube() as kube:
        kube.paths |= EVERYTHING
        kube.fail(Fault("status", kind="watch", code=403))
        found = examine(tmp_path, kube.access, "k8s.permissions", needed=needed)
    assert found[WATCH] == (status, "k8s.forbidden")
    assert found[PODS] == ("ok", "k8s.allowed")


def test_a_wrong_token(tmp_path: Path) -> None:
    with fake_kube(token="right") as kube:
        kube.paths |= EVERYTHING
        found = examine(tmp_path, Access(kube.url, Fixed("Bearer wrong")), needed=True)
    assert found["k8s.reachable"] == ("ok", "k8s.reachable"), "it answers, if only to refuse"
    assert found[PODS] == ("fail", "k8s.unauthorized")
    assert found["clock.skew.kubernetes"] == ("ok", "clock.ok")


def test_what_a_cluster_does_not_have_is_no_fault(tmp_path: Path) -> None:
    with fake_kube() as kube:
        found = examine(tmp_path, kube.access, "k8s.permissions.resourceslices")
    assert found == {"k8s.permissions.resourceslices.list": ("skip", "k8s.not-found")}


def test_nobody_answers(tmp_path: Path) -> None:
    access = Access(f"http://127.0.0.1:{free_port()}", Fixed())
    assert examine(tmp_path, access)["k8s.reachable"] == ("warn", "k8s.unreachable")
    found = examine(tmp_path, access, needed=True)
    assert found["k8s.reachable"] == ("fail", "k8s.unreachable")
    assert found[PODS] == ("skip", "k8s.unreached")


def test_a_server_that_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    with fake_kube() as kube:
        kube.paths |= EVERYTHING
        _silence(kube)
        found = examine(tmp_path, kube.access, "k8s.reachable")
    assert found["k8s.reachable"] == ("warn", "k8s.unreachable")


def _silence(kube: FakeKube) -> None:
    kube.fail(Fault("silence"))


def test_no_way_in_is_a_fault_only_if_somebody_needs_it(tmp_path: Path) -> None:
    assert outcome(results_of(subject(tmp_path), "k8s")["k8s.access"]) == ("skip", "k8s.no-access")
    needed = subject(tmp_path, kubernetes_needed_by={"pods": "k8s.watch-pods"})
    assert outcome(results_of(needed, "k8s")["k8s.access"]) == ("fail", "k8s.access-needed")


@pytest.mark.parametrize(
    ("date", "status"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", "ok"),
        ("Sun, 06 Nov 1994 08:49:47 GMT", "warn"),
        ("Sun, 06 Nov 1994 08:49:27 GMT", "warn"),
        ("Sun, 06 Nov 1994 08:51:37 GMT", "fail"),
        ("Sun, 06 Nov 1994 08:47:37 GMT", "fail"),
    ],
)
def test_clocks_may_differ_a_little(date: str, status: str) -> None:
    ours = 784111777.0
    assert judge(seconds_ahead(date, ours, ours + 1), "x").status == status


@pytest.mark.parametrize("date", ["", "yesterday", "Sun, 99 Nov 1994 08:49:37 GMT"])
def test_no_date_is_no_difference(date: str) -> None:
    assert seconds_ahead(date, 0, 0) is None


def of_annotations(directory: Path, *annotations: dict[str, str]) -> tuple[str, str]:
    with fake_kube() as kube:
        kube.paths |= EVERYTHING
        for number, given in enumerate(annotations):
            kube.put(pod(f"p{number}", node="n1", metadata={"annotations": given}))
        return examine(directory, kube.access, "k8s.annotations")["k8s.annotations"]


def test_what_the_scheduler_wrote_on_pods(tmp_path: Path) -> None:
    bound, allocated = "hami.io/vgpu-node", "hami.io/vgpu-devices-allocated"
    good = {bound: "n1", allocated: "GPU-1,NVIDIA,1024,50:;"}
    assert of_annotations(tmp_path) == ("skip", "k8s.no-vgpu-pods")
    assert of_annotations(tmp_path, {"other": "x"}) == ("skip", "k8s.no-vgpu-pods")
    assert of_annotations(tmp_path, good, {}) == ("ok", "k8s.annotations-ok")
    for text in ("", ";", "GPU-1,NVIDIA", "rubbish"):
        assert of_annotations(tmp_path, good, {bound: "n1", allocated: text}) == ("warn", "k8s.annotations-bad")
