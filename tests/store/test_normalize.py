"""Every naming generation becomes the same quantities in base units."""

import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.catalog import dcgm, hardware, sharing, vgpu
from gpusight.catalog.spec import FamilySpec
from gpusight.model.series import Quantity
from gpusight.store import normalize
from gpusight.store.normalize import (
    BY_FAMILY,
    SOURCES,
    ScaleError,
    Source,
    ambiguity,
    declared_scales,
    plausible,
    resolve_scale,
    sources_for,
    to_base,
)

GIB = 2.0**30

GENERATIONS: list[tuple[Quantity, dict[str, float], float]] = [
    (
        "utilization",
        {
            "DCGM_FI_DEV_GPU_UTIL": 42,
            "dcgm_gpu_utilization": 42,
            "gpusight_gpu_utilization_ratio": 0.42,
            "nvidia_smi_utilization_gpu_ratio": 0.42,
            "nvshare_gpu_utilization_ratio": 0.42,
            "HostCoreUtilization": 42,
            "hami_host_gpu_utilization_ratio": 42,
            "hami_container_device_utilization_ratio": 42,
            "Device_utilization_desc_of_container": 42,
            "gpusight_container_gpu_utilization_ratio": 0.42,
            "all_smi_gpu_utilization": 42,
            "hw_gpu_utilization_ratio": 0.42,
            "npu_chip_info_utilization": 42,
            "mlu_utilization": 42,
            "dcu_utilizationrate": 42,
            "mx_gpu_usage": 42,
        },
        0.42,
    ),
    (
        "memory_used",
        {
            "DCGM_FI_DEV_FB_USED": 2048,
            "DCGM_FI_DEV_FB_USED_BYTES": 2 * GIB,
            "dcgm_fb_used": 2048,
            "HostGPUMemoryUsage": 2 * GIB,
            "hami_vgpu_memory_used_bytes": 2 * GIB,
            "npu_chip_info_hbm_used_memory": 2048,
            "dcu_usedmemory_bytes": 2 * GIB,
            "nvshare_client_allocated_bytes": 2 * GIB,
        },
        2 * GIB,
    ),
    ("power", {"DCGM_FI_DEV_POWER_USAGE": 250, "DCGM_FI_DEV_BOARD_POWER_WATTS": 250, "mx_board_power": 250_000}, 250),
    ("power_limit", {"DCGM_FI_DEV_ENFORCED_POWER_LIMIT": 400, "nvidia_smi_enforced_power_limit_watts": 400}, 400),
    ("energy", {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 5_000, "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL": 5}, 5),
    ("sm_clock", {"DCGM_FI_DEV_SM_CLOCK": 1980, "DCGM_FI_DEV_SM_CLOCK_HERTZ": 1.98e9, "dcgm_sm_clock": 1980}, 1.98e9),
    ("memory_copy", {"DCGM_FI_DEV_MEM_COPY_UTIL": 7, "DCGM_FI_DEV_MEMORY_UTIL_RATIO": 0.07}, 0.07),
    ("engine_active", {"DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.5, "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": 0.5}, 0.5),
]


@pytest.mark.parametrize(("quantity", "samples", "expected"), GENERATIONS, ids=[row[0] for row in GENERATIONS])
def test_generations_agree(quantity: Quantity, samples: dict[str, float], expected: float) -> None:
    for family, raw in samples.items():
        source = BY_FAMILY[family]
        assert source.quantity == quantity, family
        assert source.scale is not None, family
        assert to_base(source, source.scale, raw) == pytest.approx(expected), family


def test_memory_of_dcgm_is_in_mebibytes() -> None:
    used = BY_FAMILY["DCGM_FI_DEV_FB_USED"]
    assert used.scale == 2**20
    assert to_base(used, 2.0**20, 81_920) == 80 * GIB


def test_each_family_stands_once_with_a_proof() -> None:
    assert [name for name, rows in Counter(source.family for source in SOURCES).items() if rows > 1] == []
    for source in SOURCES:
        assert source.proof.endswith("."), source.family
        assert source.kind == ("counter" if source.quantity == "energy" else "gauge"), source.family


_UNITS_OF_SCALES = {
    "percent": 0.01,
    "mebibytes": 2.0**20,
    "megahertz": 1e6,
    "millijoules": 1e-3,
    "ratio": 1.0,
    "bytes": 1.0,
    "watts": 1.0,
    "joules": 1.0,
    "hertz": 1.0,
    "celsius": 1.0,
    "seconds": 1.0,
    "bytes per second": 1.0,
}


@pytest.mark.parametrize(
    "spec",
    [
        spec
        for spec in {
            each.name: each
            for each in (
                *dcgm.FAMILIES,
                *hardware.FAMILIES,
                *sharing.FAMILIES,
                *(family for families in vgpu.DIALECTS.values() for family in families),
            )
        }.values()
        if spec.name in BY_FAMILY
    ],
    ids=lambda spec: spec.name,
)
def test_scales_agree_with_the_units_of_our_own_catalog(spec: FamilySpec) -> None:
    assert BY_FAMILY[spec.name].scale == _UNITS_OF_SCALES[spec.unit]


def test_what_our_exporters_emit_of_a_quantity_is_accepted() -> None:
    emitted = {spec.name for spec in (*dcgm.FAMILIES, *hardware.GPU_FAMILIES, *hardware.CONTAINER_FAMILIES)}
    assert len(emitted & BY_FAMILY.keys()) > 40
    for name in ("gpusight_gpu_power_watts", "gpusight_mig_sm_active_ratio", "DCGM_FI_DEV_FB_RESERVED"):
        assert name in emitted
        assert name in BY_FAMILY


def test_an_ambiguous_scale_needs_a_declaration() -> None:
    ratio = BY_FAMILY["DCGM_FI_DEV_GPU_UTIL_RATIO"]
    assert resolve_scale(ratio, {}) is None
    assert "store.scale=DCGM_FI_DEV_GPU_UTIL_RATIO=UNIT" in ambiguity(ratio)
    assert resolve_scale(ratio, declared_scales(["DCGM_FI_DEV_GPU_UTIL_RATIO=percent"])) == 0.01
    assert resolve_scale(ratio, declared_scales([" DCGM_FI_DEV_GPU_UTIL_RATIO = ratio "])) == 1.0


def test_a_declaration_also_corrects_a_known_scale() -> None:
    assert resolve_scale(BY_FAMILY["mx_board_power"], declared_scales(["mx_board_power=watts"])) == 1.0


@pytest.mark.parametrize("text", ["", "nonsense", "no_such_family=percent", "DCGM_FI_DEV_GPU_UTIL=furlongs"])
def test_a_wrong_declaration_is_refused(text: str) -> None:
    with pytest.raises(ScaleError):
        declared_scales([text])


BLANKS = [
    *(float(0x7FFFFFF0 + i) for i in range(4)),
    *(float(0x7FFFFFFFFFFFFFF0 + i) for i in range(4)),
    9.223372036854775e18,
    *(140737488355328.0 + i for i in range(4)),
    math.nan,
    math.inf,
    -math.inf,
]


@pytest.mark.parametrize("blank", BLANKS)
def test_blanks_are_never_values(blank: float) -> None:
    for source in SOURCES:
        assert not plausible(source.quantity, blank)
        assert to_base(source, source.scale or 1.0, blank) is None, source.family


@given(st.sampled_from(SOURCES), st.floats())
def test_a_value_is_in_range_or_none(source: Source, raw: float) -> None:
    value = to_base(source, source.scale or 1.0, raw)
    if value is not None:
        least, most = normalize.limits(source.quantity)
        assert least <= value <= most


@pytest.mark.parametrize(
    ("family", "raw", "expected"),
    [
        ("hami_container_device_utilization_ratio", 250.0, 1.0),
        ("DCGM_FI_DEV_GPU_UTIL", 100.0, 1.0),
        ("DCGM_FI_DEV_GPU_UTIL", 250.0, None),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1.0005, 1.0),
        ("DCGM_FI_DEV_GPU_UTIL", -1.0, None),
        ("hami_vgpu_memory_limit_bytes", 0.0, None),
        ("hami_vgpu_memory_used_bytes", 0.0, 0.0),
        ("hami_vgpu_memory_used_bytes", 1.8446744073709552e19, None),
    ],
)
def test_edges(family: str, raw: float, expected: float | None) -> None:
    source = BY_FAMILY[family]
    assert to_base(source, source.scale or 1.0, raw) == expected


def test_trust_is_in_order() -> None:
    present = {"dcgm_gpu_utilization", "DCGM_FI_DEV_GPU_UTIL", "nvidia_smi_utilization_gpu_ratio", "other"}
    assert [source.family for source in sources_for("utilization", present)] == [
        "DCGM_FI_DEV_GPU_UTIL",
        "nvidia_smi_utilization_gpu_ratio",
        "dcgm_gpu_utilization",
    ]


def test_renames_that_concern_us_are_known() -> None:
    pairs = {
        "DCGM_FI_DEV_GPU_UTIL": "DCGM_FI_DEV_GPU_UTIL_RATIO",
        "DCGM_FI_DEV_POWER_USAGE": "DCGM_FI_DEV_BOARD_POWER_WATTS",
        "DCGM_FI_DEV_POWER_MGMT_LIMIT": "DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS",
        "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS",
        "DCGM_FI_DEV_GPU_TEMP": "DCGM_FI_DEV_GPU_TEMP_CELSIUS",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
        "DCGM_FI_PROF_SM_ACTIVE": "DCGM_FI_PROF_SM_UTIL_RATIO",
        "DCGM_FI_PROF_SM_OCCUPANCY": "DCGM_FI_PROF_SM_OCCUPANCY_RATIO",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "DCGM_FI_PROF_TENSOR_UTIL_RATIO",
        "DCGM_FI_PROF_DRAM_ACTIVE": "DCGM_FI_PROF_DRAM_UTIL_RATIO",
    }
    for old, new in pairs.items():
        assert BY_FAMILY[old].quantity == BY_FAMILY[new].quantity


def test_the_guide_lists_what_is_accepted() -> None:
    from gpusight.store.names_docs import END, START, with_names

    guide = Path(__file__).parents[2] / "docs" / "store.md"
    text = guide.read_text(encoding="utf-8")
    assert START in text
    assert END in text
    assert text == with_names(text), "run: python -m gpusight.store.names_docs docs/store.md"
