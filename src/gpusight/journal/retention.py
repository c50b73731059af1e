"""How long the journal keeps what."""

from typing import NamedTuple

_DAY = 86_400.0


class Retention(NamedTuple):
    """Seconds. Configuration changes and open episodes are kept for ever."""

    verdict_changes: float = 90 * _DAY
    episodes: float = 400 * _DAY
    hours: float = 400 * _DAY
    """13 months, so that a month can be compared with the same month of the year before."""
