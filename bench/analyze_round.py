"""A whole round over a real Prometheus: queries, verdicts, accounts, journal; against one query per GPU and metric.

`python -m bench.analyze_round URL END GPUS` is the process that is measured; it prints one JSON object.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.figures import Figure
from bench.fleet import Fleet, fleet_of, record, seed_way
from gpusight.analysis.criteria import Criteria
from gpusight.analysis.tenancy import PriceList, Tenancy
from gpusight.journal.open import open_journal
from gpusight.journal.retention import Retention
from gpusight.model.series import Span
from gpusight.model.time import SystemClock
from gpusight.runtime.analyst import Analyst, Terms
from gpusight.store.prometheus import PrometheusConfig, PrometheusStore

_ROUNDS = 3
_PEER = "a query per GPU and metric"


class Cost(NamedTuple):
    """Of one round; the median of some."""

    seconds: float
    cpu_us: float
    rss_mib: float
    queries: int


def figures() -> Iterator[Figure]:
    with fleet_of(10_000) as fleet:
        peer = seed_way(fleet) * 10_000
        plain = _child(fleet)
        yield Figure("analyze_round_10000", plain.seconds, "s", (">=", 100), _PEER, peer)
        yield Figure("analyze_round_cpu_per_gpu", plain.cpu_us, "us", ("<=", 100))
        yield Figure("analyze_round_rss_10000", plain.rss_mib, "MiB", ("<=", 250))
        yield Figure("analyze_round_queries", plain.queries, "queries", ("<=", 80))
        record(fleet)
        recorded = _child(fleet)
        yield Figure("analyze_round_recorded_10000", recorded.seconds, "s", (">=", 1000), _PEER, peer)
        yield Figure("analyze_round_recorded_cpu_per_gpu", recorded.cpu_us, "us", ("<=", 100))
    with fleet_of(1_000) as small, fleet_of(50_000) as large:
        pairs = [(_child(small).seconds / small.gpus, _child(large).seconds / large.gpus) for _ in range(_ROUNDS)]
    growth = statistics.median(of_large / of_small for of_small, of_large in pairs)
    yield Figure("analyze_round_growth_1000_to_50000", growth, "x", ("<=", 1.3))


def _child(fleet: Fleet) -> Cost:
    command = [sys.executable, "-m", "bench.analyze_round", fleet.url, str(fleet.now), str(fleet.gpus)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Cost(**json.loads(done.stdout))


def _rounds(url: str, now: float, gpus: int) -> Cost:
    """Rounds after a first one, which knows no series yet; time moves on, or nothing would be accounted."""
    clock = SystemClock()
    walls, cpus, queries = [], [], 0
    with tempfile.TemporaryDirectory() as directory:
        journal = open_journal(Path(directory) / "journal.sqlite3", retention=Retention(), clock=clock)
        analyst = Analyst(journal, clock, lambda: True)
        store = PrometheusStore(PrometheusConfig(url, condition='{pod!=""}', timeout=60.0), clock)
        for number in range(_ROUNDS + 1):
            terms = Terms(Criteria(), Span(now + number * 0.1, 600.0, 30.0), Tenancy(), PriceList())
            wall, cpu = time.perf_counter(), time.process_time()
            outcome = analyst.hold(store, terms)
            if number:
                walls.append(time.perf_counter() - wall)
                cpus.append(time.process_time() - cpu)
            assert outcome.is_ok
            assert outcome.round.stats.total_gpus == gpus
            assert not outcome.round.problems
            queries = outcome.round.queries
        store.close()
        journal.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Cost(statistics.median(walls), statistics.median(cpus) / gpus * 1e6, peak, queries)


if __name__ == "__main__":
    print(json.dumps(_rounds(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))._asdict()))
