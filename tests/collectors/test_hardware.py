"""The GPUs in base units, and containers' and processes' parts of them."""

from dataclasses import replace
from typing import Any

import pytest

from gpusight.catalog import hardware as catalog
from gpusight.catalog.spec import FamilySpec
from gpusight.collectors.hardware import HardwareCollector, HardwareOptions, collect
from gpusight.collectors.view import NodeView, Spent, Totals, XidTotal
from gpusight.model.identity import HostPid
from gpusight.model.units import Bytes, Ratio
from tests.collectors.views import (
    GIB,
    LINKS,
    MIG_A,
    MIG_B,
    MIG_C,
    NOW,
    OTHER_UUID,
    THEN,
    UUID,
    a_directory,
    a_full_gpu,
    a_gpu,
    a_holder,
    a_mig_gpu,
    a_name,
    a_pod,
    a_process,
    a_region,
    a_region_device,
    a_rich_view,
    a_share,
    a_view,
    allocated,
    directories,
    down,
    hardware,
    lines,
    of_family,
    owned,
)

EVERYTHING = HardwareOptions(processes=True)
DEVICE = '{uuid="GPU-a",gpu="0"}'


def page(view: NodeView, options: HardwareOptions = EVERYTHING) -> dict[str, float]:
    return lines(collect(view, options))


def series(spec: FamilySpec, view: NodeView) -> dict[str, float]:
    return of_family(spec.name, page(view))


# Devices.

VALUES: dict[FamilySpec, float] = {
    catalog.LAST_READING: THEN,
    catalog.UNIFIED_MEMORY: 0,
    catalog.MEMORY_TOTAL: 80 * GIB,
    catalog.MEMORY_USED: 20 * GIB,
    catalog.MEMORY_FREE: 59 * GIB,
    catalog.MEMORY_RESERVED: 1 * GIB,
    catalog.BAR1_TOTAL: 128 * GIB,
    catalog.BAR1_USED: 4 * (1 << 20),
    catalog.UTILIZATION: 0.57,
    catalog.MEMORY_UTILIZATION: 0.29,
    catalog.ENCODER_UTILIZATION: 0,
    catalog.DECODER_UTILIZATION: 0.14,
    catalog.POWER: 312.5,
    catalog.POWER_LIMIT: 700,
    catalog.ENERGY: 123456.789,
    catalog.SM_CLOCK: 1.98e9,
    catalog.MAX_SM_CLOCK: 1.98e9,
    catalog.MEMORY_CLOCK: 2.619e9,
    catalog.GRAPHICS_CLOCK: 1.98e9,
    catalog.VIDEO_CLOCK: 1.545e9,
    catalog.TEMPERATURE: 61,
    catalog.MEMORY_TEMPERATURE: 70,
    catalog.SLOWDOWN_TEMPERATURE: 95,
    catalog.PERFORMANCE_STATE: 0,
    catalog.PERSISTENCE_MODE: 1,
    catalog.ROW_REMAP_PENDING: 0,
    catalog.ROW_REMAP_FAILED: 1,
    catalog.RETIRED_PAGES_PENDING: 0,
    catalog.PCIE_GENERATION: 4,
    catalog.PCIE_MAX_GENERATION: 5,
    catalog.PCIE_WIDTH: 8,
    catalog.PCIE_MAX_WIDTH: 16,
    catalog.PCIE_REPLAYS: 7,
    catalog.PCIE_TRANSMIT: 1500,
    catalog.PCIE_RECEIVE: 2500,
    catalog.NVLINK_TRANSMIT: 3500,
    catalog.NVLINK_RECEIVE: 4500,
    catalog.GRAPHICS_ACTIVE: 0.9,
    catalog.SM_ACTIVE: 0.8,
    catalog.SM_OCCUPANCY: 0.4,
    catalog.TENSOR_ACTIVE: 0.3,
    catalog.DRAM_ACTIVE: 0.2,
    catalog.FP64_ACTIVE: 0.01,
    catalog.FP32_ACTIVE: 0.1,
    catalog.FP16_ACTIVE: 0.05,
    catalog.MIG_MODE: 0,
    catalog.PROCESSES: 2,
}


@pytest.mark.parametrize("spec", VALUES, ids=lambda spec: spec.name)
def test_each_reading_has_its_family(spec: FamilySpec) -> None:
    assert series(spec, a_view(a_full_gpu())) == {DEVICE: VALUES[spec]}


def test_a_device_that_tells_nothing_shows_only_that_it_is_there() -> None:
    assert page(a_view(a_gpu())) == {
        'gpusight_gpu_info{uuid="GPU-a",gpu="0",node="node-1",name="Tesla T4",driver_version="570.1",'
        'cuda_version="12.8"}': 1,
        f"gpusight_gpu_last_reading_timestamp_seconds{DEVICE}": THEN,
        f"gpusight_unified_memory{DEVICE}": 0,
    }


def test_identity_stands_on_info_alone() -> None:
    view = a_view(a_full_gpu())
    (info,) = series(catalog.GPU_INFO, view)
    assert info == (
        '{uuid="GPU-a",gpu="0",node="node-1",name="NVIDIA H100 80GB HBM3",brand="nvidia",'
        'pci_bus_id="00000000:01:00.0",serial="165",driver_version="570.1",cuda_version="12.8"}'
    )
    assert [line for line in page(view) if "H100" in line] == [f"gpusight_gpu_info{info}"]


@pytest.mark.parametrize(
    ("spec", "readings", "expected"),
    [
        (catalog.FAN_SPEED, {"fan_ratios": (0.3, 1.1)}, {'fan="0"': 0.3, 'fan="1"': 1.1}),
        (
            catalog.ECC_ERRORS,
            {},
            {
                'kind="corrected",span="volatile"': 1,
                'kind="corrected",span="aggregate"': 12,
                'kind="uncorrected",span="volatile"': 0,
                'kind="uncorrected",span="aggregate"': 2,
            },
        ),
        (catalog.REMAPPED_ROWS, {}, {'kind="correctable"': 3, 'kind="uncorrectable"': 1}),
        (catalog.NVLINK_UP, {"nvlinks": LINKS}, {'link="0"': 1, 'link="1"': 0}),
        (
            catalog.NVLINK_ERRORS,
            {"nvlinks": LINKS},
            {'link="0",kind="replay"': 1, 'link="0",kind="recovery"': 0, 'link="0",kind="crc"': 5},
        ),
    ],
    ids=lambda value: value.name if isinstance(value, FamilySpec) else "",
)
def test_readings_with_parts(spec: FamilySpec, readings: dict[str, Any], expected: dict[str, float]) -> None:
    found = series(spec, a_view(a_full_gpu(**readings)))
    assert found == {f'{{uuid="GPU-a",gpu="0",{labels}}}': value for labels, value in expected.items()}


def test_every_throttle_reason_is_told_and_unknown_ones_too() -> None:
    found = series(catalog.THROTTLE_REASON, a_view(a_full_gpu(throttle_reasons=("hw_thermal", "other"))))
    held = {series.split('reason="')[1].rstrip('"}') for series, value in found.items() if value}
    assert len(found) == 10
    assert held == {"hw_thermal", "other"}


def test_throttle_reasons_that_the_driver_does_not_tell_are_absent() -> None:
    assert series(catalog.THROTTLE_REASON, a_view(a_full_gpu(throttle_reasons=None))) == {}


def test_throttled_time_is_the_total() -> None:
    totals = Totals(throttle_seconds={(UUID, "sw_power_cap"): 12.5, (OTHER_UUID, "sw_power_cap"): 99})
    found = series(catalog.THROTTLE_SECONDS, a_view(a_full_gpu(), totals=totals))
    assert found == {'{uuid="GPU-a",gpu="0",reason="sw_power_cap"}': 12.5}


def test_unified_memory_has_no_memory_series() -> None:
    view = a_view(a_gpu(name="NVIDIA GB10", is_unified_memory=True, utilization=Ratio(0.5)))
    assert series(catalog.UNIFIED_MEMORY, view) == {DEVICE: 1}
    assert series(catalog.UTILIZATION, view) == {DEVICE: 0.5}
    assert [line for line in page(view) if "_bytes" in line] == []


# What is down.


def test_a_device_that_is_down_has_no_readings_even_if_some_were_handed_in() -> None:
    gpus = a_full_gpu(), a_full_gpu(OTHER_UUID, 1)
    for gone in (down(UUID, 0), down(None, 0)):
        found = page(a_view(hardware=hardware(*gpus, down=(gone,))))
        assert [line for line in found if UUID in line] == []
        assert [line for line in found if OTHER_UUID in line]


def test_a_device_that_took_over_the_number_of_one_that_is_down_is_read() -> None:
    found = page(a_view(hardware=hardware(a_full_gpu(), down=(down("GPU-lost", 0, "lost"),))))
    assert of_family(catalog.UTILIZATION.name, found) == {DEVICE: 0.57}


def test_xid_errors_stay_when_their_device_is_lost() -> None:
    totals = Totals(xids={(UUID, 79): XidTotal(1, THEN), (UUID, 13): XidTotal(4, THEN - 50)})
    found = page(a_view(hardware=hardware(down=(down(UUID, 0, "lost"),)), totals=totals))
    assert found == {
        'gpusight_gpu_xid_errors_total{uuid="GPU-a",xid="79"}': 1,
        'gpusight_gpu_xid_last_timestamp_seconds{uuid="GPU-a",xid="79"}': THEN,
        'gpusight_gpu_xid_errors_total{uuid="GPU-a",xid="13"}': 4,
        'gpusight_gpu_xid_last_timestamp_seconds{uuid="GPU-a",xid="13"}': THEN - 50,
    }


def test_who_held_a_lost_device_is_still_told() -> None:
    view = a_view(hardware=hardware(down=(down(UUID, 0, "lost"),)), ownership=owned({UUID: [a_holder("one")]}))
    assert page(view) == {f'gpusight_holder_info{container("one")[:-1]},how="pod_resources"}}': 1}


def test_no_series_without_nvml() -> None:
    assert page(a_view(hardware=hardware(a_full_gpu(), is_up=False, reason="no_driver"))) == {}
    assert page(a_view()) == {}


# MIG.


def test_mig_devices_are_listed_and_instances_counted_once() -> None:
    view = a_view(a_mig_gpu())
    assert series(catalog.MIG_MODE, view) == {DEVICE: 1}
    assert list(series(catalog.MIG_INFO, view)) == [
        '{uuid="GPU-a",gpu="0",mig_uuid="MIG-a",gpu_instance_id="1",compute_instance_id="0",profile="1g.10gb"}',
        '{uuid="GPU-a",gpu="0",mig_uuid="MIG-b",gpu_instance_id="2",compute_instance_id="0",profile="1c.2g.20gb"}',
        '{uuid="GPU-a",gpu="0",mig_uuid="MIG-c",gpu_instance_id="2",compute_instance_id="1",profile="1c.2g.20gb"}',
    ]
    first, second = (f'{{uuid="GPU-a",gpu="0",gpu_instance_id="{n}"}}' for n in (1, 2))
    assert series(catalog.MIG_MEMORY_TOTAL, view) == {first: 10 * GIB, second: 20 * GIB}
    assert series(catalog.MIG_MEMORY_USED, view) == {first: 2 * GIB, second: 5 * GIB}
    assert series(catalog.MIG_SM_ACTIVE, view) == {first: 0.5}
    assert series(catalog.MIG_GRAPHICS_ACTIVE, view) == {first: 0.6}
    assert series(catalog.UTILIZATION, view) == series(catalog.IDLE, view) == {}


def test_holders_of_mig_devices() -> None:
    owner = owned({MIG_A: [a_holder("one")], UUID: [a_holder("two", mig=MIG_B)], MIG_C: [a_holder("three")]})
    view = a_view(a_mig_gpu(), ownership=owner)
    assert list(series(catalog.HOLDER_INFO, view)) == [
        f'{{namespace="team",pod="{pod}",container="main",uuid="GPU-a",mig_uuid="{mig}",how="pod_resources"}}'
        for pod, mig in (("one", MIG_A), ("two", MIG_B), ("three", MIG_C))
    ]
    # Two and three share the memory of one GPU instance: nobody can say whose it is.
    assert series(catalog.CONTAINER_MEMORY_USED, view) == {container("one"): 2 * GIB}
    assert series(catalog.CONTAINER_MEMORY_LIMIT, view) == {
        container("one"): 10 * GIB,
        container("two"): 20 * GIB,
        container("three"): 20 * GIB,
    }


def test_a_mig_device_of_a_device_that_cannot_be_read_still_has_its_holder() -> None:
    view = a_view(ownership=owned({MIG_A: [a_holder("one")]}))
    assert page(view) == {
        'gpusight_holder_info{namespace="team",pod="one",container="main",mig_uuid="MIG-a",how="pod_resources"}': 1
    }


# Containers.


def container(pod: str, uuid: str = UUID) -> str:
    return f'{{namespace="team",pod="{pod}",container="main",uuid="{uuid}"}}'


def memory(view: NodeView) -> dict[str, float]:
    return series(catalog.CONTAINER_MEMORY_USED, view)


def limit(view: NodeView) -> dict[str, float]:
    return series(catalog.CONTAINER_MEMORY_LIMIT, view)


def test_two_holders_have_a_row_each_and_the_device_its_own() -> None:
    owner = owned({UUID: [a_holder("one"), a_holder("two")]}, {100: a_holder("one"), 101: a_holder("two")})
    view = a_view(a_full_gpu(), ownership=owner)
    assert memory(view) == {container("one"): 3 * GIB, container("two"): 4 * GIB}
    assert series(catalog.CONTAINER_UTILIZATION, view) == {container("one"): 0.3, container("two"): 0.2}
    assert series(catalog.MEMORY_USED, view) == {DEVICE: 20 * GIB}


def test_shares_idle_and_unattributed_make_one() -> None:
    view = a_view(a_full_gpu(), ownership=owned({}, {100: a_holder("one", "cgroup")}))
    parts = [series(spec, view) for spec in (catalog.CONTAINER_UTILIZATION, catalog.UNATTRIBUTED, catalog.IDLE)]
    assert parts[0] == {container("one"): 0.3}
    assert sum(sum(part.values()) for part in parts) == pytest.approx(1)


def test_an_allocated_container_has_zero_before_it_touches_the_device() -> None:
    """Asked for in HAMi's issues: by its directory, and without HAMi by a grant and an empty list of processes."""
    granted = owned({UUID: [a_holder("new")]})
    assert memory(a_view(a_gpu(processes=()), ownership=granted)) == {container("new"): 0}
    by_hami = a_view(
        vgpu=directories(a_directory("new", None)),
        ownership=owned(directories=[a_holder("new", "hami_directory")]),
        pods=(a_pod("new"),),
        allocations={"uid-new": allocated(((UUID, 4 * GIB),))},
    )
    assert memory(by_hami) == {container("new"): 0}
    assert limit(by_hami) == {container("new"): 4 * GIB}


def test_zero_is_not_claimed_where_a_process_without_owner_may_be_the_containers() -> None:
    granted = owned({UUID: [a_holder("one")]})
    assert memory(a_view(a_gpu(processes=(a_process(7, GIB),)), ownership=granted)) == {}
    assert memory(a_view(a_gpu(processes=None), ownership=granted)) == {}


def test_a_region_that_cannot_be_read_leaves_usage_unknown() -> None:
    view = a_view(
        vgpu=directories(a_directory("one", None, problem="bad_magic")),
        ownership=owned(directories=[a_holder("one", "hami_directory")]),
        pods=(a_pod("one"),),
        allocations={"uid-one": allocated(((UUID, 4 * GIB),))},
    )
    assert memory(view) == {}
    assert limit(view) == {container("one"): 4 * GIB}


@pytest.mark.parametrize(
    ("processes", "region", "expected"),
    [
        ((a_process(100, 5000),), {"used": 8000}, 5000),
        ((a_process(100, 5000), a_process(101, 600)), {"used": 8000}, 5600),
        ((a_process(100, 5000), a_process(100, 5000, kind="graphics")), {"used": 8000}, 5000),
        ((a_process(100, 5000, 1), a_process(100, 700, 2)), {"used": 8000}, 5700),
        ((a_process(100, None),), {"used": 8000}, 8000),
        ((a_process(100, 5000), a_process(101, None)), {"used": 8000}, 8000),
        (None, {"used": 8000}, 8000),
        (None, {"used": 8000, "monitor_used": 9000}, 9000),
        (None, {"used": 8000, "monitor_used": 0}, 8000),
        (None, {"used": None, "monitor_used": 0}, 0),
        (None, {"used": None}, None),
    ],
)
def test_the_best_witness_of_a_containers_memory(processes: Any, region: dict[str, Any], expected: int | None) -> None:
    hami = a_holder("one", "hami_directory")
    view = a_view(
        a_gpu(processes=processes),
        vgpu=directories(a_directory("one", a_region(a_region_device(**region)))),
        ownership=owned({}, {100: a_holder("one", "cgroup"), 101: a_holder("one", "cgroup")}, [hami]),
    )
    assert memory(view) == ({} if expected is None else {container("one"): expected})


@pytest.mark.parametrize(
    ("region_limit", "granted", "expected"), [(10000, 5, 10000), (0, 5, 5), (10000, None, 10000), (0, None, None)]
)
def test_the_limit_is_the_regions_else_the_schedulers(
    region_limit: int, granted: int | None, expected: int | None
) -> None:
    view = a_view(
        vgpu=directories(a_directory("one", a_region(a_region_device(limit=Bytes(region_limit))))),
        ownership=owned(directories=[a_holder("one", "hami_directory")]),
        pods=(a_pod("one"),),
        allocations={"uid-one": allocated(((UUID, granted),))} if granted else {},
    )
    assert limit(view) == ({} if expected is None else {container("one"): expected})


@pytest.mark.parametrize(
    ("pod", "containers", "has"),
    [
        (a_pod("p", ("init", "main"), init=1), (((UUID, 5),),), {"main"}),
        (a_pod("p", ("init", "main"), init=1), ((), ((UUID, 5),)), {"main"}),
        (a_pod("p", ("init", "main"), init=1), (((UUID, 5),), ((UUID, 5),)), {"init", "main"}),
        (a_pod("p", ("a", "main", "z")), (((UUID, 5),), ((UUID, 5),)), set()),
        (a_pod("p", ()), (((UUID, 5),),), set()),
        (a_pod("p", ("main",), phase="Succeeded"), (((UUID, 5),),), set()),
    ],
)
def test_an_annotation_is_matched_to_containers_by_its_length(pod: Any, containers: Any, has: set[str]) -> None:
    found = limit(a_view(pods=(pod,), allocations={"uid-p": allocated(*containers)}))
    assert {series.split('container="')[1].split('"')[0] for series in found} == has


def test_hami_is_shown_without_nvml() -> None:
    view = a_view(
        hardware=hardware(is_up=False, reason="no_driver"),
        vgpu=directories(a_directory("one", a_region())),
        ownership=owned(directories=[a_holder("one", "hami_directory")]),
    )
    assert memory(view) == {container("one"): 8000}
    assert limit(view) == {container("one"): 10000}


def test_containers_of_unknown_pods_are_not_shown() -> None:
    nameless = a_holder("", "cgroup")
    view = a_view(
        a_full_gpu(),
        vgpu=directories(a_directory("gone", a_region())),
        ownership=owned({UUID: [nameless]}, {100: nameless}),
    )
    assert [line for line in page(view, HardwareOptions()) if "pod=" in line] == []


def test_a_holder_told_by_several_is_one_with_the_most_trusted_how() -> None:
    view = a_view(
        a_full_gpu(),
        vgpu=directories(a_directory("one", a_region())),
        ownership=owned(
            {UUID: [a_holder("one"), a_holder("one")]},
            {100: a_holder("one", "cgroup")},
            [a_holder("one", "hami_directory")],
        ),
    )
    assert series(catalog.HOLDER_INFO, view) == {container("one")[:-1] + ',how="pod_resources"}': 1}


def test_a_recreated_pod_of_the_same_name_is_one_container() -> None:
    again = replace(a_holder("one"), container=a_holder("one").container._replace(pod=a_holder("x").container.pod))
    again = replace(again, container=again.container._replace(pod=again.container.pod._replace(name="one")))
    view = a_view(a_full_gpu(), ownership=owned({UUID: [a_holder("one"), again]}, {100: a_holder("one"), 101: again}))
    assert memory(view) == {container("one"): 7 * GIB}


def test_energy_of_containers_that_hold_the_device_now() -> None:
    spent = {(UUID, a_name("one")): Spent(50.0, NOW), (UUID, a_name("gone")): Spent(70.0, NOW)}
    totals = Totals(container_energy=spent, idle_energy={UUID: 5.0}, unattributed_energy={UUID: 0.0})
    view = a_view(a_full_gpu(), ownership=owned({UUID: [a_holder("one")]}), totals=totals)
    assert series(catalog.CONTAINER_ENERGY, view) == {container("one"): 50}
    assert series(catalog.IDLE_ENERGY, view) == {DEVICE: 5}
    assert series(catalog.UNATTRIBUTED_ENERGY, view) == {DEVICE: 0}


# Processes.


def test_processes_are_off_by_default() -> None:
    assert [line for line in page(a_rich_view(), HardwareOptions()) if "pid=" in line] == []


def test_processes_with_and_without_owner() -> None:
    gpu = a_gpu(processes=(a_process(100, 5), a_process(101)), process_utilization=(a_share(101, 0.25),))
    owner = replace(owned({}, {100: a_holder("one", "cgroup")}), slurm_of_process={HostPid(101): "4711"})
    view = a_view(gpu, ownership=owner)
    assert series(catalog.PROCESS_MEMORY_USED, view) == {
        '{uuid="GPU-a",pid="100",namespace="team",pod="one",container="main"}': 5
    }
    assert series(catalog.PROCESS_UTILIZATION, view) == {'{uuid="GPU-a",pid="101",slurm_job="4711"}': 0.25}


# All of it.


def test_sets_can_be_switched_off() -> None:
    for options, families in (
        (HardwareOptions(True, False, False), catalog.GPU_FAMILIES),
        (HardwareOptions(False, True, False), catalog.CONTAINER_FAMILIES),
        (HardwareOptions(False, False, True), catalog.PROCESS_FAMILIES),
    ):
        assert {sample.spec for sample in collect(a_rich_view(), options)} == set(families)


def test_the_collector_looks_anew_each_time() -> None:
    views = [a_view(), a_view(a_gpu())]
    collector = HardwareCollector(views.pop)
    assert collector.name == "hardware"
    assert [bool(list(collector.collect())) for _ in range(2)] == [True, False]
