"""A round without data: nobody is idle because the metrics are gone, and every idle clock starts anew."""

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from gpusight.analysis.memory import Memory, SubjectMemory
from gpusight.analysis.records import Activity, Efficiency, GpuResult, Holding, Verdict

_UNMEASURED = Efficiency(
    utilization=None,
    engine_active=None,
    sm_active=None,
    tensor_active=None,
    dram_active=None,
    power_above_floor=None,
)


def unknown_results(results: Sequence[GpuResult], reason: str) -> tuple[GpuResult, ...]:
    """The rows of the last round without any number: they are old."""
    return tuple(
        replace(
            row,
            gpu_util=None,
            mem_copy=None,
            mem_used_mb=None,
            mem_total_mb=None,
            mem_usage_percent=None,
            power_usage=None,
            sm_clock=None,
            score=None,
            status="unknown",
            state="unknown",
            note=reason,
        )
        for row in results
    )


def unknown_verdicts(verdicts: Sequence[Verdict], memory: Memory, reason: str) -> tuple[Verdict, ...]:
    return tuple(_unknown(verdict, memory.subjects.get(verdict.subject.id), reason) for verdict in verdicts)


def _unknown(verdict: Verdict, memory: SubjectMemory | None, reason: str) -> Verdict:
    return replace(
        verdict,
        state="unknown",
        since=datetime.fromtimestamp(memory.since, UTC) if memory else verdict.since,
        confidence=0.0,
        reason=f"Nothing can be concluded: {reason.removesuffix('.')}.",
        evidence="none",
        coverage=None,
        activity=Activity(last_active=verdict.activity.last_active, active_share=None, idle_seconds=None),
        efficiency=_UNMEASURED,
        holding=Holding(gpus=verdict.holding.gpus, memory_bytes=None, memory_share=None, idle_byte_hours=0.0),
        pending=None,
        pending_rounds=0,
    )


def forget_idleness(memory: Memory, now: float) -> Memory:
    """Everybody is unknown from now on; what was learnt and accounted stays."""
    subjects = {name: _doubted(each, now) for name, each in memory.subjects.items()}
    return replace(memory, subjects=subjects)


def _doubted(subject: SubjectMemory, now: float) -> SubjectMemory:
    since = subject.since if subject.state == "unknown" else now
    return replace(
        subject,
        state="unknown",
        since=since,
        pending=None,
        pending_rounds=0,
        idle_since=None,
        idle_byte_seconds=0.0,
    )
