"""Replaying recordings: reading them, and judging policies on them."""

import io
from collections.abc import Iterator

from bench.figures import Figure, best
from gpusight.analysis.policies import BUILT_IN, DEFAULT_POLICY, Policy
from gpusight.analysis.replay import run_replay
from gpusight.analysis.replay_csv import csv_lines, lines_of, parse_csv
from gpusight.analysis.replay_trace import Trace
from gpusight.analysis.traces import TraceSpec, generate

_UNIT = "M/min"


def figures() -> Iterator[Figure]:
    """Millions of samples a minute."""
    trace = generate(TraceSpec(seed=1))
    yield Figure("replay_one_policy", _rate(trace, (DEFAULT_POLICY,)), _UNIT, (">=", 5))
    yield Figure("replay_one_mean_policy", _rate(trace, (BUILT_IN["published-5-rounds"],)), _UNIT, (">=", 5))
    many = best(lambda: run_replay(trace, list(BUILT_IN.values())), 2)
    yield Figure("replay_all_policies_and_windows", trace.samples * 60 / many / 1e6, _UNIT)
    data = "".join(csv_lines(trace)).encode()
    read = best(lambda: parse_csv(lines_of(io.BytesIO(data).readline), "trace.csv"), 2)
    yield Figure("replay_read_csv", trace.samples * 60 / read / 1e6, _UNIT, (">=", 5))


def _rate(trace: Trace, policies: tuple[Policy, ...]) -> float:
    return trace.samples * 60 / best(lambda: run_replay(trace, policies, swept=None), 3) / 1e6
