"""What every process of ours says of itself."""

from functools import partial

from gpusight.catalog import labels as label
from gpusight.catalog.spec import FamilySpec

_gauge = partial(FamilySpec, kind="gauge", origin="gpusight", endpoint="every role")
_counter = partial(FamilySpec, kind="counter", unit="count", origin="gpusight", endpoint="every role")

BUILD_INFO = _gauge(
    name="gpusight_build_info",
    unit="info",
    labels=(label.VERSION, label.REVISION, label.PYTHON_VERSION, label.ROLE),
    help="The build that serves this page, always 1.",
    how_to_read="Count by (version, role) to find processes that an upgrade left behind.",
)
SIMULATED = _gauge(
    name="gpusight_simulated",
    unit="boolean",
    help="Whether the numbers of this page are made up: 1 simulated, 0 real.",
    how_to_read="Must be 0 everywhere in production.",
)
COLLECTOR_SUCCESS = _gauge(
    name="gpusight_collector_success",
    unit="boolean",
    labels=(label.COLLECTOR,),
    help="Whether the collector's last run succeeded: 1 yes, 0 no.",
    how_to_read="At 0 the collector's families are absent or partial; the other collectors go on. The log says why.",
)
COLLECTOR_DURATION = _gauge(
    name="gpusight_collector_duration_seconds",
    unit="seconds",
    labels=(label.COLLECTOR,),
    help="How long the collector's last run took.",
    how_to_read="Must stay below the scrape timeout.",
)
COLLECTOR_LAST_SUCCESS = _gauge(
    name="gpusight_collector_last_success_timestamp_seconds",
    unit="timestamp",
    labels=(label.COLLECTOR,),
    help="When the collector last succeeded, in seconds since the Unix epoch.",
    how_to_read="time() less this value is the age of the data. Absent until the first success.",
)
SERIES_DROPPED = _counter(
    name="gpusight_series_dropped_total",
    labels=(label.DROP_REASON,),
    help="Series left out of a page because no page may carry them.",
    how_to_read="Any increase points to a defect here or to two devices of one identity.",
)
SCRAPES_REJECTED = _counter(
    name="gpusight_scrapes_rejected_total",
    labels=(label.REJECT_REASON,),
    help="Scrapes that were refused.",
    how_to_read="`busy`, `connections`: too many scrapers. `timeout`: collecting is too slow. `auth`: wrong password.",
)
WEB_CONFIG_RELOAD_SUCCESS = _gauge(
    name="gpusight_web_config_reload_success",
    unit="boolean",
    help="Whether the last reading of the web configuration file succeeded: 1 yes, 0 no.",
    how_to_read="At 0 the previous configuration stays in force. Absent without such a file.",
)
WEB_CONFIG_LAST_RELOAD = _gauge(
    name="gpusight_web_config_last_reload_success_timestamp_seconds",
    unit="timestamp",
    help="When the web configuration file was last read with success, in seconds since the Unix epoch.",
    how_to_read="Older than the file's last change means that the change is not in force. Absent without such a file.",
)

FAMILIES: tuple[FamilySpec, ...] = (
    BUILD_INFO,
    SIMULATED,
    COLLECTOR_SUCCESS,
    COLLECTOR_DURATION,
    COLLECTOR_LAST_SUCCESS,
    SERIES_DROPPED,
    SCRAPES_REJECTED,
    WEB_CONFIG_RELOAD_SUCCESS,
    WEB_CONFIG_LAST_RELOAD,
)
