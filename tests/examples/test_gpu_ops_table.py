"""The tables at the start."""

import threading
from random import Random

import pytest

from examples.gpu_ops import options, table
from examples.gpu_ops.failures import Reason
from examples.gpu_ops.faults import with_fault
from examples.gpu_ops.gpu import Gpu
from examples.gpu_ops.jobs import sha256
from examples.gpu_ops.program import Program
from examples.gpu_ops.table import Section, Timing
from gpusight.instrument import MetricsConfig


def test_the_guides_rows() -> None:
    rows = [[row.label for row in section.rows] for section in table.sections(full=True)]
    assert rows == [["SHA-256", "Keccak-256"], ["1K leaves", "16K leaves", "256K leaves"], ["10K", "100K", "1M"]]


def test_a_rendered_section() -> None:
    timings = [
        ("SHA-256", Timing("crypto", cpu=0.0152, gpu=0.0028)),
        ("Keccak-256", Timing("crypto", cpu=1.5, failure=Reason.TIMEOUT)),
        ("None", Timing("crypto", cpu=0.00012)),
    ]
    assert table.render(Section("Crypto", "operation", "GPU (1K batch)", []), timings).splitlines() == [
        "Crypto",
        "",
        "| operation  | CPU baseline | GPU (1K batch) | ratio |",
        "|------------|-------------:|---------------:|------:|",
        "| SHA-256    |      15.2 ms |         2.8 ms | 5.43x |",
        "| Keccak-256 |      1500 ms |        timeout |     - |",
        "| None       |      0.12 ms |           none |     - |",
    ]


def test_measuring_without_a_gpu() -> None:
    timing = table.measure(sha256([b"abc"]), None)
    assert timing.cpu > 0
    assert (timing.gpu, timing.matched) == (None, None)


def test_measuring_with_a_gpu_compares_too(gpu: Gpu) -> None:
    timing = table.measure(sha256([b"abc"]), gpu)
    assert timing.matched is True
    assert timing.gpu is not None
    assert timing.gpu > 0


def test_a_failing_gpu_is_a_cell_of_the_table(gpu: Gpu) -> None:
    timing = table.measure(with_fault(sha256([b"abc"]), Reason.SHADER_COMPILE), gpu)
    assert (timing.gpu, timing.failure) == (None, Reason.SHADER_COMPILE)


def test_measuring_stops_when_told() -> None:
    stop = threading.Event()
    stop.set()
    assert list(table.measured(table.sections(full=True)[0], None, Random(1), stop)) == []


@pytest.mark.parametrize("kind", ["CPU", "DiscreteGPU"])
def test_a_cpu_in_place_of_a_gpu_is_called_one(gpu: Gpu, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    adapter = gpu.adapter.__class__(name="some device", kind=kind, backend="vulkan", driver="")
    monkeypatch.setattr(gpu, "adapter", adapter)
    notes = "\n".join(table.notes(gpu))
    assert "some device" in notes
    assert ("no claim about speed" in notes) == (kind == "CPU")


@pytest.mark.parametrize(("matched", "code"), [(True, 0), (None, 0), (False, 1)])
def test_a_wrong_row_is_said_and_ends_in_an_exit_code(matched: bool | None, code: int) -> None:
    said: list[str] = []
    chosen = options.parse(["--once", "--backend", "cpu"])
    program = Program(chosen, MetricsConfig(export_interval=0), said.append)
    program._record_matches([("SHA-256", Timing("crypto", cpu=1.0, gpu=1.0, matched=matched))])
    assert program.exit_code == code
    assert ("SHA-256: the GPU's result is wrong." in said) == bool(code)
