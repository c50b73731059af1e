"""Log lines: three formats, always one line per record."""

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from gpusight.runtime import logs

FORMATS = ("logfmt", "json", "seed")
HOSTILE = "pod\nlevel=error msg=forged\r\x1b[2J\x00\u2028\x85\u202e\udcff end"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def written(form: str, message: object, *args: object, level: str = "info", **more: Any) -> str:
    stream = io.StringIO()
    logging.getLogger().handlers.clear()  # pytest's own fail on records that cannot be formatted
    logs.configure(level, form, stream)
    logging.getLogger("gpusight.test").warning(message, *args, **more)
    return stream.getvalue()


def raised(error: BaseException) -> tuple[type[BaseException], BaseException, Any]:
    try:
        raise error
    except BaseException:
        kind, value, trace = sys.exc_info()
        assert kind is not None
        assert value is not None
        return kind, value, trace


def test_logfmt() -> None:
    line = written("logfmt", 'GPU %s is "idle" at %d %% \\', "GPU-1", 3)

    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    expected = r'level=warning logger=gpusight.test msg="GPU GPU-1 is \"idle\" at 3 % \\"'
    assert re.fullmatch(f"time={time} {re.escape(expected)}\n", line)


def test_logfmt_quotes_only_what_needs_it() -> None:
    assert "msg=started\n" in written("logfmt", "started")
    assert 'msg=""\n' in written("logfmt", "")
    assert 'msg="a=b"\n' in written("logfmt", "a=b")
    assert "msg=显存\n" in written("logfmt", "显存")


def test_json() -> None:
    found = json.loads(written("json", "显存 %s", "满"))

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found.pop("time"))
    assert found == {"level": "warning", "logger": "gpusight.test", "msg": "显存 满"}


def test_seed() -> None:
    line = written("seed", "⚠️  Found %d GPU(s)", 1)

    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    assert re.fullmatch(rf"{time} - gpusight\.test - WARNING - ⚠️  Found 1 GPU\(s\)\n", line)


def test_times_are_those_of_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "hello", (), None)
    record.created = 1_700_000_000.25
    monkeypatch.setattr("time.localtime", lambda _: (2023, 11, 15, 6, 13, 20, 2, 319, 0))

    assert logs.LineFormatter("logfmt").format(record).startswith("time=2023-11-14T22:13:20.250Z ")
    assert logs.LineFormatter("seed").format(record) == "2023-11-15 06:13:20 - x - INFO - hello"


@pytest.mark.parametrize("form", FORMATS)
def test_hostile_text_stays_one_visible_line(form: str) -> None:
    for line in (
        written(form, HOSTILE),
        written(form, "%s", HOSTILE),
        written(form, "x", exc_info=ValueError(HOSTILE)),
    ):
        body = line.removesuffix("\n")
        assert body.isprintable()
        assert r"pod\nlevel" in body
        assert body + "\n" == line


@pytest.mark.parametrize("form", FORMATS)
def test_an_exception_is_its_type_and_message(form: str) -> None:
    line = written(form, "reading failed", exc_info=raised(OSError("not here")))

    assert "OSError: not here" in line
    assert "Traceback" not in line
    assert line.count("\n") == 1


@pytest.mark.parametrize("form", FORMATS)
def test_the_traceback_is_there_at_debug_on_the_same_line(form: str) -> None:
    line = written(form, "reading failed", exc_info=raised(ValueError("x")), level="debug")

    assert "ValueError: x" in line
    assert "Traceback (most recent call last):\\n" in line
    assert "in raised" in line
    assert line.count("\n") == 1


@pytest.mark.parametrize("form", FORMATS)
def test_no_record_is_lost(form: str) -> None:
    class Unprintable(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise RuntimeError

    assert "%d things ('many',)" in written(form, "%d things", "many")
    assert "<Unprintable, not printable: RuntimeError>" in written(form, Unprintable())
    assert "Unprintable: <Unprintable, not printable" in written(form, "x", exc_info=Unprintable())
    assert written(form, "x", exc_info=True).count("\n") == 1  # there is no exception at all


def test_levels() -> None:
    stream = io.StringIO()
    logs.configure("error", "json", stream)
    logging.getLogger("a").warning("no")
    logging.getLogger("b").error("yes")

    assert [json.loads(line)["msg"] for line in stream.getvalue().splitlines()] == ["yes"]


def test_a_second_call_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.configure("info", "seed", first)
    logs.configure("info", "seed", second)
    logging.getLogger("a").info("x")

    assert (first.getvalue(), second.getvalue().count("\n")) == ("", 1)


def test_stderr_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "seed")
    logging.getLogger("a").info("x")

    output, errors = capsys.readouterr()
    assert (output, errors.endswith(" - a - INFO - x\n")) == ("", True)


def test_a_stream_that_fails_costs_only_the_line() -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream)
    stream.close()

    logging.getLogger("a").info("x")
