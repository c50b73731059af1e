"""What the tests of the sample programs share."""

import os
import tempfile
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from examples.gpu_ops.failures import GpuFailure
from examples.gpu_ops.gpu import Gpu
from gpusight.instrument import GpuMetrics, MetricsConfig

# EGL, while wgpu looks for adapters, complains about this on machines without a desktop.
os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())

Value = Callable[..., float]


def open_gpu() -> Gpu:
    try:
        return Gpu.open(timeout=30)
    except GpuFailure as failure:
        pytest.skip(f"needs wgpu and an adapter (mesa-vulkan-drivers gives one without a GPU): {failure}")


@pytest.fixture(scope="session")
def gpu() -> Iterator[Gpu]:
    """One device for all tests that leave it as it was: shaders compile slowly."""
    gpu = open_gpu()
    yield gpu
    gpu.close()


@pytest.fixture
def spare_gpu() -> Iterator[Gpu]:
    """A device to break."""
    gpu = open_gpu()
    yield gpu
    gpu.close()


@pytest.fixture
def metrics() -> GpuMetrics:
    return GpuMetrics(MetricsConfig(export_interval=0))


def sample(page: str, name: str, **labels: str) -> float:
    """The sum of the samples of this name that carry these labels; 0 if there is none.

    The parser puts `_total` after the name of every counter that lacks it.
    """
    return sum(
        float(found.value)
        for family in text_string_to_metric_families(page)
        for found in family.samples
        if found.name in (name, f"{name}_total") and labels.items() <= found.labels.items()
    )


@pytest.fixture
def value(metrics: GpuMetrics) -> Value:
    return lambda name, **labels: sample(metrics.export_prometheus(), name, **labels)


@pytest.fixture
def sample_of() -> Value:
    return sample
