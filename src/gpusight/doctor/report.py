"""Results as text for people and as JSON for programs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from gpusight.doctor.findings import STATUSES, Result, Status, exit_code
from gpusight.doctor.phrases import Lang, sentences
from gpusight.errors import printable

_COLOURS: Mapping[Status, str] = {"ok": "32", "warn": "33", "fail": "1;31", "skip": "2"}
_SUMMARY: Mapping[Lang, str] = {
    "en": "{ok} ok, {warn} warnings, {fail} failures, {skip} skipped",
    "zh": "{ok} 项正常, {warn} 项警告, {fail} 项失败, {skip} 项跳过",
}


def as_text(results: Sequence[Result], lang: Lang, *, colours: bool = False) -> str:
    """A line for each, what to do about it below, and a summary."""
    rows = list(_rows(results, lang))
    width = max((len(row.name) for row in rows), default=0)
    lines = [line for row in rows for line in _lines(row, width, colours)]
    return "\n".join([*lines, _SUMMARY[lang].format(**_counts(results))]) + "\n"


def as_data(results: Sequence[Result], lang: Lang, version: str, *, withhold: bool = False) -> dict[str, Any]:
    return {
        "gpusight": version,
        "lang": lang,
        "exit_code": exit_code(results),
        "counts": _counts(results),
        "checks": [_row(result, lang, withhold) for result in results],
    }


class _Row(NamedTuple):
    name: str
    status: Status
    found: str
    fix: str


def _rows(results: Sequence[Result], lang: Lang) -> Iterator[_Row]:
    """Neighbours that were skipped for one reason share a line."""
    rows = (_Row(result.id, result.finding.status, *sentences(result.finding, lang)) for result in results)
    for (_, status, found, fix), group in groupby(rows, lambda row: (_topic(row), *row[1:])):
        names = [row.name for row in group]
        shown = names[0] if len(names) == 1 else f"{names[0].partition('.')[0]}.* ({len(names)})"
        yield _Row(printable(shown), status, printable(found), printable(fix))


def _topic(row: _Row) -> str:
    return row.name.partition(".")[0] if row.status == "skip" else row.name


def _lines(row: _Row, width: int, colours: bool) -> Iterator[str]:
    mark = f"\033[{_COLOURS[row.status]}m{row.status:4}\033[0m" if colours else f"{row.status:4}"
    yield f"{mark}  {row.name:{width}}  {row.found}"
    if row.fix:
        yield f"{'':{width + 8}}-> {row.fix}"


def _row(result: Result, lang: Lang, withhold: bool) -> dict[str, Any]:
    finding = result.finding
    found, fix = sentences(finding, lang, withhold=withhold)
    is_skip = finding.status == "skip"
    return {
        "id": result.id,
        "status": finding.status,
        "outcome": finding.outcome,
        "found": None if is_skip else found,
        "fix": fix or None,
        "reason": found if is_skip else None,
        "seconds": round(result.seconds, 3),
    }


def _counts(results: Sequence[Result]) -> dict[Status, int]:
    counted = Counter(result.finding.status for result in results)
    return {status: counted[status] for status in STATUSES}
