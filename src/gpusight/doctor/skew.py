"""How far another machine's clock is from ours."""

from email.utils import parsedate_to_datetime

from gpusight.doctor.findings import Finding, NotChecked, fail, ok, warn

_ROUNDING = 0.5
"""A Date header has whole seconds, cut off: the middle is our best guess."""
_NOTICEABLE, _WRONG = 5.0, 30.0


def seconds_ahead(date: str, asked_at: float, answered_at: float) -> float | None:
    """From a Date header; None without a usable one. Of the way there and back half is taken off."""
    try:
        theirs = parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None
    return theirs + _ROUNDING - (asked_at + answered_at) / 2


def judge(ahead: float | None, who: str) -> Finding:
    if ahead is None:
        raise NotChecked("clock.no-date", who=who)
    values = {"who": who, "seconds": f"{ahead:+.1f}"}
    if abs(ahead) > _WRONG:
        return fail("clock.wrong", **values)
    return warn("clock.wrong", **values) if abs(ahead) > _NOTICEABLE else ok("clock.ok", **values)
