"""Back-tests for the API: of a recording that the client sends, or of what Prometheus remembers."""

from collections.abc import Sequence
from io import BytesIO

from gpusight.analysis.policies import BUILT_IN, PolicyError, parse_policy
from gpusight.analysis.replay import ReplayError, run_replay
from gpusight.analysis.replay_csv import TraceError, lines_of, parse_csv
from gpusight.analysis.replay_range import fetch
from gpusight.analysis.replay_report import ReplayReport
from gpusight.analysis.replay_trace import Trace
from gpusight.model.time import Clock
from gpusight.runtime.analyze_store import prometheus_config
from gpusight.runtime.replay_prometheus import PrometheusRange
from gpusight.settings import Settings
from gpusight.store.promql import any_of, selector
from gpusight.web.replay import ReplayRequest

_FAMILY = "DCGM_FI_DEV_GPU_UTIL"
_HELD = 'pod!=""'
_MOST_POINTS = 2000
"""Per subject: a month at 20 minutes, a week at 5."""


class StoreReplay:
    """Runs one back-test at a time."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    def __call__(self, request: ReplayRequest, namespaces: Sequence[str] | None) -> ReplayReport:
        try:
            policies = [parse_policy(text) for text in request.policies] or list(BUILT_IN.values())
            return run_replay(self._trace(request, namespaces), policies)
        except (PolicyError, TraceError, ReplayError) as error:
            raise ValueError(str(error)) from error

    def _trace(self, request: ReplayRequest, namespaces: Sequence[str] | None) -> Trace:
        if request.csv is not None:
            return parse_csv(lines_of(BytesIO(request.csv.encode()).readline), "the recording that was sent")
        if self._settings.get("store") != "prometheus":
            raise ValueError("The embedded store cannot be replayed; send a recording as csv.")
        end = request.end.timestamp() if request.end else self._clock.now()
        start = request.start.timestamp() if request.start else end - 86_400
        step = max(60.0, (end - start) / _MOST_POINTS)
        with PrometheusRange(prometheus_config(self._settings).http, self._clock) as source:
            return fetch(source, _query(namespaces), start=start, end=end, step=step)


def _query(namespaces: Sequence[str] | None) -> str:
    """The most active GPU of each pod."""
    within = "" if namespaces is None else f"namespace=~{any_of(namespaces)}"
    return f"max by (namespace, pod) ({selector(_FAMILY, _HELD, within)})"
