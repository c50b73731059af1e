"""The view of a node: one reading for many, one failing source costs only itself."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from unittest.mock import Mock

import pytest

from gpusight.collectors.view import SourceHealth
from gpusight.model.hardware import GpuProcess, GpuReading, HardwareSnapshot
from gpusight.model.identity import GpuUuid, HostPid
from gpusight.model.ownership import ClaimGrant, ProcessOwner
from gpusight.model.time import ManualClock
from gpusight.model.vgpu import VgpuSnapshot
from gpusight.runtime.node_sources import KnownProcesses, cached
from gpusight.runtime.node_view import NodeWatch, Sources, Ticker
from gpusight.sources.podresources.source import KubeletReading
from gpusight.sources.processes import ProcessesReading

GPU = GpuReading(GpuUuid("GPU-a"), 0, "A100", 0.0, processes=(GpuProcess(HostPid(7), "compute"),))


class Node:
    """Sources that count how often they are asked."""

    def __init__(self) -> None:
        self.readings = 0
        self.clock = ManualClock()
        self.sources = Sources(
            self._hardware,
            lambda: VgpuSnapshot(self.clock.now(), is_present=False),
            lambda: KubeletReading(self.clock.now(), is_up=True),
            lambda: (),
            lambda pids, _: ProcessesReading({pid: ProcessOwner(pid, 1, "python") for pid in pids}),
        )

    def _hardware(self) -> HardwareSnapshot:
        self.readings += 1
        return HardwareSnapshot(self.clock.now(), is_up=True, gpus=(GPU,))

    def watch(self, **changed: object) -> NodeWatch:
        return NodeWatch(replace(self.sources, **changed), "n", "", self.clock)  # type: ignore[arg-type]


def test_one_reading_serves_all_that_ask_within_a_second() -> None:
    node = Node()
    watch = node.watch()
    views = {id(watch.look()) for _ in range(5)}
    node.clock.advance(1.1)
    watch.look()
    assert (len(views), node.readings) == (1, 2)


def fail() -> object:
    raise OSError("the disk is gone")


@pytest.mark.parametrize("source", ["hardware", "vgpu", "grants", "pods", "processes", "other_exporters"])
def test_a_source_that_fails_costs_only_itself_and_is_told_once(source: str, caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    watch = node.watch(**{source: lambda *_: fail()})
    for _ in range(3):
        view = watch.look()
        node.clock.advance(2)
    assert (view.hardware is None) == (source == "hardware")
    assert (view.vgpu is None) == (source == "vgpu")
    assert caplog.text.count("the disk is gone") == 1


def test_another_exporter_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    watch = node.watch(other_exporters=lambda: ("dcgm-exporter",))
    for _ in range(3):
        assert watch.look().other_exporters == ("dcgm-exporter",)
        node.clock.advance(2)
    assert caplog.text.count("sums over both count twice") == 1


def test_owners_are_remembered_for_a_while() -> None:
    asked: list[HostPid] = []

    class Processes:
        def read(self, pids: Sequence[HostPid], listed_at: float | None = None) -> ProcessesReading:
            asked.extend(pids)
            return ProcessesReading(
                {pid: ProcessOwner(pid, 1, "x") for pid in pids if pid != 3}, {HostPid(3): "no_cgroup"}
            )

    clock = ManualClock()
    known = KnownProcesses(Processes(), clock)  # type: ignore[arg-type]
    pids = [HostPid(1), HostPid(2), HostPid(3)]
    for _ in range(3):
        reading = known.read(pids, 0.0)
    assert set(reading.owners) == {1, 2}
    assert reading.failures == {3: "no_cgroup"}
    assert asked == [1, 2, 3, 3, 3]  # one without an owner is looked at again
    clock.advance(11)
    known.read(pids[:1], 0.0)
    assert asked[-1] == 1


def test_an_answer_is_kept_for_as_long_as_told() -> None:
    clock = ManualClock()
    answers = iter(range(10))
    read = cached(lambda: next(answers), 5.0, clock)
    assert [read(), read()] == [0, 0]
    clock.advance(5)
    assert read() == 1


def test_a_ticker_survives_what_it_calls(caplog: pytest.LogCaptureFixture) -> None:
    calls = threading.Semaphore(0)

    def work() -> None:
        calls.release()
        raise ValueError("once more")

    ticker = Ticker("test-ticker", 0.01, work)
    assert calls.acquire(timeout=5)
    assert calls.acquire(timeout=5)
    ticker.close()
    assert "test-ticker failed" in caplog.text


# --- claims, junk, health --------------------------------------------------------------------------------------------

CLAIM = ClaimGrant("team", "train", "main", "c", "gpu.nvidia.com", "n", "gpu-0")


def claimed(*claims: ClaimGrant) -> Callable[[], KubeletReading]:
    return lambda: KubeletReading(0.0, is_up=True, claims=claims)


def test_a_claimed_device_is_looked_up() -> None:
    slices = {("gpu.nvidia.com", "n", "gpu-0"): "GPU-a"}
    view = Node().watch(grants=claimed(CLAIM), claimed_devices=lambda: slices).look()
    assert [holder.how for holder in view.ownership.of_device["GPU-a"]] == ["dra"]


def test_slices_are_asked_for_only_where_a_gpu_is_claimed() -> None:
    for claims in ((), (replace(CLAIM, driver="nic.example.com"),)):
        ask = Mock(return_value={})
        Node().watch(grants=claimed(*claims), claimed_devices=ask).look()
        ask.assert_not_called()


def test_a_slice_that_comes_later_is_noticed() -> None:
    """Although nothing else has changed."""
    node, slices = Node(), dict[tuple[str, str, str], str]()
    watch = node.watch(grants=claimed(CLAIM), claimed_devices=lambda: dict(slices))
    assert watch.look().ownership.of_device == {}
    slices["gpu.nvidia.com", "n", "gpu-0"] = "GPU-a"
    node.clock.advance(2)
    assert "GPU-a" in watch.look().ownership.of_device


def test_junk_is_named_once_in_a_while_and_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    junk = ("evil\nlevel=error", "\udcff")
    watch = node.watch(vgpu=lambda: VgpuSnapshot(0.0, is_present=True, junk=junk))
    for _ in range(4):
        watch.look()
        node.clock.advance(200)
    named = [record.getMessage() for record in caplog.records if "no container" in record.getMessage()]
    assert len(named) == 2
    assert named[0].endswith("such as: evil\\nlevel=error, \\udcff")


def test_health_of_sources_is_in_the_view() -> None:
    health = SourceHealth("kubelet", False, "no_socket", None, {"no_socket": 1})
    assert Node().watch(health=lambda: [health]).look().sources == [health]
    assert Node().watch().look().sources == ()
