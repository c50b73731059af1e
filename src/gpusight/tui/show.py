"""Numbers and names as short text. What is not known is `-`."""

from rich.cells import cell_len, set_cell_size

from gpusight.errors import printable

UNKNOWN = "-"
_GIB = 2**30


def percent(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else f"{ratio * 100:.0f}%"


def number(value: float | None, digits: int = 0, unit: str = "") -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}{unit}"


def gib(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value / _GIB:.1f}" if value < 1000 * _GIB else f"{value / _GIB:.0f}"


def duration(seconds: float | None) -> str:
    """At most six characters for anything below 27 years."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    days, hours = whole // 86_400, whole % 86_400 // 3600
    return f"{days}d{hours:02}h" if days < 100 else f"{days}d"


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """A stranger's text in exactly so many terminal cells: no control characters, `…` where it was cut."""
    text = printable(text)
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…" if width > 0 else ""
    room = " " * (width - length)
    return room + text if right else text + room
