"""`gpusight doctor` from the environment to the exit code, the text and the archive."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpusight import __version__
from gpusight.doctor.table import all_checks
from gpusight.errors import StartError, UsageError
from gpusight.model.time import SystemClock
from gpusight.runtime.doctor import run
from gpusight.runtime.doctor_subject import known_settings, make_subject, own_names
from tests.doctor.subjects import outcome, results_of
from tests.support.net import free_port
from tests.support.pages import served_page

SOURCE = Path(__file__).parents[2] / "src"
CODE = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); from gpusight.runtime.doctor import run; sys.exit(run(%s))"


def home(directory: Path, **more: str) -> dict[str, str]:
    """An environment in which nothing of this machine's is found."""
    return {"HOME": str(directory), "PATH": "/usr/bin:/bin", **more}


def results(capsys: pytest.CaptureFixture[str], environ: Mapping[str, str], *only: str, **more: Any) -> dict[str, Any]:
    run(only=only, as_json=True, environ=environ, **more)
    data = json.loads(capsys.readouterr().out)
    return {check["id"]: check for check in data["checks"]}


def test_text_and_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environ = home(tmp_path)
    assert run(only=["python"], environ=environ) == 0
    assert capsys.readouterr().out.startswith("ok    python.version  Python 3.")
    assert run(only=["config"], environ={**environ, "GPUSIGHT_PROM_ULR": "x"}) == 1
    assert "GPUSIGHT_PROM_ULR (GPUSIGHT_PROM_URL?)" in capsys.readouterr().out
    assert run(only=["config"], environ={**environ, "THRESHOLD": "much"}) == 2
    assert '"much" from environment THRESHOLD is not an integer between 0 and 100' in capsys.readouterr().out


def test_languages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(only=["config.file"], environ=home(tmp_path, LANG="zh_CN.UTF-8"))
    assert "未指定配置文件" in capsys.readouterr().out
    run(only=["config.file"], environ=home(tmp_path, LANG="zh_CN.UTF-8"), lang="en")
    assert "No configuration file" in capsys.readouterr().out


def test_all_that_is_wrong_with_the_settings_is_told_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = home(tmp_path, THRESHOLD="much", INTERVAL="often", AI_API_KEY="hunter2", TIME_WINDOW_MIN="60")
    [checked] = results(capsys, environ, "config.settings").values()
    assert "THRESHOLD" in checked["found"]
    assert "INTERVAL" in checked["found"]
    known = known_settings({}, environ)
    assert (known.get("time-window-min"), known.get("threshold")) == (60, 20), "what makes sense is used"


def test_the_configuration_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gpusight.yaml"
    path.write_text("threshold: 30\n")
    environ = home(tmp_path, GPUSIGHT_CONFIG_FILE=str(path))
    assert known_settings({}, environ).get("threshold") == 30
    assert results(capsys, environ, "config.file")["config.file"]["status"] == "ok"
    path.write_text("treshold: 30\n")
    [checked] = results(capsys, environ, "config.file").values()
    assert checked["status"] == "fail"
    assert "did you mean threshold?" in checked["found"]
    flagged = results(capsys, home(tmp_path), "config.file", config_file=str(tmp_path / "absent"))
    assert "cannot be read" in flagged["config.file"]["found"]


def test_weights_and_thresholds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in (("POWER_WEIGHT", "0.9"), ("THRESHOLD", "5"), ("STEP", "3600s")):
        [checked] = results(capsys, home(tmp_path, **{name: value}), "config.criteria").values()
        assert (checked["status"], checked["outcome"]) == ("fail", "config.criteria-wrong")
    [checked] = results(capsys, home(tmp_path), "config.criteria").values()
    assert checked["status"] == "ok"


def test_the_files_of_settings(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.yaml"
    tokens.write_text("- name: x\n")
    web = tmp_path / "web.yaml"
    web.write_text("basic_auth_users: {}\n")
    web.chmod(0o600)
    environ = home(tmp_path, GPUSIGHT_AUTH_TOKEN_FILE=str(tokens), GPUSIGHT_WEB_CONFIG_FILE=str(web))
    examined = make_subject(known_settings({}, environ), environ, SystemClock())
    assert {name: outcome(each) for name, each in results_of(examined, "file").items()} == {
        "file.auth.token-file": ("fail", "file.wrong"),
        "file.web.config.file": ("ok", "file.ok"),
    }


def test_what_needs_kubernetes_and_packages(tmp_path: Path) -> None:
    environ = home(tmp_path, GPUSIGHT_K8S_WATCH_PODS="true", DATABASE_URL="postgres://h/x")
    examined = make_subject(known_settings({}, environ), environ, SystemClock(), ["node"])
    assert {name: needed_by for name, needed_by in examined.extras.items() if needed_by} == {
        "node": "the role node",
        "k8s": "k8s.watch-pods",
        "postgres": "database.url",
    }
    assert outcome(results_of(examined, "k8s.access")["k8s.access"]) == ("fail", "k8s.access-needed")


def test_recording_rules_are_those_of_the_settings(tmp_path: Path) -> None:
    def names(**environ: str) -> frozenset[str]:
        here = home(tmp_path, **environ)
        return make_subject(known_settings({}, here), here, SystemClock()).recorded_names()

    assert names()
    assert names().isdisjoint(names(TIME_WINDOW_MIN="60"))


def test_a_simulated_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = results(capsys, home(tmp_path, GPUSIGHT_SIMULATE="default"), "nvml.driver")
    assert found["nvml.driver"]["outcome"] == "nvml.simulated"


def test_ports_are_those_of_the_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    number = free_port()
    environ = home(tmp_path, GPUSIGHT_WEB_LISTEN_ADDRESS=f"127.0.0.1:{number}")
    assert results(capsys, environ, "port")[f"port.{number}"]["outcome"] == "port.free"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"only": ["nope"]}, UsageError),
        ({"roles": ["nope"]}, UsageError),
        ({"deadline": 0.0}, UsageError),
        ({"deadline": float("nan")}, UsageError),
    ],
)
def test_wrong_usage(tmp_path: Path, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        run(**options, environ=home(tmp_path))


def test_nothing_of_the_deadline_is_wasted_on_who_hangs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page that nobody ever writes to: opening it never returns."""
    fifo = tmp_path / "tokens.yaml"
    os.mkfifo(fifo)
    environ = home(tmp_path, GPUSIGHT_AUTH_TOKEN_FILE=str(fifo))
    try:
        found = results(capsys, environ, "file", "python", deadline=0.5)
    finally:
        os.close(os.open(fifo, os.O_RDWR))  # lets go of the thread that waits
    assert found["file.auth.token-file"]["outcome"] == "doctor.timeout"
    assert found["python.version"]["status"] == "ok"


# As a program.


def program(options: str, environ: Mapping[str, str], *flags: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *flags, "-c", CODE % options],
        env=dict(environ), capture_output=True, text=True, timeout=60, check=False, **more,
    )  # fmt: skip


def test_without_any_package(tmp_path: Path) -> None:
    done = program("only=['extra', 'prom.reachable', 'nvml', 'disk', 'k8s', 'config']", home(tmp_path), "-S")
    assert (done.returncode, done.stderr) == (0, "")
    assert "The extra analyze is not installed" in done.stdout
    assert "pip install 'gpusight[analyze]'" in done.stdout


def test_an_encoding_that_knows_no_chinese(tmp_path: Path) -> None:
    environ = home(tmp_path, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    done = program("only=['python', 'config.file'], lang='zh'", environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u672a" in done.stdout


def test_a_reader_that_has_seen_enough(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CODE % "only=['python']"]
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            command, env=home(tmp_path), stdout=write, stderr=subprocess.PIPE, timeout=60, check=False
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


# The archive.

SECRETS = {
    "AI_API_KEY": "planted-ai-key-1",
    "DATABASE_URL": "postgres://planted-user-2:planted-pass-2@db.planted-host.example/x",
    "GPUSIGHT_PROM_HEADER": "X-Scope-OrgID: planted-tenant-3,Authorization: Basic planted-basic-3",
    "AI_API_URL": "https://planted-user-4:planted-pass-4@model.planted-host.example/v1/planted-path-4?key=planted-key-4",
    "AI_ENABLED": "true",
    "CONTROL_API": "https://control.planted-host.example/hook/planted-path-5",
    "USER": "planted-person",
    "NODE_NAME": "planted-node-6",
}


def test_no_secret_is_in_the_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token, password, log = tmp_path / "token", tmp_path / "password", tmp_path / "agent.log"
    token.write_text("planted-bearer-7\n")
    password.write_text("planted-password-8\n")
    log.write_text(
        "level=info msg=fine\n"
        "level=info msg='sent planted-bearer-7 and planted-password-8 and planted-ai-key-1'\n"
        "level=info msg='Authorization: Bearer planted.jwt.9' node=planted-node-6 url=http://planted-host.example/\n"
        "level=info msg='planted-person at 10.99.88.77, cookie=planted-cookie-10'\n"
    )
    with served_page("") as page:
        environ = home(
            tmp_path / "planted-person",
            **SECRETS,
            PROM_URL=f"http://planted-user-11:planted-pass%2D11@{page.address}",
            GPUSIGHT_PROM_BEARER_TOKEN_FILE=str(token),
            GPUSIGHT_PROM_PASSWORD_FILE=str(password),
            GPUSIGHT_SCRAPE_TARGET="http://planted-user-12:planted-pass-12@planted-host.example/metrics",
        )
        archive = tmp_path / "support.tar.gz"
        run(bundle=archive, log=log, environ=environ, only=["config", "prom", "ai", "journal", "file", "k8s"])
    capsys.readouterr()
    with tarfile.open(archive) as opened:
        texts = {member.name: _text(opened, member) for member in opened.getmembers()}
    assert sorted(texts) == [
        f"gpusight-doctor/{name}"
        for name in ("doctor.json", "families.txt", "log.txt", "settings.json", "versions.json")
    ]
    everything = archive.read_bytes() + "".join(texts.values()).encode()
    assert b"planted" not in everything
    assert b"10.99.88.77" not in everything
    log_text = texts["gpusight-doctor/log.txt"]
    assert "msg=fine" in log_text
    assert "node=<host>" in log_text
    settings = json.loads(texts["gpusight-doctor/settings.json"])
    assert settings["analyze"]["ai.enabled"] == {"value": True, "origin": "environment AI_ENABLED"}
    assert settings["analyze"]["ai.api-key"]["value"] == "********"
    checks = json.loads(texts["gpusight-doctor/doctor.json"])["checks"]
    assert {"config.settings", "prom.reachable"} <= {check["id"] for check in checks}
    versions = json.loads(texts["gpusight-doctor/versions.json"])
    assert versions["gpusight"] == __version__
    assert versions["packages"]["pytest"]


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    content = archive.extractfile(member)
    assert content is not None
    return content.read().decode()


def test_an_archive_replaces_nothing(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("mine")
    with pytest.raises(StartError, match="is there already"):
        run(bundle=there, only=["python"], environ=home(tmp_path))
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    with pytest.raises(StartError, match="is there already"):
        run(bundle=dangling, only=["python"], environ=home(tmp_path))
    assert there.read_text() == "mine"


def test_an_archive_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="cannot be written"):
        run(bundle=tmp_path / "no" / "x", only=["python"], environ=home(tmp_path))
    with pytest.raises(StartError, match="cannot be written"):
        run(bundle=tmp_path / "x", log=tmp_path / "absent", only=["python"], environ=home(tmp_path))
    assert not (tmp_path / "x").exists()


def test_names_of_this_machine(tmp_path: Path) -> None:
    hosts, users = own_names({"HOME": "/home/alice/", "USER": "al"}, known_settings({}, {"NODE_NAME": "n1"}))
    assert "n1" in hosts
    assert set(users) == {"alice", "al"}


@pytest.mark.parametrize("role", ["analyze", "node", "ops", "up"])
def test_every_role_has_its_port_checked(tmp_path: Path, role: str) -> None:
    environ = home(tmp_path)
    examined = make_subject(known_settings({}, environ), environ, SystemClock(), [role])
    address = next(listen for listen in examined.listen if listen.role == role)
    ids = [check.id for check in all_checks(examined)]
    assert f"port.{address.port}" in ids
    assert ("prom.reachable" in ids) == (role in ("analyze", "up"))
