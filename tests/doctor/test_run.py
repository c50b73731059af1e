"""Checks cannot hurt each other: they may crash, hang, or need what is not installed."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpusight.doctor import run as running
from gpusight.doctor.findings import Finding, NotChecked, Result, Status, exit_code, fail, ok
from gpusight.doctor.run import run_checks
from gpusight.doctor.subject import Listen, NamedFile, Once
from gpusight.doctor.table import Check, all_checks, chosen
from gpusight.model.series import StoreError
from tests.doctor.subjects import outcome, subject


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Check]:
    """Checks by function."""
    functions: dict[str, Callable[..., Finding]] = {}
    monkeypatch.setattr(running, "_loaded", functions.__getitem__)

    def make(name: str, function: Callable[..., Finding], **more: Any) -> Check:
        functions[name] = function
        return Check(name, name, **more)

    return make


def raising(error: BaseException) -> Callable[..., Finding]:
    def run(_exam: object) -> Finding:
        raise error

    return run


def test_each_check_is_alone(tmp_path: Path, scripted: Callable[..., Check]) -> None:
    over = threading.Event()

    def hang(_exam: object) -> Finding:
        over.wait(30)
        return ok("python.ok", version="late")

    checks = [
        scripted("a.hangs", hang),
        scripted("b.crashes", raising(ValueError("password=hunter2"))),
        scripted("c.exits", raising(SystemExit(0))),
        scripted("d.cannot", raising(NotChecked("nvml.no-processes"))),
        scripted("e.sick", raising(StoreError("too much"))),
        scripted("f.fine", lambda _exam: ok("python.ok", version="3")),
        scripted("g.lacks", lambda _exam: ok("python.ok", version="3"), extra="k8s"),
        scripted("h.takes", lambda _exam, number: ok("python.ok", version=number), arguments=(7,)),
    ]
    try:
        lacking = subject(tmp_path, missing=lambda extra: ("msgspec",) if extra == "k8s" else ())
        results = run_checks(lacking, checks, 1.0).results
    finally:
        over.set()
    assert [result.id for result in results] == [check.id for check in checks]
    assert [outcome(result) for result in results] == [
        ("fail", "doctor.timeout"),
        ("fail", "doctor.crashed"),
        ("fail", "doctor.crashed"),
        ("skip", "nvml.no-processes"),
        ("fail", "prom.sick"),
        ("ok", "python.ok"),
        ("skip", "doctor.no-extra"),
        ("ok", "python.ok"),
    ]
    assert results[1].finding.values == {"kind": "ValueError"}, "its words may be secret"
    assert results[7].finding.values == {"version": 7}


def test_checks_run_side_by_side(tmp_path: Path, scripted: Callable[..., Check]) -> None:
    meeting = threading.Barrier(8, timeout=10)

    def meet(_exam: object) -> Finding:
        meeting.wait()
        return ok("python.ok", version="3")

    results = run_checks(subject(tmp_path), [scripted(f"check.{i}", meet) for i in range(8)], 20).results
    assert {result.finding.status for result in results} == {"ok"}


@pytest.mark.parametrize(
    ("statuses", "code"),
    [((), 0), (("ok", "skip"), 0), (("ok", "warn"), 1), (("warn", "fail", "ok"), 2), (("fail",), 2)],
)
def test_the_worst_decides(statuses: tuple[Status, ...], code: int) -> None:
    assert exit_code([Result("x", Finding(status, "python.ok")) for status in statuses]) == code


def test_ids_are_unique_and_never_change(tmp_path: Path) -> None:
    whole = subject(
        tmp_path,
        listen=(Listen("analyze", ":8080", 8080), Listen("node", ":9394", 9394), Listen("ops", ":9394", 9394)),
        files=(NamedFile("auth.token-file", tmp_path, True),),
        extras={"node": "", "k8s": ""},
    )
    ids = [check.id for check in all_checks(whole)]
    assert len(set(ids)) == len(ids)
    assert {
        "nvml.driver",
        "vgpu.dir",
        "kubelet.socket",
        "k8s.permissions.pods.list",
        "k8s.permissions.pods.watch",
        "k8s.permissions.namespaces.list",
        "prom.reachable",
        "prom.families",
        "prom.labels",
        "prom.honor-labels",
        "prom.scale",
        "prom.condition",
        "prom.recording",
        "clock.skew.prometheus",
        "clock.skew.kubernetes",
        "port.8080",
        "port.9394",
        "disk.data",
        "journal.open",
        "config.file",
        "config.settings",
        "file.auth.token-file",
        "extra.k8s",
        "python.version",
        "limits.files",
    } <= set(ids)


def test_every_check_of_the_table_can_be_loaded(tmp_path: Path) -> None:
    checks = all_checks(subject(tmp_path, listen=(Listen("ops", ":1", 1),), extras={"node": ""}))
    assert all(callable(running._loaded(check.run)) for check in checks)


def test_roles_choose_their_checks(tmp_path: Path) -> None:
    ids = {check.id for check in all_checks(subject(tmp_path, roles=frozenset({"node"})))}
    assert "nvml.driver" in ids
    assert "python.version" in ids
    assert not any(each.startswith("prom.") for each in ids)


@pytest.mark.parametrize(
    ("only", "expected", "unknown"),
    [
        ((), ["a.b", "a.bc", "a.b.c", "d"], []),
        (("a.b",), ["a.b", "a.b.c"], []),
        (("a.",), ["a.b", "a.bc", "a.b.c"], []),
        (("d", "a.bc"), ["a.bc", "d"], []),
        (("a.b", "nope"), ["a.b", "a.b.c"], ["nope"]),
    ],
)
def test_only_names_ids_and_beginnings(only: tuple[str, ...], expected: list[str], unknown: list[str]) -> None:
    checks = [Check(each, "") for each in ("a.b", "a.bc", "a.b.c", "d")]
    found, strangers = chosen(checks, only)
    assert ([check.id for check in found], strangers) == (expected, unknown)


def test_what_is_made_once_fails_once() -> None:
    calls: list[int] = []

    def make() -> int:
        calls.append(1)
        raise OSError("no")

    once: Once[int] = Once(make)
    for _ in range(3):
        with pytest.raises(OSError, match="no"):
            once()
    assert len(calls) == 1
    assert once.made is None
    kept = Once(lambda: 5)
    assert (kept.made, kept(), kept(), kept.made) == (None, 5, 5, 5)


def test_a_failure_is_a_failure() -> None:
    assert fail("doctor.timeout", seconds="1").status == "fail"
