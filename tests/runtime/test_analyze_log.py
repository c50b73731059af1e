"""The table and the warnings of seed 002 in the log."""

import io
import logging
import sys

import pytest

from gpusight.runtime.analyze_log import log_round, table_lines, warning_lines
from tests.collectors.test_utilization import result, round_of

IDLE = result(
    pod="idle-pod", namespace="test", gpu_id="GPU-abc", score=5.2, gpu_util=2.1, mem_used_mb=128.0, status="idle"
)


def test_the_table_has_the_columns_of_the_seed() -> None:
    lines = list(table_lines(round_of(IDLE, result()), [IDLE, result()]))

    assert lines[:3] == ["=" * 60, "GPU Utilization Analysis Results", "=" * 60]
    assert lines[3].split() == ["Namespace/Pod", "GPU", "Score", "Util", "Mem(MB)", "Status"]
    assert lines[5].split() == ["test/idle-pod", "GPU-abc", "5.2%", "2.1%", "128.0", "idle"]


def test_the_warning_names_who_is_below_the_threshold() -> None:
    assert list(warning_lines(round_of(IDLE, result()))) == [
        "⚠️  Found 1 GPU(s) with utilization below 20%:",
        "  - test/idle-pod (5.2%) - GPU-abc",
    ]


def test_the_unknown_are_not_warned_of() -> None:
    assert list(warning_lines(round_of(result(score=None, status="unknown")))) == []


def test_only_the_lowest_two_hundred_are_shown(caplog: pytest.LogCaptureFixture) -> None:
    rows = [result(pod=f"p{number}", score=float(number % 10)) for number in range(250)]
    with caplog.at_level(logging.INFO, "gpusight.analyze"):
        log_round(round_of(*rows))

    shown = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert len(shown) == 5 + 200 + 1
    assert shown[-1] == "... and 50 more"


def test_hostile_names_cannot_break_a_line() -> None:
    [*_, row] = table_lines(round_of(result(pod="a\nWARNING forged")), [result(pod="a\nWARNING forged")])

    assert "\n" not in row


def test_problems_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    log_round(round_of(problems=("DCGM_FI_DEV_GPU_UTIL could not be read",)))

    assert "round 1: DCGM_FI_DEV_GPU_UTIL could not be read" in caplog.text


def test_a_terminal_gets_a_drawn_table(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "160")
    log_round(round_of(IDLE))

    assert "test/idle-pod" in terminal.getvalue()
    assert "│" in terminal.getvalue()
