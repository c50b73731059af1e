"""Ports, disk, journal, files, packages."""

import os
import socket
import sys
from pathlib import Path

import pytest

from gpusight.doctor.ports import Holder, holder_of
from gpusight.doctor.subject import Ai, Listen, NamedFile, SettingsReport
from gpusight.journal.open import open_journal
from gpusight.journal.retention import Retention
from gpusight.model.time import SystemClock
from tests.doctor.subjects import outcome, results_of, subject
from tests.sources.test_nvml_helpers import until
from tests.support.net import free_port
from tests.support.pages import served_page
from tests.support.process import running

LISTENER = "import socket,sys,time; s=socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(60)"


def of_port(tmp_path: Path, address: str, asked: tuple[str, ...] = ()) -> tuple[str, str]:
    number = int(address.rpartition(":")[2])
    here = subject(tmp_path, listen=(Listen("node", address, number),), asked=frozenset(asked))
    return outcome(results_of(here, "port")[f"port.{number}"])


def test_a_free_port_stays_free(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    assert of_port(tmp_path, address) == ("ok", "port.free")
    assert of_port(tmp_path, address) == ("ok", "port.free")


def test_a_port_that_another_program_has(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        holder = holder_of(Path("/proc"), number)
        assert holder is not None
        assert holder.pid == os.getpid()
        assert of_port(tmp_path, f"127.0.0.1:{number}") == ("warn", "port.taken")
        assert of_port(tmp_path, f"127.0.0.1:{number}", ("node",)) == ("fail", "port.taken")
    assert holder_of(Path("/proc"), number) is None


def test_a_port_that_we_have_ourselves(tmp_path: Path) -> None:
    number = free_port()
    program = tmp_path / "gpusight"
    program.write_text(LISTENER)
    with running([sys.executable, str(program), str(number)], tmp_path / "log"):
        until(lambda: holder_of(Path("/proc"), number))
        assert of_port(tmp_path, f"127.0.0.1:{number}", ("node",)) == ("ok", "port.ours")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("/usr/bin/python3", "/opt/bin/gpusight", "node"), True),
        (("python", "-m", "gpusight", "node"), True),
        (("uvicorn", "gpusight.runtime.asgi:app"), True),
        (("prometheus", "--config.file=/etc/gpusight"), False),
        (("python", "-m", "http.server"), False),
    ],
)
def test_who_is_one_of_us(arguments: tuple[str, ...], expected: bool) -> None:
    assert Holder(1, "x", arguments).is_ours is expected


def test_an_address_of_another_machine(tmp_path: Path) -> None:
    assert of_port(tmp_path, f"192.0.2.1:{free_port()}") == ("fail", "port.unusable")


def test_a_data_directory(tmp_path: Path) -> None:
    assert outcome(results_of(subject(tmp_path), "disk")["disk.data"]) == ("ok", "disk.ok")
    later = subject(tmp_path, data_dir=tmp_path / "a" / "b")
    assert outcome(results_of(later, "disk")["disk.data"]) == ("ok", "disk.to-be-made")
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_a_data_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, expected in (
        (tmp_path / "file", ("fail", "disk.not-a-directory")),
        (Path("/proc/gpusight"), ("fail", "disk.not-writable")),
    ):
        assert outcome(results_of(subject(tmp_path, data_dir=path), "disk")["disk.data"]) == expected


def test_room_for_what_the_store_may_take(tmp_path: Path) -> None:
    greedy = subject(tmp_path, store="embedded", store_file=tmp_path / "samples", store_max_bytes=1 << 60)
    assert outcome(results_of(greedy, "disk")["disk.data"]) == ("warn", "disk.little")


def test_a_directory_that_everybody_may_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert outcome(results_of(subject(tmp_path), "disk")["disk.data"]) == ("warn", "file.writable")


def test_journals(tmp_path: Path) -> None:
    def journal() -> tuple[str, str]:
        return outcome(results_of(subject(tmp_path), "journal")["journal.open"])

    path = tmp_path / "journal.sqlite3"
    assert journal() == ("skip", "journal.none")
    assert not path.exists()
    open_journal(path, retention=Retention(), clock=SystemClock()).close()
    assert journal() == ("ok", "journal.ok")
    path.write_bytes(b"no database at all" * 500)
    assert journal() == ("fail", "journal.wrong")


def test_a_database_that_does_not_answer_keeps_its_password(tmp_path: Path) -> None:
    url = f"postgres://me:hunter2@127.0.0.1:{free_port()}/x"
    found = results_of(subject(tmp_path, journal=url), "journal")["journal.open"]
    assert outcome(found) == ("fail", "journal.wrong")
    assert "hunter2" not in str(found)
    assert "hunter2" not in repr(subject(tmp_path, journal=url))


def wrong() -> object:
    raise ValueError("token 1 needs a name")


@pytest.mark.parametrize(
    ("mode", "is_secret", "expected"),
    [
        (0o600, True, ("ok", "file.ok")),
        (0o640, True, ("ok", "file.ok")),  # a group that was given is meant
        (0o644, True, ("warn", "file.exposed")),
        (0o644, False, ("ok", "file.ok")),
        (0o666, False, ("warn", "file.writable")),
    ],
)
def test_files_and_who_may_read_them(tmp_path: Path, mode: int, is_secret: bool, expected: tuple[str, str]) -> None:
    path = tmp_path / "tokens"
    path.write_text("x")
    path.chmod(mode)
    here = subject(tmp_path, files=(NamedFile("auth.token-file", path, is_secret),))
    assert outcome(results_of(here, "file")["file.auth.token-file"]) == expected


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("x")
    for path, load, expected in (
        (tmp_path / "tokens", wrong, ("fail", "file.wrong")),
        (tmp_path / "absent", None, ("fail", "file.unreadable")),
        (tmp_path, None, ("fail", "file.unreadable")),
    ):
        here = subject(tmp_path, files=(NamedFile("auth.token-file", path, True, load),))
        assert outcome(results_of(here, "file")["file.auth.token-file"]) == expected


def test_settings(tmp_path: Path) -> None:
    def nonsense() -> None:
        raise ValueError("the weights sum up to 2")

    report = SettingsReport(
        5,
        ("setting step: 'x' is not a duration",),
        tmp_path / "absent.yaml",
        "no such file",
        ("GPUSIGHT_PROM_ULR",),
        nonsense,
    )
    found = {name: outcome(each) for name, each in results_of(subject(tmp_path, settings=report), "config").items()}
    assert found == {
        "config.file": ("fail", "config.file-wrong"),
        "config.settings": ("fail", "config.wrong"),
        "config.environment": ("warn", "config.unknown-variables"),
        "config.criteria": ("fail", "config.criteria-wrong"),
    }


def test_a_configuration_file_that_others_may_change(tmp_path: Path) -> None:
    path = tmp_path / "gpusight.yaml"
    path.write_text("")
    path.chmod(0o662)
    here = subject(tmp_path, settings=SettingsReport(1, file=path))
    assert outcome(results_of(here, "config.file")["config.file"]) == ("warn", "file.writable")
    path.chmod(0o644)
    assert outcome(results_of(here, "config.file")["config.file"]) == ("ok", "config.file-ok")


def test_packages(tmp_path: Path) -> None:
    here = subject(
        tmp_path,
        extras={"node": "the role node", "k8s": "", "analyze": ""},
        missing=lambda extra: () if extra == "analyze" else ("h11",),
    )
    assert {name: outcome(each) for name, each in results_of(here, "extra").items()} == {
        "extra.node": ("fail", "extra.needed"),
        "extra.k8s": ("skip", "extra.absent"),
        "extra.analyze": ("ok", "extra.ok"),
    }


def test_the_language_model(tmp_path: Path) -> None:
    def ai(wanted: Ai) -> list[tuple[str, str]]:
        return [outcome(each) for each in results_of(subject(tmp_path, ai=wanted), "ai").values()]

    assert ai(Ai()) == [("skip", "ai.off")] * 2
    assert ai(Ai(True)) == [("fail", "ai.lacking"), ("skip", "ai.no-url")]
    away = f"http://127.0.0.1:{free_port()}/v1"
    assert ai(Ai(True, away, True)) == [("ok", "ai.settings-ok"), ("fail", "ai.unreachable")]
    with socket.create_server(("127.0.0.1", 0)) as there:
        url = f"http://127.0.0.1:{there.getsockname()[1]}/v1"
        assert ai(Ai(True, url, True)) == [("ok", "ai.settings-ok"), ("ok", "ai.reachable")]


def test_python_and_its_limits(tmp_path: Path) -> None:
    found = results_of(subject(tmp_path), "python", "limits")
    assert outcome(found["python.version"]) == ("ok", "python.ok")
    assert found["limits.files"].finding.status in ("ok", "warn")


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('{"status": "healthy", "last_analysis": "2026-01-01T00:00:00Z"}', ("ok", "analyzer.ok")),
        ('{"status": "degraded", "last_analysis": null, "reason": "no round yet"}', ("warn", "analyzer.unwell")),
        ('{"status": "healthy"}', ("skip", "analyzer.none")),  # somebody else
        ("OK", ("skip", "analyzer.none")),
    ],
)
def test_an_analyzer_that_runs_here(tmp_path: Path, page: str, expected: tuple[str, str]) -> None:
    with served_page(page) as served:
        number = int(served.address.rpartition(":")[2])
        here = subject(tmp_path, listen=(Listen("analyze", f":{number}", number),))
        assert outcome(results_of(here, "analyze")["analyze.health"]) == expected
    assert outcome(results_of(here, "analyze")["analyze.health"]) == ("skip", "analyzer.none")
