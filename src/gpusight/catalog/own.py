"""What every process of ours says of itself, and what a node's says of its reading."""

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
    how_to_read="`busy`, `connections`: too many scrapers. `timeout`: collecting is too slow. "
    " `auth`: no or wrong credentials.",
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

# How the reading of a node goes: the role `node` only.

_node = partial(FamilySpec, kind="gauge", origin="gpusight", endpoint="node")

NVML_UP = _node(
    name="gpusight_nvml_up",
    unit="boolean",
    labels=(label.NVML_REASON,),
    help="Whether NVIDIA's management library works on this node: 1 yes, 0 no.",
    how_to_read="At 0 no GPU can be read; what HAMi's containers use is still shown.",
)
DEVICE_UP = _node(
    name="gpusight_device_up",
    unit="boolean",
    labels=(label.UUID, label.GPU, label.DOWN_REASON),
    help="Whether the GPU can be read: 1 yes, 0 no.",
    how_to_read="At 0 all its readings are absent. `lost` fell off the bus; `blocked` does not answer. `uuid` is left"
    " out if it could never be read.",
)
VGPU_DIRECTORY_PRESENT = _node(
    name="gpusight_vgpu_directory_present",
    unit="boolean",
    help="Whether HAMi's directory of containers is there: 1 yes, 0 no.",
    how_to_read="At 0 HAMi does not run here, or its directory is not mounted.",
)
VGPU_LAST_SCAN = _node(
    name="gpusight_vgpu_last_scan_timestamp_seconds",
    unit="timestamp",
    help="When HAMi's directory of containers was last read, in seconds since the Unix epoch.",
    how_to_read="time() less this value is the age of what containers use.",
)
VGPU_CONTAINERS = _node(
    name="gpusight_vgpu_containers",
    unit="count",
    labels=(label.MATCH_STATE,),
    help="Containers that have a directory of HAMi's.",
    how_to_read="What an unmatched one uses is not shown. Normal for a while after a pod's end.",
)
VGPU_REGION_PROBLEMS = _node(
    name="gpusight_vgpu_region_problems",
    unit="count",
    labels=(label.REGION_PROBLEM,),
    help="Containers' shared files that could not be read at the last scan.",
    how_to_read="What those containers use is not shown. `unknown_version` may mean that HAMi is too new.",
)
VGPU_TORN_REGIONS = _node(
    name="gpusight_vgpu_torn_regions",
    unit="count",
    help="Containers' shared files that changed while they were read, several times over.",
    how_to_read="Their numbers may be a little off at this instant.",
)
JOIN_FAILURES = _node(
    name="gpusight_join_failures",
    unit="count",
    labels=(label.JOIN_FAILURE,),
    help="Devices, processes and directories that could not be given an owner, at the last reading.",
    how_to_read="A gauge: how many there are now. Programs outside of pods count as `not_in_a_pod`, which is no fault.",
)

NVML_IMPLAUSIBLE = FamilySpec(
    name="gpusight_nvml_implausible_values_total",
    kind="counter",
    unit="count",
    labels=(label.FIELD,),
    help="Numbers of the driver that cannot be true and were left out, by what they should tell.",
    origin="gpusight",
    endpoint="node",
    how_to_read="Such a number is absent, never corrected. A driver that gives many is worth an upgrade.",
)
NVML_CHILDREN = FamilySpec(
    name="gpusight_nvml_children",
    kind="gauge",
    unit="count",
    help="Processes of ours that have the driver open: 1 as a rule, at most 3.",
    origin="gpusight",
    endpoint="node",
    how_to_read="Above 1 for long: a process hangs in the driver and cannot be killed; look for XIDs and a lost GPU.",
)
NVML_CHILD_FAILURES = FamilySpec(
    name="gpusight_nvml_child_failures_total",
    kind="counter",
    unit="count",
    labels=(label.CHILD_FAILURE,),
    help="Processes that had the driver open and came to a bad end, by how.",
    origin="gpusight",
    endpoint="node",
    how_to_read="Each costs the readings of a few seconds; the agent goes on.",
)

OTHER_EXPORTER = FamilySpec(
    name="gpusight_other_exporter",
    kind="gauge",
    unit="boolean",
    labels=(label.EXPORTER,),
    help="Another exporter that runs on this host, always 1.",
    origin="gpusight",
    endpoint="node",
    how_to_read="Beside dcgm-exporter or HAMi's monitor each GPU has its series twice, from two jobs: sums double."
    " Switch the other one off, or our set: --collect.sets without dcgm or hami.",
)

SOURCE_UP = _node(
    name="gpusight_source_up",
    unit="boolean",
    labels=(label.SOURCE, label.SOURCE_REASON),
    help="Whether a source of names and grants answers: 1 yes, 0 no.",
    how_to_read="At 0 what it said before is still used where it is a watch of the Kubernetes API, and gets older."
    " A source that is not asked has no series.",
)
SOURCE_LAST_ANSWER = _node(
    name="gpusight_source_last_answer_timestamp_seconds",
    unit="timestamp",
    labels=(label.SOURCE,),
    help="When a source of names and grants last said anything, in seconds since the Unix epoch.",
    how_to_read="time() less this value is its age. A watch of the Kubernetes API in which nothing happens is heard"
    " of once a minute or so.",
)
SOURCE_FAILURES = FamilySpec(
    name="gpusight_source_failures_total",
    kind="counter",
    unit="count",
    labels=(label.SOURCE, label.SOURCE_REASON),
    help="Times that a source of names and grants gave no answer, by reason.",
    origin="gpusight",
    endpoint="node",
    how_to_read="A few of `disconnected` or `expired` are normal for a watch; one that rises steadily is not.",
)
SOURCE_UNUSABLE = _node(
    name="gpusight_source_unusable_entries",
    unit="count",
    labels=(label.SOURCE,),
    help="Pods, slices or directories in a source's last answer that could not be read.",
    how_to_read="Each costs only itself: its pod has no name, or its devices have no holder.",
)

NODE_HEALTH: tuple[FamilySpec, ...] = (
    NVML_UP,
    DEVICE_UP,
    VGPU_DIRECTORY_PRESENT,
    VGPU_LAST_SCAN,
    VGPU_CONTAINERS,
    VGPU_REGION_PROBLEMS,
    VGPU_TORN_REGIONS,
    JOIN_FAILURES,
    NVML_IMPLAUSIBLE,
    NVML_CHILDREN,
    NVML_CHILD_FAILURES,
    OTHER_EXPORTER,
    SOURCE_UP,
    SOURCE_LAST_ANSWER,
    SOURCE_FAILURES,
    SOURCE_UNUSABLE,
)
"""Beside these the role `node` shows SIMULATED."""
