"""The embedded store as a whole: owners, places, threads, simulated or real."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpusight.model.series import Ask, Owner, Place, PodKey, SeriesStore, Span, StoreError
from gpusight.model.time import ManualClock
from gpusight.store.embedded import Batch, EmbeddedStore
from gpusight.store.embedded_series import Target
from tests.store.embedding import NODE, START, UTIL, batch, embedded, gpu, key, window

KSM = Target("kube-state-metrics", "ksm:8080")


def pod_series(store: EmbeddedStore, rows: list[tuple[str, Mapping[str, str], float]], moment: float = START) -> Batch:
    refs = [store.ref(KSM, family, labels) for family, labels, _ in rows]
    return Batch(KSM, moment, refs, [value for _, _, value in rows])


def owner(family: str, kind: str, name: str, **labels: str) -> tuple[str, Mapping[str, str], float]:
    return family, {"namespace": "n", "owner_kind": kind, "owner_name": name, **labels}, 1.0


def test_it_is_a_series_store(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        as_protocol: SeriesStore = store
        as_protocol.check()
        assert as_protocol.name == f"embedded {tmp_path / 'samples.duckdb'}"


def test_owners_are_followed_to_the_top(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        rows = [
            owner("kube_pod_owner", "ReplicaSet", "web-1", pod="web-1-x"),
            owner("kube_replicaset_owner", "Deployment", "web", replicaset="web-1"),
            owner("kube_pod_owner", "Job", "night-7", pod="night-7-x"),
            owner("kube_job_owner", "CronJob", "night", job_name="night-7"),
            owner("kube_pod_owner", "ReplicaSet", "lone-1", pod="lone-1-x"),
            owner("kube_pod_owner", "<none>", "<none>", pod="bare"),
            ("kube_pod_start_time", {"namespace": "n", "pod": "bare"}, START - 500),
        ]
        store.append([pod_series(store, rows)])
        reading = store.read([], Span(START, 60, 30))
    assert reading.owners == {
        PodKey("", "n", "web-1-x"): Owner("Deployment", "web", "kube_pod_owner"),
        PodKey("", "n", "night-7-x"): Owner("CronJob", "night", "kube_pod_owner"),
        PodKey("", "n", "lone-1-x"): Owner("ReplicaSet", "lone-1", "kube_pod_owner"),
        PodKey("", "n", "bare"): Owner("Pod", "bare", "kube_pod_owner"),
    }
    assert reading.started == {PodKey("", "n", "bare"): START - 500}


def test_our_own_owner_series_come_first_and_gone_pods_have_none(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        old = [owner("kube_pod_owner", "ReplicaSet", "old-1", pod="gone")]
        new = [
            owner("gpusight_pod_owner", "Notebook", "mine", pod="p", cluster="c"),
            owner("kube_pod_owner", "StatefulSet", "mine", pod="p", cluster="c"),
        ]
        store.append([pod_series(store, old)])
        store.append([pod_series(store, new, START + 30)])
        reading = store.read([], Span(START + 30, 60, 30))
    assert reading.owners == {PodKey("c", "n", "p"): Owner("Notebook", "mine", "gpusight_pod_owner")}


def test_places_come_from_all_series_of_a_gpu(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        refs = [
            store.ref(NODE, "HostCoreUtilization", {"deviceuuid": "GPU-a"}),
            store.ref(NODE, "gpusight_gpu_info", {"uuid": "GPU-a", "node": "node-7", "model": "NVIDIA L4"}),
            store.ref(NODE, "kube_pod_owner", {"namespace": "n", "pod": "p"}),
        ]
        store.append([Batch(NODE, START, refs, [1.0, 1.0, 1.0])])
        reading = store.read([Ask("utilization", ("last_seen",))], Span(START, 60, 30))
    assert reading.places == {("", "GPU-a"): Place("node-7", "NVIDIA L4")}


def test_simulated_and_real_samples_never_meet(tmp_path: Path) -> None:
    other = Target("dcgm", "node-2:9400")
    with embedded(tmp_path) as store:
        store.append([Batch(other, START, up=False)])
        assert store.simulated is None, "nothing decides nothing"
    with embedded(tmp_path) as store:
        assert store.append([batch(store, START, {"a": 1.0}, simulated=True)]) == {}
        refused = store.append(
            [batch(store, START + 30, {"a": 1.0}, simulated=True), batch(store, START + 30, {"b": 1.0}, target=other)]
        )
        assert list(refused) == [other]
        assert "holds simulated samples and takes no real ones" in refused[other]
        assert store.simulated is True
    with embedded(tmp_path) as store:
        assert list(store.append([batch(store, START + 60, {"a": 1.0})])) == [NODE]
        assert set(window(store, Span(START + 60, 60, 30)).columns["last"]) == {key("a")}


def test_the_living_of_any_family_can_be_asked_for(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with embedded(tmp_path, clock) as store:
        refs = [store.ref(NODE, "gpu_ops_executions_total", {"module": "zk"}), store.ref(NODE, UTIL, gpu("a"))]
        store.append([Batch(NODE, START, refs, [7.0, 1.0])])
        assert store.latest(["gpu_ops_executions_total"]) == [("gpu_ops_executions_total", {"module": "zk"}, 7.0)]


HOSTILE = ["a'; DROP TABLE samples; --", '"}\n', "\x00", "😀" * 50, "\u202e", "{}", "%s"]


def test_labels_are_data_whatever_they_say(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        refs = [store.ref(NODE, UTIL, gpu("a", pod=text, namespace=text)) for text in HOSTILE]
        store.append([Batch(NODE, START, refs, [1.0] * len(refs))])
        pods = {each.pod for each in window(store, Span(START, 60, 30)).columns["last"]}
    assert pods == set(HOSTILE)


def test_many_threads_read_and_write_at_once(tmp_path: Path) -> None:
    clock = ManualClock(START)
    targets = [Target("dcgm", f"node-{i}:9400") for i in range(4)]
    done = threading.Event()
    with embedded(tmp_path, clock) as store:

        def write(target: Target) -> int:
            for step in range(20):
                store.append([batch(store, START + step, {target.instance: 50.0}, target=target)])
            return 20

        def read() -> int:
            rounds = 0
            while not done.is_set() or not rounds:
                reading = store.read([Ask("utilization", ("count", "last_seen"))], Span(START + 19, 20, 1))
                assert all(count <= 20 for each in reading.windows for count in each.columns["count"].values())
                store.range(key(targets[0].instance), "utilization", Span(START + 19, 20, 1))
                rounds += 1
            return rounds

        with ThreadPoolExecutor(6) as pool:
            readers = [pool.submit(read) for _ in range(2)]
            written = sum(future.result(60) for future in [pool.submit(write, target) for target in targets])
            done.set()
            assert all(reader.result(60) for reader in readers)
        final = window(store, Span(START + 19, 20, 1))
    assert written == 80
    assert set(final.columns["count"].values()) == {20}


def test_a_question_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    with embedded(tmp_path, deadline=0.2) as store:
        with pytest.raises(StoreError, match=r"took longer than 0\.2 s"), store._asking() as cursor:
            cursor.execute("SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000) b").fetchall()
        store.check()


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        pass
    for call in (store.check, store.families, lambda: store.append([])):
        with pytest.raises(StoreError, match="is closed"):
            call()


def test_a_batch_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        ref = store.ref(NODE, UTIL, gpu("a"))
        with pytest.raises(StoreError):
            store.append([Batch(NODE, START, [ref], [None])])  # type: ignore[list-item]
        store.append([Batch(NODE, START + 30, [ref], [1.0])])
        assert window(store, Span(START + 30, 60, 30)).columns["count"] == {key("a"): 1}
