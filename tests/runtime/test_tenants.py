"""Whose namespaces are: the file over the cluster."""

from collections.abc import Callable
from typing import Any

from gpusight.analysis.tenancy import Tenancy, Tenant
from gpusight.model.time import SystemClock
from gpusight.runtime.tenants import TenantsWatch, namespace_tenants
from gpusight.sources.kubernetes.client import ApiClient
from tests.runtime.test_supervise import wait_for
from tests.support.fake_kube import FakeKube, Fault

NAMESPACES = "/api/v1/namespaces"


def namespace(name: str, owner: str = "", **labels: str) -> dict[str, Any]:
    """As Kubeflow's profile controller makes it."""
    annotations = {"owner": owner} if owner else {}
    return {"kind": "Namespace", "metadata": {"name": name, "annotations": annotations, "labels": labels}}


def client_of(kube: FakeKube) -> ApiClient:
    kube.paths.add(NAMESPACES)
    return ApiClient(kube.access, SystemClock())


def test_owners_come_from_the_profiles_annotation_and_teams_from_a_label() -> None:
    with FakeKube() as kube:
        kube.put(namespace("vision", "li@example.com", team="CV"))
        kube.put(namespace("kube-system"))

        assert namespace_tenants(client_of(kube), "team") == {("", "vision"): Tenant("li@example.com", "CV")}


def test_a_long_list_comes_in_pages() -> None:
    with FakeKube() as kube:
        for number in range(1100):
            kube.put(namespace(f"team-{number}", f"{number}@example.com"))

        assert len(namespace_tenants(client_of(kube), "team")) == 1100
        assert len([each for each in kube.requests if each.path == NAMESPACES]) == 3


def test_a_namespace_that_makes_no_sense_costs_itself() -> None:
    with FakeKube() as kube:
        kube.put(namespace("vision", "li@example.com"))
        kube.put({"kind": "Namespace", "metadata": {"name": "odd", "annotations": {"owner": 7}}})

        assert set(namespace_tenants(client_of(kube), "team")) == {("", "vision")}


def watching(kube: FakeKube, declared: Tenancy, holds: Callable[[Tenancy], bool]) -> Tenancy:
    watch = TenantsWatch(declared, client_of(kube), "team")
    watch.start()
    wait_for(lambda: holds(watch.tenancy()))
    watch.stop()
    return watch.tenancy()


def test_what_the_file_says_overrules_the_cluster() -> None:
    declared = Tenancy({("", "vision"): Tenant("wang@example.com", "")})
    with FakeKube() as kube:
        kube.put(namespace("vision", "li@example.com"))
        kube.put(namespace("speech", "zhao@example.com"))
        found = watching(kube, declared, lambda tenancy: tenancy.of("", "speech").owner != "")

    assert found.of("east", "vision").owner == "wang@example.com"
    assert found.of("east", "speech").owner == "zhao@example.com"


def test_an_api_that_fails_leaves_the_file() -> None:
    declared = Tenancy({("", "vision"): Tenant("wang@example.com", "")})
    with FakeKube() as kube:
        kube.fail(Fault("status", code=403))
        found = watching(kube, declared, lambda _: bool(kube.requests))

    assert found.of("", "vision").owner == "wang@example.com"
