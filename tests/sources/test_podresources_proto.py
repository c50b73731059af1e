"""The reader of the kubelet's answer, over messages encoded by hand and over rubbish."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.model.ownership import ClaimGrant, DeviceGrant
from gpusight.sources.podresources.proto import BadMessage, Grants, parse_list
from tests.support.kubelet import answer, claim, container, devices, field, pod, varint

GPU = "GPU-03cd1cf6-11f6-5ecc-feb0-af07406e1838"


def test_devices_and_claims_are_told_with_their_containers() -> None:
    data = answer(
        pod(
            "team",
            "train-0",
            container("main", devices("nvidia.com/gpu", f"{GPU}::0", f"{GPU}::1"), devices("rdma/hca", "mlx5_0")),
            container("side", claims=[claim("c1", ("gpu.nvidia.com", "node-1", "gpu-0"))]),
        ),
        pod("kube-system", "dns", container("dns")),
    )
    assert parse_list(data) == Grants(
        (
            DeviceGrant("team", "train-0", "main", "nvidia.com/gpu", f"{GPU}::0"),
            DeviceGrant("team", "train-0", "main", "nvidia.com/gpu", f"{GPU}::1"),
            DeviceGrant("team", "train-0", "main", "rdma/hca", "mlx5_0"),
        ),
        (ClaimGrant("team", "train-0", "side", "c1", "gpu.nvidia.com", "node-1", "gpu-0"),),
    )


def test_an_empty_answer_has_no_grants() -> None:
    assert parse_list(b"") == Grants()


def test_a_device_on_two_numa_nodes_counts_once() -> None:
    given = container("c", devices("r", GPU, numa=0), devices("r", GPU, numa=1))
    assert len(parse_list(answer(pod("n", "p", given))).devices) == 1


def test_fields_of_newer_versions_are_skipped() -> None:
    extras = field(99, "text") + field(98, 7) + varint(97 << 3 | 1) + b"8 bytes!" + varint(96 << 3 | 5) + b"four"
    data = answer(pod("n", "p", container("c", devices("r", "id") + extras) + extras) + extras) + extras
    assert parse_list(data).devices == (DeviceGrant("n", "p", "c", "r", "id"),)


def test_the_last_of_a_single_field_counts() -> None:
    data = answer(field(1, "old") + pod("n", "new", container("c", devices("r", "id"))))
    assert parse_list(data).devices[0].pod == "new"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x0a", "a number without an end"),
        (b"\x0a\x05abc", "a field longer than its message"),
        (b"\x0a" + b"\xff" * 11, "a number without an end"),
        (b"\x0a" + b"\xff" * 9 + b"\x01", "a field longer than its message"),
        (b"\x00\x00", "the impossible number 0"),
        (varint(1 << 32) + b"\x00", "the impossible number"),
        (b"\x0b", "the unknown kind 3"),
        (b"\x0f", "the unknown kind 7"),
        (b"\x09abc", "a field longer than its message"),
        (answer(field(1, b"\xff\xfe") + field(3, field(2, field(2, "x")))), "not UTF-8"),
        (answer(pod("n", "p" * 5000, container("c"))), "longer than 4096 bytes"),
    ],
)  # fmt: skip
def test_rubbish_is_a_bad_message(data: bytes, why: str) -> None:
    with pytest.raises(BadMessage, match=why):
        parse_list(data)


def test_the_work_is_bounded_whatever_comes() -> None:
    with pytest.raises(BadMessage, match="more fields"):
        parse_list(b"\x0a\x00" * 2_000_000)


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(BadMessage):
        parse_list(data)


@given(st.data())
def test_a_message_cut_or_changed_anywhere_is_read_or_refused(data: st.DataObject) -> None:
    whole = answer(pod("n", "p", container("c", devices("r", GPU), claims=[claim("x", ("d", "p", "v"))])))
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[at] = data.draw(st.integers(0, 255))
    for message in (whole[:at], bytes(changed)):
        with suppress(BadMessage):
            parse_list(message)
