"""ResourceSlices: from a device of a claim to a UUID."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from gpusight.model.time import SystemClock
from gpusight.sources.kubernetes.client import ApiClient, Limits
from gpusight.sources.kubernetes.reflector import Timing
from gpusight.sources.kubernetes.slices import PATHS, NodeSlices, Slice, decode_slice, merge
from tests.sources.test_reflector import eventually
from tests.support.fake_kube import FakeKube, Fault, Json, fake_kube

GPU = "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"
MIG = "MIG-4cf8db2d-06c0-7d70-1a51-e59b25b2c16d"


def device(name: str, uuid: str | None = GPU, *, is_beta: bool = False) -> Json:
    attributes: Json = {"type": {"string": "gpu"}, "index": {"int": 0}, "cudaComputeCapability": {"version": "8.0.0"}}
    if uuid is not None:
        attributes["uuid"] = {"string": uuid}
    return {"name": name, "basic": {"attributes": attributes}} if is_beta else {"name": name, "attributes": attributes}


def resource_slice(name: str, *devices: Json, node: str = "node-1", **spec: Any) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1, **spec.pop("pool", {})}
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": list(devices), **spec},
    }


def decode(given: object) -> Slice | None:
    return decode_slice(msgspec.Raw(json.dumps(given).encode()))


@pytest.mark.parametrize("is_beta", [False, True])
def test_devices_have_their_uuid_in_every_version(is_beta: bool) -> None:
    given = resource_slice("a", device("gpu-0", is_beta=is_beta), device("gpu-0-mig-1", MIG, is_beta=is_beta))
    assert decode(given) == Slice("node-1", 1, {"gpu-0": GPU, "gpu-0-mig-1": MIG})


def test_an_attribute_may_name_its_domain() -> None:
    given = {"name": "gpu-0", "attributes": {"gpu.nvidia.com/uuid": {"string": GPU}}}
    assert decode(resource_slice("a", given)) == Slice("node-1", 1, {"gpu-0": GPU})


def test_slices_of_other_drivers_do_not_matter() -> None:
    assert decode(resource_slice("a", device("nic-0"), driver="nic.example.com")) is None


@pytest.mark.parametrize(
    "bad",
    [
        device("gpu-1", None),
        {"attributes": {"uuid": {"string": GPU}}},
        {"name": "gpu-1", "attributes": [1]},
        {"name": "gpu-1", "attributes": {"uuid": {"string": 7}}},
        {"name": "gpu-1", "attributes": {"uuid": {"int": 7}}},
        {"name": "gpu-1"},
        17,
    ],
)
def test_a_bad_device_costs_only_itself(bad: object) -> None:
    assert decode(resource_slice("a", device("gpu-0"), bad)) == Slice("node-1", 1, {"gpu-0": GPU})  # type: ignore[arg-type]


@pytest.mark.parametrize("spec", [{"driver": 7}, {"pool": {"name": None}}, {"devices": "all"}])
def test_a_slice_that_is_none_is_refused(spec: Json) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(resource_slice("a", **spec))


def test_an_older_generation_of_a_pool_does_not_count() -> None:
    slices = [Slice("a", 2, {"gpu-0": GPU}), Slice("a", 1, {"gpu-0": MIG, "gpu-9": MIG}), Slice("b", 1, {"gpu-1": MIG})]
    for order in (slices, slices[::-1]):
        assert merge(order) == {("gpu.nvidia.com", "a", "gpu-0"): GPU, ("gpu.nvidia.com", "b", "gpu-1"): MIG}


@contextmanager
def following(kube: FakeKube) -> Iterator[NodeSlices]:
    client = ApiClient(kube.access, SystemClock(), Limits(requests=100))
    slices = NodeSlices(client, "node-1", SystemClock(), timing=Timing(backoff=(0.01, 0.05)))
    slices.start()
    try:
        yield slices
    finally:
        slices.stop()


@pytest.mark.parametrize("path", PATHS)
def test_the_version_is_the_one_that_the_server_has(path: str) -> None:
    with fake_kube() as kube:
        kube.paths = {path}
        kube.put(resource_slice("mine", device("gpu-0", is_beta=path == PATHS[-1])))
        kube.put(resource_slice("elsewhere", device("gpu-0", MIG), node="node-2"))
        kube.put(resource_slice("broken", driver=7))
        with following(kube) as slices:
            assert eventually(lambda: slices.read().is_up)
            reading = slices.read()
            assert reading.devices == {("gpu.nvidia.com", "node-1", "gpu-0"): GPU}
            assert (reading.reason, reading.undecodable) == ("", 1)
            assert reading.failures == ({"not_found": PATHS.index(path)} if path != PATHS[0] else {})
            kube.put(resource_slice("mine", device("gpu-0", MIG), pool={"generation": 2}))
            assert eventually(lambda: set(slices.read().devices.values()) == {MIG})


def test_why_there_are_none_is_said() -> None:
    with fake_kube() as kube:
        kube.paths = {PATHS[0]}
        kube.fail(*[Fault("status", code=403)] * 1000)
        with following(kube) as slices:
            assert eventually(lambda: slices.read().reason == "forbidden")
            assert slices.read().failures["forbidden"] >= 1
            kube.heal()
            assert eventually(lambda: slices.read().is_up)
