"""HAMi's generations of names: what is common to a dialect and what is known to differ."""

import pytest

from gpusight.catalog import allocation, hami, vgpu
from gpusight.catalog.labels import ZONE
from gpusight.catalog.spec import FamilySpec

TOPICS = {"vgpu": vgpu, "allocation": allocation}
MIG_IDENTITY = "mig_uuid profile gpu_instance_id compute_instance_id"
VERSIONS = ("seed", "v2.8", "v2.9", "v2.10")


def _labels(dialect: dict[str, tuple[FamilySpec, ...]], version: str, name: str) -> list[str]:
    (spec,) = (spec for spec in dialect[version] if spec.name == name)
    return [label for label in spec.label_names if label != "zone"]


@pytest.mark.parametrize("topic", TOPICS)
def test_the_dialects_are_those_four_in_order(topic: str) -> None:
    assert tuple(TOPICS[topic].DIALECTS) == VERSIONS


def test_counts_per_dialect() -> None:
    assert [len(vgpu.DIALECTS[version]) for version in VERSIONS] == [12, 9, 12, 13]
    assert [len(allocation.DIALECTS[version]) for version in VERSIONS] == [11, 12, 12, 13]


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("version", VERSIONS)
def test_zone_is_on_every_family_of_a_released_hami_but_its_build_info(topic: str, version: str) -> None:
    for spec in TOPICS[topic].DIALECTS[version]:
        assert (ZONE in spec.labels) == (version != "seed" and spec.name != "hami_build_info"), spec.name


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("version", VERSIONS)
def test_names_are_old_before_v2_9_and_new_after(topic: str, version: str) -> None:
    for spec in TOPICS[topic].DIALECTS[version]:
        is_new = version in ("v2.9", "v2.10") or spec.name == "hami_build_info"
        assert spec.name.startswith("hami_") == is_new, spec.name
        assert bool(spec.superseded_by) != is_new, spec.name


@pytest.mark.parametrize("topic", TOPICS)
def test_every_old_name_leads_to_a_family_of_both_new_dialects(topic: str) -> None:
    dialects = TOPICS[topic].DIALECTS
    heirs = {spec.superseded_by for spec in (*dialects["seed"], *dialects["v2.8"])} - {""}
    assert heirs <= {spec.name for spec in dialects["v2.9"]} & {spec.name for spec in dialects["v2.10"]}


@pytest.mark.parametrize("topic", TOPICS)
def test_an_heir_measures_the_same_unit(topic: str) -> None:
    dialects = TOPICS[topic].DIALECTS
    units = {spec.name: spec.unit for spec in dialects["v2.9"]}
    for spec in dialects["seed"]:
        assert not spec.superseded_by or units[spec.superseded_by] == spec.unit, spec.name


@pytest.mark.parametrize("topic", TOPICS)
def test_legacy_names_stand_beside_the_new_ones_without_clash(topic: str) -> None:
    module = TOPICS[topic]
    for version, group in module.LEGACY.items():
        old = {spec.name for spec in hami.present(group)}
        assert not old & {spec.name for spec in module.DIALECTS[version]}
        assert {spec.name for spec in hami.present(group)} <= {spec.name for spec in module.DIALECTS["seed"]}


def test_core_ratios_are_in_percent_and_only_the_memory_ratio_is_a_ratio() -> None:
    for version in ("v2.9", "v2.10"):
        families = (*vgpu.DIALECTS[version], *allocation.DIALECTS[version])
        ratios = {spec.name: spec.unit for spec in families if spec.name.endswith("_ratio")}
        assert ratios.pop("hami_node_gpu_memory_allocated_ratio") == "ratio"
        assert set(ratios.values()) == {"percent"}


def test_what_v2_8_had_otherwise() -> None:
    names = {spec.name: spec for spec in vgpu.DIALECTS["v2.8"]}
    assert names["Device_memory_desc_of_container"].kind == "counter"
    assert not [name for name in names if name.endswith("_size_bytes")]
    for spec in allocation.DIALECTS["v2.8"]:
        assert ("devicetype" in spec.label_names) == (spec.name == "nodeGPUOverview"), spec.name


@pytest.mark.parametrize(
    ("name", "v2_9", "v2_10"),
    [
        (
            "hami_host_gpu_memory_used_bytes",
            "device_index device_uuid device_type",
            "node device_index device_uuid device_type",
        ),
        (
            "hami_container_device_memory_bytes",
            "namespace pod container vdevice_index device_uuid context_size module_size buffer_size offset",
            "namespace pod container vdevice_index device_uuid",
        ),
        (
            "hami_mig_device_info",
            "namespace pod container vdevice_index device_uuid instance_id",
            f"namespace pod container vdevice_index device_uuid {MIG_IDENTITY}",
        ),
    ],
)
def test_node_labels_that_changed_with_v2_10(name: str, v2_9: str, v2_10: str) -> None:
    assert _labels(vgpu.DIALECTS, "v2.9", name) == v2_9.split()
    assert _labels(vgpu.DIALECTS, "v2.10", name) == v2_10.split()


@pytest.mark.parametrize(
    ("name", "v2_9", "v2_10"),
    [
        (
            "hami_node_gpu_overview",
            "node device_uuid device_index device_cores shared_containers device_memory_limit device_type",
            "node device_uuid device_index device_cores device_memory_limit device_type",
        ),
        (
            "hami_node_gpu_memory_allocated_ratio",
            "node device_uuid device_index",
            "node device_uuid device_index device_type",
        ),
        (
            "hami_node_gpu_mig_instance_info",
            "node device_uuid device_index mig_name",
            f"node device_uuid device_index {MIG_IDENTITY} placement_start placement_size",
        ),
    ],
)
def test_cluster_labels_that_changed_with_v2_10(name: str, v2_9: str, v2_10: str) -> None:
    assert _labels(allocation.DIALECTS, "v2.9", name) == v2_9.split()
    assert _labels(allocation.DIALECTS, "v2.10", name) == v2_10.split()
