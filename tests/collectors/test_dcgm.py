"""dcgm-exporter's names, labels and units."""

from dataclasses import replace

import pytest

from gpusight.catalog import dcgm as catalog
from gpusight.catalog.spec import FamilySpec
from gpusight.collectors.dcgm import DcgmCollector, DcgmOptions, collect
from gpusight.collectors.view import NodeView, Totals, XidTotal
from gpusight.model.hardware import RemappedRows
from gpusight.model.units import Bytes, Ratio
from tests.collectors.views import (
    MIB,
    MIG_A,
    MIG_B,
    MIG_C,
    OTHER_UUID,
    THEN,
    UUID,
    a_full_gpu,
    a_gpu,
    a_holder,
    a_mig_gpu,
    a_rich_view,
    a_view,
    down,
    hardware,
    lines,
    of_family,
    owned,
)

H100 = (
    '{gpu="0",UUID="GPU-a",pci_bus_id="00000000:01:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",'
    'Hostname="node-1"}'
)


def series(spec: FamilySpec, view: NodeView, options: DcgmOptions | None = None) -> dict[str, float]:
    return of_family(spec.name, lines(collect(view, options or DcgmOptions())))


VALUES: dict[FamilySpec, float] = {
    catalog.SM_CLOCK: 1980,
    catalog.MEM_CLOCK: 2619,
    catalog.MEMORY_TEMP: 70,
    catalog.GPU_TEMP: 61,
    catalog.POWER_USAGE: 312.5,
    catalog.ENFORCED_POWER_LIMIT: 700,
    catalog.TOTAL_ENERGY_CONSUMPTION: 123_456_789,
    catalog.PCIE_REPLAY_COUNTER: 7,
    catalog.NVLINK_BANDWIDTH_TOTAL: 2.5,
    catalog.GPU_UTIL: 57,
    catalog.MEM_COPY_UTIL: 29,
    catalog.ENC_UTIL: 0,
    catalog.DEC_UTIL: 14,
    catalog.XID_ERRORS: 0,
    catalog.FB_TOTAL: 81920,
    catalog.FB_FREE: 60416,
    catalog.FB_USED: 20480,
    catalog.FB_RESERVED: 1024,
    catalog.UNCORRECTABLE_REMAPPED_ROWS: 1,
    catalog.CORRECTABLE_REMAPPED_ROWS: 3,
    catalog.ROW_REMAP_FAILURE: 1,
    catalog.GR_ENGINE_ACTIVE: 0.9,
    catalog.SM_ACTIVE: 0.8,
    catalog.SM_OCCUPANCY: 0.4,
    catalog.PIPE_TENSOR_ACTIVE: 0.3,
    catalog.DRAM_ACTIVE: 0.2,
    catalog.PIPE_FP64_ACTIVE: 0.01,
    catalog.PIPE_FP32_ACTIVE: 0.1,
    catalog.PIPE_FP16_ACTIVE: 0.05,
    catalog.PCIE_TX_BYTES: 1500,
    catalog.PCIE_RX_BYTES: 2500,
}


@pytest.mark.parametrize("spec", catalog.FAMILIES, ids=lambda spec: spec.name)
def test_each_family_in_dcgms_unit(spec: FamilySpec) -> None:
    assert series(spec, a_view(a_full_gpu())) == {H100: VALUES[spec]}


def test_a_device_that_tells_nothing_has_no_readings() -> None:
    """No XID was seen: that is known of every device."""
    row = '{gpu="0",UUID="GPU-a",device="nvidia0",modelName="Tesla T4",Hostname="node-1"}'
    assert lines(collect(a_view(a_gpu()))) == {f"DCGM_FI_DEV_XID_ERRORS{row}": 0}


@pytest.mark.parametrize("ratio", [0.0, 0.07, 0.14, 0.28, 0.29, 0.55, 0.56, 0.57, 0.58, 1.0])
def test_whole_percents_stay_whole(ratio: float) -> None:
    (value,) = series(catalog.GPU_UTIL, a_view(a_gpu(utilization=Ratio(ratio)))).values()
    assert value == round(ratio * 100)


def test_memory_is_cut_to_whole_mebibytes() -> None:
    (value,) = series(catalog.FB_USED, a_view(a_gpu(memory_used=Bytes(5 * MIB - 1)))).values()
    assert value == 4


def test_no_remapped_rows_is_zero_and_unknown_is_absent() -> None:
    rows = RemappedRows(0, 0, is_pending=False, has_failed=False)
    for spec in (
        catalog.ROW_REMAP_FAILURE,
        catalog.CORRECTABLE_REMAPPED_ROWS,
        catalog.UNCORRECTABLE_REMAPPED_ROWS,
    ):
        assert list(series(spec, a_view(a_gpu(remapped_rows=rows))).values()) == [0]
        assert series(spec, a_view(a_gpu(remapped_rows=None))) == {}


def test_xid_is_the_last_code() -> None:
    xids = {(UUID, 13): XidTotal(5, THEN), (UUID, 31): XidTotal(1, THEN + 9), (OTHER_UUID, 79): XidTotal(1, THEN + 99)}
    assert series(catalog.XID_ERRORS, a_view(a_full_gpu(), totals=Totals(xids=xids))) == {H100: 31}


# Pods.


def labels_of_pod(pod: str) -> str:
    return f'Hostname="node-1",container="main",namespace="team",pod="{pod}"}}'


def test_the_sole_holder_is_named_on_every_row() -> None:
    page = lines(collect(a_view(a_full_gpu(), ownership=owned({UUID: [a_holder("one")]}))))
    assert len(page) == len(catalog.FAMILIES)
    assert all(line.endswith(labels_of_pod("one")) for line in page)


def test_a_shared_device_has_one_row_without_pods() -> None:
    view = a_view(a_full_gpu(), ownership=owned({UUID: [a_holder("one"), a_holder("two")]}))
    page = lines(collect(view))
    assert len(page) == len(catalog.FAMILIES)
    assert all(line.endswith('Hostname="node-1"}') for line in page)


def test_two_containers_of_one_pod_share_too() -> None:
    holders = [a_holder("one"), a_holder("one", container="side")]
    assert series(catalog.GPU_UTIL, a_view(a_full_gpu(), ownership=owned({UUID: holders}))) == {H100: 57}


def test_a_process_of_another_pod_does_not_take_the_name_away_from_the_holder() -> None:
    owner = owned({UUID: [a_holder("one")]}, {100: a_holder("monitor", "cgroup")})
    (row,) = series(catalog.GPU_UTIL, a_view(a_full_gpu(), ownership=owner))
    assert row.endswith(labels_of_pod("one"))


def test_names_of_pods_can_be_left_out() -> None:
    view = a_view(a_full_gpu(), ownership=owned({UUID: [a_holder("one")]}))
    assert series(catalog.GPU_UTIL, view, DcgmOptions(pods=False)) == {H100: 57}


# MIG: where instances have readings they have the rows, else the device has one.


def test_rows_of_mig_instances() -> None:
    owner = owned({MIG_A: [a_holder("one")], MIG_B: [a_holder("two")], MIG_C: [a_holder("three")]})
    view = a_view(a_mig_gpu(), ownership=owner)
    start = '{gpu="0",UUID="GPU-a",pci_bus_id="00000000:01:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",'
    first = f'{start}GPU_I_PROFILE="1g.10gb",GPU_I_ID="1",{labels_of_pod("one")}'
    second = f'{start}GPU_I_PROFILE="1c.2g.20gb",GPU_I_ID="2",Hostname="node-1"}}'
    assert series(catalog.FB_USED, view) == {first: 2048, second: 5120}
    assert series(catalog.FB_TOTAL, view) == {first: 10240, second: 20480}
    assert series(catalog.SM_ACTIVE, view) == {first: 0.5}
    assert series(catalog.POWER_USAGE, view) == {H100: 312.5}
    assert series(catalog.FB_RESERVED, view) == {H100: 1024}
    assert series(catalog.GPU_UTIL, view) == {}


def test_the_board_of_mig_instances_is_nobodys() -> None:
    view = a_view(replace(a_mig_gpu(), mig=()), ownership=owned({UUID: [a_holder("one")]}))
    assert series(catalog.POWER_USAGE, view) == {H100: 312.5}


def test_instances_without_readings_leave_the_row_to_the_device() -> None:
    gpu = a_mig_gpu()
    view = a_view(replace(gpu, mig=tuple(replace(mig, memory_used=None) for mig in gpu.mig)))
    assert series(catalog.FB_USED, view) == {H100: 20480}


def test_a_device_never_has_its_own_row_beside_rows_of_instances() -> None:
    for spec in catalog.FAMILIES:
        rows = [row for row in series(spec, a_rich_view()) if f'UUID="{OTHER_UUID}"' in row]
        assert len({"GPU_I_ID" in row for row in rows}) <= 1, spec.name


# What is down.


def test_a_device_that_is_down_has_no_row() -> None:
    snapshot = hardware(a_full_gpu(), a_full_gpu(OTHER_UUID, 1), down=(down(UUID, 0),))
    page = lines(collect(a_view(hardware=snapshot)))
    assert len(page) == len(catalog.FAMILIES)
    assert all(f'UUID="{OTHER_UUID}"' in line for line in page)


def test_no_row_without_nvml() -> None:
    assert lines(collect(a_view(hardware=hardware(a_full_gpu(), is_up=False)))) == {}
    assert lines(collect(a_view())) == {}


def test_the_collector_is_called_by_its_file() -> None:
    collector = DcgmCollector(a_rich_view)
    assert collector.name == "dcgm"
    assert {sample.spec for sample in collector.collect()} == set(catalog.FAMILIES)
