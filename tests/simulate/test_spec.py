"""Specs: the built-in ones load, and a bad one is told in one sentence."""

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from gpusight.simulate.spec import SpecError, WorkloadKind, builtin_names, load_spec
from tests.simulate.conftest import fleet


def test_built_in_names() -> None:
    assert {"default", "eight-gpus-40-containers", "faulty", "gb10", "mig"} <= set(builtin_names())


@pytest.mark.parametrize("name", builtin_names())
def test_every_built_in_loads(name: str) -> None:
    spec = load_spec(name)
    assert spec.nodes
    assert spec.workloads


def test_default_shows_everything() -> None:
    """Eight devices of several models, all workload kinds, shares, MIG, time slices, and a device that is nobody's."""
    spec = load_spec()
    gpus = spec.nodes[0].gpus
    assert {w.kind for w in spec.workloads} == set(get_args(WorkloadKind))
    assert len(gpus) == 8
    assert {"v100s-32gb", "t4", "a100-80gb", "h100", "rtx-4090"} <= {gpu.model.key for gpu in gpus}
    assert any(gpu.mig for gpu in gpus)
    used = [index for w in spec.workloads for index in w.gpus]
    assert set(used) < set(range(8))
    assert {w.layout for w in spec.workloads if w.share} >= {"B", "C", "E", "F"}


def test_bench_spec_is_what_its_name_says() -> None:
    spec = load_spec("eight-gpus-40-containers")
    assert [gpu.model.key for gpu in spec.nodes[0].gpus] == ["a100-80gb"] * 8
    assert len(spec.workloads) == 40
    assert all(w.share for w in spec.workloads)
    assert {w.layout for w in spec.workloads} >= {"A", "B", "C", "E", "F"}


def test_from_a_file_with_several_nodes(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    nodes = [{"name": f"n{i}", "gpus": [{"model": "t4", "count": 2}]} for i in range(3)]
    workload = {"namespace": "a", "pod": "p", "kind": "training", "node": "n2", "gpus": [0, 1]}
    path.write_text(yaml.safe_dump({"nodes": nodes, "workloads": [workload]}), "utf-8")
    spec = load_spec(path)
    assert [len(node.gpus) for node in spec.nodes] == [2, 2, 2]
    assert spec.on_node("n2") == spec.workloads
    assert spec.on_node("n1") == ()
    assert load_spec(str(path)).workloads == spec.workloads
    assert load_spec(spec) is spec


T4 = {"model": "t4"}
MIG = {"model": "a100-80gb", "mig": ["3g.40gb"]}
W = {"kind": "training", "gpus": [0]}

BAD: list[tuple[Any, str, str]] = [
    ([], "the top level", "[]"),
    ({}, "nodes", "missing"),
    ({"nodes": []}, "nodes", "[]"),
    ({**fleet(T4), "colour": "red"}, "colour", "'red'"),
    ({**fleet(T4), "seed": "x"}, "seed", "'x'"),
    ({**fleet(T4), "seed": True}, "seed", "True"),
    ({"nodes": [{"name": "a", "gpus": [T4]}, {"name": "a", "gpus": [T4]}]}, "nodes", "'a'"),
    ({"nodes": [{"name": "../x", "gpus": [T4]}]}, "nodes[0].name", "'../x'"),
    (fleet({"model": "voodoo"}), "nodes[0].gpus[0].model", "'voodoo'"),
    (fleet({"model": "t4", "count": 0}), "nodes[0].gpus[0].count", "0"),
    (fleet({"model": "t4", "mig": ["1g.5gb"]}), "nodes[0].gpus[0].mig", "'1g.5gb'"),
    (fleet({"model": "t4", "mig": []}), "nodes[0].gpus[0].mig", "[]"),
    (fleet({"model": "a100-80gb", "mig": ["4g.40gb", "4g.40gb"]}), "nodes[0].gpus[0].mig", "4g.40gb"),
    (fleet({"model": "a100-80gb", "mig": "3g.40gb"}), "nodes[0].gpus[0].mig", "'3g.40gb'"),
    (fleet(T4, workloads=[{**W, "kind": "trainig"}]), "workloads[0].kind", "'trainig'"),
    (fleet(T4, workloads=[{**W, "gpus": [1]}]), "workloads[0].gpus", "1"),
    (fleet(T4, workloads=[{**W, "gpus": []}]), "workloads[0].gpus", "[]"),
    (fleet(T4, workloads=[{**W, "gpus": [0, 0]}]), "workloads[0].gpus", "[0, 0]"),
    (fleet(T4, workloads=[{**W, "pod": "a/b"}]), "workloads[0].pod", "'a/b'"),
    (fleet(T4, workloads=[{**W, "pod": ""}]), "workloads[0].pod", "''"),
    (fleet(T4, workloads=[{**W, "node": "n2"}]), "workloads[0].node", "'n2'"),
    (fleet(T4, workloads=[{**W, "share": {"cores": 101}}]), "workloads[0].share.cores", "101"),
    (fleet(T4, workloads=[{**W, "share": {"kernels": 1}}]), "workloads[0].share.kernels", "1"),
    (fleet(T4, workloads=[{**W, "layout": "G"}]), "workloads[0].layout", "'G'"),
    (fleet(T4, workloads=[{**W, "mig": 0}]), "workloads[0].mig", "0"),
    (fleet(MIG, workloads=[W]), "workloads[0].gpus", "[0]"),
    (fleet(MIG, workloads=[{**W, "mig": 1}]), "workloads[0].mig", "1"),
    (fleet(T4, workloads=[{**W, "ends": float("nan")}]), "workloads[0].ends", "nan"),
    (fleet(T4, workloads=[{**W, "pod": "a"}, {**W, "pod": "a"}]), "workloads[1].container", "'n1/ns/a/main'"),
    (fleet(T4, faults=[{"kind": "meltdown"}]), "faults[0].kind", "'meltdown'"),
    (fleet(T4, faults=[{"kind": "xid", "gpu": 0}]), "faults[0].code", "None"),
    (fleet(T4, faults=[{"kind": "gpu_lost"}]), "faults[0].gpu", "None"),
    (fleet(T4, faults=[{"kind": "not_supported", "gpu": 0}]), "faults[0].function", "None"),
    (fleet(T4, faults=[{"kind": "not_supported", "function": "power"}]), "faults[0].function", "'power'"),
    (fleet(T4, faults=[{"kind": "gpu_lost", "gpu": 1}]), "faults[0].gpu", "1"),
    (fleet(T4, faults=[{"kind": "init_failure", "gpu": 0}]), "faults[0].gpu", "0"),
    (fleet(T4, faults=[{"kind": "gpu_lost", "gpu": 0, "node": "n9"}]), "faults[0].node", "'n9'"),
]


@pytest.mark.parametrize(("data", "key", "value"), BAD, ids=[f"{key}={value}" for _, key, value in BAD])
def test_a_bad_spec_is_one_sentence(tmp_path: Path, data: Any, key: str, value: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump(data), "utf-8")
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    sentence = str(caught.value)
    assert sentence.startswith(f"{path}: ")
    assert key in sentence
    assert value in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


@pytest.mark.parametrize("text", ["nodes: [", "a: b: c", "\t- x", "seed: !!python/object:os.system {}"])
def test_what_is_not_yaml(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(SpecError, match=r"line \d: not YAML: [^\n]+\.$"):
        load_spec(path)


def test_a_name_that_is_nothing(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"^nowhere: neither a built-in fleet \(default, .+No such file"):
        load_spec("nowhere")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="not UTF-8"):
        load_spec(tmp_path / "binary")
    with pytest.raises(SpecError, match="there is no node 'n7', only gpu-node-1"):
        load_spec().node("n7")
