"""Label dialects, and the trap of labels that are not honoured."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.model.series import Place, SeriesKey
from gpusight.store.labels import (
    FULL_LABELS,
    IDENTITY_LABELS,
    exporters,
    holder_labels,
    place,
    series_key,
)

UUID = "GPU-8f640a3c-7e9a-608d-02a3-f4372d72b323"


@pytest.mark.parametrize(
    ("labels", "key"),
    [
        pytest.param(
            {"UUID": UUID, "namespace": "ns", "pod": "p", "container": "c", "gpu": "0"},
            SeriesKey("", UUID, "", "", "ns", "p", "c"),
            id="dcgm-exporter",
        ),
        pytest.param(
            {"uuid": UUID, "pod_namespace": "ns", "pod_name": "p", "container_name": "c"},
            SeriesKey("", UUID, "", "", "ns", "p", "c"),
            id="dcgm-exporter 1.x",
        ),
        pytest.param(
            {
                "UUID": UUID,
                "pod": "dcgm-exporter-abc",
                "namespace": "gpu-operator",
                "container": "exporter",
                "exported_pod": "p",
                "exported_namespace": "ns",
                "exported_container": "c",
            },
            SeriesKey("", UUID, "", "", "ns", "p", "c"),
            id="labels not honoured",
        ),
        pytest.param(
            {"UUID": UUID, "pod": "x", "namespace": "y", "container": "z", "exported_pod": "p"},
            SeriesKey("", UUID, "", "", "", "p", ""),
            id="an exporter's namespace is not mixed with a workload's pod",
        ),
        pytest.param(
            {"UUID": UUID, "GPU_I_ID": "7", "GPU_I_PROFILE": "1g.10gb", "pod": "p", "namespace": "ns"},
            SeriesKey("", UUID, "7", "", "ns", "p", ""),
            id="a MIG instance",
        ),
        pytest.param(
            {"UUID": UUID, "vgpu": "2", "pod": "p", "namespace": "ns"},
            SeriesKey("", UUID, "", "2", "ns", "p", ""),
            id="a replica of time-slicing",
        ),
        pytest.param(
            {"deviceuuid": UUID, "podname": "p", "podnamespace": "ns", "ctrname": "c", "vdeviceid": "0", "pod": "hami"},
            SeriesKey("", UUID, "", "0", "ns", "p", "c"),
            id="HAMi before 2.9",
        ),
        pytest.param(
            {"device_uuid": UUID, "pod": "p", "namespace": "ns", "container": "c", "vdevice_index": "1"},
            SeriesKey("", UUID, "", "1", "ns", "p", "c"),
            id="HAMi since 2.9",
        ),
        pytest.param(
            {"gpu_uuid": UUID, "client_id": "9", "pod": "p", "namespace": "ns"},
            SeriesKey("", UUID, "", "", "ns", "p", ""),
            id="nvshare",
        ),
        pytest.param(
            {"uuid": UUID.removeprefix("GPU-")}, SeriesKey("", UUID, "", "", "", "", ""), id="nvidia_gpu_exporter"
        ),
        pytest.param(
            {"uuid": UUID, "gpu_instance_id": "3"}, SeriesKey("", UUID, "3", "", "", "", ""), id="our MIG families"
        ),
        pytest.param(
            {"vdie_id": "A-B", "pod_name": "p", "namespace": "ns", "container_name": "c"},
            SeriesKey("", "A-B", "", "", "ns", "p", "c"),
            id="Ascend",
        ),
        pytest.param({"pod": "p", "gpu": "0"}, SeriesKey("", "", "", "", "", "p", ""), id="no label names the GPU"),
    ],
)
def test_whose_a_series_is(labels: dict[str, str], key: SeriesKey) -> None:
    assert series_key(labels) == key
    assert series_key({**labels, "cluster": "east"}) == key._replace(cluster="east")
    assert series_key({**labels, "zone": "west"}, "zone").cluster == "west"
    assert {name for name, value in labels.items() if value in key and value} <= {*IDENTITY_LABELS}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"Hostname": "n", "modelName": "H100"}, Place("n", "H100")),
        ({"hostname": "n", "model_name": "H100"}, Place("n", "H100")),
        ({"kubernetes_node": "n"}, Place("n", "")),
        ({"nodeid": "n", "devicetype": "NVIDIA-H100"}, Place("n", "NVIDIA-H100")),
        ({"node": "n", "device_type": "H100"}, Place("n", "H100")),
        ({"nodeName": "n", "name": "H100"}, Place("n", "H100")),
        ({"gpu": "0"}, Place("", "")),
        ({"gpu": "NVIDIA H200"}, Place("", "NVIDIA H200")),
        ({}, Place("", "")),
    ],
)
def test_where_a_series_is(labels: dict[str, str], expected: Place) -> None:
    assert place(labels) == expected
    assert labels.keys() <= set(FULL_LABELS)


EXPORTER = {"job": "dcgm", "instance": "10.0.0.1:9400", "namespace": "gpu-operator", "pod": "dcgm-exporter-abc"}
UP = exporters([EXPORTER, {"job": "node", "instance": "10.0.0.1:9100"}])


def test_the_pod_of_an_unallocated_gpu_is_the_exporter() -> None:
    free = {"UUID": UUID, "container": "exporter", **EXPORTER}
    assert series_key(holder_labels(free, UP)) == SeriesKey("", UUID, "", "", "", "", "")
    assert holder_labels(free, UP)["instance"] == "10.0.0.1:9400"


@pytest.mark.parametrize(
    "labels",
    [
        {**EXPORTER, "pod": "train-0", "namespace": "team"},
        {**EXPORTER, "namespace": "team"},
        {**EXPORTER, "exported_pod": "train-0", "exported_namespace": "team"},
        {**EXPORTER, "podname": "train-0"},
        {**EXPORTER, "instance": "10.0.0.2:9400"},
        {"UUID": UUID},
    ],
)
def test_a_holder_stays(labels: dict[str, str]) -> None:
    assert holder_labels(labels, UP) is labels


def test_a_workload_that_is_scraped_itself_is_no_exporter() -> None:
    own = {"job": "vllm", "instance": "10.1.1.1:8000", "namespace": "team", "pod": "vllm-0"}
    held = {"UUID": UUID, **EXPORTER, "namespace": "team", "pod": "vllm-0"}
    assert holder_labels(held, exporters([EXPORTER, own])) is held


@given(st.dictionaries(st.sampled_from([*FULL_LABELS, "cluster", "x"]), st.text(max_size=300)))
def test_any_labels_make_a_key_and_a_place(labels: Mapping[str, str]) -> None:
    held = holder_labels(labels, UP)
    for text in (*series_key(held), *place(held)):
        assert text == "" or text in labels.values() or text.removeprefix("GPU-") in labels.values()
