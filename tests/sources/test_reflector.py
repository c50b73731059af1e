"""The reflector against a scripted API server: each fault of the list of faults, one by one."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

import msgspec
import pytest

from gpusight.model.time import ManualClock, SystemClock
from gpusight.sources.kubernetes.access import Access, Fixed
from gpusight.sources.kubernetes.client import ApiClient, ApiError, Limits
from gpusight.sources.kubernetes.reflector import Change, Key, Reflector, Timing, View, What
from tests.support.fake_kube import LIST_FAULTS, WATCH_FAULTS, FakeKube, Fault, fake_kube, pod

PODS = "/api/v1/pods"
FAST = Timing(page=3, list_within=5, idle=5, backoff=(0.002, 0.02))
UNHURRIED = Limits(requests=1000)


def decode(raw: msgspec.Raw) -> tuple[str, str]:
    """Uid and version."""
    meta: dict[str, Any] = msgspec.json.decode(raw)["metadata"]
    if meta.get("labels", {}).get("broken"):
        raise ValueError("broken on purpose")
    return meta["uid"], meta["resourceVersion"]


@contextmanager
def following(
    kube: FakeKube,
    what: What = What(PODS),  # noqa: B008  (frozen)
    timing: Timing = FAST,
    limits: Limits = UNHURRIED,
    on_change: Callable[[Sequence[Change[tuple[str, str]]]], object] | None = None,
) -> Iterator[Reflector[tuple[str, str]]]:
    client = ApiClient(kube.access, SystemClock(), limits)
    reflector = Reflector(client, what, decode, SystemClock(), on_change=on_change, timing=timing, random=Random(1))
    reflector.start()
    try:
        yield reflector
    finally:
        reflector.stop()
        assert not reflector._thread.is_alive()


def eventually(holds: Callable[[], bool], within: float = 5.0) -> bool:
    deadline = time.monotonic() + within
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def agrees(reflector: Reflector[tuple[str, str]], kube: FakeKube, selector: dict[str, str] | None = None) -> bool:
    view = reflector.view()
    return view.is_synced and dict(view.objects) == {Key(*key): value for key, value in kube.names(selector).items()}


@pytest.fixture
def kube() -> Iterator[FakeKube]:
    with fake_kube() as server:
        yield server


# --- lists and watches that go well ----------------------------------------------------------------------------------


def test_a_list_comes_in_pages(kube: FakeKube) -> None:
    for number in range(10):
        kube.put(pod(f"pod-{number}"))
    with following(kube) as reflector:
        assert eventually(lambda: agrees(reflector, kube))
    lists = [request.query for request in kube.requests if request.kind == "list"]
    assert [query.get("limit") for query in lists] == ["3"] * 4
    assert ["continue" in query for query in lists] == [False, True, True, True]


def test_an_empty_cluster_is_in_step(kube: FakeKube) -> None:
    with following(kube) as reflector:
        assert eventually(lambda: reflector.view().is_synced)
        assert reflector.view().objects == {}


def test_changes_come_by_the_watch(kube: FakeKube) -> None:
    with following(kube) as reflector:
        assert eventually(lambda: reflector.view().watches == 1)
        kube.put(pod("a"))
        kube.put(pod("b"))
        kube.put(pod("a", status={"phase": "Running"}))
        kube.delete("b")
        assert eventually(lambda: agrees(reflector, kube))
        assert [key.name for key in reflector.view().objects] == ["a"]
        assert reflector.view().lists == 1


def test_a_pod_made_anew_has_another_uid(kube: FakeKube) -> None:
    before = kube.put(pod("db-0"))["metadata"]["uid"]
    with following(kube) as reflector:
        assert eventually(lambda: agrees(reflector, kube))
        kube.delete("db-0")
        kube.put(pod("db-0"))
        assert eventually(lambda: agrees(reflector, kube))
        assert reflector.view().objects[Key("team", "db-0")][0] != before


def test_selectors_are_the_servers_business(kube: FakeKube) -> None:
    selector = {"fieldSelector": "spec.nodeName=node-1", "labelSelector": "app=x"}
    kube.put(pod("mine", metadata={"labels": {"app": "x"}}))
    kube.put(pod("elsewhere", "node-2", metadata={"labels": {"app": "x"}}))
    with following(kube, What(PODS, selector["fieldSelector"], selector["labelSelector"])) as reflector:
        assert eventually(lambda: agrees(reflector, kube, selector))
        kube.put(pod("other"))
        kube.put(pod("mine", metadata={"labels": {"app": "y"}}))  # leaves the selector
        kube.put(pod("new", metadata={"labels": {"app": "x"}}))
        assert eventually(lambda: [key.name for key in reflector.view().objects] == ["new"])


def test_only_the_first_list_may_be_stale(kube: FakeKube) -> None:
    with following(kube, What(PODS, may_start_stale=True)) as reflector:
        assert eventually(lambda: reflector.view().watches == 1)
        kube.fail(Fault("error_410", "watch"))
        kube.put(pod("a"))
        kube.fail(Fault("error_410", "watch"))
        assert eventually(lambda: agrees(reflector, kube))
        kube.compact()
        kube.bookmark()
    versions = [request.query.get("resourceVersion") for request in kube.requests if request.kind == "list"]
    assert versions[0] == "0"
    assert set(versions[1:]) <= {None}


def test_a_watch_asks_for_bookmarks_and_an_end(kube: FakeKube) -> None:
    with following(kube, timing=Timing()) as reflector:
        assert eventually(lambda: reflector.view().watches == 1)
    query = next(request.query for request in kube.requests if request.kind == "watch")
    assert query["allowWatchBookmarks"] == "true"
    assert 240 <= int(query["timeoutSeconds"]) <= 300
    assert query["resourceVersion"] == "100"


def test_a_bookmark_moves_the_version_on(kube: FakeKube) -> None:
    """Without it, a resumed watch would ask for a version that has been forgotten."""
    selected = What(PODS, field_selector="spec.nodeName=node-1")
    with following(kube, selected) as reflector:
        assert eventually(lambda: reflector.view().watches == 1)
        for number in range(5):
            kube.put(pod(f"elsewhere-{number}", "node-2"))
        kube.bookmark()
        assert eventually(lambda: reflector._version == "105")
        kube.compact()
        kube.fail(Fault("end", "watch"))
        kube.put(pod("mine"))
        assert eventually(lambda: Key("team", "mine") in reflector.view().objects)
        assert reflector.view().lists == 1


def test_a_watch_that_ends_is_resumed_without_a_list(kube: FakeKube) -> None:
    with following(kube, timing=Timing(watch=(1.0, 1.0), backoff=(0.002, 0.02))) as reflector:
        assert eventually(lambda: reflector.view().watches >= 2)
        kube.put(pod("a"))
        assert eventually(lambda: agrees(reflector, kube))
        assert reflector.view().lists == 1
        assert reflector.view().problem == ""


# --- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", WATCH_FAULTS)
@pytest.mark.parametrize("after", [0, 2])
def test_a_watch_that_goes_wrong_loses_nothing(kube: FakeKube, what: str, after: int) -> None:
    kube.put(pod("gone-soon"))
    kube.put(pod("stays"))
    kube.fail(Fault(what, "watch", after=after))
    with following(kube, timing=Timing(page=3, idle=0.2, backoff=(0.002, 0.02))) as reflector:
        assert eventually(lambda: reflector.view().is_synced)
        kube.delete("gone-soon")
        kube.put(pod("new-1"))
        kube.put(pod("new-2"))
        assert eventually(lambda: agrees(reflector, kube))
        assert eventually(lambda: reflector.view().problem == "")


@pytest.mark.parametrize("what", LIST_FAULTS)
def test_a_list_that_goes_wrong_is_made_again(kube: FakeKube, what: str) -> None:
    for number in range(7):
        kube.put(pod(f"pod-{number}"))
    faults = [Fault("none", "list"), Fault(what, "list")] if what == "expire_pages" else [Fault(what, "list")] * 2
    kube.fail(*faults)
    with following(kube) as reflector:
        assert eventually(lambda: agrees(reflector, kube))
        assert reflector.view().lists == 1


@pytest.mark.parametrize("what", ["drop", "html", "status"])
@pytest.mark.parametrize("kind", ["list", "watch"])
def test_a_request_that_fails_is_made_again(kube: FakeKube, what: str, kind: Any) -> None:
    kube.put(pod("a"))
    kube.fail(*[Fault(what, kind)] * 5)
    with following(kube) as reflector:
        assert eventually(lambda: agrees(reflector, kube))
        kube.put(pod("b"))
        assert eventually(lambda: agrees(reflector, kube))


def test_a_new_list_tells_what_is_gone(kube: FakeKube) -> None:
    """The view keeps what it has until the new list is complete, then changes in one step."""
    for name in "abc":
        kube.put(pod(name))
    told: list[Sequence[Change[tuple[str, str]]]] = []
    timing = Timing(page=3, list_within=0.3, backoff=(0.002, 0.02))
    with following(kube, timing=timing, on_change=told.append) as reflector:
        assert eventually(lambda: reflector.view().watches == 1)
        kube.fail(Fault("error_410", "watch"), Fault("status", "list"), Fault("silence", "list"))
        kube.put(pod("x"))
        kube.delete("x")
        with kube.changed:
            kube.compact()
            kube.delete("b")
            kube.put(pod("c", status={"phase": "Running"}))
            kube.put(pod("d"))
            kube.compact()
        assert eventually(lambda: agrees(reflector, kube), within=10)
    replayed: dict[Key, tuple[str, str]] = {}
    for changes in told:
        for key, old, new in changes:
            assert replayed.get(key) == old
            if new is None:
                del replayed[key]
            else:
                replayed[key] = new
    assert replayed == dict(reflector.view().objects)


@pytest.mark.parametrize("what", ["error_410", "garbage_line", "unknown_type"])
def test_one_new_list_is_enough(kube: FakeKube, what: str) -> None:
    kube.fail(Fault(what, "watch"))
    with following(kube) as reflector:
        assert eventually(lambda: reflector.view().watches == 2)
        assert reflector.view().lists == 2


def test_a_list_without_end_is_given_up(kube: FakeKube) -> None:
    kube.put(pod("a"))
    kube.fail(*[Fault("endless_pages", "list")] * 30)
    with following(kube) as reflector:
        assert eventually(lambda: reflector.view().problem == "bad_answer")
        assert "no end" in reflector.view().detail
        kube.heal()
        assert eventually(lambda: agrees(reflector, kube))


def test_a_silent_connection_is_left(kube: FakeKube) -> None:
    kube.fail(Fault("freeze", "watch"))
    with following(kube, timing=Timing(idle=0.15, backoff=(0.002, 0.02))) as reflector:
        assert eventually(lambda: reflector.view().watches >= 2)
        kube.put(pod("a"))
        assert eventually(lambda: agrees(reflector, kube))


def test_a_bad_object_costs_only_itself(kube: FakeKube) -> None:
    kube.put(pod("good"))
    kube.put(pod("bad", metadata={"labels": {"broken": "yes"}}))
    with following(kube) as reflector:
        assert eventually(lambda: reflector.view().is_synced)
        assert [key.name for key in reflector.view().objects] == ["good"]
        assert reflector.view().undecodable == 1
        kube.put(pod("good", metadata={"labels": {"broken": "yes"}}))
        assert eventually(lambda: reflector.view().undecodable == 2)
        assert reflector.view().objects == {}
        kube.put(pod("good"))
        kube.delete("bad")
        assert eventually(lambda: agrees(reflector, kube))
        assert reflector.view().undecodable == 0
        assert reflector.view().lists == 1


def test_an_object_without_a_name_is_counted(kube: FakeKube) -> None:
    kube.put(pod("good"))
    with kube.changed:
        kube.state.objects["team", "odd"] = {"metadata": {"name": 7}, "spec": {}}
        kube.state.objects["team", "odder"] = {"metadata": {"name": None}}
    with following(kube) as reflector:
        assert eventually(lambda: reflector.view().is_synced)
        assert (len(reflector.view().objects), reflector.view().undecodable) == (1, 2)


def test_one_who_listens_badly_does_no_harm(kube: FakeKube) -> None:
    def fails(_: object) -> None:
        raise RuntimeError("no")

    with following(kube, on_change=fails) as reflector:
        kube.put(pod("a"))
        kube.put(pod("b"))
        assert eventually(lambda: agrees(reflector, kube))


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (403, "forbidden"),
        (404, "not_found"),
        (429, "throttled"),
        (500, "server_error"),
        (503, "server_error"),
        (302, "bad_answer"),
    ],
)
def test_the_view_says_what_is_wrong(kube: FakeKube, code: int, problem: str) -> None:
    kube.fail(*[Fault("status", code=code)] * 10_000)
    with following(kube) as reflector:
        assert eventually(lambda: reflector.view().problem == problem)
        view = reflector.view()
        assert (view.is_synced, view.age) == (False, None)
        assert f"{code}: made to fail" in view.detail
        kube.heal()
        assert eventually(lambda: reflector.view().is_synced)
        assert reflector.view().problem == ""


def test_a_server_that_is_not_there() -> None:
    with fake_kube() as kube:
        pass
    with following(kube) as reflector:
        assert eventually(lambda: reflector.view().problem in {"unreachable", "disconnected"})


def test_the_age_grows_while_nothing_is_heard(kube: FakeKube) -> None:
    with following(kube) as reflector:
        assert eventually(lambda: reflector.view().watches == 1)
        time.sleep(0.15)
        age = reflector.view().age
        assert age is not None
        assert 0.1 < age < 5
        kube.bookmark()
        assert eventually(lambda: (reflector.view().age or 0) < 0.1)


# --- pace ------------------------------------------------------------------------------------------------------------


def test_retry_after_is_honoured(kube: FakeKube) -> None:
    kube.fail(Fault("status", "list", code=429, retry_after="1"))
    with following(kube) as reflector:
        assert eventually(lambda: reflector.view().is_synced)
    first, second = (request.at for request in kube.requests[:2])
    assert 1.0 <= second - first < 3.0


def test_never_more_than_five_requests_in_a_second(kube: FakeKube) -> None:
    """Whatever the backoff would allow."""
    kube.fail(*[Fault("status")] * 10_000)
    with following(kube, timing=Timing(backoff=(0.0001, 0.001)), limits=Limits()):
        time.sleep(2.5)
    times = [request.at for request in kube.requests]
    assert 10 <= len(times) <= 16
    assert all(later - earlier > 0.98 for earlier, later in zip(times, times[5:], strict=False))


def test_the_backoff_grows_and_is_spread() -> None:
    client = ApiClient(Access("http://127.0.0.1:9", Fixed()), SystemClock())
    waits: list[list[float]] = []
    for seed in range(200):
        reflector = Reflector(client, What(PODS), decode, ManualClock(), random=Random(seed))
        waits.append([])
        for failures in range(1, 12):
            reflector._failures = failures
            waits[-1].append(reflector._backoff())
    for number, column in enumerate(zip(*waits, strict=True)):
        low, high = max(0.8, min(30, 0.8 * 2 ** (number + 1)) / 2), min(30, 0.8 * 2 ** (number + 1))
        assert low <= min(column) < low + 0.1 * (high - low)
        assert high - 0.1 * (high - low) < max(column) <= high


# --- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["watching", "waiting", "silent list", "before the start"])
def test_stop_is_prompt(kube: FakeKube, state: str) -> None:
    if state == "waiting":
        kube.fail(*[Fault("status", code=429, retry_after="200")] * 100)
    if state == "silent list":
        kube.fail(Fault("silence"))
    client = ApiClient(kube.access, SystemClock(), UNHURRIED)
    reflector: Reflector[tuple[str, str]] = Reflector(client, What(PODS), decode, SystemClock())
    if state != "before the start":
        reflector.start()
        assert eventually(lambda: len(kube.requests) == (2 if state == "watching" else 1))
        time.sleep(0.05)
    started = time.monotonic()
    reflector.stop()
    assert time.monotonic() - started < 1
    assert not reflector._thread.is_alive()


def test_many_readers_see_whole_views(kube: FakeKube) -> None:
    """Each page of the story has the same number of pods; a reader must never see another number."""
    for number in range(20):
        kube.put(pod(f"pod-{number}"))
    seen: set[int] = set()
    is_over = threading.Event()

    def read(reflector: Reflector[tuple[str, str]]) -> None:
        while not is_over.is_set():
            view: View[tuple[str, str]] = reflector.view()
            seen.add(len(view.objects))

    with following(kube) as reflector:
        assert eventually(lambda: agrees(reflector, kube))
        threads = [threading.Thread(target=read, args=(reflector,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(100):
            if number % 20 == 0:
                kube.fail(Fault("error_410", "watch"))
            kube.put(pod(f"pod-{number % 20}", status={"phase": f"{number}"}))
        assert eventually(lambda: agrees(reflector, kube))
        is_over.set()
        for thread in threads:
            thread.join()
    assert seen == {20}


def test_two_reflectors_share_a_client(kube: FakeKube) -> None:
    client = ApiClient(kube.access, SystemClock(), UNHURRIED)
    both = [Reflector(client, What(PODS), decode, SystemClock(), timing=FAST) for _ in range(2)]
    for reflector in both:
        reflector.start()
    kube.put(pod("a"))
    assert eventually(lambda: all(agrees(reflector, kube) for reflector in both))
    both[0].stop()
    kube.put(pod("b"))
    assert eventually(lambda: agrees(both[1], kube))
    both[1].stop()


def test_a_stopped_request_says_so(kube: FakeKube) -> None:
    client = ApiClient(kube.access, SystemClock(), UNHURRIED)
    exchange = client.exchange(PODS, {}, idle=5, within=5)
    exchange.abort()
    with pytest.raises(ApiError) as error:
        exchange.__enter__()
    assert error.value.reason == "stopped"
