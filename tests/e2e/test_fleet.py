"""A whole simulated fleet in one `gpusight node`, as a real process."""

import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpusight.model.time import ScaledClock
from gpusight.simulate.faults import inject
from gpusight.simulate.fleet import place
from gpusight.simulate.spec import load_spec
from tests.instrument.reading import Samples, parse
from tests.support.role import Role, running_role

FLEET = """
cluster: east
nodes:
  - {name: n1, gpus: [{model: t4, count: 2}]}
  - {name: n2, cluster: west, gpus: [{model: a100-80gb, mig: [3g.40gb]}]}
  - {name: n3, gpus: [{model: v100s-32gb}]}
workloads:
  - {node: n1, namespace: a, pod: train-0, kind: training, gpus: [0, 1]}
  - {node: n2, namespace: b, pod: serve-6d5f7c9b84-x2x4k, kind: inference, gpus: [0], mig: 0}
  - {node: n3, namespace: a, pod: book-0, kind: forgotten, gpus: [0], share: {memory_limit: 4096}, owner: Notebook/book}
"""


OF_THE_MOMENT = re.compile("timestamp|duration|last_kernel")


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())


def wait_until_ready(role: Role, within: float = 20.0) -> None:
    deadline = time.monotonic() + within
    while True:
        try:
            get(f"{role.url}/-/ready")
            return
        except urllib.error.HTTPError as error:
            error.close()
            assert time.monotonic() < deadline, role.log.read_text()
            time.sleep(0.05)


def page(role: Role, node: str) -> Samples:
    return parse(get(f"{role.url}/node/{node}/metrics"))


def value(samples: Samples, name: str, **labels: str) -> float:
    (found,) = (v for (n, have), v in samples.items() if n == name and labels.items() <= dict(have).items())
    return found


@contextmanager
def running_fleet(directory: Path, *flags: str) -> Iterator[Role]:
    directory.mkdir(exist_ok=True)
    (directory / "fleet.yaml").write_text(FLEET)
    with running_role(directory, "node", "--simulate", str(directory / "fleet.yaml"), *flags) as role:
        wait_until_ready(role)
        yield role


def test_every_node_has_a_page_and_one_child_reads_them_all(tmp_path: Path) -> None:
    control = tmp_path / "control.json"
    inject(control, [])
    flags = ("--simulate.control", str(control), "--nvml.timeout", "10s", "--collect.max-age", "100ms")
    with running_fleet(tmp_path, *flags) as role:
        inject(control, [{"kind": "gpu_lost", "node": "n1", "gpu": 1}])
        time.sleep(0.11)  # until readings are taken anew
        spec = load_spec(tmp_path / "fleet.yaml")
        pages = {node.name: page(role, node.name) for node in spec.nodes}
        for name, samples in pages.items():
            told = {dict(labels)["uuid"] for family, labels in samples if family == "gpusight_device_up"}
            assert told == {gpu.uuid for gpu in place(spec, name).gpus}
            assert value(samples, "gpusight_simulated") == 1
            assert value(samples, "gpusight_nvml_children") == 1
        lost = place(spec, "n1").gpus[1].uuid
        assert value(pages["n1"], "gpusight_device_up", gpu="1", reason="lost") == 0
        assert value(pages["n1"], "gpusight_device_up", gpu="0") == 1
        assert value(pages["n1"], "gpusight_device_up", uuid=lost) == 0
        assert not any(dict(labels).get("UUID") == lost for _, labels in pages["n1"])
        assert value(pages["n3"], "hami_vgpu_memory_limit_bytes", pod="book-0") == 4096 * 2**20
        assert value(pages["n2"], "DCGM_FI_DEV_FB_TOTAL", GPU_I_ID="1", pod="serve-6d5f7c9b84-x2x4k") > 0
        children = Path(f"/proc/{role.process.pid}/task").glob("*/children")
        assert sum(len(each.read_text().split()) for each in children) == 1
        landing = get(f"{role.url}/")
        assert re.findall(r'href="(/[^"]*metrics)"', landing) == [
            *(f"/node/n{number}/metrics" for number in (1, 2, 3)),
            "/cluster/metrics",
        ]
        assert "simulated" in landing


def test_the_usual_page_says_where_the_others_are(tmp_path: Path) -> None:
    with running_fleet(tmp_path) as role:
        with pytest.raises(urllib.error.HTTPError) as caught:
            get(f"{role.url}/metrics")
        with caught.value as answer:
            assert answer.code == 404
            assert "/node/n1/metrics, /node/n2/metrics" in answer.read().decode()


def test_the_cluster_page_says_whose_pods_are(tmp_path: Path) -> None:
    before = time.time()
    with running_fleet(tmp_path) as role:
        samples = parse(get(f"{role.url}/cluster/metrics"))
    owners = {
        (have["cluster"], have["namespace"], have["pod"]): (have["owner_kind"], have["owner_name"])
        for family, labels in samples
        if family == "gpusight_pod_owner" and (have := dict(labels))
    }
    assert owners == {
        ("east", "a", "train-0"): ("StatefulSet", "train"),
        ("west", "b", "serve-6d5f7c9b84-x2x4k"): ("Deployment", "serve"),
        ("east", "a", "book-0"): ("Notebook", "book"),
    }
    started = value(samples, "kube_pod_start_time", cluster="west", pod="serve-6d5f7c9b84-x2x4k")
    assert before - 21_600 <= started <= time.time() - 21_600
    assert value(samples, "gpusight_simulated") == 1


def test_one_node_of_a_fleet_can_be_had_alone(tmp_path: Path) -> None:
    with running_fleet(tmp_path, "--node.name", "n3") as role:
        samples = parse(get(f"{role.url}/metrics"))
        assert {dict(labels)["Hostname"] for family, labels in samples if family == "DCGM_FI_DEV_GPU_UTIL"} == {"n3"}


def test_two_processes_with_the_same_clock_live_in_the_same_world(tmp_path: Path) -> None:
    """It nearly stands still there, so that both are read at the same moment."""
    clock = ScaledClock(1e-6, time.time() + 1_000_000, time.monotonic())
    told = []
    for name in ("one", "two"):
        with running_fleet(tmp_path / name, "--simulate.clock", str(clock), "--nvml.timeout", "10s") as role:
            pages = [page(role, "n1"), page(role, "n3"), parse(get(f"{role.url}/cluster/metrics"))]
        told.append(
            [{key: number for key, number in each.items() if not OF_THE_MOMENT.search(key[0])} for each in pages]
        )
    for one, other in zip(*told, strict=True):
        assert [k for k in one.keys() | other.keys() if one.get(k) != other.get(k)] == []
    assert value(told[0][2], "kube_pod_start_time", pod="train-0") == clock.wall - 21_600


def test_time_flies_in_the_world_and_not_for_its_clients(tmp_path: Path) -> None:
    clock = ScaledClock(1000.0, time.time(), time.monotonic())
    with running_fleet(tmp_path, "--simulate.clock", str(clock), "--nvml.timeout", "10s") as role:
        before = clock.now()
        time.sleep(1.1)  # until readings are taken anew
        samples = page(role, "n1")
        after = clock.now()
    assert before <= value(samples, "gpusight_gpu_last_reading_timestamp_seconds", gpu="0") <= after
    assert before <= value(samples, "gpusight_collector_last_success_timestamp_seconds", collector="dcgm") <= after
    assert value(samples, "gpusight_collector_duration_seconds", collector="dcgm") < 60


def test_a_bad_clock_is_refused_in_one_sentence(tmp_path: Path) -> None:
    sentence = r"setting simulate\.clock: 'noon' is not `speed,wall,start`"
    with pytest.raises(AssertionError, match=sentence), running_fleet(tmp_path, "--simulate.clock", "noon"):
        pass
