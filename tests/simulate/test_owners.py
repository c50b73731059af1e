"""Whose simulated pods are."""

import pytest

from gpusight.simulate.owners import owned_pods
from gpusight.simulate.spec import Owner, SpecError, load_spec
from tests.simulate.conftest import fleet

T4 = {"model": "t4"}


@pytest.mark.parametrize(
    ("pod", "owner", "expected"),
    [
        ("server-6d5f7c9b84-x2x4k", None, Owner("Deployment", "server")),
        ("trainer-0", None, Owner("StatefulSet", "trainer")),
        ("shell", None, Owner("Pod", "shell")),
        ("any-0", "Notebook/zhang", Owner("Notebook", "zhang")),
    ],
)
def test_the_owner_is_named_or_follows_from_the_name(pod: str, owner: str | None, expected: Owner) -> None:
    workload = {"kind": "training", "gpus": [0], "pod": pod} | ({"owner": owner} if owner else {})
    (found,) = owned_pods(load_spec(fleet(T4, workloads=[workload])), 0)
    assert (found.pod, found.owner) == (pod, expected)


def test_a_pod_of_two_containers_is_one_since_its_first() -> None:
    two = [
        {"kind": "training", "gpus": [0], "pod": "p", "container": name, "starts": starts}
        for name, starts in (("b", -50), ("a", -100))
    ]
    spec = load_spec(fleet(T4, workloads=two))
    (found,) = owned_pods(spec, 0)
    assert found.starts == -100
    assert not list(owned_pods(spec, -101))


@pytest.mark.parametrize("owner", ["", "zhang", "Notebook/", "notebook/zhang", "Notebook/Zhang", "A/b/c", 7])
def test_a_bad_owner_is_told(owner: object) -> None:
    with pytest.raises(SpecError, match=r"workloads\[0\]\.owner is .*Deployment/server"):
        load_spec(fleet(T4, workloads=[{"kind": "training", "gpus": [0], "owner": owner}]))


def test_clusters_are_the_nodes_own_or_the_fleets() -> None:
    data = fleet(T4) | {"cluster": "here"}
    data["nodes"].append({"name": "n2", "gpus": [T4], "cluster": "there"})
    data["workloads"] = [
        {"namespace": "a", "pod": node, "kind": "training", "node": node, "gpus": [0]} for node in ("n1", "n2")
    ]
    spec = load_spec(data)
    assert [(pod.cluster, pod.pod) for pod in owned_pods(spec, 0)] == [("here", "n1"), ("there", "n2")]
