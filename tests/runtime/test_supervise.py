"""Children that end are started again; all of them end when told to."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpusight.model.time import SystemClock
from gpusight.runtime.supervise import ChildSpec, Family, read_status

SLEEP = "import time; print('here', flush=True); time.sleep(60)"


def python(name: str, code: str, **environ: str) -> ChildSpec:
    return ChildSpec(name, [sys.executable, "-c", code], "http://127.0.0.1:1", "/", environ)


def wait_for(holds: Callable[[], bool], within: float = 15.0) -> None:
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, "in vain"
        time.sleep(0.02)


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Callable[..., Family]]:
    started: list[Family] = []

    def start(*specs: ChildSpec) -> Family:
        made = Family(specs, SystemClock(), tmp_path / "roles.json")
        started.append(made)
        made.start()
        return made

    yield start
    for each in started:
        each.stop()


def is_alive(pid: int | None) -> bool:
    return pid is not None and Path(f"/proc/{pid}/stat").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text()


def test_a_child_that_is_killed_is_started_again(family: Callable[..., Family], tmp_path: Path) -> None:
    [child] = family(python("sleeper", SLEEP)).children
    wait_for(lambda: child.status.state == "running")
    first = child.status.pid
    assert first is not None
    os.kill(first, 9)

    wait_for(lambda: child.status.state == "running" and child.status.pid != first)
    assert child.status.restarts == 1
    assert child.status.last_exit == "was ended by SIGKILL"
    assert [status.name for status in read_status(tmp_path / "roles.json")] == ["sleeper"]


def test_all_end_when_told_to(family: Callable[..., Family]) -> None:
    made = family(python("one", SLEEP), python("two", SLEEP))
    wait_for(lambda: all(child.status.state == "running" for child in made.children))
    pids = [child.status.pid for child in made.children]
    made.stop()

    assert not any(map(is_alive, pids))
    assert [child.status.state for child in made.children] == ["stopped", "stopped"]


def test_one_that_cannot_be_started_is_told_and_tried_again(family: Callable[..., Family]) -> None:
    [child] = family(ChildSpec("missing", ["/nonexistent/program"])).children
    wait_for(lambda: child.status.restarts >= 1)

    assert child.status.last_exit == "could not be started: No such file or directory"


def test_words_come_under_the_name_of_who_says_them(
    family: Callable[..., Family], capfd: pytest.CaptureFixture[str]
) -> None:
    family(python("talker", "print('hello'); import time; time.sleep(60)", PYTHONUNBUFFERED="1"))
    seen: list[str] = []

    def heard() -> bool:
        seen.append(capfd.readouterr().err)
        return "talker | hello\n" in "".join(seen)

    wait_for(heard)


def test_a_status_that_is_not_there_or_not_whole_is_no_status(tmp_path: Path) -> None:
    assert read_status(tmp_path / "gone.json") == ()
    (tmp_path / "half.json").write_text('[{"name": "no')
    assert read_status(tmp_path / "half.json") == ()
