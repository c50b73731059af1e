"""What the tests of NVML share: simulated nodes in this process and behind a real child."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pynvml

from gpusight.model.hardware import DeviceDown, GpuReading
from gpusight.model.time import ManualClock, SystemClock
from gpusight.simulate.faults import inject
from gpusight.simulate.nvml import SimulatedNode, install
from gpusight.sources.nvml.reader import DeviceReader, Periods
from gpusight.sources.nvml.supervisor import Deadlines, NvmlSource, child_command

QUICK = Deadlines(
    read=1.0, hang=1.2, retry=0.05, first_restart=0.05, last_restart=0.2, terminate=0.2, kill=0.2, between_kills=0.1
)
"""For tests that wait for what a child does."""


def spec_of(
    *gpus: str | Mapping[str, Any],
    workloads: Sequence[Mapping[str, Any]] = (),
    faults: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """One node called `n`; a device is a model's name or a mapping."""
    devices = [{"model": gpu} if isinstance(gpu, str) else dict(gpu) for gpu in gpus]
    return {
        "nodes": [{"name": "n", "gpus": devices}],
        "workloads": [workload(**item) for item in workloads],
        "faults": [dict(fault) for fault in faults],
    }


def workload(pod: str = "p", kind: str = "training", gpus: Sequence[int] = (0,), **more: Any) -> dict[str, Any]:
    return {"namespace": "a", "pod": pod, "container": "c", "kind": kind, "node": "n", "gpus": list(gpus), **more}


class Bench:
    """A simulated node in this process, and readers for its devices."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.clock = ManualClock()
        self.node = SimulatedNode(spec, "n", self.clock)
        self.readers: dict[int, DeviceReader] = {}

    def reader(self, index: int = 0, periods: Periods | None = None) -> DeviceReader:
        return self.readers.setdefault(index, DeviceReader(index, self.clock, periods))

    def read(self, index: int = 0) -> GpuReading:
        reading = self.reader(index).read()
        assert isinstance(reading, GpuReading), reading
        return reading

    def down(self, index: int = 0) -> DeviceDown:
        down = self.reader(index).read()
        assert isinstance(down, DeviceDown), down
        return down


@contextmanager
def bench(*gpus: str | Mapping[str, Any], **more: Any) -> Iterator[Bench]:
    made = Bench(spec_of(*gpus, **more))
    uninstall = install(made.node)
    try:
        pynvml.nvmlInit()
        yield made
    finally:
        uninstall()


class Rig:
    """A simulated node behind a real child, and the file that its faults are written to."""

    def __init__(self, folder: Path, spec: Mapping[str, Any], deadlines: Deadlines = QUICK) -> None:
        self.spec = folder / "spec.yaml"
        self.spec.write_text(json.dumps(spec))
        self.control = folder / "control.json"
        self.faults()
        command = child_command(str(self.spec), "n", str(self.control))
        self.source = NvmlSource(command, SystemClock(), deadlines)

    def faults(self, *faults: Mapping[str, Any]) -> None:
        inject(self.control, faults)

    def listen(self) -> list[dict[str, Any]]:
        """Until XIDs come through; one that happens before somebody listens is told to nobody. The faults so far."""
        sent: list[dict[str, Any]] = []

        def one_came() -> bool:
            sent.append({"kind": "xid", "gpu": 0, "code": 1})
            self.faults(*sent)
            time.sleep(0.1)
            return bool(self.source.read(5).xids)

        until(one_came)
        time.sleep(0.1)
        self.source.read(5)
        return sent

    @property
    def pid(self) -> int:
        child = self.source._children.current()
        assert child is not None
        assert child.pid is not None
        return child.pid


@contextmanager
def rig(folder: Path, *gpus: str | Mapping[str, Any], deadlines: Deadlines = QUICK, **more: Any) -> Iterator[Rig]:
    made = Rig(folder, spec_of(*gpus, **more), deadlines)
    try:
        yield made
    finally:
        made.source.close()


def until(happens: Callable[[], Any], within: float = 10.0) -> Any:
    """What it gives once that is true."""
    deadline = time.monotonic() + within
    while not (value := happens()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return value


def is_running(pid: int) -> bool:
    """Zombies are not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False


def memory_of(pid: int | None = None) -> int:
    """Bytes that belong to this process alone."""
    text = Path(f"/proc/{pid or os.getpid()}/smaps_rollup").read_text()
    rows = (line.split() for line in text.splitlines() if line.startswith("Private_"))
    return sum(int(row[1]) for row in rows) * 1024
