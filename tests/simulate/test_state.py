"""The fleet at a moment: pure, deterministic, consistent with itself."""

import itertools
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusight.model.time import ManualClock
from gpusight.simulate.fleet import place
from gpusight.simulate.spec import FleetSpec, builtin_names, load_spec
from gpusight.simulate.state import GpuState, SimulatedNode, average, state_at
from tests.simulate.conftest import fleet

DEFAULT = load_spec()
ALL = [load_spec(name) for name in builtin_names()]
specs = st.sampled_from(ALL)
times = st.floats(-86_400, 1_000_000)


def gpus(spec: FleetSpec, t: float) -> tuple[GpuState, ...]:
    return state_at(spec, spec.nodes[0].name, t).gpus


def numbers(spec: FleetSpec, t: float) -> list[Any]:
    """Everything that changes, without the things that are compared by identity."""
    return [
        (g.gpu.uuid, g.energy, g.power, g.celsius, g.memory_used, g.rates, g.pcie_rx_total, g.nvlink_total,
         [(p.pid, p.memory, p.sm) for p in g.processes])
        for g in gpus(spec, t)
    ]  # fmt: skip


def test_same_seed_same_state_in_any_order() -> None:
    moments = [random.uniform(-86_400, 86_400) for _ in range(30)]
    first = {t: numbers(load_spec("default"), t) for t in moments}
    random.shuffle(moments)
    again = load_spec("default")
    assert {t: numbers(again, t) for t in moments} == first


def test_same_state_in_another_process() -> None:
    code = "from tests.simulate.test_state import *; print(repr(numbers(DEFAULT, 4321.05)))"
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == repr(numbers(DEFAULT, 4321.05))


def test_another_seed_is_another_fleet() -> None:
    one, two = (
        load_spec(fleet({"model": "t4"}, workloads=[{"kind": "inference", "gpus": [0]}], seed=s)) for s in (1, 2)
    )
    assert gpus(one, 50)[0].gpu.uuid != gpus(two, 50)[0].gpu.uuid
    assert [gpus(one, t)[0].energy for t in range(50)] != [gpus(two, t)[0].energy for t in range(50)]


def test_energy_does_not_depend_on_who_asks() -> None:
    lazy = SimulatedNode("default", None, ManualClock(1000.0), started_at=1000.0)
    clock = ManualClock(1000.0)
    eager = SimulatedNode("default", None, clock, started_at=1000.0)
    for _ in range(200):
        clock.advance(0.5)
        eager.gpu(3)
    late = SimulatedNode("default", None, clock, started_at=1000.0)
    assert late.gpu(3).energy == eager.gpu(3).energy > lazy.gpu(3).energy


@given(specs, times, st.floats(0.05, 5000))
@settings(max_examples=60)
def test_counters_never_go_back(spec: FleetSpec, t: float, wait: float) -> None:
    for before, after in zip(gpus(spec, t), gpus(spec, t + wait), strict=True):
        assert after.energy > before.energy > 0
        for name in (
            "pcie_rx_total",
            "pcie_tx_total",
            "nvlink_total",
            "pcie_replays",
            "ecc_corrected",
            "remapped_rows",
        ):
            assert getattr(after, name) >= getattr(before, name) >= 0


@given(specs, times)
@settings(max_examples=60)
def test_memory_adds_up(spec: FleetSpec, t: float) -> None:
    for gpu in gpus(spec, t):
        model = gpu.gpu.model
        assert sum(p.memory for p in gpu.processes) <= gpu.memory_used <= model.memory - model.reserved
        for process in gpu.processes:
            share = process.load.workload.share
            assert process.memory > 0
            assert share is None or not share.memory_limit or process.memory <= share.memory_limit << 20
        for instance in gpu.gpu.mig or ():
            assert gpu.instance_memory(instance) <= instance.profile.memory


@given(specs, times)
@settings(max_examples=60)
def test_numbers_are_possible(spec: FleetSpec, t: float) -> None:
    for gpu in gpus(spec, t):
        model = gpu.gpu.model
        assert all(0 <= r <= 1 + 1e-9 for r in gpu.rates[:5])
        assert sum(p.sm for p in gpu.processes) <= gpu.rates.busy + 1e-9
        assert model.idle_watts <= gpu.power <= model.full_watts
        assert model.idle_celsius - 3 < gpu.celsius < model.shutdown_celsius
        assert model.idle_sm_clock <= gpu.sm_clock <= model.sm_clock


def test_energy_is_the_integral_of_power() -> None:
    for index in range(8):
        seconds = [gpus(DEFAULT, 1000.0 + i)[index] for i in range(121)]
        drawn = sum(state.power for state in seconds[1:])
        assert seconds[-1].energy - seconds[0].energy == pytest.approx(drawn)


def test_temperature_follows_slowly() -> None:
    training = load_spec(fleet({"model": "h100"}, workloads=[{"kind": "training", "gpus": [0], "starts": 0}]))
    course = [gpus(training, float(t))[0].celsius for t in range(-5, 600, 5)]
    assert course[-1] - course[0] > 25
    assert max(abs(b - a) for a, b in itertools.pairwise(course)) < 3
    assert gpus(training, 3.0)[0].power > 400, "power is there at once"


def test_crashed_process_is_gone_and_frees_its_memory() -> None:
    before, after = gpus(DEFAULT, 899.0)[0], gpus(DEFAULT, 901.0)[0]
    kinds = [[p.load.workload.kind for p in state.processes] for state in (before, after)]
    assert "crashed" in kinds[0]
    assert "crashed" not in kinds[1]
    assert after.memory_used < before.memory_used
    assert gpus(DEFAULT, 905.0)[0].energy > after.energy


def test_each_kind_shows_on_its_device() -> None:
    hami, spinner, _mig, train, train2, _starved, held, nobodys = gpus(DEFAULT, 1205.0)
    assert "untouched" not in {p.load.workload.kind for p in hami.processes}
    assert spinner.rates.busy == pytest.approx(1.0)
    assert spinner.rates.sm < 0.01
    assert spinner.power < spinner.gpu.model.idle_watts + 0.1 * spinner.gpu.model.full_watts
    assert train.rates == train2.rates, "one job on two devices keeps them in step"
    assert train.rates.nvlink > 0
    assert held.memory_used > 0.7 * held.gpu.model.memory
    assert nobodys.processes == ()
    assert nobodys.rates.busy == 0
    assert nobodys.power == nobodys.gpu.model.idle_watts


def test_pids_are_unique_on_a_node() -> None:
    for spec in ALL:
        pids = [load.pid for load in place(spec, spec.nodes[0].name).loads]
        assert len(set(pids)) == len(pids)


def test_an_instance_is_measured_by_its_own_size() -> None:
    spec = load_spec("mig")
    gpu = place(spec, "mig-node-1").gpus[0]
    assert gpu.mig
    train = average(gpu, 1000, 1600, gpu.mig[3])
    whole = average(gpu, 1000, 1600)
    assert 0.9 < train.busy <= 1
    assert whole.busy < 0.6
    assert average(gpu, 1000, 1600, gpu.mig[4]).busy == 0


def test_a_snapshot_is_kept_for_a_moment() -> None:
    clock = ManualClock(1000.0)
    node = SimulatedNode("default", None, clock)
    first = node.gpu(0)
    clock.advance(0.04)
    assert node.gpu(0) is first
    clock.advance(0.02)
    assert node.gpu(0) is not first


def test_a_thousand_devices_are_feasible() -> None:
    """125 nodes, 5,000 containers. The bound is loose: it is there to catch something quadratic."""
    kinds = ("training", "inference", "notebook", "forgotten", "starved")
    share = {"memory_limit": 8000, "cores": 20}
    data = {
        "nodes": [{"name": f"n{n}", "gpus": [{"model": "a100-80gb", "count": 8}]} for n in range(125)],
        "workloads": [
            {
                "namespace": "a",
                "pod": f"p{n}-{i}",
                "node": f"n{n}",
                "kind": kinds[i % 5],
                "gpus": [i % 8],
                "share": share,
            }
            for n in range(125)
            for i in range(40)
        ],
    }
    began = time.perf_counter()
    spec = load_spec(data)
    states = [state_at(spec, node.name, 100.0) for node in spec.nodes]
    assert sum(len(state.gpus) for state in states) == 1000
    assert time.perf_counter() - began < 20
