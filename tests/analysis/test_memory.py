import msgspec
import pytest

from gpusight.analysis.accounts import account
from gpusight.analysis.memory import Memory, MemoryLost, dump, load
from gpusight.analysis.tenancy import PriceList, Tenancy

from .building import busy_gpu, idle_gpu, judge, key_of, later, reading_of


def some_memory() -> Memory:
    reading = reading_of(idle_gpu(key_of("a")), busy_gpu(key_of("b", "GPU-2")))
    first = judge(reading)
    second = judge(later(reading, 300), first.memory)
    account(second, first.memory, 600, Tenancy(), PriceList())
    return second.memory


def test_what_is_kept_is_all_of_it() -> None:
    memory = some_memory()
    assert memory.subjects
    assert memory.hours
    assert memory.floors
    assert load(dump(memory)) == memory


def test_a_memory_of_an_older_program_keeps_its_idle_times() -> None:
    older = msgspec.msgpack.decode(dump(some_memory()))
    for subject in older["subjects"].values():
        del subject["held"]
    del older["floors"]
    found = load(msgspec.msgpack.encode(older))
    assert found.subjects["/team/Pod/a"].idle_since == some_memory().subjects["/team/Pod/a"].idle_since
    assert found.floors == {}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"not a memory",
        dump(some_memory())[:-3],
        dump(some_memory()) + b"\0",
        msgspec.msgpack.encode([1, 2]),
        msgspec.msgpack.encode({"subjects": {"a": {"seen": 1}}}),
        msgspec.msgpack.encode({"at": "yesterday"}),
        msgspec.msgpack.encode({"floors": {"a": None}}),
        msgspec.msgpack.encode(
            {"subjects": {"a": {"first_seen": 1.0, "seen": 1.0, "since": 1.0, "state": "condemned"}}}
        ),
    ],
    ids=range(10),
)
def test_what_cannot_be_read_is_refused_in_one_sentence(data: bytes) -> None:
    with pytest.raises(MemoryLost, match=r"^the state of the last round cannot be read \(.*\); idle times start anew$"):
        load(data)
