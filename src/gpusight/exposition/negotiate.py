"""What a client may be answered: which text format, and whether compressed."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpusight.exposition.text import OPENMETRICS, TEXT, Dialect

_QVALUE = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")
_OPENMETRICS_VERSIONS = frozenset({"", "0.0.1", "1.0.0"})
"""Offers answered as OpenMetrics 1.0.0: 0.0.1 has the same syntax, no version means any."""
_TEXT_VERSIONS = frozenset({"", "0.0.4"})


class _Offer(NamedTuple):
    value: str
    version: str
    q: float


def choose_dialect(accept: str) -> Dialect:
    """The format the client likes best among those we speak; plain text where it is in doubt."""
    offers = list(_offers(accept))
    openmetrics = _best(offers, "application/openmetrics-text", _OPENMETRICS_VERSIONS) or 0.0
    return OPENMETRICS if 0 < openmetrics >= _liking_for_text(offers) else TEXT


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether the client takes gzip, and likes it no less than the plain bytes."""
    codings = {offer.value: offer.q for offer in _offers(accept_encoding)}
    gzip = codings.get("gzip", codings.get("x-gzip", codings.get("*", 0.0)))
    return gzip > 0 and gzip >= codings.get("identity", 0.0)


def _liking_for_text(offers: list[_Offer]) -> float:
    for value in ("text/plain", "text/*", "*/*"):
        q = _best(offers, value, _TEXT_VERSIONS)
        if q is not None:
            return q
    return 0.0


def _best(offers: list[_Offer], value: str, versions: frozenset[str]) -> float | None:
    return max((offer.q for offer in offers if offer.value == value and offer.version in versions), default=None)


def _offers(header: str) -> Iterator[_Offer]:
    """The parts of an Accept or Accept-Encoding header; a part with an unreadable q-value is no offer."""
    for part in header.lower().split(","):
        value, *parameters = (piece.strip() for piece in part.split(";"))
        given = dict(_parameter(text) for text in parameters)
        q = given.get("q", "1")
        if value and _QVALUE.fullmatch(q):
            yield _Offer(value, given.get("version", ""), float(q))


def _parameter(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip(), value.strip().strip('"')
