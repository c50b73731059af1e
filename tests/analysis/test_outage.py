from gpusight.analysis.memory import Memory
from gpusight.analysis.outage import forget_idleness, unknown_results, unknown_verdicts
from gpusight.analysis.results import stats_of
from gpusight.analysis.rounds import Conclusion

from .building import NOW, busy_gpu, idle_gpu, judge, key_of, later, reading_of, verdicts_in

READING = reading_of(idle_gpu(key_of("calm")), busy_gpu(key_of("busy", "GPU-2")))
REASON = "prometheus http://127.0.0.1:9090 does not answer."


def round_before() -> Conclusion:
    return judge(later(READING, 300), judge(READING).memory)


def test_rows_of_an_outage_know_nothing() -> None:
    rows = unknown_results(round_before().results, REASON)
    assert {row.pod for row in rows} == {"calm", "busy"}
    for row in rows:
        assert (row.score, row.status, row.state, row.note) == (None, "unknown", "unknown", REASON)
        assert {row.gpu_util, row.mem_used_mb, row.mem_total_mb, row.mem_usage_percent, row.power_usage} == {None}
    stats = stats_of(rows, 20)
    assert (stats.avg_score, stats.low_utilization_count, stats.idle_count) == (None, 0, 0)
    assert stats.by_status["unknown"] == stats.total_gpus == 2


def test_verdicts_of_an_outage_are_unknown_and_accuse_nobody() -> None:
    before = round_before()
    memory = forget_idleness(before.memory, NOW + 600)
    for verdict in unknown_verdicts([each.verdict for each in before.judged], memory, REASON):
        assert verdict.state == "unknown"
        assert verdict.confidence == 0
        assert verdict.reason == "Nothing can be concluded: prometheus http://127.0.0.1:9090 does not answer."
        assert verdict.activity.idle_seconds is None
        assert verdict.holding.idle_byte_hours == 0
        assert verdict.efficiency.utilization is None
        assert verdict.since.timestamp() == NOW + 600


def test_an_outage_starts_every_idle_clock_anew_and_forgets_nothing_else() -> None:
    before = round_before().memory
    kept = before.subjects["/team/Pod/calm"].idle_since
    after = forget_idleness(before, NOW + 600)
    assert kept is not None
    assert before.subjects["/team/Pod/calm"].idle_since == kept  # the one before is not touched
    for name, subject in after.subjects.items():
        assert subject.state == "unknown"
        assert subject.idle_since is None
        assert subject.idle_byte_seconds == 0
        assert subject.first_seen == before.subjects[name].first_seen
    assert (after.floors, after.hours, after.at) == (before.floors, before.hours, before.at)
    again = forget_idleness(after, NOW + 900)
    assert {subject.since for subject in again.subjects.values()} == {NOW + 600}


def test_after_an_outage_who_was_active_is_not_idle_at_once() -> None:
    """Neither after a short one nor after one that outlasts the window."""
    for seconds in (300, 7200):
        memory = forget_idleness(round_before().memory, NOW + 600)
        calm = reading_of(idle_gpu(key_of("calm")), idle_gpu(key_of("busy", "GPU-2")))
        verdicts = verdicts_in(judge(later(calm, 600 + seconds), memory))
        assert (verdicts["calm"].state, verdicts["busy"].state) == ("idle-held", "unknown")
        assert verdicts["busy"].pending == "idle-held"
        assert verdicts["calm"].activity.idle_seconds == 600


def test_an_outage_before_the_first_round_is_no_harm() -> None:
    assert forget_idleness(Memory(), NOW) == Memory()
    assert unknown_results((), REASON) == ()
    assert unknown_verdicts((), Memory(), REASON) == ()
