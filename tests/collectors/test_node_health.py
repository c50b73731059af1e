"""How the reading of a node goes."""

from dataclasses import replace
from typing import get_args

import pytest

from gpusight.catalog import own as catalog
from gpusight.catalog.spec import FamilySpec
from gpusight.collectors.node_health import NodeHealthCollector, collect
from gpusight.collectors.view import NodeView, SourceHealth
from gpusight.model.hardware import BackendReason, DownReason
from gpusight.model.ownership import JoinFailure, Unjoined
from gpusight.model.vgpu import RegionProblem
from tests.collectors.views import (
    OTHER_UUID,
    THEN,
    UUID,
    a_directory,
    a_gpu,
    a_holder,
    a_region,
    a_rich_view,
    a_view,
    directories,
    down,
    hardware,
    lines,
    of_family,
    owned,
)


def series(spec: FamilySpec, view: NodeView) -> dict[str, float]:
    return of_family(spec.name, lines(collect(view)))


def counts(spec: FamilySpec, view: NodeView) -> dict[str, float]:
    """By the value of the only label."""
    return {labels.split('"')[1]: value for labels, value in series(spec, view).items()}


# NVML and its devices.


@pytest.mark.parametrize("reason", sorted(set(get_args(BackendReason)) - {""}))
def test_why_nvml_gives_nothing(reason: str) -> None:
    view = a_view(hardware=hardware(a_gpu(), is_up=False, reason=reason))
    assert series(catalog.NVML_UP, view) == {f'{{reason="{reason}"}}': 0}
    assert series(catalog.DEVICE_UP, view) == {}


def test_nvml_works() -> None:
    assert series(catalog.NVML_UP, a_view(a_gpu())) == {'{reason=""}': 1}


@pytest.mark.parametrize("reason", get_args(DownReason))
def test_a_device_that_is_down_says_why(reason: str) -> None:
    view = a_view(hardware=hardware(a_gpu(), a_gpu(OTHER_UUID, 1), down=(down(UUID, 0, reason),)))
    assert series(catalog.DEVICE_UP, view) == {
        f'{{uuid="{OTHER_UUID}",gpu="1",reason=""}}': 1,
        f'{{uuid="{UUID}",gpu="0",reason="{reason}"}}': 0,
    }


def test_a_device_whose_uuid_was_never_read_has_none() -> None:
    view = a_view(hardware=hardware(down=(down(None, 0), down(None, 1))))
    assert series(catalog.DEVICE_UP, view) == {'{gpu="0",reason="blocked"}': 0, '{gpu="1",reason="blocked"}': 0}


# HAMi's directory.


def test_a_missing_directory() -> None:
    view = a_view(vgpu=directories(is_present=False))
    assert series(catalog.VGPU_DIRECTORY_PRESENT, view) == {"": 0}
    assert series(catalog.VGPU_LAST_SCAN, view) == {"": THEN}


def test_containers_are_counted_as_matched_or_not() -> None:
    nameless = replace(a_holder("x", "hami_directory"), container=a_holder("").container)
    owner = owned(directories=[a_holder("one", "hami_directory")])
    owner.of_directory["uid-x", "main"] = nameless
    entries = [a_directory(pod, None) for pod in ("one", "x", "gone")]
    view = a_view(vgpu=directories(*entries), ownership=owner)
    assert counts(catalog.VGPU_CONTAINERS, view) == {"matched": 1, "unmatched": 2}


def test_problems_are_counted_by_reason_from_zero() -> None:
    view = a_view(vgpu=directories(problems=(("bad_magic", 2), ("link", 1))))
    expected = dict.fromkeys(get_args(RegionProblem), 0) | {"bad_magic": 2, "link": 1}
    assert counts(catalog.VGPU_REGION_PROBLEMS, view) == expected


def test_torn_regions_are_counted() -> None:
    entries = [a_directory("one", a_region(is_torn=True)), a_directory("two", a_region()), a_directory("new", None)]
    assert series(catalog.VGPU_TORN_REGIONS, a_view(vgpu=directories(*entries))) == {"": 1}


# Joins.


def test_join_failures_are_counted_by_reason_from_zero() -> None:
    unjoined = [Unjoined("pid 1", "no_cgroup"), Unjoined("pid 2", "no_cgroup"), Unjoined("GPU-x", "unknown_device_id")]
    view = a_view(ownership=owned(unjoined=unjoined))
    expected = dict.fromkeys(get_args(JoinFailure), 0) | {"no_cgroup": 2, "unknown_device_id": 1}
    assert counts(catalog.JOIN_FAILURES, view) == expected


# All of it.


@pytest.mark.parametrize("is_simulated", [True, False])
def test_whether_it_is_simulated(is_simulated: bool) -> None:
    expected = {"": int(is_simulated)}
    assert series(catalog.SIMULATED, a_view(is_simulated=is_simulated)) == expected
    assert series(catalog.SIMULATED, a_view(hardware=hardware(is_simulated=is_simulated))) == expected


def test_a_source_that_was_not_asked_says_nothing() -> None:
    assert {sample.spec for sample in collect(a_view())} == {catalog.SIMULATED, catalog.JOIN_FAILURES}


def test_every_family_comes_out_and_no_other() -> None:
    collector = NodeHealthCollector(a_rich_view)
    assert collector.name == "node_health"
    assert {sample.spec for sample in collector.collect()} == {catalog.SIMULATED, *catalog.NODE_HEALTH}


# Sources of names and grants.


def test_how_sources_answer() -> None:
    kubelet = SourceHealth("kubelet", True, "", THEN, {"no_socket": 0})
    pods = SourceHealth("kubernetes_pods", False, "forbidden", None, {"forbidden": 3}, 2)
    view = replace(a_view(), sources=(kubelet, pods))
    assert series(catalog.SOURCE_UP, view) == {
        '{source="kubelet",reason=""}': 1,
        '{source="kubernetes_pods",reason="forbidden"}': 0,
    }
    assert series(catalog.SOURCE_LAST_ANSWER, view) == {'{source="kubelet"}': THEN}
    assert series(catalog.SOURCE_FAILURES, view) == {
        '{source="kubelet",reason="no_socket"}': 0,
        '{source="kubernetes_pods",reason="forbidden"}': 3,
    }
    assert series(catalog.SOURCE_UNUSABLE, view) == {'{source="kubernetes_pods"}': 2}
