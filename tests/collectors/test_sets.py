"""The sets of `--collect.sets`, and the node's whole page before its readers."""

import asyncio
import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpusight.catalog import hardware as catalog
from gpusight.catalog.own import COLLECTOR_SUCCESS
from gpusight.collectors.run import CollectorSet
from gpusight.collectors.sets import DEFAULT_SETS, SETS, FamilySet, collectors
from gpusight.collectors.totals import accumulate
from gpusight.collectors.vgpu import VgpuOptions
from gpusight.collectors.view import NodeView, Totals
from gpusight.exposition.blocks import FamilyBlock, Sample, group
from gpusight.exposition.endpoint import ScrapeRequest
from gpusight.exposition.text import TEXT, Renderer
from gpusight.model.time import SystemClock
from tests.catalog.test_catalog_pages import _legal_findings, _rule
from tests.collectors.views import (
    OTHER_UUID,
    UUID,
    a_directory,
    a_full_gpu,
    a_holder,
    a_process,
    a_region,
    a_region_device,
    a_rich_view,
    a_share,
    a_view,
    directories,
    lines,
    owned,
)

every_set = pytest.mark.parametrize("each", SETS, ids=lambda each: each.name)


def samples(view: NodeView, *names: str, vgpu: VgpuOptions | None = None) -> list[Sample | FamilyBlock]:
    found = collectors(lambda: view, names or DEFAULT_SETS, vgpu or VgpuOptions())
    return [sample for collector in found for sample in collector.collect()]


def test_the_sets() -> None:
    assert [each.name for each in SETS] == ["hami", "dcgm", "gpu", "containers", "processes", "health"]
    assert DEFAULT_SETS == ("hami", "dcgm", "gpu", "containers", "health")


def test_no_family_is_in_two_sets_and_each_in_one() -> None:
    families = [spec for each in SETS for spec in each.families]
    assert len({spec.name for spec in families}) == len(families)
    assert set(catalog.FAMILIES) <= set(families)


@every_set
def test_a_set_exposes_its_families_and_no_others(each: FamilySet) -> None:
    assert {sample.spec for sample in samples(a_rich_view(), each.name)} == set(each.families)


def test_an_unknown_set_is_named() -> None:
    with pytest.raises(ValueError, match="no set of metrics is called 'pods'; there are: hami, dcgm, gpu, containers"):
        collectors(a_view, ["gpu", "pods"])


def test_collectors_are_named_once() -> None:
    names = [collector.name for collector in collectors(a_view, [each.name for each in SETS])]
    assert names == ["vgpu", "dcgm", "hardware", "node_health"]


# What the sets cost.


EMPTY = {"processes": (), "process_utilization": ()}


def machine(gpus: int, containers: int) -> NodeView:
    """Every GPU read in full; every container on the first, with one process, known to all witnesses."""
    pods = [f"pod-{n}" for n in range(containers)]
    pids = range(1, containers + 1)
    first = {
        "processes": tuple(a_process(pid, 5) for pid in pids),
        "process_utilization": tuple(a_share(pid, 0.1) for pid in pids),
    }
    view = a_view(
        *(a_full_gpu(f"GPU-{n}", n, **(first if n == 0 else EMPTY)) for n in range(gpus)),
        vgpu=directories(*(a_directory(pod, a_region(a_region_device("GPU-0"))) for pod in pods)),
        ownership=owned(
            {},
            {pid: a_holder(pod, "cgroup") for pid, pod in zip(pids, pods, strict=True)},
            [a_holder(pod, "hami_directory") for pod in pods],
        ),
    )
    return replace(view, totals=accumulate(Totals(), None, view))


@every_set
def test_the_number_of_series_is_as_said(each: FamilySet) -> None:
    base, gpus, containers = (len(lines(samples(machine(*size), each.name))) for size in ((1, 1), (4, 1), (1, 6)))
    assert (gpus - base, containers - base) == (3 * each.per_gpu, 5 * each.per_container)


# The page.

PAGES = [("seed", "v2.10"), ("v2.8",), ("v2.9", "v2.9-legacy"), ("v2.10", "v2.10-legacy")]
every_page = pytest.mark.parametrize("dialects", PAGES, ids=" ".join)


def whole_page(dialects: tuple[str, ...]) -> list[Sample | FamilyBlock]:
    return samples(a_rich_view(), *(each.name for each in SETS), vgpu=VgpuOptions(dialects, value_labels=True))


@every_page
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing_but_what_is_waived(dialects: tuple[str, ...]) -> None:
    page = whole_page(dialects)
    text = Renderer(TEXT).render(group(page))
    run = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False, timeout=30)
    findings = (run.stdout + run.stderr).decode().splitlines()
    legal = _legal_findings(tuple({sample.spec for sample in page}))
    assert {(line.split(" ")[0], _rule(line)) for line in findings} <= legal, findings
    assert run.returncode == 3


@every_page
def test_labels_are_exactly_those_declared(dialects: tuple[str, ...]) -> None:
    """In declared order; only a label whose value is None is left out."""
    page = whole_page(dialects)
    declared = {sample.spec.name: sample.spec.label_names for sample in page}
    for line in lines(page):
        name, _, rest = line.partition("{")
        order = [declared[name].index(label) for label in re.findall(r'(\w+)="', rest)]
        assert order == sorted(order)


def test_prometheus_client_reads_the_page() -> None:
    text = Renderer(TEXT).render(group(whole_page(("seed", "v2.10")))).decode()
    parsed = list(text_string_to_metric_families(text))
    assert sum(len(family.samples) for family in parsed) == len(lines(whole_page(("seed", "v2.10"))))


def test_the_runner_takes_the_collectors() -> None:
    chosen = collectors(a_rich_view)
    request = ScrapeRequest(names=frozenset(), collectors=frozenset(), timeout=10)
    scrape = asyncio.run(CollectorSet(chosen, SystemClock()).gather(request))
    (success,) = (block for block in scrape.blocks if block.spec is COLLECTOR_SUCCESS)
    assert dict(zip(success.keys, success.values, strict=True)) == {(c.name,): 1 for c in chosen}


def test_sums_count_nothing_twice() -> None:
    """Per family, the device's row is not beside its containers' or instances'."""
    page = lines(whole_page(("seed", "v2.10")))
    for name in ("DCGM_FI_DEV_FB_USED", "gpusight_gpu_memory_used_bytes"):
        rows = [line for line in page if line.startswith(f"{name}{{")]
        assert sum(UUID in row for row in rows) == 1
    assert sum(OTHER_UUID in line for line in page if line.startswith("DCGM_FI_DEV_FB_USED{")) == 2
