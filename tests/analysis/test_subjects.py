from hypothesis import given
from hypothesis import strategies as st

from gpusight.analysis.accounts import account
from gpusight.analysis.memory import dump, load
from gpusight.analysis.parts import build_parts
from gpusight.analysis.results import result_id
from gpusight.analysis.subjects import group_by_subject
from gpusight.analysis.tenancy import PriceList, Tenancy
from gpusight.model.series import Owner, PodKey, Reading, SeriesKey

from .building import CRITERIA, busy_gpu, gpu, idle_gpu, judge, key_of, later, owned_by, reading_of, verdicts_in

HOSTILE = ["a/b", "a\nb", "a\0b", "%2F", "/", "..", "x" * 10_000, "\ud800", "None", "nan", "{}", "' OR 1=1", "\u202e"]


def groups_in(reading: Reading) -> dict[str, list[str]]:
    groups = group_by_subject(build_parts(reading, CRITERIA), reading.owners)
    return {name: [part.key.pod for part in parts] for name, (_, parts) in groups.items()}


def test_pods_of_one_owner_are_one_subject() -> None:
    windows = [gpu(key_of(pod, f"GPU-{pod}"), util=0.5) for pod in ("a", "b", "c")]
    reading = reading_of(*windows, owners=owned_by("llm", "a", "b"))
    assert groups_in(reading) == {"/team/Deployment/llm": ["a", "b"], "/team/Pod/c": ["c"]}
    verdicts = verdicts_in(judge(reading))
    assert verdicts["llm"].subject.how == "by kube_pod_owner"
    assert verdicts["llm"].pods == ("a", "b")
    assert verdicts["c"].subject.how == "no series names an owner: the subject is the pod itself"


def test_an_owner_is_never_guessed_from_a_name() -> None:
    names = ("llm-7f9c4d5b6-abcde", "llm-7f9c4d5b6-fghij", "llm-0", "llm-1")
    reading = reading_of(*(gpu(key_of(pod, f"GPU-{pod}"), util=0.5) for pod in names))
    assert groups_in(reading) == {f"/team/Pod/{pod}": [pod] for pod in names}


def test_equal_names_in_two_clusters_namespaces_or_kinds_never_mix() -> None:
    keys = [
        key_of("p", f"GPU-{name}", cluster=cluster, namespace=name) for cluster in ("east", "west") for name in "ab"
    ]
    owners = {PodKey("east", "a", "p"): Owner("Job", "p", "x"), PodKey("west", "a", "p"): Owner("Deployment", "p", "x")}
    busy, *idle = keys
    reading = reading_of(busy_gpu(busy), *(idle_gpu(key) for key in idle), owners=owners)
    states = {each.verdict.subject.id: each.verdict.state for each in judge(reading).judged}
    assert states == {
        "east/a/Job/p": "productive",
        "east/b/Pod/p": "idle-held",
        "west/a/Deployment/p": "idle-held",
        "west/b/Pod/p": "idle-held",
    }


def test_what_nobody_holds_is_its_own_subject() -> None:
    reading = reading_of(gpu(key_of("", "GPU-1"), util=0.0), gpu(key_of("", "GPU-2", mig="3"), engine=0.0))
    assert set(groups_in(reading)) == {"//GPU/GPU-1", "//GPU/GPU-2/3"}


def test_hostile_names_neither_collide_nor_crash() -> None:
    names = ["a", "b", "", *HOSTILE]
    keys = [SeriesKey(c, "GPU-1", "", "", n, p, "") for c in names for n in names for p in (*names[:2], *HOSTILE)]
    reading = reading_of(*(gpu(key, own=0.5) for key in keys))
    conclusion = judge(reading)
    assert len(conclusion.judged) == len(keys)
    assert len({row.id for row in conclusion.results}) == len(keys)
    assert all(
        each.verdict.subject.id.isprintable() or "\u202e" in each.verdict.subject.id for each in conclusion.judged
    )
    after = judge(later(reading, 300), conclusion.memory)
    rows = account(after, conclusion.memory, 600, Tenancy(), PriceList())
    assert len({(row.hour, row.cluster, row.namespace, row.subject) for row in rows}) == len(rows) >= len(keys)


def test_hostile_names_are_remembered() -> None:
    memory = judge(reading_of(idle_gpu(key_of("a/\0\n%")))).memory
    assert load(dump(memory)) == memory


@given(st.lists(st.tuples(*[st.text(alphabet="a/%2F\0", max_size=4)] * 7), unique=True, max_size=30))
def test_ids_of_rows_tell_rows_apart(keys: list[tuple[str, str, str, str, str, str, str]]) -> None:
    assert len({result_id(SeriesKey(*key)) for key in keys}) == len(keys)
