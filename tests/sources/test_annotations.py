"""HAMi's annotations: what its versions write, and what a tenant might."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.model.identity import PodRef
from gpusight.model.ownership import DeviceAllocation, MigAllocation, PodAllocations, PodInfo
from gpusight.model.units import Bytes
from gpusight.sources.annotations import (
    DEVICES_ALLOCATED,
    MIG_ALLOCATIONS,
    BadAnnotation,
    decode_allocations,
    decode_devices,
    decode_mig,
)

MIB = 1024 * 1024
A = "GPU-903ecef4-bb8d-d7fe-65e2-e327e6258e76"
B = "GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76"


def device(uuid: str, mib: int, cores: int, slot: tuple[int, int] | None = None) -> DeviceAllocation:
    return DeviceAllocation(uuid, "NVIDIA", Bytes(mib * MIB), cores, slot)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        (";", ((),)),
        (";;", ((), ())),
        (f"{A},NVIDIA,500,5:;", ((device(A, 500, 5),),)),
        (f"{A},NVIDIA,500,3:;{B},NVIDIA,500,3:;", ((device(A, 500, 3),), (device(B, 500, 3),))),
        (f";{A},NVIDIA,1000,30:{B},NVIDIA,1000,30:;", ((), (device(A, 1000, 30), device(B, 1000, 30)))),
        (f"{A}[0-1],NVIDIA,10240,28:;", ((device(A, 10240, 28, (0, 1)),),)),
        (f"{A},NVIDIA,0,0:", ((device(A, 0, 0),),)),
        (f" {A} , NVIDIA , 1 , 2 : ; ", ((device(A, 1, 2),),)),
        (f"{A},NVIDIA,1,2,later,fields:;", ((device(A, 1, 2),),)),
        ("words without commas:more;", ((),)),
    ],
)
def test_devices(text: str, expected: object) -> None:
    assert decode_devices(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        f"{A},NVIDIA,500:;",
        f"{A},NVIDIA,-1,5:;",
        f"{A},NVIDIA,NaN,5:;",
        f"{A},NVIDIA,1e3,5:;",
        f"{A},NVIDIA,٣,5:;",
        f"{A},NVIDIA,2147483648,5:;",
        f"{A},NVIDIA,{'9' * 5000},5:;",
        ",NVIDIA,1,1:;",
        ";" * 2000,
        f"{A},NVIDIA,1,1:" * 5000,
        "x" * 300_000,
    ],
)
def test_bad_devices(text: str) -> None:
    with pytest.raises(BadAnnotation) as error:
        decode_devices(text)
    assert len(str(error.value)) < 300


def mig(**changes: object) -> dict[str, object]:
    placement = {"start": 2, "size": 2}
    base = {"containerIndex": 0, "deviceIndex": 0, "gpuUUID": A, "profile": "2g.10gb", "placement": placement}
    runtime = {"migUUID": "MIG-x", "gpuInstanceID": 4, "computeInstanceID": 0}
    return {key: value for key, value in {**base, **runtime, **changes}.items() if value != "absent"}


def test_mig() -> None:
    promised = mig(deviceIndex=1, migUUID="absent", gpuInstanceID="absent", computeInstanceID="absent")
    assert decode_mig(json.dumps([mig(), promised])) == (
        MigAllocation(0, 0, A, "2g.10gb", 2, 2, "MIG-x", 4, 0),
        MigAllocation(0, 1, A, "2g.10gb", 2, 2),
    )


@pytest.mark.parametrize("text", ["", "  ", "[]"])
def test_no_mig(text: str) -> None:
    assert decode_mig(text) == ()


@pytest.mark.parametrize(
    "entry",
    [
        mig(containerIndex=-1),
        mig(deviceIndex=1.0),
        mig(deviceIndex=True),
        mig(containerIndex="0"),
        mig(containerIndex=1 << 40),
        mig(gpuUUID=""),
        mig(gpuUUID=7),
        mig(profile="absent"),
        mig(profile="x" * 1000),
        mig(placement={"start": 0, "size": 0}),
        mig(placement={"start": 0}),
        mig(placement=[]),
        mig(placement="absent"),
        mig(migUUID="absent"),
        mig(gpuInstanceID=None),
        mig(gpuInstanceID="absent", computeInstanceID="absent"),
        [],
        7,
        None,
    ],
)
def test_bad_mig(entry: object) -> None:
    with pytest.raises(BadAnnotation):
        decode_mig(json.dumps([entry]))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        "null",
        "7",
        "[" * 100_000,
        json.dumps([mig(), mig()]),
        "[" + "0," * 2000 + "0]",
        "[NaN]",
        "x" * 300_000,
    ],
)
def test_bad_mig_lists(text: str) -> None:
    with pytest.raises(BadAnnotation):
        decode_mig(text)


@given(st.text(max_size=200) | st.text(alphabet='GPU-0a,:;[]{}"1 ', max_size=200))  # fmt: skip
def test_any_text_is_decoded_or_refused(text: str) -> None:
    for decode in (decode_devices, decode_mig):
        with suppress(BadAnnotation):
            decode(text)


def test_a_bad_annotation_costs_only_itself() -> None:
    def pod(uid: str, **annotations: str) -> PodInfo:
        keys = {"devices": DEVICES_ALLOCATED, "mig": MIG_ALLOCATIONS}
        return PodInfo(PodRef("", "n", uid, uid), annotations={keys[key]: value for key, value in annotations.items()})

    reading = decode_allocations(
        [pod("plain"), pod("good", devices=f"{A},NVIDIA,1,1:;"), pod("half", devices="a,b;", mig=json.dumps([mig()]))]
    )
    assert reading.of_pod == {
        "good": PodAllocations(((device(A, 1, 1),),)),
        "half": PodAllocations(mig=(MigAllocation(0, 0, A, "2g.10gb", 2, 2, "MIG-x", 4, 0),)),
    }
    assert list(reading.bad) == ["half"]
    assert reading.bad["half"].startswith("n/half: a device needs")
