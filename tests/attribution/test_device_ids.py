"""Ids of device plugins: one row per spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.attribution.device_ids import DeviceId, is_gpu_resource, is_uuid, parse_device_id

UUID = "03cd1cf6-11f6-5ecc-feb0-af07406e1838"
GPU, MIG = f"GPU-{UUID}", f"MIG-{UUID}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GPU, DeviceId("nvidia", GPU)),
        (f"{GPU}::0", DeviceId("nvidia", GPU, replica="0")),
        (f"{GPU}::12", DeviceId("nvidia", GPU, replica="12")),
        (MIG, DeviceId("nvidia", MIG)),
        (f"{MIG}::3", DeviceId("nvidia", MIG, replica="3")),
        (f"MIG-{GPU}/5/0", DeviceId("nvidia", GPU, gpu_instance_id=5, compute_instance_id=0)),
        (f"MIG-{GPU}/5/0::1", DeviceId("nvidia", GPU, gpu_instance_id=5, compute_instance_id=0, replica="1")),
        (f"{GPU}-0", DeviceId("hami", GPU, replica="0")),
        (f"{GPU}-17", DeviceId("hami", GPU, replica="17")),
        (f"{MIG}-1", DeviceId("hami", MIG, replica="1")),
        (f"{GPU}__1", DeviceId("nvshare", GPU, replica="1")),
        ("nvidia0", DeviceId("gke", minor=0)),
        ("nvidia11/vgpu1", DeviceId("gke", minor=11, replica="1")),
        ("nvidia0/gi3", DeviceId("gke", minor=0, gpu_instance_id=3)),
        ("nvidia0/gi3/vgpu1", DeviceId("gke", minor=0, gpu_instance_id=3, replica="1")),
    ],
)
def test_a_spelling(text: str, expected: DeviceId) -> None:
    assert parse_device_id(text) == expected
    assert expected.is_binding == (expected.plugin != "hami")


@pytest.mark.parametrize(
    "text",
    [
        "", "GPU-", UUID, f"{GPU}:", f"{GPU}::", f"{GPU}::x", f"{GPU}-", f"{GPU}__", f" {GPU}", f"{GPU}\n",
        f"{GPU}::1234567", "GPU-0", "nvidia", "nvidia-1", "nvidia0/", "nvidia0/vgpu", "nvidia0/vgpu1/gi3", "mlx5_0",
        "0000:81:00.0", "DLA-0", f"MIG-{GPU}/5", f"{MIG}/5/0", "nvidia٣",
    ],
)  # fmt: skip
def test_another_spelling_is_not_guessed_at(text: str) -> None:
    assert parse_device_id(text) is None


@given(st.text(max_size=80))
def test_any_text_is_read(text: str) -> None:
    parse_device_id(text)


def test_uuids() -> None:
    assert is_uuid(GPU)
    assert is_uuid(MIG)
    assert not is_uuid(f"{GPU}::1")
    assert not is_uuid("nvidia0")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/gpu.shared", True),
        ("nvidia.com/mig-1g.5gb", True),
        ("nvidia.com/pgpu", True),
        ("nvshare.com/gpu", True),
        ("nvidia.com/hostdev", False),
        ("rdma/hca_shared_devices", False),
        ("gpu", False),
        ("", False),
    ],
)
def test_resources_that_are_gpus(name: str, expected: bool) -> None:
    assert is_gpu_resource(name) is expected
