"""The same history gives the same verdicts, whichever store holds it."""

import time
from collections.abc import Mapping
from pathlib import Path

from gpusight.analysis.criteria import Criteria, asks
from gpusight.analysis.memory import Memory
from gpusight.analysis.rounds import Conclusion, judge_round
from gpusight.analysis.tenancy import Tenancy
from gpusight.model.series import SeriesStore, Span
from gpusight.model.time import ManualClock
from gpusight.store.embedded import Batch, EmbeddedStore
from gpusight.store.embedded_series import Target
from gpusight.store.prometheus import PrometheusConfig, PrometheusStore
from tests.e2e.test_analyze import series
from tests.support.backfill import Past, backfill
from tests.support.prometheus import needs_prometheus, temporary_prometheus

EVERY = 15.0


def history(now: float) -> list[Past]:
    """Twenty minutes of the pods that the published analyzer got wrong; one of them ended long before now."""
    target = {"job": "dcgm", "instance": "node:9400"}
    return [
        Past(name, labels | target, value, now - 1200, now - 480 if labels.get("pod") == "dead-pod" else now - 5)
        for name, labels, value in series()
    ]


def fill(store: EmbeddedStore, past: list[Past], now: float) -> None:
    target = Target("dcgm", "node:9400")
    refs = [store.ref(target, each.name, each.labels) for each in past]
    for number in range(int((1200 - 5) // EVERY) + 1):
        moment = now - 1200 + number * EVERY
        living = [index for index, each in enumerate(past) if moment <= each.end]
        store.append([Batch(target, moment, [refs[i] for i in living], [past[i].value for i in living])])


def judged(store: SeriesStore, now: float) -> Conclusion:
    reading = store.read(tuple(asks(Criteria())), Span(now, 600.0, 30.0))
    assert not reading.failures
    assert not reading.warnings
    return judge_round(reading, Memory(), Criteria(), Tenancy())


def states(conclusion: Conclusion) -> Mapping[str, str]:
    return {each.verdict.subject.name: each.verdict.state for each in conclusion.judged}


@needs_prometheus
def test_both_stores_lead_to_the_same_verdicts_and_scores(tmp_path: Path) -> None:
    now = time.time()
    past = history(now)
    backfill(tmp_path, past, EVERY)
    clock = ManualClock(now)
    embedded = EmbeddedStore(tmp_path / "samples.duckdb", clock)
    fill(embedded, past, now)
    with temporary_prometheus(tmp_path, []) as server:
        prometheus = PrometheusStore(PrometheusConfig(server.url, condition='{pod!=""}'), clock)
        theirs, ours = judged(prometheus, now), judged(embedded, now)
        prometheus.close()
    embedded.close()

    assert "idle-held" in states(theirs).values()
    assert "dead-pod" not in states(theirs)
    assert states(ours) == states(theirs)
    scores = [{row.id: (row.score, row.status) for row in each.results} for each in (ours, theirs)]
    assert scores[0] == scores[1]
