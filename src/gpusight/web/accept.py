"""What a client likes best, by its Accept headers."""

import re
from collections.abc import Iterator, Sequence

_QVALUE = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


def quality(accept: str, media: str) -> float:
    """How much the client likes a media type, 0 to 1; the most specific range that covers it decides."""
    if not accept.strip():
        return 1.0
    given = dict(_offers(accept))
    family = media.partition("/")[0]
    return next((given[range_] for range_ in (media, f"{family}/*", "*/*") if range_ in given), 0.0)


def prefers(accept: str, media: str, default: str) -> bool:
    """Whether the client likes `media` better than what it would get otherwise."""
    return quality(accept, media) > quality(accept, default)


def choose_language(accept_language: str, offered: Sequence[str]) -> str:
    """The offered language that the client likes best, the first one in doubt."""
    liked = sorted(_offers(accept_language), key=lambda offer: -offer[1])
    for wanted, q in liked:
        primary = wanted.partition("-")[0]
        if q > 0 and primary in offered:
            return primary
    return offered[0]


def _offers(header: str) -> Iterator[tuple[str, float]]:
    """The parts with their q-values; a part with an unreadable one is no offer."""
    for part in header.lower().split(","):
        value, *parameters = (piece.strip() for piece in part.split(";"))
        q = next((text[2:].strip() for text in parameters if text.startswith("q=")), "1")
        if value and _QVALUE.fullmatch(q):
            yield value, float(q)
