"""The command line: what is printed where, and with which exit code."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpusight import cli
from gpusight.errors import EXIT_CODES, GpusightError, MissingExtra, SettingsError, StartError
from gpusight.knobs import SETTINGS
from gpusight.runtime.roles import ROLES, Role, Run
from gpusight.settings import Settings

SOURCE = Path(cli.__file__).parents[1]

# Without site-packages: the standard library and our own source are all there is.
BARE = (
    sys.executable,
    "-S",
    "-c",
    f"import sys; sys.path.insert(0, {str(SOURCE)!r}); from gpusight.cli import main; sys.exit(main())",
)


def run(*command: str, environ: Mapping[str, str] | None = None, **more: Any) -> subprocess.CompletedProcess[str]:
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("GPUSIGHT_")}
    return subprocess.run(
        command, env=quiet | dict(environ or {}), capture_output=True, text=True, timeout=30, check=False, **more
    )


def gpusight(*arguments: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "gpusight", *arguments, environ=environ)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Settings that the role ops was started with; the role itself does nothing and logging stays as it was."""
    seen: list[Settings] = []

    def run(settings: Settings) -> int:
        seen.append(settings)
        return 0

    _replace_role(monkeypatch, run)
    return seen


def ends_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def run(_: Settings) -> int:
        raise error

    _replace_role(monkeypatch, run)


def _replace_role(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setattr(Role, "load", lambda _: run)
    monkeypatch.setattr("gpusight.runtime.logs.configure", lambda *_: None)


# ---- Real processes


def test_version() -> None:
    done = gpusight("--version")

    assert (done.stdout, done.stderr, done.returncode) == ("gpusight 0.1.0\n", "", 0)


def test_version_needs_no_third_party_package() -> None:
    done = run(*BARE, "--version")

    assert (done.stdout, done.stderr, done.returncode) == ("gpusight 0.1.0\n", "", 0)


def test_a_role_without_its_packages_gives_the_pip_line() -> None:
    done = run(*BARE, "ops")

    assert (
        done.stderr
        == "gpusight: the role ops needs optional packages: pip install 'gpusight[node]', in a clone '.[node]'\n"
    )
    assert (done.stdout, done.returncode) == ("", 3)


def test_a_wrong_setting_is_one_sentence() -> None:
    done = gpusight("settings", environ={"THRESHOLD": "abc"})

    expected = 'setting threshold: "abc" from environment THRESHOLD is not an integer between 0 and 100'
    assert (done.stdout, done.stderr, done.returncode) == ("", f"gpusight: {expected}\n", 2)


def test_a_reader_that_leaves_is_no_trouble() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        (sys.executable, "-m", "gpusight", "settings"), stdout=writer, stderr=subprocess.PIPE, check=False, timeout=30
    )
    os.close(writer)

    assert (done.stderr, done.returncode) == (b"", 1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("arguments", [("settings",), ("--help",)])
def test_a_full_disk_is_one_sentence(arguments: Sequence[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            (sys.executable, "-m", "gpusight", *arguments), stdout=full, stderr=subprocess.PIPE, check=False, timeout=30
        )

    assert (done.stderr, done.returncode) == (b"gpusight: the output cannot be written: No space left on device\n", 1)


def test_ctrl_c_ends_with_130_and_without_traceback(tmp_path: Path) -> None:
    """Interrupted while it waits for a writer of its configuration file."""
    config = tmp_path / "fifo"
    os.mkfifo(config)
    command = (sys.executable, "-m", "gpusight", "settings", "--config.file", str(config))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process, config.open("wb"):  # opens when the other side has opened it, too: the program has come to reading
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)

    assert (output, errors, process.returncode) == (b"", b"", 130)


# ---- In this process


def test_no_command_shows_the_help_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([], {}) == 2
    assert "usage: gpusight" in capsys.readouterr().out


def test_help_lists_the_roles_that_exist_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"], {}) == 0

    text = " ".join(capsys.readouterr().out.split())
    assert all(f"{role.name} {role.help}" in text for role in ROLES)
    assert not any(name in text for name in ("cluster ", "share "))
    assert all(f"{code} {meaning}" in text for code, meaning in EXIT_CODES.items())


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_help_of_a_role_shows_flag_default_and_environment(role: Role, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([role.name, "--help"], {}) == 0

    text = " ".join(capsys.readouterr().out.split())
    assert f"(default {role.listen}; environment GPUSIGHT_WEB_LISTEN_ADDRESS)" in text
    assert "(default info; environment GPUSIGHT_LOG_LEVEL, LOG_LEVEL)" in text
    for setting in role.settings:
        assert (f"{setting.flag} " in text) != setting.secret
    assert ("--threshold" in text) == ("analyze" in role.names)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nonsense"], "invalid choice: 'nonsense'"),
        (["ops", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["ops", "--web.listen", ":1"], "unrecognized arguments: --web.listen"),
        (["settings", "--role", "x\n"], r'unknown role "x\n": known are analyze, node, ops, up'),
        (["ops", "--web.max-requests", "0"], '"0" from flag --web.max-requests is not an integer between 1 and 10000'),
        (["ops"], "setting ops.dir is required"),
    ],
)
def test_wrong_usage(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str], started: list[Settings]
) -> None:
    assert cli.main(arguments, {}) == 2

    output, errors = capsys.readouterr()
    assert errors.startswith("gpusight: ")
    assert sentence in errors
    assert (errors.count("\n"), output, started) == (1, "", [])


def test_flags_reach_the_role(started: list[Settings]) -> None:
    arguments = ["ops", "--ops.dir", "w", "--web.listen-address", ":1", "--web.listen-address=[::1]:2"]

    assert cli.main(arguments, {"LOG_LEVEL": "debug"}) == 0

    [settings] = started
    assert settings.get("web.listen-address") == (":1", "[::1]:2")
    assert (settings.get("ops.dir"), settings.get("log.level")) == (Path("w"), "debug")


def test_a_role_listens_on_its_own_port_by_default(started: list[Settings]) -> None:
    assert cli.main(["ops"], {"GPUSIGHT_OPS_DIR": "w"}) == 0
    assert started[0].get("web.listen-address") == (":9090",)


def test_a_boolean_flag_needs_no_value() -> None:
    parser = cli._Parser()
    cli._add_flags(parser, SETTINGS, {})

    assert vars(parser.parse_args(["--ai.enabled"])) == {"ai.enabled": "true"}
    assert vars(parser.parse_args(["--ai.enabled=no"])) == {"ai.enabled": "no"}


def test_secrets_have_no_flag() -> None:
    """Everybody on a machine can read the command line of a process."""
    parser = cli._Parser()
    cli._add_flags(parser, SETTINGS, {})

    assert "api-key" not in parser.format_help()
    assert "--ai.api-url" in parser.format_help()


@pytest.mark.parametrize(
    ("error", "code", "printed"),
    [
        (GpusightError("one\ntwo \x1b[31m"), 1, "gpusight: one\\ntwo \\x1b[31m\n"),
        (StartError("no"), 1, "gpusight: no\n"),
        (SettingsError("no"), 2, "gpusight: no\n"),
        (
            MissingExtra("it", "web"),
            3,
            "gpusight: it needs optional packages: pip install 'gpusight[web]', in a clone '.[web]'\n",
        ),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_become_one_line_and_an_exit_code(
    error: BaseException, code: int, printed: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_with(monkeypatch, error)

    assert cli.main(["ops", "--ops.dir", "w"], {}) == code
    assert capsys.readouterr().err == printed


def test_a_defect_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken pipe of some connection is not our output's reader going away."""
    ends_with(monkeypatch, BrokenPipeError())

    with pytest.raises(BrokenPipeError):
        cli.main(["ops", "--ops.dir", "w"], {})


# ---- gpusight settings


def table(text: str) -> dict[str, list[str]]:
    return {row.split()[0]: row.split(None, 2)[1:] for row in text.splitlines()}


def test_settings_shows_values_and_origins_in_columns(capsys: pytest.CaptureFixture[str]) -> None:
    environ = {"INTERVAL": "5m", "PROM_URL": "http://me:hunter2@prom:9090", "AI_API_KEY": "hunter2"}

    assert cli.main(["settings", "--log.level", "debug"], environ) == 0

    output = capsys.readouterr().out
    assert "hunter2" not in output
    rows = table(output)
    assert rows.keys() == {"NAME"} | {setting.name for setting in SETTINGS}
    assert rows["interval"] == ["300s", "environment INTERVAL"]
    assert rows["log.level"] == ["debug", "flag --log.level"]
    assert rows["ai.enabled"] == ["false", "default"]
    assert rows["ai.api-key"] == ["********", "environment AI_API_KEY"]
    assert rows["prom.url"] == ["http://********@prom:9090", "environment PROM_URL"]
    assert rows["ops.dir"] == ["-", "not set"]
    origins = {line.find(line.split(None, 2)[2]) for line in output.splitlines()}
    assert len(origins) == 1, "not aligned"


def test_settings_of_one_role(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["settings", "--role", "ops"], {"GPUSIGHT_OPS_DIR": "a\nb"}) == 0

    rows = table(capsys.readouterr().out)
    assert rows.keys() == {"NAME"} | {setting.name for role in ROLES if role.name == "ops" for setting in role.settings}
    assert rows["web.listen-address"] == [":9090", "default"]
    assert rows["ops.dir"] == ["a\\nb", "environment GPUSIGHT_OPS_DIR"]


def test_settings_of_one_role_are_shown_before_they_are_complete(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["settings", "--role", "ops"], {}) == 0
    assert table(capsys.readouterr().out)["ops.dir"] == ["-", "not set"]


def test_settings_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["settings", "--format", "json", "--web.listen-address", ":1"]

    assert cli.main(arguments, {"AI_API_KEY": "hunter2", "STEP": "1m"}) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["web.listen-address"] == {"value": [":1"], "origin": "flag --web.listen-address"}
    assert found["step"] == {"value": 60.0, "origin": "environment STEP"}
    assert found["ai.api-key"] == {"value": "********", "origin": "environment AI_API_KEY"}
    assert found["ai.enabled"]["value"] is False
    assert found["data.dir"] == {"value": None, "origin": "not set"}
