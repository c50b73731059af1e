"""Numbers and times as the pages write them; what is not known is a dash."""

from datetime import UTC, datetime
from math import isfinite

from markupsafe import Markup, escape

DASH = "–"  # noqa: RUF001


def number(value: float | None, digits: int = 1) -> str:
    return DASH if value is None or not isfinite(value) else f"{value:,.{digits}f}"


def whole(value: float | None) -> str:
    return number(value, 0)


def share(value: float | None) -> str:
    """Of a ratio; what is little but not nothing does not look like nothing."""
    if value is None or not isfinite(value):
        return DASH
    return f"{100 * value:.1f} %" if 0 < value < 0.095 else f"{100 * value:.0f} %"


def percent(value: float | None) -> str:
    return DASH if value is None else f"{value:.0f} %"


def gib(value: float | None) -> str:
    return DASH if value is None else f"{value / 2**30:,.1f} GiB"


def watts(value: float | None) -> str:
    return DASH if value is None else f"{value:,.0f} W"


def energy(joules: float | None) -> str:
    return DASH if joules is None else f"{joules / 3.6e6:,.1f} kWh"


def money(value: float | None, currency: str) -> str:
    return DASH if value is None else f"{value:,.2f} {currency}".strip()


def seconds(value: float | None) -> str:
    """Of something short."""
    if value is None or not isfinite(value):
        return DASH
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if value >= unit:
            return f"{value / unit:,.3g} {name}"
    return f"{value * 1e6:,.3g} µs"


def moment(value: datetime | float | None) -> Markup:
    """In UTC; the page's script writes it in the reader's own zone."""
    if value is None:
        return escape(DASH)
    at = value if isinstance(value, datetime) else datetime.fromtimestamp(value, UTC)
    at = at.astimezone(UTC)
    return Markup('<time datetime="{}" data-local>{}</time>').format(at.isoformat(), f"{at:%Y-%m-%d %H:%M} UTC")


def short_gpu(gpu_id: str) -> str:
    """Enough of a UUID to tell GPUs apart."""
    return gpu_id if len(gpu_id) <= 14 else f"{gpu_id[:12]}…"


FILTERS = {
    each.__name__: each
    for each in (number, whole, share, percent, gib, watts, energy, money, seconds, moment, short_gpu)
}
