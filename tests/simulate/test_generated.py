"""The demo, and fleets of any size that are made out of it."""

from collections import Counter
from typing import get_args

import pytest

from gpusight.model.vgpu import Layout
from gpusight.simulate.fleet import place
from gpusight.simulate.pods import containers
from gpusight.simulate.spec import FleetSpec, SpecError, WorkloadKind, load_spec


def gpus(spec: FleetSpec) -> int:
    return sum(len(node.gpus) for node in spec.nodes)


def test_the_demo_has_a_bit_of_everything() -> None:
    spec = load_spec("demo")
    assert gpus(spec) == 64
    assert {node.cluster for node in spec.nodes} == {"beijing-train", "shanghai-serve", "campus-lab"}
    assert {w.kind for w in spec.workloads} == set(get_args(WorkloadKind))
    assert {w.layout for w in spec.workloads if w.share} == set(get_args(Layout))
    assert len({w.namespace for w in spec.workloads}) >= 8
    assert any(w.mig is not None for w in spec.workloads)
    assert any(w.starts > 0 for w in spec.workloads), "one comes while you watch"
    on_gpu = Counter((w.node, gpu) for w in spec.workloads if w.mig is None and not w.share for gpu in w.gpus)
    assert max(on_gpu.values()) > 1, "time slices"
    held = {(w.node, gpu) for w in spec.workloads for gpu in w.gpus}
    assert len(held) < 64, "some GPUs are nobody's"
    assert {"xid", "gpu_lost", "overheat"} <= {fault.kind for fault in spec.faults}


@pytest.mark.parametrize("number", [1, 3, 8, 63, 64, 65, 128, 500])
def test_a_generated_fleet_has_as_many_gpus_as_asked_for(number: int) -> None:
    spec = load_spec(f"generated:{number}")
    assert gpus(spec) == number
    assert spec.workloads
    for node in spec.nodes:
        assert len(place(spec, node.name).gpus) == len(node.gpus)


def test_nothing_in_a_generated_fleet_has_the_name_of_another() -> None:
    spec = load_spec("generated:1000")
    uuids = [gpu.uuid for node in spec.nodes for gpu in place(spec, node.name).gpus]
    assert len(set(uuids)) == len(uuids) == 1000
    pods = [container.ref for node in spec.nodes for container in containers(spec, node.name)]
    names = {(ref.pod.cluster, ref.pod.namespace, ref.pod.name, ref.name) for ref in pods}
    assert len(names) == len(pods) == len(spec.workloads)
    assert {w.kind for w in spec.workloads} == set(get_args(WorkloadKind))


def test_the_same_name_is_the_same_fleet_and_another_seed_is_not() -> None:
    one, same, other = (load_spec(name) for name in ("generated:200", "generated:200", "generated:200,9"))
    assert (one.nodes, one.workloads, one.faults) == (same.nodes, same.workloads, same.faults)
    assert place(one, one.nodes[0].name).gpus[0].uuid == place(same, same.nodes[0].name).gpus[0].uuid
    assert one.workloads != other.workloads
    assert place(one, one.nodes[0].name).gpus[0].uuid != place(other, other.nodes[0].name).gpus[0].uuid


@pytest.mark.parametrize("name", ["generated:", "generated:0", "generated:x", "generated:8,", "generated:999999"])
def test_what_cannot_be_generated_is_refused_in_a_sentence(name: str) -> None:
    with pytest.raises(SpecError, match=r"generated:GPUS,SEED, with 1 to 100000 GPUs\.$"):
        load_spec(name)
