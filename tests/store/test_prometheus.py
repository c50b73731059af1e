"""What a real Prometheus says of histories that we wrote into it."""

from collections.abc import Iterator
from math import nan
from pathlib import Path

import pytest

from gpusight.model.series import Ask, Failure, Owner, Place, PodKey, Reading, SeriesKey, StoreError
from gpusight.store.owners import POD_OWNER
from tests.store.fleet import (
    UTILIZATION,
    aligned_now,
    held,
    history,
    key,
    row,
    span,
    store,
    uuid,
    window,
)
from tests.support.prometheus import needs_prometheus
from tests.support.remote_write import STALE, Series, writable_prometheus, write

UTIL = "DCGM_FI_DEV_GPU_UTIL"
USED = "DCGM_FI_DEV_FB_USED"
BLANK = float(0x7FFFFFF2)
FULL = 25
"""Looks of a history that reaches back behind the window."""

pytestmark = needs_prometheus


@pytest.fixture(scope="module")
def now() -> float:
    return aligned_now()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, now: float) -> Iterator[str]:
    with writable_prometheus(tmp_path_factory.mktemp("prometheus")) as address:
        write(address, _series(now))
        yield address


def _series(now: float) -> Iterator[Series]:
    def util(labels: dict[str, str], *values: float | None) -> Series:
        return history(UTIL, labels, values, now)

    yield util(held(0, "busy"), *[95.0] * FULL)
    yield util(held(1, "idle"), *[0.0] * FULL)
    yield util(held(2, "bursty"), *[0.0] * (FULL - 6), 80.0, *[0.0] * 5)
    yield util(held(3, "young"), 50.0, 50.0, 50.0)
    yield util(held(4, "gappy"), *[30.0] * 10, *[STALE] * 1, *[None] * 9, *[30.0] * 5)
    yield util(held(5, "dead"), *[40.0] * (FULL - 3), STALE, None, None)
    yield util(held(6, "nan"), *[nan] * FULL)
    yield util(held(7, "blank"), *[BLANK] * FULL)
    yield util(held(8, "once-blank"), *[60.0] * (FULL - 4), BLANK, 60.0, 60.0, 60.0)
    yield util(held(9, "moved", instance="old:9400"), *[20.0] * 15, STALE, *[None] * 9)
    yield util(held(9, "moved", instance="new:9400"), *[None] * 15, *[20.0] * 10)
    yield util(held(10, "twice", instance="a:9400"), *[10.0] * FULL)
    yield util(held(10, "twice", instance="b:9400"), *[90.0] * FULL)
    yield util(held(11), *[0.0] * FULL)
    for part, value in (("7", 0.0), ("9", 0.0)):
        labels = held(12, f"mig-{part}", GPU_I_ID=part, GPU_I_PROFILE="1g.10gb")
        yield util(labels, *[value] * FULL)
        yield history(USED, labels, [float(part) * 1000] * FULL, now)
    yield util(held(13, "sliced-a", vgpu="0"), *[70.0] * FULL)
    yield util(held(13, "sliced-b", vgpu="1"), *[70.0] * FULL)
    yield history(USED, held(0, "busy"), [40_960.0] * FULL, now)
    yield from _clients(now)
    yield from _kubernetes(now)


def _clients(now: float) -> Iterator[Series]:
    for client, used in (("1", 1e9), ("2", 3e9)):
        labels = {"gpu_uuid": uuid(0), "namespace": "team", "pod": "busy", "client_id": client, "host_pid": client}
        yield history("nvshare_client_nvml_used_bytes", labels, [used] * FULL, now)
    hami = {"deviceuuid": uuid(1), "podnamespace": "team", "podname": "idle", "ctrname": "main", "vdeviceid": "0"}
    yield history("Device_utilization_desc_of_container", hami, [250.0] * FULL, now)
    yield history("gpusight_gpu_info", {"uuid": uuid(11), "node": "other", "name": "T4"}, [1.0] * FULL, now)


def _kubernetes(now: float) -> Iterator[Series]:
    def fact(name: str, value: float = 1.0, **labels: str) -> Series:
        return history(name, {"namespace": "team", **labels}, [value] * FULL, now)

    yield fact("kube_pod_owner", pod="busy", owner_kind="ReplicaSet", owner_name="serve-5d")
    yield fact("kube_replicaset_owner", replicaset="serve-5d", owner_kind="Deployment", owner_name="serve")
    yield fact("kube_pod_owner", pod="idle", owner_kind="Job", owner_name="train-1")
    yield fact("kube_job_owner", job_name="train-1", owner_kind="CronJob", owner_name="train")
    yield fact("kube_pod_owner", pod="bursty", owner_kind="<none>", owner_name="<none>")
    yield fact("kube_pod_owner", pod="young", owner_kind="Notebook", owner_name="mine")
    yield fact(POD_OWNER, pod="young", owner_kind="InferenceService", owner_name="model")
    yield fact("kube_pod_start_time", now - 3600, pod="busy")
    # kube-state-metrics scraped without honouring labels
    yield fact(
        "kube_pod_owner",
        exported_namespace="team",
        namespace="monitoring",
        exported_pod="twice",
        pod="ksm-0",
        owner_kind="StatefulSet",
        owner_name="both",
    )


@pytest.fixture(scope="module")
def reading(url: str, now: float) -> Reading:
    asks = (UTILIZATION, Ask("memory_used", ("last_seen", "mean", "last")))
    with store(url, condition="") as prometheus:
        return prometheus.read(asks, span(now))


def test_a_busy_gpu(reading: Reading, now: float) -> None:
    assert row(window(reading, UTIL), key(0, "busy")) == {
        "last_seen": now,
        "count": 20,
        "mean": pytest.approx(0.95),
        "max": pytest.approx(0.95),
        "active_count": 20,
        "last_active": now,
    }


def test_an_idle_gpu_was_active_at_no_look(reading: Reading, now: float) -> None:
    assert row(window(reading, UTIL), key(1, "idle")) == {
        "last_seen": now,
        "count": 20,
        "mean": 0,
        "max": 0,
        "active_count": 0,
    }


def test_a_burst_is_dated(reading: Reading, now: float) -> None:
    found = row(window(reading, UTIL), key(2, "bursty"))
    assert found["active_count"] == 1
    assert found["last_active"] == now - 5 * 30
    assert found["max"] == pytest.approx(0.8)


def test_a_young_series_has_few_samples(reading: Reading) -> None:
    found = row(window(reading, UTIL), key(3, "young"))
    assert [found["count"], found["mean"]] == pytest.approx([3, 0.5])


def test_a_gap_is_not_filled(reading: Reading) -> None:
    assert row(window(reading, UTIL), key(4, "gappy"))["count"] == 10


def test_what_ended_was_not_seen_last(reading: Reading) -> None:
    found = row(window(reading, UTIL), key(5, "dead"))
    assert "last_seen" not in found
    assert found["count"] == 17
    assert found["mean"] == pytest.approx(0.4)


def test_what_is_no_number_is_missing(reading: Reading, now: float) -> None:
    utilization = window(reading, UTIL)
    for number, pod in ((6, "nan"), (7, "blank")):
        assert row(utilization, key(number, pod)) == {"last_seen": now}
    assert utilization.rejected == 2


def test_one_blank_costs_one_sample(reading: Reading) -> None:
    found = row(window(reading, UTIL), key(8, "once-blank"))
    assert [found["count"], found["mean"], found["max"]] == pytest.approx([19, 0.6, 0.6])


def test_an_exporter_that_moved_is_one_history(reading: Reading) -> None:
    found = row(window(reading, UTIL), key(9, "moved"))
    assert [found["count"], found["mean"]] == pytest.approx([20, 0.2])


def test_two_exporters_at_a_time_show_in_the_count(reading: Reading) -> None:
    found = row(window(reading, UTIL), key(10, "twice"))
    assert found["count"] == 40
    assert found["max"] == pytest.approx(0.9)


def test_mig_instances_and_replicas_are_told_apart(reading: Reading) -> None:
    used = window(reading, USED)
    for part in ("7", "9"):
        mine = key(12, f"mig-{part}")._replace(mig=part)
        assert row(used, mine)["mean"] == float(part) * 1000 * 2**20
    utilization = window(reading, UTIL)
    assert key(13, "sliced-a")._replace(slot="0") in utilization.columns["mean"]
    assert key(13, "sliced-b")._replace(slot="1") in utilization.columns["mean"]


def test_clients_of_one_pod_are_added_up(reading: Reading) -> None:
    clients = window(reading, "nvshare_client_nvml_used_bytes")
    mine = key(0, "busy", container="")
    assert row(clients, mine)["mean"] == 4e9
    assert row(clients, mine)["last"] == 4e9
    assert clients.scope == "holder"


def test_a_sum_over_processes_is_cut_to_the_whole(reading: Reading) -> None:
    hami = window(reading, "Device_utilization_desc_of_container")
    mine = key(1, "idle")._replace(slot="0")
    assert (row(hami, mine)["mean"], row(hami, mine)["max"], hami.rejected) == (1.0, 1.0, 0)


def test_places(reading: Reading) -> None:
    assert reading.places["", uuid(0)] == Place("node-0", "NVIDIA H100 80GB HBM3")
    assert reading.places["", uuid(11)] == Place("node-1", "NVIDIA H100 80GB HBM3")


def test_owners(reading: Reading, now: float) -> None:
    owners = {pod.pod: owner for pod, owner in reading.owners.items()}
    assert owners == {
        "busy": Owner("Deployment", "serve", "kube_pod_owner"),
        "idle": Owner("CronJob", "train", "kube_pod_owner"),
        "bursty": Owner("Pod", "bursty", "kube_pod_owner"),
        "young": Owner("InferenceService", "model", POD_OWNER),
        "twice": Owner("StatefulSet", "both", "kube_pod_owner"),
    }
    assert reading.started == {PodKey("", "team", "busy"): now - 3600}


def test_nothing_is_wrong(reading: Reading) -> None:
    assert reading.failures == ()
    assert reading.warnings == ()
    assert reading.queries <= 80


def test_families_that_are_there(url: str) -> None:
    with store(url) as prometheus:
        prometheus.check()
        assert {UTIL, USED, "nvshare_client_nvml_used_bytes"} <= prometheus.families()
        assert "kube_pod_owner" not in prometheus.families()
        assert prometheus.name == f"prometheus {url}"


def test_the_condition_is_for_every_gpu_query(url: str, now: float) -> None:
    with store(url, condition='{pod=~"busy|idle"}') as prometheus:
        found = prometheus.read((UTILIZATION,), span(now))
    assert set(window(found, UTIL).columns["mean"]) == {key(0, "busy"), key(1, "idle")}


def test_owners_are_remembered_until_a_pod_is_new(url: str, now: float) -> None:
    with store(url, condition='{pod=~"busy|idle"}') as prometheus:
        first = prometheus.read((UTILIZATION,), span(now))
        second = prometheus.read((UTILIZATION,), span(now))
    assert second.owners == first.owners
    assert second.queries == first.queries - 6, "five about owners, one about exporters"


@pytest.mark.parametrize(
    ("subject", "quantity", "expected"),
    [
        (key(0, "busy"), "utilization", [pytest.approx(0.95)] * 21),
        (key(0, "busy"), "memory_used", [40_960 * 2.0**20] * 21),
        (key(3, "young"), "utilization", [0.5] * 3),
        (key(6, "nan"), "utilization", []),
        (key(11), "utilization", [0.0] * 21),
        (key(12, "mig-9")._replace(mig="9"), "memory_used", [9000 * 2.0**20] * 21),
        (key(99, "nobody"), "utilization", []),
        (SeriesKey("", '"} or up{', "", "", "", "", ""), "utilization", []),
        (key(0, "busy"), "sm_active", []),
    ],
)
def test_a_chart(url: str, now: float, subject: SeriesKey, quantity: str, expected: list[float]) -> None:
    with store(url) as prometheus:
        points = prometheus.range(subject, quantity, span(now))  # type: ignore[arg-type]
    assert [point.value for point in points] == expected
    assert all(now - 600 <= point.time <= now for point in points)


def test_queries_do_not_grow_with_the_fleet(tmp_path: Path, now: float) -> None:
    counts = []
    with writable_prometheus(tmp_path) as address:
        for fleet in (range(2), range(2, 60)):
            write(address, (history(UTIL, held(i, f"pod-{i}"), [50.0] * FULL, now) for i in fleet))
            with store(address) as prometheus:
                counts.append(prometheus.read((UTILIZATION,), span(now)).queries)
    assert counts[0] == counts[1]


def test_a_wrong_engine_is_a_sentence() -> None:
    with store("http://127.0.0.1:1") as prometheus:
        for attempt in (prometheus.check, prometheus.families, lambda: prometheus.read((UTILIZATION,), span(0))):
            with pytest.raises(StoreError, match="http://127\\.0\\.0\\.1:1 refuses the connection"):
                attempt()


def test_labels_that_are_not_honoured(tmp_path: Path, now: float) -> None:
    """The chart's default: `pod` is the exporter on every series; of a GPU that nobody holds there is no other."""
    own = {"namespace": "gpu-operator", "pod": "dcgm-exporter-x", "container": "exporter"}
    target = {"job": "dcgm", "instance": "10.0.0.0:9400"}
    taken = held(0, **own, exported_namespace="team", exported_pod="train-0", exported_container="main")
    other = {"job": "vllm", "instance": "10.9.9.9:8000", "namespace": "team", "pod": "vllm-0"}
    with writable_prometheus(tmp_path) as address:
        write(
            address,
            [
                history(UTIL, taken, [50.0] * FULL, now),
                history(UTIL, held(1, **own), [0.0] * FULL, now),
                history(UTIL, held(2, "vllm-0"), [10.0] * FULL, now),
                history("DCGM_FI_DEV_POWER_USAGE", held(1, **own), [60.0] * FULL, now),
                history("up", {**target, **own}, [1.0] * FULL, now),
                history("up", other, [1.0] * FULL, now),
            ],
        )
        asks = (UTILIZATION, Ask("power", ("mean",)))
        with store(address, condition='{pod!=""}') as prometheus:
            found = prometheus.read(asks, span(now))
            again = prometheus.read(asks, span(now))
    assert set(window(found, UTIL).columns["mean"]) == {key(0, "train-0"), key(1), key(2, "vllm-0")}
    assert window(found, "DCGM_FI_DEV_POWER_USAGE").columns["mean"] == {key(1): 60.0}
    assert again.windows == found.windows
    assert again.queries == found.queries - 1, "who the exporters are is known by now"


def test_an_ambiguous_unit_is_declared_or_not_read(tmp_path: Path, now: float) -> None:
    family = "DCGM_FI_DEV_GPU_UTIL_RATIO"
    with writable_prometheus(tmp_path) as address:
        write(address, [history(family, held(0, "busy"), [50.0] * FULL, now)])
        with store(address) as prometheus:
            found = prometheus.read((UTILIZATION,), span(now))
            assert found.windows == []
            assert [(failure.family, failure.quantity) for failure in found.failures] == [(family, "utilization")]
            assert "ambiguous scale" in found.failures[0].reason
        with store(address, scales={family: 0.01}) as prometheus:
            found = prometheus.read((UTILIZATION,), span(now))
            assert row(window(found, family), key(0, "busy"))["mean"] == pytest.approx(0.5)


def test_a_family_that_vanishes_is_said(tmp_path: Path, now: float) -> None:
    with writable_prometheus(tmp_path) as address:
        write(address, [history(UTIL, held(0, "busy"), [50.0] * FULL, now)])
        with store(address) as prometheus:
            assert prometheus.read((UTILIZATION,), span(now)).failures == ()
            write(address, [Series({"__name__": UTIL, **held(0, "busy")}, [(now + 30, STALE)])])
            found = prometheus.read((UTILIZATION,), span(now + 30))
            assert found.windows == []
            assert found.failures == (Failure(UTIL, None, f"{UTIL} had series a round ago and has none now"),)
            assert prometheus.read((UTILIZATION,), span(now + 30)).failures == ()
