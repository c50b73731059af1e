"""Driver and GPUs, through a real child that a simulated driver makes suffer."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpusight.doctor.findings import Result
from gpusight.simulate.faults import inject
from gpusight.sources.nvml.supervisor import child_command
from tests.doctor.subjects import outcome, results_of, subject
from tests.sources.test_nvml_helpers import spec_of


def examine(directory: Path, *faults: Mapping[str, Any], **more: Any) -> dict[str, Result]:
    spec = directory / "spec.yaml"
    spec.write_text(json.dumps(spec_of("t4", "h100", workloads=[{"pod": "p", "gpus": [0]}])))
    control = directory / "control.json"
    inject(control, faults)
    command = child_command(str(spec), "n", str(control))
    return results_of(subject(directory, nvml_command=command, **more), "nvml")


def pci(directory: Path, vendor: str = "0x10de", kind: str = "0x030200") -> Path:
    device = directory / "sys/bus/pci/devices/0000:3b:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n")
    (device / "class").write_text(f"{kind}\n")
    return directory / "sys"


def test_a_healthy_machine(tmp_path: Path) -> None:
    found = examine(tmp_path)
    assert outcome(found["nvml.driver"]) == ("ok", "nvml.simulated")
    assert found["nvml.driver"].finding.values["gpus"] == 2
    assert outcome(found["nvml.devices"]) == ("ok", "nvml.devices-ok")


def test_processes_are_looked_for_under_their_host_ids(tmp_path: Path) -> None:
    assert outcome(examine(tmp_path, procfs=tmp_path)["nvml.pids"]) == ("warn", "nvml.pids-unseen")


def test_a_lost_device(tmp_path: Path) -> None:
    found = examine(tmp_path, {"kind": "gpu_lost", "gpu": 1})
    assert outcome(found["nvml.driver"])[0] == "ok"
    assert outcome(found["nvml.devices"]) == ("fail", "nvml.devices-down")
    assert found["nvml.devices"].finding.values["devices"] == "1 (lost)"


def test_a_driver_that_never_returns(tmp_path: Path) -> None:
    found = examine(tmp_path, {"kind": "block", "function": "nvmlInitWithFlags"}, nvml_patience=1.0)
    assert outcome(found["nvml.driver"]) == ("fail", "nvml.blocked")
    assert outcome(found["nvml.devices"]) == ("skip", "nvml.down")


@pytest.mark.parametrize(
    ("vendor", "kind", "asked", "expected"),
    [
        ("0x10de", "0x030200", (), ("fail", "nvml.no_driver")),
        ("0x1002", "0x030200", (), ("skip", "nvml.no-gpu")),
        ("0x10de", "0x020700", (), ("skip", "nvml.no-gpu")),  # a network card
        ("0x1002", "0x030200", ("node",), ("fail", "nvml.no-gpu")),
    ],
)
def test_no_driver_is_a_failure_where_there_is_a_gpu(
    tmp_path: Path, vendor: str, kind: str, asked: tuple[str, ...], expected: tuple[str, str]
) -> None:
    found = examine(tmp_path, {"kind": "init_failure"}, sysfs=pci(tmp_path, vendor, kind), asked=frozenset(asked))
    assert outcome(found["nvml.driver"]) == expected


def test_a_version_mismatch_is_told_as_such(tmp_path: Path) -> None:
    assert outcome(examine(tmp_path, {"kind": "version_mismatch"})["nvml.driver"]) == ("fail", "nvml.version_mismatch")
