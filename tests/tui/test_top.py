"""The command: against a real node agent, with --once, --json and in a pseudo-terminal."""

import json
import os
import pty
import re
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from gpusight.errors import GpusightError, UsageError
from gpusight.runtime.top import main
from tests.support.net import free_port
from tests.support.role import Role, running_role

SETS = [flag for name in ("gpu", "containers", "processes", "health") for flag in ("--collect.sets", name)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Role]:
    with running_role(tmp_path_factory.mktemp("top"), "node", "--simulate", *SETS) as role:
        deadline = time.monotonic() + 20
        while True:  # the first reading may not be there yet
            try:
                main(node=role.url, json=True)
            except GpusightError:
                assert time.monotonic() < deadline
            else:
                break
            time.sleep(0.05)
        yield role


def told(capsys: pytest.CaptureFixture[str], **options: object) -> str:
    capsys.readouterr()
    assert main(**options) == 0  # type: ignore[arg-type]
    return capsys.readouterr().out


def wait_for_gpus(capsys: pytest.CaptureFixture[str], url: str) -> dict[str, object]:
    deadline = time.monotonic() + 20
    while True:
        found: dict[str, object] = json.loads(told(capsys, node=url, json=True))
        if found["gpus"]:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_json_has_everything_under_stable_keys(node: Role, capsys: pytest.CaptureFixture[str]) -> None:
    found = wait_for_gpus(capsys, node.url)
    assert list(found) == [
        *("kind", "source", "fetched_at", "data_age_seconds", "data_is_old", "simulated", "problems"),
        *("gpus", "sharing"),
    ]
    assert (found["kind"], found["simulated"], found["data_is_old"]) == ("node", True, False)
    gpus = found["gpus"]
    assert isinstance(gpus, list)
    assert len(gpus) == 8
    assert list(gpus[0]) == [
        *("uuid", "index", "node", "model", "status", "down_reason", "reading_age_seconds", "utilization_ratio"),
        *("memory_used_bytes", "memory_limit_bytes", "power_watts", "power_limit_watts", "temperature_celsius"),
        *("sm_clock_hertz", "mig_devices", "containers", "processes"),
    ]
    assert {each["pod"] for each in gpus[3]["containers"]} == {"pretrain-0"}
    assert [each["profile"] for each in gpus[2]["mig_devices"]] == ["3g.40gb", "2g.20gb", "1g.10gb"]


def test_once_prints_the_tree_as_plain_text(node: Role, capsys: pytest.CaptureFixture[str]) -> None:
    wait_for_gpus(capsys, node.url)
    text = told(capsys, node=node.url, once=True, lang="en")
    assert "SIMULATED" in text.splitlines()[0]
    assert re.search(r"^3 NVIDIA H100 80GB HBM3 +\w+ +\d+% +[\d.]+/79\.6G +\d+/700W +\d+C +\d+$", text, re.MULTILINE)
    assert re.search(r"^  llm/pretrain-0/trainer +\w+ +\d+% +[\d.]+G$", text, re.MULTILINE)
    assert "\x1b" not in text


def test_once_filters_and_flattens(node: Role, capsys: pytest.CaptureFixture[str]) -> None:
    wait_for_gpus(capsys, node.url)
    text = told(capsys, node=node.url, once=True, flat=True, find="pretrain", lang="zh", reasons=True)
    rows = [line.split()[:2] for line in text.splitlines()[5:] if not line.startswith("  ")]
    assert rows == [["3", "llm/pretrain-0/trainer"], ["4", "llm/pretrain-0/trainer"]]
    assert "来源 pod_resources" in text


def test_the_local_node_is_found(node: Role, capsys: pytest.CaptureFixture[str]) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    assert json.loads(told(capsys, json=True, local=(node.url, nobody)))["source"] == node.url


def test_a_source_that_is_not_there_is_one_sentence_and_exit_code_1() -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(GpusightError, match=r"^http://127\S+ refuses the connection$") as refused:
        main(node=nobody, once=True)
    assert refused.value.exit_code == 1
    with pytest.raises(GpusightError, match=r"^no node agent answers at \S+ and no analyzer at \S+: start one") as none:
        main(json=True, local=(nobody, nobody))
    assert none.value.exit_code == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"url": "http://a", "node": "http://b"}, "give one of them"),
        ({"node": "http://a", "token_file": Path("x")}, "--token-file is for an analyzer"),
        ({"node": "ftp://a"}, "is not the address of an HTTP server"),
        ({"node": "https://a", "ca_file": Path("/nonexistent.pem")}, "--ca-file /nonexistent.pem cannot be used"),
        ({"node": "http://a", "interval": "soon"}, "--interval is from 0.5s to 1h, such as 2s, not soon"),
        ({"node": "http://a", "interval": "0.1s"}, "--interval is from 0.5s"),
        ({"node": "http://127.0.0.1:1"}, "needs a terminal; --once prints a table"),
    ],
)
def test_wrong_usage_is_one_sentence(
    options: dict[str, object], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(UsageError, match=re.escape(sentence)):
        main(**options)  # type: ignore[arg-type]


def test_in_a_terminal_it_shows_the_node_and_q_ends_it(node: Role) -> None:
    program = f"import sys; from gpusight.runtime.top import main; sys.exit(main(node={node.url!r}, lang='en'))"
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    process = Popen([sys.executable, "-c", program], stdin=theirs, stdout=theirs, stderr=theirs, env=environ)
    os.close(theirs)
    try:
        assert b"SIMULATED" in _read_until(ours, b"detector-train-0")
        os.write(ours, b"q")
        _read_until(ours, None)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read_until(terminal: int, wanted: bytes | None, within: float = 20.0) -> bytes:
    """Until the text was seen, or with None until the other side is closed."""
    seen, deadline = b"", time.monotonic() + within
    while wanted is None or wanted not in seen:
        assert time.monotonic() < deadline, seen[-2000:]
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                seen += os.read(terminal, 65536)
            except OSError:  # how Linux says that nobody has the other side open
                return seen
    return seen
