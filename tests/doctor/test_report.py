"""What people and programs get to read."""

import json

from gpusight.doctor.findings import Finding, Private, Result, fail, ok, skip, warn
from gpusight.doctor.report import as_data, as_text

RESULTS = [
    Result("python.version", ok("python.ok", version="3.12.1"), 0.01234),
    Result("prom.families", skip("prom.unreached")),
    Result("prom.labels", skip("prom.unreached")),
    Result("vgpu.dir", skip("vgpu.no-dir", path="/nope")),
    Result("config.environment", warn("config.unknown-variables", names="GPUSIGHT_X")),
    Result("journal.open", fail("journal.wrong", detail="it is \x1b[31mred\x1b[0m\nand long\u202e")),
]


def test_text_is_aligned_and_says_what_to_do() -> None:
    lines = as_text(RESULTS, "en").splitlines()
    assert lines == [
        "ok    python.version      Python 3.12.1.",
        "skip  prom.* (2)          Prometheus does not answer, see prom.reachable.",
        "skip  vgpu.dir            /nope does not exist: HAMi's libvgpu serves no container here.",
        "warn  config.environment  Variables that no setting reads: GPUSIGHT_X.",
        "                          -> Correct their spelling or remove them; `gpusight settings` lists the names.",
        r"fail  journal.open        The journal cannot be opened: it is \x1b[31mred\x1b[0m\nand long\u202e.",
        lines[6],
        "1 ok, 1 warnings, 1 failures, 3 skipped",
    ]
    assert lines[6].lstrip().startswith("-> See `gpusight journal check`")


def test_nothing_steers_the_terminal_unless_it_is_one() -> None:
    assert "\x1b" not in as_text(RESULTS, "en")
    coloured = as_text(RESULTS, "en", colours=True)
    assert coloured.count("\x1b[1;31mfail\x1b[0m") == 1
    assert coloured.count("\x1b") == 2 * 5, "only around the statuses"


def test_chinese() -> None:
    text = as_text(RESULTS, "zh")
    assert "Prometheus 没有应答" in text
    assert "1 项正常, 1 项警告, 1 项失败, 3 项跳过" in text


def test_data_has_every_check() -> None:
    data = as_data(RESULTS, "en", "1.2.3")
    assert json.loads(json.dumps(data)) == data
    assert (data["gpusight"], data["exit_code"], data["lang"]) == ("1.2.3", 2, "en")
    assert data["counts"] == {"ok": 1, "warn": 1, "fail": 1, "skip": 3}
    assert data["checks"][0] == {
        "id": "python.version",
        "status": "ok",
        "outcome": "python.ok",
        "found": "Python 3.12.1.",
        "fix": None,
        "reason": None,
        "seconds": 0.012,
    }
    skipped, warned = data["checks"][1], data["checks"][4]
    assert (skipped["found"], skipped["fix"]) == (None, None)
    assert skipped["reason"] == "Prometheus does not answer, see prom.reachable."
    assert warned["fix"].startswith("Correct their spelling")


def test_withheld_names_are_not_in_the_data() -> None:
    result = Result("k8s.reachable", Finding("ok", "k8s.reachable", {"server": Private("https://inner.example")}))
    assert "inner.example" in json.dumps(as_data([result], "en", "1"))
    assert "inner.example" not in json.dumps(as_data([result], "en", "1", withhold=True))
