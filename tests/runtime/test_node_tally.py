"""How a source's answers turn out."""

from gpusight.collectors.view import SourceHealth
from gpusight.model.time import ManualClock
from gpusight.runtime.node_tally import Tally
from gpusight.sources.podlogs import PodLogsReading
from gpusight.sources.podresources.source import KubeletReading


def test_before_the_first_answer_there_is_nothing_to_say() -> None:
    tally = Tally("kubelet", lambda: KubeletReading(0.0, is_up=True), ("", "no_socket"), ManualClock())
    assert tally.health() is None


def test_failures_count_by_reason_and_each_answer_once() -> None:
    clock = ManualClock(now=1000.0)
    up, gone = PodLogsReading(is_up=True, skipped=3), PodLogsReading(is_up=False, reason="no_directory")
    answers = [up, up, gone, gone, PodLogsReading(is_up=False, reason="no_directory"), up]
    tally = Tally("pod_logs", lambda: answers.pop(0), ("", "no_directory", "error"), clock)
    tally.read()
    clock.advance(5)
    for _ in range(4):
        tally.read()
    failures = {"no_directory": 2, "error": 0}
    assert tally.health() == SourceHealth("pod_logs", False, "no_directory", 1000.0, failures, 0)
    tally.read()
    assert tally.health() == SourceHealth("pod_logs", True, "", 1005.0, failures, 3)


def test_a_source_without_entries_to_skip_tells_none() -> None:
    tally = Tally("kubelet", lambda: KubeletReading(0.0, is_up=True), (), ManualClock())
    tally.read()
    health = tally.health()
    assert health is not None
    assert health.unusable is None
