"""After any faults in any order the view equals the server, and the changes told add up to it."""

import time
from collections.abc import Sequence
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpusight.model.time import SystemClock
from gpusight.sources.kubernetes.client import ApiClient, Limits
from gpusight.sources.kubernetes.reflector import Change, Key, Reflector, Timing, What
from tests.sources.test_reflector import PODS, agrees, decode, eventually
from tests.support.fake_kube import ANY_FAULTS, LIST_FAULTS, WATCH_FAULTS, FakeKube, Fault, fake_kube, pod

HURRIED = Timing(page=2, list_within=0.3, idle=0.25, backoff=(0.001, 0.01))
SELECTOR = {"fieldSelector": "spec.nodeName=node-1"}
NAMES = st.integers(0, 6).map("pod-{}".format)

puts = st.tuples(st.just("put"), NAMES, st.sampled_from(["node-1", "node-1", "node-2"]))
deletes = st.tuples(st.just("delete"), NAMES)
others = st.tuples(st.sampled_from(["compact", "bookmark", "breathe"]))
faults = st.one_of(
    st.builds(Fault, st.sampled_from(WATCH_FAULTS), st.just("watch"), after=st.integers(0, 3)),
    st.builds(Fault, st.sampled_from(LIST_FAULTS), st.just("list")),
    st.builds(
        Fault,
        st.sampled_from([*(what for what in ANY_FAULTS if what != "silence"), "status"]),
        code=st.sampled_from([401, 403, 404, 410, 429, 500, 503, 504]),
    ),
)
steps = st.lists(st.one_of(puts, puts, deletes, others, faults.map(lambda fault: ("fail", fault))), max_size=40)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.integers(0, 2**32))
def test_the_view_equals_the_server_after_any_faults(story: list[tuple[object, ...]], seed: int) -> None:
    run_story(story, seed)


def run_story(story: Sequence[tuple[object, ...]], seed: int) -> None:
    told: dict[Key, tuple[str, str]] = {}
    wrong: list[Change[tuple[str, str]]] = []

    def listen(changes: Sequence[Change[tuple[str, str]]]) -> None:
        for change in changes:
            if told.get(change.key) != change.old:
                wrong.append(change)
            told.pop(change.key, None)
            if change.new is not None:
                told[change.key] = change.new

    with fake_kube() as kube:
        client = ApiClient(kube.access, SystemClock(), Limits(requests=10_000))
        what = What(PODS, field_selector=SELECTOR["fieldSelector"])
        reflector = Reflector(
            client, what, decode, SystemClock(), on_change=listen, timing=HURRIED, random=Random(seed)
        )  # fmt: skip
        reflector.start()
        try:
            tell(story, kube, Random(seed))
            kube.heal()
            assert eventually(lambda: agrees(reflector, kube, SELECTOR)), (reflector.view(), kube.names(SELECTOR))
        finally:
            reflector.stop()
        assert not wrong
        assert told == dict(reflector.view().objects)


def tell(story: Sequence[tuple[object, ...]], kube: FakeKube, random: Random) -> None:
    for verb, *rest in story:
        if verb == "put":
            name, node = map(str, rest)
            if (held := kube.state.objects.get(("team", name))) and held["spec"]["nodeName"] != node:
                kube.delete(name)  # a pod never moves
            kube.put(pod(name, node))
        elif verb == "delete":
            kube.delete(str(rest[0]))
        elif verb == "compact":
            kube.compact()
        elif verb == "bookmark":
            kube.bookmark()
        elif verb == "fail":
            assert isinstance(rest[0], Fault)
            kube.fail(rest[0])
        if verb == "breathe" or random.random() < 0.3:
            time.sleep(random.random() * 0.01)
