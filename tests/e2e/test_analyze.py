"""`gpusight analyze` as a real process over a real Prometheus: the eight pods that the published analyzer got wrong."""

import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.backfill import Past, backfill, series_name
from tests.support.fault_proxy import FAULTS, fault_proxy
from tests.support.net import free_port
from tests.support.pages import Page, served_page
from tests.support.prometheus import needs_prometheus, temporary_prometheus
from tests.support.role import Role, running_role

H100 = "NVIDIA H100 80GB HBM3"
A100 = "NVIDIA A100-SXM4-80GB"


def dcgm(pod: str, gpu: str, model: str, mig: str = "") -> dict[str, str]:
    labels = {
        "UUID": gpu,
        "modelName": model,
        "Hostname": "node-1",
        "namespace": "team",
        "pod": pod,
        "container": "main",
    }
    return {**labels, "GPU_I_ID": mig} if mig else labels


def device(
    util: float | None, copy: float | None, used: float | None, free: float | None, power: float | None, **more: float
) -> dict[str, float]:
    named = {
        "DCGM_FI_DEV_GPU_UTIL": util,
        "DCGM_FI_DEV_MEM_COPY_UTIL": copy,
        "DCGM_FI_DEV_FB_USED": used,
        "DCGM_FI_DEV_FB_FREE": free,
        "DCGM_FI_DEV_POWER_USAGE": power,
    }
    return {name: value for name, value in named.items() if value is not None} | more


ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
PODS: dict[str, tuple[dict[str, str], dict[str, float]]] = {
    "vllm-idle": (dcgm("vllm-idle", "GPU-1", H100), device(0, 0, 73_000, 8_000, 120)),
    "spinner": (dcgm("spinner", "GPU-2", H100), device(100, 0, 500, 80_500, 90)),
    "mig-busy": (dcgm("mig-busy", "GPU-3", A100, "1"), device(0, None, 8_000, 1_700, 210, **{ENGINE: 0.85})),
    "mig-idle": (dcgm("mig-idle", "GPU-3", A100, "2"), device(0, None, 5_000, 4_700, 210, **{ENGINE: 0.0})),
    "share-busy": (dcgm("share-busy", "GPU-4", A100), device(90, 40, 30_000, 50_000, 300)),
    "share-idle": (dcgm("share-idle", "GPU-4", A100), device(90, 40, 30_000, 50_000, 300)),
    "hami-busy": (dcgm("hami-busy", "GPU-5", A100), device(90, 40, 30_000, 50_000, 300)),
    "hami-idle": (dcgm("hami-idle", "GPU-5", A100), device(90, 40, 30_000, 50_000, 300)),
    "dead-pod": (dcgm("dead-pod", "GPU-6", A100), device(0, 0, 100, 80_000, 60)),
    "blank-mem": (dcgm("blank-mem", "GPU-7", A100), device(50, 30, None, None, None)),
    "trainer": (dcgm("trainer", "GPU-8", A100), device(98, 60, 60_000, 20_000, 380)),
}


def hami(pod: str, slot: int) -> dict[str, str]:
    return {"podnamespace": "team", "podname": pod, "ctrname": "main", "vdeviceid": str(slot), "deviceuuid": "GPU-5"}


CONTAINERS: tuple[tuple[str, dict[str, str], float], ...] = tuple(
    (name, hami(pod, slot), value)
    for slot, (pod, busy) in enumerate((("hami-busy", 88.0), ("hami-idle", 0.0)))
    for name, value in (
        ("Device_utilization_desc_of_container", busy),
        ("vGPU_device_memory_usage_in_bytes", 15e9),
        ("vGPU_device_memory_limit_in_bytes", 40e9),
    )
)


def series(without: str = "") -> Iterator[tuple[str, dict[str, str], float]]:
    for pod, (labels, values) in PODS.items():
        if pod != without:
            yield from ((name, labels, value) for name, value in values.items())
    yield from CONTAINERS


def text(without: str = "") -> str:
    return "".join(f"{series_name(name, labels)} {value}\n" for name, labels, value in series(without))


def get(role: Role, path: str) -> Any:
    with urllib.request.urlopen(f"{role.url}{path}", timeout=10) as answer:
        return json.load(answer)


def wait_for(role: Role, holds: Callable[[], bool], within: float = 30.0) -> None:
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, f"in vain; the log: {role.log.read_text()[-4000:]}"
        time.sleep(0.2)


@contextmanager
def fleet(tmp_path: Path) -> Iterator[tuple[str, Page]]:
    """A Prometheus that has known the pods for 25 minutes; `dead-pod` has just gone."""
    port = free_port()
    target = {"job": "dcgm", "instance": f"127.0.0.1:{port}"}
    now = time.time()
    backfill(tmp_path, [Past(name, labels | target, value, now - 1500, now - 1) for name, labels, value in series()])
    configs = [{"job_name": "dcgm", "honor_labels": True, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}]
    with served_page(text(), port) as page, temporary_prometheus(tmp_path, configs) as prometheus:
        dead = 'DCGM_FI_DEV_GPU_UTIL{pod="dead-pod"}'
        prometheus.wait_until(lambda server: bool(server.query("up == 1")))
        page.text = text(without="dead-pod")
        prometheus.wait_until(lambda server: not server.query(dead))
        yield prometheus.url, page


def verdicts(role: Role) -> Mapping[str, Any]:
    return {each["subject"]["name"]: each for each in get(role, "/api/v1/verdicts?limit=1000")["items"]}


@needs_prometheus
def test_the_eight_pods_get_right_verdicts(tmp_path: Path) -> None:
    with (
        fleet(tmp_path) as (url, _),
        running_role(tmp_path, "analyze", "--prom.url", url, "--data.dir", str(tmp_path / "state")) as role,
    ):
        wait_for(role, lambda: get(role, "/health")["last_analysis"] is not None)
        found = verdicts(role)

        assert {name: each["state"] for name, each in found.items()} == {
            "vllm-idle": "idle-held",
            "spinner": "hollow-busy",
            "mig-busy": "productive",
            "mig-idle": "idle-held",
            "share-busy": "unknown",
            "share-idle": "unknown",
            "hami-busy": "productive",
            "hami-idle": "idle-held",
            "blank-mem": "unknown",
            "trainer": "productive",
        }
        rows = {row["pod"]: row for row in get(role, "/results")}
        assert "dead-pod" not in rows
        assert rows["share-busy"]["score"] is None
        assert rows["blank-mem"]["status"] == "unknown"
        assert rows["blank-mem"]["mem_total_mb"] is None
        assert {row["pod"] for row in get(role, "/results/low")["gpus"]} <= {"vllm-idle", "mig-idle", "hami-idle"}


def settled(role: Role, number: int) -> Any:
    """The first round after that one."""
    wait_for(role, lambda: get(role, "/api/v1/round")["number"] > number)
    return get(role, "/api/v1/round")


@needs_prometheus
def test_no_fault_of_prometheus_makes_anybody_idle(tmp_path: Path) -> None:
    flags = ("--interval", "1s", "--prom.timeout", "1s", "--data.dir", str(tmp_path / "state"))
    with (
        fleet(tmp_path) as (url, _),
        fault_proxy(url) as proxy,
        running_role(tmp_path, "analyze", "--prom.url", proxy.url, *flags) as role,
    ):
        wait_for(role, lambda: get(role, "/health")["prometheus_connected"])
        truly_idle = {name for name, each in verdicts(role).items() if each["state"].startswith("idle")}
        assert truly_idle == {"vllm-idle", "mig-idle", "hami-idle"}

        for fault, only in [*((fault, "") for fault in (*FAULTS, "stall")), ("503", "over_time"), ("nan", "over_time")]:
            proxy.fault, proxy.only = fault, only
            last = get(role, "/api/v1/round")["number"]
            settled(role, last + 1)  # the round under way may have begun before the fault
            states = {name: each["state"] for name, each in verdicts(role).items()}
            called_idle = {name for name, state in states.items() if state.startswith("idle")}
            assert called_idle <= truly_idle, f"under {fault} {only}"
            low = {row["pod"] for row in get(role, "/results/low")["gpus"]}
            assert low <= truly_idle, f"under {fault} {only}"
        proxy.fault = ""
        proxy.released.set()
        wait_for(role, lambda: get(role, "/health")["status"] == "healthy")
        wait_for(role, lambda: verdicts(role)["trainer"]["state"] == "productive")
        assert get(role, "/api/v1/verdicts?state=idle-held")["total"] == 3
