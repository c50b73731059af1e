"""The state that one window shows, and the sentence why."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from gpusight.analysis.records import State, Verdict
from gpusight.model.series import PodKey, Windows

from .building import (
    GIB,
    LOOKS,
    NOW,
    busy_gpu,
    gpu,
    idle_gpu,
    judge,
    key_of,
    owned_by,
    part_of,
    reading_of,
    results_in,
    signal,
    verdict_of,
    verdicts_in,
)

KEY = key_of()
POD = PodKey("", "team", "train")
HALF = [0.0] * (LOOKS // 2) + [1.0] * (LOOKS // 2)

REACHED: list[tuple[State, list[Windows], dict[str, Any]]] = [
    ("unallocated", idle_gpu(key_of("")), {}),
    ("warming", idle_gpu(KEY), {"started": {POD: NOW - 1799}}),
    ("idle-empty", idle_gpu(KEY, used=0.5 * GIB), {}),
    ("idle-held", idle_gpu(KEY), {}),
    ("bursty", busy_gpu(KEY, util=[0.0] * 15 + [0.9] * 5), {}),
    ("hollow-busy", busy_gpu(KEY, power=90.0, memory_copy=0.0), {}),
    ("hollow-busy", busy_gpu(KEY, engine=1.0, sm_active=0.01, tensor_active=0.0, dram_active=0.0, power=90.0), {}),
    ("hollow-busy", busy_gpu(KEY, engine=1.0, tensor_active=0.0, dram_active=0.01, power=90.0), {}),
    ("starved", busy_gpu(KEY, sm_active=0.1, pcie_receive=2e9), {}),
    ("starved", busy_gpu(KEY, sm_active=0.1, memory_copy=0.5), {}),
    ("starved", busy_gpu(KEY, util=[0.1] * 16 + [1.0] * 4), {}),
    ("memory-bound", busy_gpu(KEY, sm_active=0.3, dram_active=0.7), {}),
    ("productive", busy_gpu(KEY), {}),
    ("productive", busy_gpu(KEY, engine=0.9, sm_active=0.8, tensor_active=0.5, dram_active=0.4), {}),
    ("productive", busy_gpu(key_of("")), {}),
    ("unknown", gpu(KEY, used=GIB), {}),
    ("unknown", gpu(KEY, util=0.0, used=GIB), {}),
    ("unknown", gpu(KEY, util=0.9, used=GIB), {}),
    ("unknown", idle_gpu(KEY, used=None), {}),
    ("unknown", idle_gpu(KEY), {"warnings": ["partial response: store 3 is away"]}),
]


@pytest.mark.parametrize(
    ("state", "windows", "more"), REACHED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_state_is_reached_with_one_sentence_and_its_numbers(
    state: State, windows: list[Windows], more: dict[str, Any]
) -> None:
    verdict = verdict_of(windows, **more)
    assert verdict.state == state, verdict.reason
    assert 0 <= verdict.confidence <= 1
    assert (verdict.confidence == 0) == (state == "unknown")
    assert re.fullmatch(r"[A-Z][^\n]*[^.]\.", verdict.reason), verdict.reason
    assert not re.search(r"\b(None|nan|inf)\b|\. [A-Z]", verdict.reason)
    assert state in {"unallocated", "unknown"} or re.search(r"\d", verdict.reason)


def test_all_states_are_in_the_table() -> None:
    assert {state for state, _, _ in REACHED} == set(State.__args__)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("windows", "reason"),
    [
        (idle_gpu(KEY), "No activity for 10 min while it holds 60.0 GiB of memory (75%)."),
        (idle_gpu(KEY, used=0.5 * GIB), "No activity for 10 min, and next to no memory in use (0.5 GiB)."),
        (idle_gpu(KEY, total=None), "No activity for 10 min while it holds 60.0 GiB of memory."),
        (
            busy_gpu(KEY, power=90.0, memory_copy=0.0),
            "Looks 90% busy, but draws 90 W of 700 W, 3% above its idle power: little is computed.",
        ),
        (
            busy_gpu(KEY, util=[0.0] * 15 + [0.9] * 5),
            "Active in 25% of the last 10 min, in bursts up to 90%.",
        ),
        (busy_gpu(KEY), "Utilization 90%, power above idle 84%."),
    ],
    ids=["held", "empty", "no total", "hollow", "bursty", "productive"],
)
def test_reasons_say_what_was_seen(windows: list[Windows], reason: str) -> None:
    assert verdict_of(windows).reason == reason


def test_the_eight_pods_that_the_published_analyzer_gets_wrong() -> None:
    keys = {name: key_of(name, f"GPU-{name}") for name in ("vllm-idle", "spinner", "blank-mem", "dead-pod")}
    mig = {name: key_of(name, "GPU-mig", mig=str(number)) for number, name in enumerate(("mig-busy", "mig-idle"), 1)}
    share = {name: key_of(name, "GPU-share") for name in ("share-busy", "share-idle")}
    windows = [
        gpu(keys["vllm-idle"], util=0.0, memory_copy=0.0, used=72 * GIB, memory_free=8 * GIB, power=120.0),
        gpu(keys["spinner"], util=1.0, memory_copy=0.0, used=0.5 * GIB, memory_free=79.5 * GIB, power=90.0),
        gpu(mig["mig-busy"], util=0.0, engine=0.9, dram_active=0.4, used=8 * GIB, memory_free=2 * GIB, power=250.0),
        gpu(mig["mig-idle"], util=0.0, engine=0.0, dram_active=0.0, used=9 * GIB, memory_free=GIB, power=250.0),
        *(
            gpu(key, util=0.95, memory_copy=0.5, used=40 * GIB, memory_free=40 * GIB, power=500.0)
            for key in share.values()
        ),
        gpu(keys["blank-mem"], util=0.5, memory_copy=0.3),
        [signal("utilization", {keys["dead-pod"]: 0.0}, family="device_utilization", ended=[keys["dead-pod"]])],
    ]
    conclusion = judge(reading_of(*windows))
    states = {name: verdict.state for name, verdict in verdicts_in(conclusion).items()}
    assert states == {
        "vllm-idle": "idle-held",
        "spinner": "hollow-busy",
        "mig-busy": "productive",
        "mig-idle": "idle-held",
        "share-busy": "unknown",
        "share-idle": "unknown",
        "blank-mem": "unknown",
    }
    rows = results_in(conclusion)
    assert rows["blank-mem"].score is None
    assert rows["blank-mem"].mem_total_mb is None
    assert rows["mig-idle"].mem_used_mb == 9 * 1024
    assert rows["mig-busy"].mem_used_mb == 8 * 1024

    own = [
        gpu(share["share-busy"], own=0.95, own_used=30 * GIB, own_limit=40 * GIB),
        gpu(share["share-idle"], own=0.0, own_used=10 * GIB, own_limit=40 * GIB),
    ]
    told_apart = verdicts_in(judge(reading_of(*windows, *own)))
    assert (told_apart["share-busy"].state, told_apart["share-idle"].state) == ("productive", "idle-held")
    assert told_apart["share-idle"].evidence == "container"
    assert told_apart["share-idle"].holding.gpus == 0.5


def workload(*groups: Sequence[Windows], pods: Sequence[str] = ("train",)) -> Verdict:
    (judged,) = judge(reading_of(*groups, owners=owned_by("llm", *pods))).judged
    return judged.verdict


def test_a_workload_of_eight_gpus_is_idle_when_all_of_them_are() -> None:
    keys = [key_of(f"pod-{number % 2}", f"GPU-{number}") for number in range(8)]
    pods = ("pod-0", "pod-1")
    idle = [idle_gpu(key) for key in keys]
    assert workload(*idle, pods=pods).state == "idle-held"
    assert workload(*idle[1:], busy_gpu(keys[0]), pods=pods).state == "productive"
    assert workload(*idle[1:], busy_gpu(keys[0], util=[0.0] * 19 + [0.08]), pods=pods).state == "bursty"
    unknown = workload(*idle[1:], gpu(keys[0], used=GIB), pods=pods)
    assert unknown.state == "unknown"
    assert unknown.reason == "Nothing can be concluded: no series says whether it computes."
    two = workload(*idle[2:], *(gpu(key, used=GIB) for key in keys[:2]), pods=pods)
    assert two.reason == "Nothing can be concluded: no series says whether it computes (and 1 more of its 8 parts)."


def test_one_full_gpu_among_many_empty_ones_is_held() -> None:
    keys = [key_of(gpu=f"GPU-{number}") for number in range(64)]
    empty = [idle_gpu(key, used=0.0) for key in keys[1:]]
    assert workload(*empty, idle_gpu(keys[0], used=0.0)).state == "idle-empty"
    assert workload(*empty, idle_gpu(keys[0])).state == "idle-held"


@pytest.mark.parametrize(("share", "state"), [(0.0199, "idle-empty"), (0.02, "idle-held")])
def test_holding_begins_at_a_share_of_memory(share: float, state: State) -> None:
    assert verdict_of(idle_gpu(KEY, used=share * 80 * GIB)).state == state


@pytest.mark.parametrize(("age", "state"), [(1799, "warming"), (1800, "idle-held"), (-50, "warming")])
def test_grace_ends_with_age(age: float, state: State) -> None:
    assert verdict_of(idle_gpu(KEY), started={POD: NOW - age}).state == state


def test_the_youngest_pod_counts() -> None:
    windows = [idle_gpu(key_of(pod, f"GPU-{pod}")) for pod in ("a", "b")]
    started = {PodKey("", "team", "a"): NOW - 90_000, PodKey("", "team", "b"): NOW - 60}
    (judged,) = judge(reading_of(*windows, owners=owned_by("llm", "a", "b"), started=started)).judged
    assert judged.verdict.state == "warming"
    assert judged.verdict.reason == "Started 1 min ago; up to 30 min it may warm up."


def test_activity_is_no_warming_up() -> None:
    assert verdict_of(busy_gpu(KEY), started={POD: NOW - 60}).state == "productive"


def test_memory_bound_comes_before_hollow_and_low_power_acquits_nobody_alone() -> None:
    assert verdict_of(busy_gpu(KEY, sm_active=0.1, dram_active=0.6, power=90.0)).state == "memory-bound"
    assert (
        verdict_of(busy_gpu(KEY, sm_active=0.1, tensor_active=0.3, dram_active=0.0, power=90.0)).state == "productive"
    )
    assert verdict_of(busy_gpu(KEY, sm_active=0.1, tensor_active=0.0, power=600.0)).state == "productive"
    assert verdict_of(busy_gpu(KEY, power=90.0, memory_copy=0.4)).state == "productive"


def test_half_of_the_window_is_busy_enough() -> None:
    assert verdict_of(busy_gpu(KEY, util=HALF)).state == "productive"
    assert verdict_of(busy_gpu(KEY, util=[0.0, *HALF[:-1]])).state == "bursty"


def test_worse_evidence_gives_less_confidence() -> None:
    profiled = {"engine": 0.9, "sm_active": 0.8, "tensor_active": 0.4, "dram_active": 0.4}
    ladder = [
        verdict_of(busy_gpu(KEY, **profiled)).confidence,
        verdict_of(busy_gpu(KEY, engine=0.9)).confidence,
        verdict_of(busy_gpu(KEY)).confidence,
        verdict_of(busy_gpu(KEY, util=[0.9] * 17)).confidence,
    ]
    assert ladder == sorted(ladder, reverse=True)
    assert len(set(ladder)) == 4
    assert part_of(busy_gpu(KEY)).doubt == ""
