"""Rows as CSV that a spreadsheet can open without running what a tenant wrote into a name."""

import csv
import io
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import fields

from gpusight.web.encoding import BytesResponse

CSV = "text/csv"
_STARTS_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001  (some programs take these, too)


def to_csv(kind: type[Struct], rows: Iterable[Struct], *, without: frozenset[str] = frozenset()) -> bytes:
    names = [field.name for field in fields(kind) if field.name not in without]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(getattr(row, name)) for name in names])
    return out.getvalue().encode("utf-8", "backslashreplace")


def csv_response(body: bytes, stem: str) -> BytesResponse:
    headers = {"Content-Disposition": f'attachment; filename="{stem}.csv"', "Cache-Control": "private, no-cache"}
    return BytesResponse(body, f"{CSV}; charset=utf-8", headers=headers)


def _cell(value: Any) -> Any:
    match value:
        case None:
            return ""
        case str():
            return _harmless(value)
        case datetime():
            return value.isoformat()
        case tuple() | list():
            return _harmless(";".join(map(str, value)))
    return value


def _harmless(text: str) -> str:
    shown = text.replace("\0", "\\0")
    return f"'{shown}" if shown.lstrip(" ").startswith(_STARTS_FORMULA) else shown
