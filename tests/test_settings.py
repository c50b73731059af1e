"""Settings: which place wins, what each type takes, and what a wrong value says."""

import dataclasses
import inspect
import pickle
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpusight.errors import MissingExtra, SettingsError
from gpusight.knobs import SETTINGS, Setting
from gpusight.settings import Settings, resolve

ANALYZE = ("analyze",)


def analyze(environ: Mapping[str, str], **flags: str | Sequence[str]) -> Settings:
    return resolve(flags, environ, ANALYZE)


def complaint(flags: Mapping[str, str | Sequence[str]], environ: Mapping[str, str] | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        resolve(flags, environ or {}, ANALYZE)
    return str(caught.value)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "gpusight.yaml"


# ---- The table


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
class TestEverySetting:
    def test_has_a_name_that_is_a_flag_and_a_key(self, setting: Setting) -> None:
        assert re.fullmatch(r"[a-z][a-z0-9]*([.-][a-z]+)*", setting.name)

    def test_has_its_own_environment_name_first(self, setting: Setting) -> None:
        assert setting.env_names[0] == "GPUSIGHT_" + setting.name.upper().replace(".", "_").replace("-", "_")

    def test_is_described(self, setting: Setting) -> None:
        assert setting.help.endswith(".")
        assert re.fullmatch(r"\d+\.\d+\.\d+", setting.since)

    def test_has_bounds_if_it_is_a_number(self, setting: Setting) -> None:
        assert (setting.bounds is not None) == (setting.type in ("int", "float", "duration"))
        assert bool(setting.choices) == (setting.type == "choice")

    def test_has_a_default_that_it_would_take_from_a_user(self, setting: Setting) -> None:
        if setting.default is not None:
            roles = setting.roles or ANALYZE
            written = resolve({setting.name: setting.default}, {}, roles, complete=False)
            assert written.get(setting.name) == resolve({}, {}, roles, complete=False).get(setting.name)


def test_no_name_is_used_twice() -> None:
    names = [setting.name for setting in SETTINGS]
    variables = [name for setting in SETTINGS for name in setting.env_names]

    assert len(names) == len(set(names))
    assert len(variables) == len(set(variables))


# ---- Which place wins


def test_flag_beats_environment_beats_file_beats_default(config: Path) -> None:
    config.write_text("threshold: 30\n")
    file = {"GPUSIGHT_CONFIG_FILE": str(config)}
    environ = file | {"THRESHOLD": "40"}

    assert [
        (found.get("threshold"), found.origin("threshold"))
        for found in (analyze({}), analyze(file), analyze(environ), analyze(environ, threshold="50"))
    ] == [
        (20, "default"),
        (30, f"{config} line 1"),
        (40, "environment THRESHOLD"),
        (50, "flag --threshold"),
    ]


def test_own_environment_name_beats_the_older_one() -> None:
    found = analyze({"THRESHOLD": "40", "GPUSIGHT_THRESHOLD": "41"})

    assert (found.get("threshold"), found.origin("threshold")) == (41, "environment GPUSIGHT_THRESHOLD")


def test_config_file_flag_beats_its_environment(config: Path) -> None:
    config.write_text("threshold: 30")

    found = resolve({"config.file": str(config)}, {"GPUSIGHT_CONFIG_FILE": "/nowhere"}, ANALYZE)

    assert found.get("threshold") == 30


def test_empty_variable_counts_as_not_set() -> None:
    assert analyze({"THRESHOLD": "", "AI_API_URL": " "}).origin("threshold") == "default"


def test_space_around_a_variable_is_no_part_of_it() -> None:
    assert analyze({"AI_API_KEY": "abc\n"}).get("ai.api-key") == "abc"


SEED_DEFAULTS = {
    "PROM_URL": ("prom.url", "http://prometheus:9090", "http://p:1", "http://p:1"),
    "THRESHOLD": ("threshold", 20, "25", 25),
    "INTERVAL": ("interval", 300.0, "60", 60.0),
    "MAX_WORKERS": ("max-workers", 8, "16", 16),
    "TIME_WINDOW_MIN": ("time-window-min", 10, "30", 30),
    "STEP": ("step", 30.0, "15s", 15.0),
    "QUERY_CONDITION": ("query-condition", '{pod!=""}', '{ns="a"}', '{ns="a"}'),
    "GPU_UTIL_WEIGHT": ("gpu-util-weight", 0.5, "0.4", 0.4),
    "MEM_COPY_WEIGHT": ("mem-copy-weight", 0.2, "0.3", 0.3),
    "MEM_USED_WEIGHT": ("mem-used-weight", 0.2, "0", 0.0),
    "POWER_WEIGHT": ("power-weight", 0.1, "1", 1.0),
    "AI_ENABLED": ("ai.enabled", False, "true", True),
    "AI_API_URL": ("ai.api-url", None, "https://ai/v1", "https://ai/v1"),
    "AI_API_KEY": ("ai.api-key", None, "sk-1", "sk-1"),
    "AI_MODEL": ("ai.model", "gpt-4", "other", "other"),
    "CONTROL_API_ENABLED": ("control.api-enabled", False, "1", True),
    "CONTROL_API": ("control.api", None, "http://c/api", "http://c/api"),
    "LOG_LEVEL": ("log.level", "info", "WARNING", "warning"),
}


@pytest.mark.parametrize("variable", SEED_DEFAULTS)
def test_the_older_environment_names_and_their_defaults_hold(variable: str) -> None:
    name, default, text, value = SEED_DEFAULTS[variable]

    assert analyze({}).get(name) == default
    assert analyze({variable: text}).get(name) == value
    assert analyze({variable: text}).origin(name) == f"environment {variable}"


def test_a_role_reads_only_what_concerns_it() -> None:
    """THRESHOLD is too common a name to break a role that has no threshold."""
    found = resolve({"ops.dir": "/run/w"}, {"THRESHOLD": "abc"}, ("ops",))

    assert found.get("ops.dir") == Path("/run/w")
    with pytest.raises(KeyError):
        found.get("threshold")


def test_roles_bring_defaults_of_their_own() -> None:
    found = resolve({}, {}, ANALYZE, {"web.listen-address": ":8080"})

    assert (found.get("web.listen-address"), found.origin("web.listen-address")) == ((":8080",), "default")


def test_required_setting_says_how_to_give_it() -> None:
    with pytest.raises(SettingsError, match=r"ops\.dir is required: give --ops\.dir, .* GPUSIGHT_OPS_DIR or the key"):
        resolve({}, {}, ("ops",))
    assert resolve({}, {}, ("ops",), complete=False).origin("ops.dir") == "not set"


def test_repeatable_from_each_place(config: Path) -> None:
    expected = (":1", "[::1]:2")
    config.write_text('web: {listen-address: [":1", "[::1]:2"]}')

    assert resolve({"web.listen-address": expected}, {}, ()).get("web.listen-address") == expected
    assert resolve({}, {"GPUSIGHT_WEB_LISTEN_ADDRESS": ":1, [::1]:2"}, ()).get("web.listen-address") == expected
    assert resolve({"config.file": str(config)}, {}, ()).get("web.listen-address") == expected


def test_an_unknown_flag_value_is_not_ignored() -> None:
    assert complaint({"treshold": "1"}) == 'command line: unknown setting "treshold", did you mean threshold?'


# ---- What each type takes


def typed(kind: Any, **more: Any) -> Setting:
    return Setting("knob", kind, "A knob.", **more)


@pytest.fixture
def knob(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Resolve one text through a setting made for the test."""

    def value(text: str, setting: Setting) -> Any:
        monkeypatch.setattr("gpusight.settings.SETTINGS", (setting,))
        monkeypatch.setattr("gpusight.settings._BY_NAME", {"knob": setting})
        return resolve({}, {"KNOB": text}, ()).get("knob")

    return value


INT = typed("int", bounds=(-5, 100), env=("KNOB",))
FLOAT = typed("float", bounds=(0, 1), env=("KNOB",))
BOOL = typed("bool", env=("KNOB",))
DURATION = typed("duration", bounds=(0.5, 7200), env=("KNOB",))
PATH = typed("path", env=("KNOB",))
URL = typed("url", env=("KNOB",))
ADDRESS = typed("address", env=("KNOB",))
CHOICE = typed("choice", choices=("one", "two"), env=("KNOB",))


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [
        (INT, "-5", -5),
        (INT, "+100", 100),
        (FLOAT, "0", 0.0),
        (FLOAT, ".5", 0.5),
        (FLOAT, "1e-3", 0.001),
        (BOOL, "Yes", True),
        (BOOL, "on", True),
        (BOOL, "1", True),
        (BOOL, "FALSE", False),
        (BOOL, "off", False),
        (BOOL, "0", False),
        (DURATION, "300", 300.0),
        (DURATION, "500ms", 0.5),
        (DURATION, "30s", 30.0),
        (DURATION, "1.5m", 90.0),
        (DURATION, "2h", 7200.0),
        (PATH, "a b/c", Path("a b/c")),
        (URL, "https://user:pw@[::1]:8443/x?y=1", "https://user:pw@[::1]:8443/x?y=1"),
        (ADDRESS, ":0", ":0"),
        (ADDRESS, "9090", "9090"),
        (ADDRESS, "localhost:65535", "localhost:65535"),
        (ADDRESS, "[fe80::1%br-0]:80", "[fe80::1%br-0]:80"),
        (CHOICE, "TWO", "two"),
    ],
)
def test_good_values(knob: Any, setting: Setting, text: str, value: object) -> None:
    found = knob(text, setting)

    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("setting", "texts", "expected"),
    [
        (INT, ("abc", "1.0", "101", "-6", "1_0", "٣", "9" * 5000), "an integer between -5 and 100"),
        (FLOAT, ("abc", "nan", "inf", "1.01", "-0.1", "1.2.3", "1e999"), "a number between 0 and 1"),
        (BOOL, ("maybe", "2", "tru"), "true or false"),
        (DURATION, ("5x", "-1s", "h", "1h30m", "2.1h", "0.4"), "a duration (300, 30s, 5m, 1h) between 0.5s and 7200s"),
        (PATH, ("a\0b",), "a path"),
        (
            URL,
            ("prometheus:9090", "ftp://h", "http://", "http://h:99999", "http://h:x", "http://a b", "http://a\nb"),
            "an address that starts with http:// or https://",
        ),
        (
            ADDRESS,
            ("host", ":65536", "::1:80", "http://h:80", "a b:1", "[]:1", ":-1"),
            "a listen address such as :9090, 127.0.0.1:9090 or [::1]:9090",
        ),
        (CHOICE, ("three", "one,two"), "one of one, two"),
    ],
    ids=lambda each: getattr(each, "type", ""),
)
def test_bad_values_say_what_is_wrong_and_where(
    knob: Any, setting: Setting, texts: Sequence[str], expected: str
) -> None:
    for text in texts:
        with pytest.raises(SettingsError) as caught:
            knob(text, setting)
        assert str(caught.value) == f'setting knob: "{text}" from environment KNOB is not {expected}'
        assert caught.value.exit_code == 2


def test_the_sentence_of_the_documentation() -> None:
    expected = 'setting threshold: "abc" from environment THRESHOLD is not an integer between 0 and 100'

    assert complaint({}, {"THRESHOLD": "abc"}) == expected


def test_a_flag_may_not_be_empty() -> None:
    assert complaint({"data.dir": ""}) == 'setting data.dir: "" from flag --data.dir is not a path'


# ---- Secrets, and what can be done with the result


def test_secrets_are_masked_wherever_settings_are_shown() -> None:
    found = analyze({"AI_API_KEY": "hunter2", "PROM_URL": "http://me:hunter2@prom:9090"})
    [key] = [each for each in found if each.setting.name == "ai.api-key"]

    assert found.get("ai.api-key") == "hunter2"
    assert key.shown == "********"
    assert "hunter2" not in repr(found) + str(found) + repr(list(found))
    assert "http://********@prom:9090" in repr(found)


def test_secrets_are_masked_in_complaints(knob: Any) -> None:
    secret = typed("choice", choices=("one",), env=("KNOB",), secret=True)

    with pytest.raises(SettingsError) as caught:
        knob("hunter2", secret)

    assert str(caught.value) == 'setting knob: "********" from environment KNOB is not one of one'
    assert caught.value.__suppress_context__, "the cause would show the value"


@pytest.mark.parametrize("url", ["ftp://me:hunter2@h", "me:hunter2@h:9090", "http://me:hun/ter2@h"])
def test_passwords_in_wrong_addresses_are_masked(url: str) -> None:
    assert "ter2" not in complaint({}, {"PROM_URL": url})


def test_settings_cannot_be_changed() -> None:
    found = analyze({})

    with pytest.raises(dataclasses.FrozenInstanceError):
        found._resolved = {}  # type: ignore[misc]
    with pytest.raises(TypeError):
        found._resolved["threshold"] = None  # type: ignore[index]


def test_a_setting_is_plain_data() -> None:
    assert pickle.loads(pickle.dumps(SETTINGS)) == SETTINGS


# ---- The YAML file


def from_file(config: Path, text: str | bytes) -> Settings:
    config.write_bytes(text if isinstance(text, bytes) else text.encode())
    return resolve({"config.file": str(config)}, {}, ANALYZE)


def file_complaint(config: Path, text: str | bytes) -> str:
    with pytest.raises(SettingsError) as caught:
        from_file(config, text)
    return str(caught.value).replace(str(config), "FILE")


@pytest.mark.parametrize(
    "text",
    [
        "web: {config: {file: w.yml}}\nai: {enabled: yes}\n",
        "web.config.file: w.yml\nai.enabled: true\n",
        "web:\n  config.file: w.yml\nai:\n  enabled: 'on'\n",
        "\ufeffweb.config: {file: w.yml}\nai: {enabled: 1, model: }\nlog:\n  # level: debug\n",
    ],
)
def test_keys_may_be_nested_or_dotted(config: Path, text: str) -> None:
    found = from_file(config, text)

    assert (found.get("web.config.file"), found.get("ai.enabled")) == (Path("w.yml"), True)
    assert (found.get("ai.model"), found.get("log.level")) == ("gpt-4", "info")


@pytest.mark.parametrize("text", ["", "---\n", "# nothing yet\n", "{}"])
def test_an_empty_file_says_nothing(config: Path, text: str) -> None:
    assert from_file(config, text).origin("threshold") == "default"


def test_values_are_taken_as_written_not_as_yaml_would_read_them(config: Path) -> None:
    """YAML 1.1 reads 1:30 as 90 and 010 as 8."""
    found = from_file(config, "ai.model: 1:30\nthreshold: 010\nweb.listen-address: 12:34\n")

    assert (found.get("ai.model"), found.get("threshold")) == ("1:30", 10)
    assert found.get("web.listen-address") == ("12:34",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\ntreshold: 1", 'FILE line 2: unknown setting "treshold", did you mean threshold?'),
        (
            "web:\n  listen-adress: :1",
            'FILE line 2: unknown setting "web.listen-adress", did you mean web.listen-address?',
        ),
        ("xyzzy:", 'FILE line 1: unknown setting "xyzzy", gpusight settings lists the known ones'),
        ("web: 5", 'FILE line 1: unknown setting "web", gpusight settings lists the known ones'),
        ("? [a]\n: 1", 'FILE line 2: unknown setting "a list", gpusight settings lists the known ones'),
        ("a: &a {b: *a}", 'FILE line 1: unknown setting "a", gpusight settings lists the known ones'),
        ("web: &a {web: *a}", 'FILE line 1: unknown setting "web.web", gpusight settings lists the known ones'),
        ("step: 1\nthreshold: abc", 'setting threshold: "abc" from FILE line 2 is not an integer between 0 and 100'),
        ("threshold: [1]", "setting threshold: a list from FILE line 1 is not an integer between 0 and 100"),
        ("threshold: {a: 1}", "setting threshold: a mapping from FILE line 1 is not an integer between 0 and 100"),
        ("data.dir: ''", 'setting data.dir: "" from FILE line 1 is not a path'),
        ("threshold: 1\nthreshold: 2", "FILE line 2: setting threshold is given twice"),
        ("web.config.file: a\nweb: {config.file: b}", "FILE line 2: setting web.config.file is given twice"),
        ("config.file: x", "FILE line 1: setting config.file cannot stand in the configuration file itself"),
        ("- a", "configuration file FILE line 1: expected names with values, found a list"),
        ("just words", "configuration file FILE line 1: expected names with values, found a single value"),
    ],
)
def test_wrong_content_is_named_with_its_line(config: Path, text: str, expected: str) -> None:
    assert file_complaint(config, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: [", "line 2: not valid YAML: expected the node content"),
        ("a: b: c", "line 1: not valid YAML: mapping values are not allowed here"),
        ("a: 1\n---\nb: 2", "line 2: not valid YAML: but found another document"),
        ("a: *nowhere", "line 1: not valid YAML: found undefined alias"),
        ("a: 1\nb: \x07", "line 2: not valid YAML: special characters are not allowed"),
        ("[" * 5000, "line 1: not valid YAML: nested too deeply"),
        (b"a: 1\nb: \xff", "line 2: not UTF-8 text"),
    ],
)
def test_bad_yaml_is_named_with_its_line(config: Path, text: str | bytes, expected: str) -> None:
    assert file_complaint(config, text).startswith(f"configuration file FILE {expected}")


def test_empty_list_of_addresses_would_serve_nobody(config: Path) -> None:
    assert "a list from FILE line 1 is not a listen address" in file_complaint(config, "web.listen-address: []")


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"

    expected = f"configuration file {missing} cannot be read: No such file or directory"
    assert complaint({"config.file": str(missing)}) == expected
    assert complaint({"config.file": str(tmp_path)}).endswith("Is a directory")


def test_file_without_pyyaml_gives_the_pip_line(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("")
    monkeypatch.setitem(sys.modules, "yaml", None)  # as if it were not installed

    with pytest.raises(MissingExtra, match=r"the configuration file .* pip install 'gpusight\[node\]'") as caught:
        resolve({"config.file": str(config)}, {}, ANALYZE)
    assert caught.value.exit_code == 3


# ---- Layers


def test_settings_stand_on_errors_and_the_standard_library_only() -> None:
    sources = [Path(inspect.getfile(each)).read_text("utf-8") for each in (resolve, Setting)]
    imported = {name for source in sources for name in re.findall(r"^(?:from|import) ([\w.]+)", source, re.MULTILINE)}

    ours = {name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names}
    assert ours == {"gpusight.errors", "gpusight.knobs"}


def test_a_name_may_be_a_value_and_a_section(config: Path) -> None:
    config.write_text("simulate: default\nsimulate.control: /faults.yaml\n")
    found = resolve({"config.file": str(config)}, {}, ("node",))
    assert (found.get("simulate"), found.get("simulate.control")) == ("default", Path("/faults.yaml"))

    config.write_text("simulate:\n  control: /faults.yaml\n")
    found = resolve({"config.file": str(config)}, {}, ("node",))
    assert (found.get("simulate"), found.get("simulate.control")) == (None, Path("/faults.yaml"))


def test_a_repeatable_flag_takes_several_values_at_once() -> None:
    found = resolve({"collect.sets": ["hami,dcgm", "gpu"]}, {}, ("node",))
    assert found.get("collect.sets") == ("hami", "dcgm", "gpu")
