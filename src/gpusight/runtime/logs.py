"""Logging on stderr: one line per record in one of three formats, whatever the record holds.

Names and messages may come from tenants, so nothing in them may end a line or steer a terminal. An exception is its
type and message; its traceback follows, on the same line, only at level debug.
"""

import json
import logging
import re
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TextIO

from gpusight.errors import printable

Fields = dict[str, str]


def configure(level: str, form: str, stream: TextIO | None = None) -> None:
    """Send every logger's records to stderr; a second call replaces the first."""
    handler = _LineHandler(stream)
    handler.setFormatter(LineFormatter(form, tracebacks=level == "debug"))
    root = logging.getLogger()
    for old in [each for each in root.handlers if isinstance(each, _LineHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())


class _LineHandler(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Stderr is gone or full: there is nobody left to tell, and the program must go on."""


class LineFormatter(logging.Formatter):
    """A record as one line."""

    def __init__(self, form: str, *, tracebacks: bool = False) -> None:
        super().__init__()
        self._render = _FORMS[form]
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        return self._render(record, {"msg": _message(record)} | self._failure(record))

    def _failure(self, record: logging.LogRecord) -> Fields:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return {}
        fields = {"error": f"{type(error).__name__}: {_text(error)}"}
        if self._tracebacks:
            fields["traceback"] = "".join(traceback.format_exception(error))
        return fields


def _message(record: logging.LogRecord) -> str:
    """The message; a record whose arguments do not fit it is shown in parts rather than lost."""
    try:
        return record.getMessage()
    except Exception:
        return f"{_text(record.msg)} {_text(record.args)}"


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception as error:
        return f"<{type(value).__name__}, not printable: {type(error).__name__}>"


def _logfmt(record: logging.LogRecord, fields: Fields) -> str:
    return " ".join(f"{key}={_logfmt_value(value)}" for key, value in (_head(record) | fields).items())


def _logfmt_value(value: str) -> str:
    if re.fullmatch(r'[^\s"=\\]+', value) and value.isprintable():
        return value
    return '"{}"'.format(printable(value.replace("\\", r"\\").replace('"', r"\"")))


def _json(record: logging.LogRecord, fields: Fields) -> str:
    return json.dumps(_head(record) | fields)


def _seed(record: logging.LogRecord, fields: Fields) -> str:
    """As the GPU utilization monitor wrote its lines, in local time."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
    return f"{when} - {printable(record.name)} - {record.levelname} - {printable(': '.join(fields.values()))}"


def _head(record: logging.LogRecord) -> Fields:
    when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return {"time": when.replace("+00:00", "Z"), "level": record.levelname.lower(), "logger": record.name}


_FORMS: Mapping[str, Callable[[logging.LogRecord, Fields], str]] = {"logfmt": _logfmt, "json": _json, "seed": _seed}
