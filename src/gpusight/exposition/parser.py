"""Pages of exporters -> samples: Prometheus text 0.0.4 and OpenMetrics 1.0, whatever state they are in.

A page repeats the names and labels of the page before. So a line's bytes before its value are looked up, and only
what was never seen is parsed. A line that cannot be understood costs itself and is counted with a reason.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Literal, NamedTuple, TypeVar

T = TypeVar("T", bound=Hashable)

Fault = Literal[
    "syntax",
    "value",
    "timestamp",
    "duplicate",  # the page had this series before: the first one counts
    "duplicate_label",
    "not_utf8",
    "line_too_long",
    "too_many_labels",
    "label_too_long",
    "too_many_lines",  # counted once: what follows was not looked at
    "truncated",  # the last line has no end: `12` may have been `1234`
    "refused",  # by whoever learns series
]
"""Why a line gave no sample."""

Labels = dict[str, str]

_CHUNK = 256 * 1024
"""Bytes split into lines at a time: a page of nothing but line ends must not become a list of millions."""
_SPARE = 1000
"""Series that may be remembered although the last page did not have them, beside as many as it had."""

_NAME = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:]*+")
_QUOTED = rb'"((?:[^"\\]++|\\.)*+)"'
_PAIR = re.compile(
    rb"[ \t]*+(?:([a-zA-Z_][a-zA-Z0-9_]*+)|" + _QUOTED + rb")[ \t]*+(?:=[ \t]*+" + _QUOTED + rb"[ \t]*+)?([,}])"
)
_END = re.compile(rb"[ \t]*+}")
_ESCAPE = re.compile(r'\\([\\"n])')


class Limits(NamedTuple):
    """In bytes, but for `lines` and `labels`; what goes beyond is rejected."""

    line: int = 64 * 1024
    lines: int = 2_000_000
    labels: int = 64
    label: int = 4096


@dataclass(slots=True)
class Page(Generic[T]):
    """The samples of one page, by column, each series once; `times` (Unix seconds) by index, where the page has one."""

    series: list[T] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    times: dict[int, float] = field(default_factory=dict)
    faults: Counter[Fault] = field(default_factory=Counter)
    lines: int = 0
    complete: bool = True
    """False if there is more that never came (OpenMetrics without `# EOF`) or was not looked at (too many lines)."""


class _Broken(Exception):  # noqa: N818  (a verdict on a line)
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault


class PageParser(Generic[T]):
    """Parses the pages of one target, one after the other, and remembers its series. Not thread-safe.

    `learn` is called with name and labels of a series that is new and gives what stands for it from then on, or None
    to refuse it. Labels with an empty value are left out: they mean the same as none. Families that are not `wanted`
    are skipped unparsed. What is remembered is at most twice as large as the last page.
    """

    def __init__(
        self,
        learn: Callable[[str, Labels], T | None],
        wanted: Callable[[str], bool] = lambda _: True,
        limits: Limits = Limits(),  # noqa: B008  (immutable)
    ) -> None:
        self._learn = learn
        self._wanted = wanted
        self._limits = limits
        self._known: dict[bytes, T] = {}

    def parse(self, body: bytes, *, openmetrics: bool = False) -> Page[T]:
        """Every sample that can be understood. Nothing in the page makes this raise."""
        run = _Run(self._known, self._learn, self._wanted, self._limits, openmetrics=openmetrics)
        end = body.rfind(b"\n") + 1
        for chunk in _chunks(body, end):
            if not run.take(chunk):
                break
        page = run.finish(body[end:])
        self._forget(page)
        return page

    def _forget(self, page: Page[T]) -> None:
        if len(self._known) > 2 * len(page.series) + _SPARE:
            current = set(page.series)
            self._known = {prefix: series for prefix, series in self._known.items() if series in current}


def _chunks(body: bytes, end: int) -> Iterator[bytes]:
    """The body up to `end`, where a line ends, in pieces of whole lines; a piece lacks its last line end."""
    start = 0
    while start < end:
        cut = body.rfind(b"\n", start, min(start + _CHUNK, end))
        if cut < 0:
            cut = body.index(b"\n", start)
        yield body[start:cut]
        start = cut + 1


class _Run(Generic[T]):
    """One page on its way from bytes to columns."""

    def __init__(
        self,
        known: dict[bytes, T],
        learn: Callable[[str, Labels], T | None],
        wanted: Callable[[str], bool],
        limits: Limits,
        *,
        openmetrics: bool,
    ) -> None:
        self._known = known
        self._learn = learn
        self._wanted = wanted
        self._limits = limits
        self._openmetrics = openmetrics
        self._ended = False
        self._unwanted: set[bytes] = set()
        self._texts: list[bytes] = []
        self._page: Page[T] = Page()

    def take(self, chunk: bytes) -> bool:
        """Parse these lines; False when no more shall come."""
        lines = chunk.split(b"\n")
        room = self._limits.lines - self._page.lines
        if len(lines) > room:
            del lines[room:]
            self._page.faults["too_many_lines"] += 1
            self._page.complete = False
        self._page.lines += len(lines)
        known, add_series, add_text = self._known.get, self._page.series.append, self._texts.append
        for line in lines:
            prefix, _, text = line.rpartition(b" ")
            found = known(prefix)
            if found is None:
                self._take_slowly(line, prefix, text)
            else:
                add_series(found)
                add_text(text)
        return self._page.complete

    def finish(self, tail: bytes) -> Page[T]:
        """`tail` is what stands behind the last line end."""
        page = self._page
        tail = tail.strip()
        if tail == b"# EOF":
            self._ended = True
        elif tail and not tail.startswith(b"#"):
            page.faults["truncated"] += 1
        if self._openmetrics and not self._ended:
            page.complete = False
        page.values = self._numbers()
        if len(set(page.series)) != len(page.series):
            self._drop_duplicates()
        return page

    def _take_slowly(self, line: bytes, prefix: bytes, text: bytes) -> None:
        try:
            shorter, _, value = prefix.rpartition(b" ")
            found = self._known.get(shorter) if value else None
            if found is not None:  # a known series with a timestamp
                self._add(found, value, text)
            else:
                self._parse(line.strip(b" \t\r"))
        except _Broken as broken:
            self._page.faults[broken.fault] += 1

    def _parse(self, line: bytes) -> None:
        if not line or line.startswith(b"#"):
            self._ended = self._ended or line == b"# EOF"
            return
        if len(line) > self._limits.line:
            raise _Broken("line_too_long")
        name = _NAME.match(line)
        if name and self._is_unwanted(name[0]):
            return
        end, full_name, labels = self._split(line, name.end() if name else 0)
        value, time = self._rest(line[end:])
        if self._wanted(full_name):
            self._add(self._series(line[:end], full_name, labels), value, time)

    def _is_unwanted(self, name: bytes) -> bool:
        if name in self._unwanted:
            return True
        if self._wanted(name.decode()):
            return False
        self._unwanted.add(name)
        return True

    def _split(self, line: bytes, name_end: int) -> tuple[int, str, Labels]:
        """Where name and labels end, and what they are."""
        name = line[:name_end].decode()
        brace = line.find(b"{", name_end)
        if brace < 0 or line[name_end:brace].strip(b" \t"):
            if not name:
                raise _Broken("syntax")
            return name_end, name, {}
        end, quoted_name, labels = self._labels(line, brace + 1, named=bool(name))
        if not (name or quoted_name):
            raise _Broken("syntax")
        return end, name or quoted_name, labels

    def _series(self, prefix: bytes, name: str, labels: Labels) -> T:
        series = self._known.get(prefix)
        if series is None:
            series = self._learn(name, labels)
            if series is None:
                raise _Broken("refused")
            self._known[prefix] = series
        return series

    def _labels(self, line: bytes, at: int, *, named: bool) -> tuple[int, str, Labels]:
        """Where the braces close, the name if it stands between them (`{"a.name",x="y"}`), and the labels."""
        labels: Labels = {}
        seen: set[str] = set()
        name = ""
        while not (closing := _END.match(line, at)):
            pair = _PAIR.match(line, at)
            if not pair:
                raise _Broken("syntax")
            key = self._text(pair[2]) if pair[1] is None else pair[1].decode()
            if pair[3] is None:
                if named or seen or name or pair[1] is not None or not key:
                    raise _Broken("syntax")
                name = key
            else:
                self._add_label(labels, seen, key, self._text(pair[3]))
            at = pair.end()
            if pair[4] == b"}":
                return at, name, labels
        return closing.end(), name, labels

    def _add_label(self, labels: Labels, seen: set[str], key: str, value: str) -> None:
        if key in seen:
            raise _Broken("duplicate_label")
        if key in {"", "__name__"}:
            raise _Broken("syntax")
        seen.add(key)
        if len(seen) > self._limits.labels:
            raise _Broken("too_many_labels")
        if value:
            labels[key] = value

    def _text(self, quoted: bytes) -> str:
        if len(quoted) > self._limits.label:
            raise _Broken("label_too_long")
        try:
            text = quoted.decode()
        except UnicodeDecodeError:
            raise _Broken("not_utf8") from None
        return _ESCAPE.sub(_unescape, text) if "\\" in text else text

    def _rest(self, rest: bytes) -> tuple[bytes, bytes]:
        """Value and timestamp; an exemplar is none of ours."""
        if self._openmetrics:
            rest = rest.partition(b" # {")[0]
        parts = rest.split()
        if len(parts) not in {1, 2}:
            raise _Broken("syntax")
        return parts[0], parts[1] if len(parts) == 2 else b""

    def _add(self, series: T, value: bytes, time: bytes) -> None:
        if time:
            self._page.times[len(self._page.series)] = self._seconds(time)
        self._page.series.append(series)
        self._texts.append(value)

    def _seconds(self, text: bytes) -> float:
        try:
            time = _number(text) if self._openmetrics else int(text) / 1000
        except (ValueError, OverflowError):
            raise _Broken("timestamp") from None
        if not math.isfinite(time):
            raise _Broken("timestamp")
        return time

    def _numbers(self) -> list[float]:
        try:
            if b"_" in b"".join(self._texts):  # float takes 1_000
                return self._numbers_one_by_one()
            return list(map(float, self._texts))
        except ValueError:
            return self._numbers_one_by_one()

    def _numbers_one_by_one(self) -> list[float]:
        numbers: list[float | None] = []
        for text in self._texts:
            try:
                numbers.append(_number(text))
            except ValueError:
                numbers.append(None)
                self._page.faults["value"] += 1
        self._keep([i for i, number in enumerate(numbers) if number is not None])
        return [number for number in numbers if number is not None]

    def _drop_duplicates(self) -> None:
        first: dict[T, int] = {}
        for i, series in enumerate(self._page.series):
            first.setdefault(series, i)
        kept = list(first.values())
        self._page.faults["duplicate"] += len(self._page.series) - len(kept)
        self._page.values = [self._page.values[i] for i in kept]
        self._keep(kept)

    def _keep(self, kept: list[int]) -> None:
        page = self._page
        page.series = [page.series[i] for i in kept]
        if page.times:
            page.times = {new: page.times[old] for new, old in enumerate(kept) if old in page.times}


def _number(text: bytes) -> float:
    if b"_" in text:
        raise ValueError(text)
    return float(text)


def _unescape(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]
