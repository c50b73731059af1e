"""The last round's verdicts as families of our own."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, get_args

from gpusight.analysis.records import Round, State, Verdict
from gpusight.catalog import verdicts as family
from gpusight.catalog.own import SIMULATED
from gpusight.catalog.spec import FamilySpec
from gpusight.exposition.blocks import FamilyBlock, LabelValues, Sample


class Standing(NamedTuple):
    """What the analyzer knows beside its last round."""

    is_leader: bool
    last_success: float | None
    tenants: Mapping[tuple[str, str], tuple[float, float, float]]
    """GPU-seconds used, idle and unknown by cluster and namespace."""
    is_simulated: bool | None = None
    """None while that is not known."""


class VerdictCollector:
    """Blocks are made once per round."""

    name = "verdicts"

    def __init__(self, last_round: Callable[[], Round | None], standing: Callable[[], Standing]) -> None:
        self._last_round = last_round
        self._standing = standing
        self._made: tuple[Round | None, Sequence[FamilyBlock | Sample]] = (None, ())

    def collect(self) -> Iterable[Sample | FamilyBlock]:
        standing = self._standing()
        yield Sample(family.LEADER, (), int(standing.is_leader))
        if standing.is_simulated is not None:
            yield Sample(SIMULATED, (), int(standing.is_simulated))
        if standing.last_success is not None:
            yield Sample(family.LAST_SUCCESS, (), standing.last_success)
        yield from _tenants(standing.tenants)
        last = self._last_round()
        if last is None:
            return
        if self._made[0] is not last:
            self._made = (last, list(_blocks(last)))
        yield from self._made[1]


def _tenants(tenants: Mapping[tuple[str, str], tuple[float, float, float]]) -> Iterator[Sample]:
    for (cluster, namespace), seconds in tenants.items():
        for use, value in zip(("used", "idle", "unknown"), seconds, strict=True):
            yield Sample(family.GPU_SECONDS, (cluster, namespace, use), value)


_VALUES: tuple[tuple[FamilySpec, Callable[[Verdict], float | None]], ...] = (
    (family.CONFIDENCE, lambda verdict: verdict.confidence),
    (family.IDLE_SECONDS, lambda verdict: verdict.activity.idle_seconds),
    (family.ACTIVE_RATIO, lambda verdict: verdict.activity.active_share),
    (family.COVERAGE, lambda verdict: verdict.coverage),
    (family.GPUS, lambda verdict: verdict.holding.gpus),
    (family.MEMORY_HELD, lambda verdict: verdict.holding.memory_bytes),
)


def _blocks(last: Round) -> Iterator[FamilyBlock | Sample]:
    keyed = [(_key(verdict), verdict) for verdict in last.verdicts]
    yield FamilyBlock(family.STATE, [(*key, verdict.state) for key, verdict in keyed], [1] * len(keyed))
    for spec, read in _VALUES:
        known = [(key, value) for key, verdict in keyed if (value := read(verdict)) is not None]
        yield FamilyBlock(spec, [key for key, _ in known], [float(value) for _, value in known])
    counts = Counter(verdict.state for verdict in last.verdicts)
    for state in get_args(State):
        yield Sample(family.WORKLOADS, (state,), counts[state])
    yield Sample(family.QUERIES, (), last.queries)
    yield Sample(family.PROBLEMS, (), len(last.problems))


def _key(verdict: Verdict) -> LabelValues:
    subject = verdict.subject
    return subject.cluster, subject.namespace, subject.kind, subject.name
