"""`gpusight node` over simulated GPUs, as a real process, and a real Prometheus."""

import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from gpusight.catalog import vgpu
from gpusight.catalog.all import FAMILIES
from gpusight.simulate.faults import inject
from tests.instrument.reading import Samples, parse
from tests.support.prometheus import needs_prometheus, temporary_prometheus
from tests.support.role import Role, running_role


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())


def page(role: Role) -> Samples:
    return parse(get(f"{role.url}/metrics"))


def names(samples: Samples) -> set[str]:
    return {name for name, _ in samples}


def down(samples: Samples) -> dict[str, str]:
    """Devices that are down, with the reason."""
    found = (dict(labels) for (name, labels), value in samples.items() if name == "gpusight_device_up" and not value)
    return {labels["gpu"]: labels["reason"] for labels in found}


def wait_until(role: Role, holds: Callable[[Samples], bool], within: float = 15.0) -> Samples:
    deadline = time.monotonic() + within
    while True:
        samples = page(role)
        if holds(samples):
            return samples
        assert time.monotonic() < deadline, f"in vain; the log: {role.log.read_text()}"
        time.sleep(0.3)


def test_the_whole_table_of_the_seed_is_really_emitted(tmp_path: Path) -> None:
    with running_role(tmp_path, "node", "--simulate") as role:
        samples = wait_until(role, lambda found: "DCGM_FI_PROF_SM_ACTIVE" in names(found))  # needs two readings
        for spec in vgpu.DIALECTS["seed"]:
            keys = [dict(labels) for name, labels in samples if name == spec.name]
            assert keys, f"{spec.name} is missing"
            assert all(set(key) == set(spec.label_names) for key in keys), spec.name
        assert samples["gpusight_simulated", frozenset()] == 1
        assert "simulated" in get(f"{role.url}/")
        assert {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE", "gpusight_gpu_utilization_ratio"} <= names(samples)
        declared = {spec.name for spec in FAMILIES}
        assert names(samples) <= declared


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed (Debian package prometheus)")
def test_promtool_finds_nothing_but_names_that_others_gave(tmp_path: Path) -> None:
    waived = {spec.name for spec in FAMILIES if spec.waivers}
    with running_role(tmp_path, "node", "--simulate") as role:
        wait_until(role, lambda found: "HostCoreUtilization" in names(found))
        text = get(f"{role.url}/metrics")
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    assert {line.split()[0] for line in done.stderr.splitlines()} <= waived


QUERIES = [
    "HostCoreUtilization",
    "HostGPUMemoryUsage",
    "vGPU_device_memory_usage_in_bytes / vGPU_device_memory_limit_in_bytes * 100",
    "Device_utilization_desc_of_container",
    "Device_last_kernel_of_container >= 0",
    "(vGPU_device_memory_limit_in_bytes - vGPU_device_memory_usage_in_bytes) / vGPU_device_memory_limit_in_bytes * 100",
    "HostCoreUtilization == 100",
    'up{job="hami-vgpu-monitor"} == 1',
    'avg(DCGM_FI_DEV_GPU_UTIL{pod!=""}) by (namespace, pod)',
    "sum(gpusight_container_gpu_utilization_ratio) by (uuid)",
]


@needs_prometheus
def test_a_real_prometheus_answers_the_seed_queries(tmp_path: Path) -> None:
    with running_role(tmp_path, "node", "--simulate") as role:
        wait_until(role, lambda found: "HostCoreUtilization" in names(found))
        job = {
            "job_name": "hami-vgpu-monitor",
            "honor_labels": True,
            "scrape_interval": "1s",
            "scrape_timeout": "1s",
            "static_configs": [{"targets": [role.address]}],
        }
        with temporary_prometheus(tmp_path, [job]) as prometheus:
            prometheus.wait_until(lambda p: all(p.query(query) for query in QUERIES), within=30)
            assert prometheus.targets()["hami-vgpu-monitor"]["lastError"] == ""
            assert prometheus.query("scrape_samples_scraped")[0]["value"][1] != "0"


def test_a_gpu_that_blocks_leaves_the_others_fresh_and_recovers(tmp_path: Path) -> None:
    control = tmp_path / "faults.yaml"
    with running_role(tmp_path, "node", "--simulate", "--simulate.control", str(control)) as role:
        wait_until(role, lambda found: "HostCoreUtilization" in names(found))
        inject(control, [{"kind": "block", "gpu": 3}])
        started = time.monotonic()
        samples = wait_until(role, lambda found: down(found) == {"3": "blocked"}, within=10)
        assert time.monotonic() - started < 5
        shown = {dict(labels)["gpu"] for name, labels in samples if name == "gpusight_gpu_power_watts"}
        assert shown == {"0", "1", "2", "4", "5", "6", "7"}
        inject(control, [])
        wait_until(role, lambda found: not down(found))


def test_a_gpu_that_is_lost_and_an_xid(tmp_path: Path) -> None:
    control = tmp_path / "faults.yaml"
    with running_role(tmp_path, "node", "--simulate", "--simulate.control", str(control)) as role:
        wait_until(role, lambda found: "HostCoreUtilization" in names(found))
        inject(control, [{"kind": "xid", "gpu": 5, "code": 79}, {"kind": "gpu_lost", "gpu": 6}])
        samples = wait_until(
            role, lambda found: down(found) == {"6": "lost"} and "gpusight_gpu_xid_errors_total" in names(found)
        )
        [xid] = [dict(key[1])["xid"] for key in samples if key[0] == "gpusight_gpu_xid_errors_total"]
        assert xid == "79"


def test_without_a_driver_it_runs_and_says_so_once(tmp_path: Path) -> None:
    flags = ["--vgpu.dir", str(tmp_path / "none"), "--kubelet.socket", str(tmp_path / "none.sock")]
    with running_role(tmp_path, "node", *flags) as role:
        for _ in range(3):
            samples = page(role)
        up = {dict(labels)["reason"]: value for (name, labels), value in samples.items() if name == "gpusight_nvml_up"}
        if up == {"": 1.0}:
            pytest.skip("this machine has an NVIDIA driver")
        assert up == {"no_library": 0.0}
        assert role.log.read_text().count("no_library") == 1
        assert samples["gpusight_vgpu_directory_present", frozenset()] == 0


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--hami.dialect", "seed,v2.8"], "cannot be exposed together"),
        (["--simulate", "no-such-fleet"], "no-such-fleet"),
        (["--collect.sets", "everything"], "collect.sets"),
        (["--nvml.timeout", "never"], "nvml.timeout"),
    ],
)
def test_wrong_settings_are_one_sentence_and_exit_2(flags: list[str], sentence: str) -> None:
    command = [sys.executable, "-m", "gpusight", "node", "--web.listen-address", "127.0.0.1:0", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert len(re.findall("\n", done.stderr)) == 1
