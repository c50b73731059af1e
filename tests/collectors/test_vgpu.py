"""HAMi's vGPU monitor in its dialects."""

from dataclasses import replace
from typing import Any

import pytest

import gpusight
from gpusight.catalog import vgpu as catalog
from gpusight.catalog.hami import present
from gpusight.collectors.vgpu import DIALECTS, VgpuCollector, VgpuOptions, collect
from gpusight.collectors.view import NodeView
from gpusight.model.units import Bytes, Ratio
from tests.collectors.views import (
    GIB,
    MIG_A,
    MIG_C,
    OTHER_UUID,
    THEN,
    UUID,
    a_directory,
    a_gpu,
    a_holder,
    a_mig_gpu,
    a_pod,
    a_region,
    a_region_device,
    a_rich_view,
    a_view,
    allocated,
    directories,
    down,
    hardware,
    lines,
    of_family,
    owned,
)

T4 = a_gpu(memory_used=Bytes(1024), utilization=Ratio(0.50), memory_utilization=Ratio(0.20))
ZONE = ',zone="vGPU"}'


def page(view: NodeView, *dialects: str, **options: Any) -> dict[str, float]:
    found = lines(collect(view, VgpuOptions(dialects or ("seed",), **options)))
    return {series: value for series, value in found.items() if not series.startswith("hami_build_info")}


def with_region(*devices: Any, pod: str = "one", **rest: Any) -> NodeView:
    hami = [a_holder(pod, "hami_directory")]
    return a_view(vgpu=directories(a_directory(pod, a_region(*devices, **rest))), ownership=owned(directories=hami))


# Which dialects go together.


@pytest.mark.parametrize(
    "names", [("seed",), ("v2.8",), ("seed", "v2.9"), ("seed", "v2.10"), ("v2.10", "v2.10-legacy")]
)
def test_dialects_that_go_together(names: tuple[str, ...]) -> None:
    specs = {sample.spec for sample in collect(a_rich_view(), VgpuOptions(names))}
    assert len({spec.name for spec in specs}) == len(specs)


@pytest.mark.parametrize(
    ("names", "clash"),
    [
        (("seed", "v2.8"), "HostGPUMemoryUsage"),
        (("v2.10", "v2.9"), "hami_host_gpu_memory_used_bytes"),
        (("seed", "v2.10", "v2.10-legacy"), "HostGPUMemoryUsage"),
        (("v2.8", "v2.9-legacy"), "Device_memory_desc_of_container"),
    ],
)
def test_dialects_that_cannot_stand_on_one_page(names: tuple[str, ...], clash: str) -> None:
    with pytest.raises(ValueError, match=f"cannot be exposed together: both have a family {clash}, and its labels"):
        VgpuOptions(names)


def test_dialects_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match=r"no HAMi dialect is called 'v3'; there are: seed, v2\.8, v2\.9, v2\.10, "):
        VgpuOptions(("seed", "v3"))
    with pytest.raises(ValueError, match="no HAMi dialect is chosen"):
        VgpuOptions(())


def test_a_dialect_named_twice_is_one() -> None:
    assert page(a_rich_view(), "seed", "seed") == page(a_rich_view(), "seed")


def test_seed_and_newest_are_the_default() -> None:
    assert lines(collect(a_rich_view())) == lines(collect(a_rich_view(), VgpuOptions(("seed", "v2.10"))))


@pytest.mark.parametrize("name", DIALECTS)
def test_every_family_of_a_dialect_comes_out_and_no_other(name: str) -> None:
    specs = {sample.spec for sample in collect(a_rich_view(), VgpuOptions((name,)))}
    assert specs == set(present(DIALECTS[name]))


# The host's devices.


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (
            "seed",
            {
                'HostGPUMemoryUsage{deviceidx="0",deviceuuid="GPU-a",devicetype="NVIDIA-Tesla T4"}': 1024,
                'HostCoreUtilization{deviceidx="0",deviceuuid="GPU-a",devicetype="NVIDIA-Tesla T4"}': 50,
            },
        ),
        (
            "v2.9",
            {
                'hami_host_gpu_memory_used_bytes{device_index="0",device_uuid="GPU-a",device_type="NVIDIA-Tesla T4"'
                + ZONE: 1024,
                'hami_host_gpu_utilization_ratio{device_index="0",device_uuid="GPU-a",device_type="NVIDIA-Tesla T4"'
                + ZONE: 50,
            },
        ),
        (
            "v2.10",
            {
                f'hami_host_gpu_{n}{{{node}device_index="0",device_uuid="GPU-a",device_type="NVIDIA-Tesla T4"{ZONE}': v
                for n, node, v in (
                    ("memory_used_bytes", 'node="node-1",', 1024),
                    ("utilization_ratio", 'node="node-1",', 50),
                    ("memory_controller_utilization_ratio", "", 20),
                )
            },
        ),
        (
            "v2.10-legacy",
            {
                f'{name}{{nodeid="node-1",deviceidx="0",deviceuuid="GPU-a",devicetype="NVIDIA-Tesla T4"{ZONE}': value
                for name, value in (("HostGPUMemoryUsage", 1024), ("HostCoreUtilization", 50))
            },
        ),
    ],
)
def test_host_families(dialect: str, expected: dict[str, float]) -> None:
    """The device of HAMi's own test."""
    assert page(a_view(T4), dialect) == expected


def test_memory_in_use_has_the_drivers_own_in_it() -> None:
    found = page(a_view(replace(T4, memory_reserved=Bytes(6))))
    assert list(of_family("HostGPUMemoryUsage", found).values()) == [1030]


def test_a_reading_that_is_not_there_is_no_series() -> None:
    mig = page(a_view(a_mig_gpu()), "v2.10")
    assert [series.split("{")[0] for series in mig] == ["hami_host_gpu_memory_used_bytes"]
    unified = page(a_view(a_gpu(is_unified_memory=True, utilization=Ratio(0.5))))
    assert [series.split("{")[0] for series in unified] == ["HostCoreUtilization"]


def test_a_device_that_is_down_is_left_out() -> None:
    view = a_view(hardware=hardware(T4, replace(T4, uuid=OTHER_UUID, index=1), down=(down(UUID, 0),)))
    assert all(OTHER_UUID in series for series in page(view))
    assert len(page(view)) == 2


# Containers.

OLD = 'podnamespace="team",podname="one",ctrname="main",vdeviceid="0",deviceuuid="GPU-a"'
NEW = 'namespace="team",pod="one",container="main",vdevice_index="0",device_uuid="GPU-a"'

SEED_TABLE = {
    f"vGPU_device_memory_usage_in_bytes{{{OLD}}}": 8000,
    f"vGPU_device_memory_limit_in_bytes{{{OLD}}}": 10000,
    f"Device_memory_desc_of_container{{{OLD}}}": 8000,
    f"Device_utilization_desc_of_container{{{OLD}}}": 42,
    f"vGPU_device_memory_context_size_bytes{{{OLD}}}": 1000,
    f"vGPU_device_memory_module_size_bytes{{{OLD}}}": 500,
    f"vGPU_device_memory_buffer_size_bytes{{{OLD}}}": 300,
    f"Device_last_kernel_of_container{{{OLD}}}": 60,
}
V2_10_TABLE = {
    f"hami_vgpu_memory_used_bytes{{{NEW}{ZONE}": 8000,
    f"hami_vgpu_memory_limit_bytes{{{NEW}{ZONE}": 10000,
    f"hami_container_device_memory_bytes{{{NEW}{ZONE}": 8000,
    f"hami_container_device_utilization_ratio{{{NEW}{ZONE}": 42,
    f"hami_vgpu_memory_context_bytes{{{NEW}{ZONE}": 1000,
    f"hami_vgpu_memory_module_bytes{{{NEW}{ZONE}": 500,
    f"hami_vgpu_memory_buffer_bytes{{{NEW}{ZONE}": 300,
    f"hami_container_last_kernel_elapsed_seconds{{{NEW}{ZONE}": 60,
}


def test_the_seeds_table_really_comes_out() -> None:
    """The numbers of HAMi's own test; HAMi of the seed's time stopped after two families."""
    assert page(with_region(), "seed") == SEED_TABLE
    assert page(with_region(), "v2.10") == V2_10_TABLE
    assert page(with_region(), "seed", "v2.10") == SEED_TABLE | V2_10_TABLE


def test_without_a_kernel_there_is_no_last_one() -> None:
    found = page(with_region(last_kernel_at=None))
    assert len(found) == 7
    assert of_family("Device_last_kernel_of_container", found) == {}


def test_a_kernel_of_the_future_was_just_now() -> None:
    found = page(with_region(last_kernel_at=THEN + 999))
    assert list(of_family("Device_last_kernel_of_container", found).values()) == [0]


@pytest.mark.parametrize(
    ("reading", "gone"),
    [
        ("used", {"vGPU_device_memory_usage_in_bytes", "Device_memory_desc_of_container"}),
        ("sm_percent", {"Device_utilization_desc_of_container"}),
        ("context", {"vGPU_device_memory_context_size_bytes"}),
        ("module", {"vGPU_device_memory_module_size_bytes"}),
        ("buffer", {"vGPU_device_memory_buffer_size_bytes"}),
    ],
)
def test_what_a_region_does_not_say_is_absent(reading: str, gone: set[str]) -> None:
    found = page(with_region(replace(a_region_device(), **{reading: None})))  # type: ignore[arg-type]
    assert {series.split("{")[0] for series in SEED_TABLE} - {series.split("{")[0] for series in found} == gone


def test_no_limit_is_zero_as_in_hami() -> None:
    found = page(with_region(a_region_device(limit=Bytes(0))))
    assert list(of_family("vGPU_device_memory_limit_in_bytes", found).values()) == [0]


def test_every_device_of_a_container_comes_out() -> None:
    found = page(with_region(a_region_device(), a_region_device(OTHER_UUID, 1)))
    assert len(found) == 16
    assert len(of_family("vGPU_device_memory_usage_in_bytes", found)) == 2


def test_parts_of_memory_as_labels_only_on_demand() -> None:
    parts = ',context="1000",module="500",data="300",offset="6200"}'
    found = of_family("Device_memory_desc_of_container", page(with_region(), value_labels=True))
    assert found == {f"{{{OLD}{parts}": 8000}
    new = of_family("hami_container_device_memory_bytes", page(with_region(), "v2.9", value_labels=True))
    sizes = ',context_size="1000",module_size="500",buffer_size="300",offset="6200"'
    assert new == {f"{{{NEW}{sizes}{ZONE}": 8000}
    unknown = of_family(
        "Device_memory_desc_of_container", page(with_region(a_region_device(module=None)), value_labels=True)
    )
    assert unknown == {f'{{{OLD},context="1000",data="300"}}': 8000}


def test_containers_without_a_known_pod_are_left_out() -> None:
    entry = directories(a_directory("one", a_region()))
    assert page(a_view(vgpu=entry)) == {}
    assert page(a_view(vgpu=entry, ownership=owned(directories=[replace_name(a_holder("one"))]))) == {}


def replace_name(holder: Any) -> Any:
    """The same directory, with a pod whose name is not known."""
    pod = holder.container.pod._replace(name="")
    return replace(holder, container=holder.container._replace(pod=pod))


def test_containers_are_shown_while_nvml_is_down() -> None:
    view = replace(with_region(), hardware=hardware(is_up=False, reason="no_driver"))
    assert page(view) == SEED_TABLE


def test_two_directories_of_one_name_are_one_series() -> None:
    again = replace(a_directory("one", a_region()), pod_uid="uid-again")
    owner = owned(directories=[a_holder("one", "hami_directory")])
    owner.of_directory["uid-again", "main"] = a_holder("one", "hami_directory")
    view = a_view(vgpu=directories(a_directory("one", a_region()), again), ownership=owner)
    assert page(view) == SEED_TABLE


# Before the first CUDA call.


def before_first_call(**rest: Any) -> NodeView:
    given = {
        "vgpu": directories(a_directory("one", None)),
        "ownership": owned(directories=[a_holder("one", "hami_directory")]),
        "pods": (a_pod("one"),),
        "allocations": {"uid-one": allocated(((UUID, 4 * GIB), (OTHER_UUID, 2 * GIB)))},
    }
    return a_view(**{**given, **rest})


def test_an_allocated_container_is_shown_with_zero_and_its_limit() -> None:
    second = OLD.replace('vdeviceid="0"', 'vdeviceid="1"').replace(UUID, OTHER_UUID)
    assert page(before_first_call()) == {
        f"vGPU_device_memory_usage_in_bytes{{{OLD}}}": 0,
        f"vGPU_device_memory_limit_in_bytes{{{OLD}}}": 4 * GIB,
        f"vGPU_device_memory_usage_in_bytes{{{second}}}": 0,
        f"vGPU_device_memory_limit_in_bytes{{{second}}}": 2 * GIB,
    }


@pytest.mark.parametrize(
    "rest",
    [
        {"allocations": {}},
        {"pods": ()},
        {"ownership": owned()},
        {"vgpu": None},
        {"vgpu": directories()},
        {"vgpu": directories(a_directory("one", None, problem="bad_magic"))},
    ],
    ids=["no annotation", "no pod", "no name", "not read", "not prepared by HAMi, as with MIG", "unreadable"],
)
def test_zero_is_not_invented(rest: dict[str, Any]) -> None:
    assert page(before_first_call(**rest)) == {}


def test_hamis_own_way_is_to_be_silent_until_then() -> None:
    assert page(before_first_call(), untouched=False) == {}


def test_a_region_speaks_for_itself() -> None:
    view = before_first_call(vgpu=directories(a_directory("one", a_region())))
    assert page(view) == SEED_TABLE


# MIG.


def test_mig_info_numbers_the_devices_of_each_container() -> None:
    """Another container's device between two of one's own does not count."""
    owner = owned({MIG_A: [a_holder("one")], "MIG-b": [a_holder("two")], MIG_C: [a_holder("one")]})
    found = of_family("MigInfo", page(a_view(a_mig_gpu(), ownership=owner)))
    assert found == {
        f'{{podnamespace="team",podname="{pod}",ctrname="main",vdeviceid="{n}",deviceuuid="GPU-a",instanceid="{i}"}}': 1
        for pod, n, i in (("one", 0, 1), ("one", 1, 2), ("two", 0, 2))
    }


def test_mig_info_of_v2_10_has_the_whole_identity() -> None:
    view = a_view(a_mig_gpu(), ownership=owned({MIG_C: [a_holder("one")]}))
    ids = 'mig_uuid="MIG-c",profile="1c.2g.20gb",gpu_instance_id="2",compute_instance_id="1"'
    assert of_family("hami_mig_device_info", page(view, "v2.10")) == {f"{{{NEW},{ids}{ZONE}": 1}


# The build.


def test_the_build_is_told_once_and_honestly() -> None:
    found = of_family("hami_build_info", lines(collect(a_view(), VgpuOptions(("seed", "v2.10")))))
    ((series, value),) = found.items()
    assert value == 1
    assert f'version="{gpusight.__version__}"' in series
    assert 'go_version="",compiler="cpython",platform="linux/' in series


def test_the_collector_is_called_by_its_file() -> None:
    collector = VgpuCollector(a_rich_view, VgpuOptions(("v2.8",)))
    assert collector.name == "vgpu"
    assert {sample.spec for sample in collector.collect()} == set(catalog.DIALECTS["v2.8"])
