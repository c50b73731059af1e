"""The answers of a Prometheus-compatible API, read into as little as possible.

A row's labels stay the bytes that came: the same series has the same bytes in every answer, so that its key is looked
up and not computed, which would be most of what a round costs.
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from gpusight.store.http import printable

_R = TypeVar("_R")


class AnswerError(ValueError):
    """Not an answer of this API, or an error in the engine's own words."""


class Row(msgspec.Struct, gc=False):
    """One series of an instant vector: its labels as JSON, and the time and the value."""

    metric: msgspec.Raw
    value: tuple[float, float]


class RangeRow(msgspec.Struct, gc=False):
    metric: msgspec.Raw
    values: list[tuple[float, float]]


class _TextRow(msgspec.Struct, gc=False):
    """A row with its value as text: for the `+Inf` that the decoder does not take for a number."""

    metric: msgspec.Raw
    value: tuple[float, str]


class _TextRangeRow(msgspec.Struct, gc=False):
    metric: msgspec.Raw
    values: list[tuple[float, str]]


class _Data(msgspec.Struct, Generic[_R], rename="camel"):
    result: list[_R]
    result_type: str = ""


class _Answer(msgspec.Struct, Generic[_R]):
    status: str
    data: _R | None = None
    error: str = ""
    warnings: list[str] = []


class Answer(NamedTuple, Generic[_R]):
    """What was asked for, and what the engine doubts about it."""

    rows: Sequence[_R]
    warnings: Sequence[str]


_ROWS = msgspec.json.Decoder(_Answer[_Data[Row]], strict=False)
_TEXT_ROWS = msgspec.json.Decoder(_Answer[_Data[_TextRow]])
_RANGES = msgspec.json.Decoder(_Answer[_Data[RangeRow]], strict=False)
_TEXT_RANGES = msgspec.json.Decoder(_Answer[_Data[_TextRangeRow]])
_TEXTS = msgspec.json.Decoder(_Answer[list[str]])
_LABELS = msgspec.json.Decoder(dict[str, str])


def vector(body: bytes) -> Answer[Row]:
    try:
        return _checked(_ROWS.decode(body), "vector")
    except msgspec.ValidationError:
        found = _checked(_decoded(_TEXT_ROWS, body), "vector")
        return Answer([Row(row.metric, (row.value[0], _number(row.value[1]))) for row in found.rows], found.warnings)
    except msgspec.DecodeError as error:
        raise _broken(body, error) from None


def matrix(body: bytes) -> Answer[RangeRow]:
    try:
        return _checked(_RANGES.decode(body), "matrix")
    except msgspec.ValidationError:
        found = _checked(_decoded(_TEXT_RANGES, body), "matrix")
        rows = [RangeRow(row.metric, [(time, _number(text)) for time, text in row.values]) for row in found.rows]
        return Answer(rows, found.warnings)
    except msgspec.DecodeError as error:
        raise _broken(body, error) from None


def texts(body: bytes) -> Answer[str]:
    """The values of a label."""
    answer = _succeeded(_decoded(_TEXTS, body))
    if answer.data is None:
        raise AnswerError("its answer has no data")
    return Answer(answer.data, answer.warnings)


def labels_of(metric: bytes | msgspec.Raw) -> dict[str, str]:
    """A row's labels; values that are no text are no labels."""
    try:
        return _LABELS.decode(metric)
    except msgspec.MsgspecError:
        return {}


def _decoded(decoder: "msgspec.json.Decoder[_Answer[_R]]", body: bytes) -> _Answer[_R]:
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise _broken(body, error) from None


def _checked(answer: _Answer[_Data[_R]], kind: str) -> Answer[_R]:
    data = _succeeded(answer).data
    if data is None:
        raise AnswerError("its answer has no data")
    if data.result_type != kind:
        raise AnswerError(f"it answered with a {printable(data.result_type)} instead of a {kind}")
    return Answer(data.result, answer.warnings)


def _succeeded(answer: _Answer[_R]) -> _Answer[_R]:
    if answer.status != "success":
        raise AnswerError(f"it answered with an error: {printable(answer.error) or 'no reason given'}")
    return answer


def _broken(body: bytes, error: Exception) -> AnswerError:
    if body.lstrip()[:1] == b"<":
        return AnswerError("it answered with a web page instead of JSON: something else listens there")
    return AnswerError(f"its answer is not this API's JSON ({printable(str(error))})")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
