"""Numbers as a person says them."""


def percent(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:.0%}" if value == 0 or value >= 0.01 else f"{value:.1%}"


def gib(value: float) -> str:
    return f"{value / 2**30:.1f} GiB"


def watts(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0f} W"


def span(seconds: float) -> str:
    """`45 s`, `12 min`, `2 h 5 min`, `3 d 4 h`."""
    minutes = int(seconds // 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
