"""An analyzer with made-up rounds."""

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gpusight.analysis.records import (
    Activity,
    Efficiency,
    GpuResult,
    Holding,
    Loan,
    Round,
    State,
    Status,
    Subject,
    TenantUse,
    Verdict,
)
from gpusight.analysis.results import stats_of
from gpusight.errors import SettingsError
from gpusight.exposition.endpoint import Endpoint
from gpusight.model.history import ConfigChange, Episode, HourUse, VerdictChange
from gpusight.model.series import Point, Quantity
from gpusight.model.time import Clock, ManualClock
from gpusight.web.service import ConfigValue, Health, OperationSample, RoleStatus, Trigger
from tests.support.serving import endpoint

AT = datetime(2026, 1, 31, 10, 30, tzinfo=UTC)


def result(number: int, score: float | None = 50.0, namespace: str = "team-a", **more: Any) -> GpuResult:
    status: Status = "unknown" if score is None else _status(score)
    state: State = "unknown" if score is None else "idle-held" if score < 10 else "productive"
    pod = f"pod-{number}"
    given: dict[str, Any] = {
        "gpu_id": f"GPU-{number:08d}-11f6-5ecc-feb0-af07406e1838",
        "pod": pod,
        "namespace": namespace,
        "hostname": f"node-{number % 7}",
        "model_name": "NVIDIA H100 80GB HBM3" if number % 2 else "Tesla T4",
        "gpu_util": score,
        "mem_copy": None if number % 3 else 12.5,
        "mem_used_mb": 18432.5,
        "mem_total_mb": 32510.0,
        "mem_usage_percent": 56.7,
        "power_usage": 185.25,
        "sm_clock": 1530.0,
        "score": score,
        "status": status,
        "timestamp": AT,
        "id": f"{number:016x}",
        "cluster": "prod",
        "container": "main",
        "mig_instance": "",
        "slot": "",
        "subject": f"prod/{namespace}/Pod/{pod}",
        "state": state,
        "note": "" if score is not None else "no samples in the window",
    }
    return GpuResult(**{**given, **more})


def _status(score: float) -> Status:
    return "idle" if score < 10 else "low" if score < 20 else "normal" if score <= 70 else "high"


def verdict(row: GpuResult) -> Verdict:
    return Verdict(
        subject=Subject(
            id=row.subject,
            cluster=row.cluster,
            namespace=row.namespace,
            kind="Pod",
            name=row.pod,
            how="no series names its owner",
        ),
        state=row.state,
        since=AT,
        confidence=0.9,
        reason=f"Score {row.score}.",
        evidence="utilization-power",
        coverage=1.0,
        activity=Activity(last_active=AT, active_share=0.5, idle_seconds=None),
        efficiency=Efficiency(
            utilization=0.5,
            engine_active=None,
            sm_active=None,
            tensor_active=None,
            dram_active=None,
            power_above_floor=0.4,
        ),
        holding=Holding(gpus=1.0, memory_bytes=2.0**34, memory_share=0.5, idle_byte_hours=0.0),
        pods=(row.pod,),
        parts=(row.id,),
        nodes=(row.hostname,),
        models=(row.model_name,),
        pending=None,
        pending_rounds=0,
        owner="li@example.com",
        team="vision",
    )


def loan(row: GpuResult) -> Loan:
    return Loan(
        cluster=row.cluster,
        namespace=row.namespace,
        owner="li@example.com",
        team="vision",
        subject=row.subject,
        state=row.state,
        gpus=1.0,
        models=(row.model_name,),
        since=AT,
        used_gpu_hours=2.0,
        idle_gpu_hours=1.0,
        unknown_gpu_hours=0.0,
    )


def make_round(rows: Sequence[GpuResult], number: int = 1, threshold: float = 20.0) -> Round:
    ordered = sorted(rows, key=lambda row: (row.score is None, row.score or 0.0))
    return Round(
        number=number,
        at=AT,
        duration_seconds=0.25,
        window_seconds=600.0,
        threshold=threshold,
        store="prometheus http://prometheus:9090",
        queries=24,
        results=tuple(ordered),
        verdicts=tuple(map(verdict, ordered)),
        stats=stats_of(ordered, threshold),
        loans=tuple(map(loan, ordered)),
        problems=("DCGM_FI_DEV_POWER_USAGE could not be read.",),
    )


def a_round(number: int = 1) -> Round:
    """Five GPUs of two teams: idle, low, normal, high, unknown."""
    rows = [
        result(1, 5.2, "team-a"),
        result(2, 15.0, "team-b"),
        result(3, 45.6, "team-a"),
        result(4, 92.3, "team-b"),
        result(5, None, "team-a"),
    ]
    return make_round(rows, number)


def default_config() -> list[ConfigValue]:
    values: dict[str, Any] = {
        "prom.url": "http://someone:geheim@prometheus:9090",
        "threshold": 20,
        "interval": 300.0,
        "time-window-min": 10,
        "max-workers": 8,
        "step": 30.0,
        "query-condition": '{pod!=""}',
        "gpu-util-weight": 0.5,
        "ai.enabled": False,
        "ai.model": "gpt-4",
        "ai.api-key": "********",
        "control.api-enabled": False,
        "control.api": None,
    }
    fixed = {"prom.url", "ai.api-key", "control.api"}
    return [
        ConfigValue(name=name, value=value, origin="default", changeable=name not in fixed, help=f"About {name}.")
        for name, value in values.items()
    ]


@dataclass
class FakeAnalyzer:
    """Does what it is told; `stall` keeps everything that may block from answering until it is set."""

    last: Round | None = field(default_factory=a_round)
    clock: Clock = field(default_factory=ManualClock)
    outcome: Trigger = field(default_factory=lambda: Trigger(outcome="scheduled"))
    stall: threading.Event | None = None
    failure: Exception | None = None
    triggers: int = 0
    settings: list[ConfigValue] = field(default_factory=default_config)
    updates: list[tuple[dict[str, str], str]] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    shown: Endpoint = field(default_factory=endpoint)
    samples: list[OperationSample] = field(default_factory=list)
    is_simulated: bool | None = None

    @property
    def endpoint(self) -> Endpoint:
        return self.shown

    def round(self) -> Round | None:
        return self.last

    def trigger(self) -> Trigger:
        self.triggers += 1
        return self.outcome

    def health(self) -> Health:
        return Health(
            status="healthy",
            prometheus_connected=True,
            last_analysis=self.last.at if self.last else None,
            analysis_timeout=False,
            ai_enabled=False,
            interval=300.0,
            reason="",
            leader=True,
        )

    def ready(self) -> bool:
        return self.last is not None

    def config(self) -> Sequence[ConfigValue]:
        return self.settings

    def update_config(self, changes: Mapping[str, str], actor: str) -> Mapping[str, Any]:
        self._block()
        for name, value in changes.items():
            if name != "query-condition" and not re.fullmatch(r"[0-9.]{1,6}|true|false", value):
                raise SettingsError(f"setting {name}: this is not what it takes")
        self.updates.append((dict(changes), actor))
        return {name: int(value) if value.isdecimal() else value for name, value in changes.items()}

    def window(self, result_id: str, quantity: Quantity) -> Sequence[Point]:
        self._block()
        return [Point(1769855370.0, 0.5), Point(1769855400.0, 0.75)]

    def changes(
        self, *, start: float, end: float, subject: str | None, namespaces: Sequence[str] | None, limit: int
    ) -> Sequence[VerdictChange]:
        self._ask(start=start, end=end, subject=subject, namespaces=namespaces, limit=limit)
        rows = [self._change("team-a"), self._change("team-b")]
        return [row for row in rows if namespaces is None or row.namespace in namespaces][:limit]

    def hours(self, *, start: float, end: float, namespaces: Sequence[str] | None) -> Sequence[HourUse]:
        self._ask(start=start, end=end, namespaces=namespaces)
        return [self._hour(name) for name in ("team-a", "team-b") if namespaces is None or name in namespaces]

    def tenants(self, *, start: float, end: float, namespaces: Sequence[str] | None) -> Sequence[TenantUse]:
        self._ask(start=start, end=end, namespaces=namespaces)
        return [self._tenant(name) for name in ("team-a", "team-b") if namespaces is None or name in namespaces]

    def episodes(self, *, open_only: bool, namespaces: Sequence[str] | None) -> Sequence[Episode]:
        self._ask(open_only=open_only, namespaces=namespaces)
        rows = [
            Episode("e1", "prod", "team-a", "prod/team-a/Pod/pod-1", "idle-held", 1769850000.0, None, "Idle."),
            Episode("e0", "prod", "team-b", "prod/team-b/Pod/pod-2", "idle-empty", 1769840000.0, 1769841000.0, "Idle."),
        ]
        chosen = [row for row in rows if namespaces is None or row.namespace in namespaces]
        return [row for row in chosen if row.closed is None or not open_only]

    def config_changes(self, limit: int) -> Sequence[ConfigChange]:
        self._ask(limit=limit)
        return [ConfigChange(1769850000.0, "ops", "threshold", "20", "25")][:limit]

    def floor(self, result_id: str) -> float | None:
        return 62.5

    def operations(self) -> Sequence[OperationSample]:
        self._block()
        return self.samples

    def roles(self) -> Sequence[RoleStatus]:
        return [
            RoleStatus(name="analyze", url="", page="/", state="running", restarts=0, since=AT, last_exit=""),
            RoleStatus(
                name="node",
                url="http://127.0.0.1:9394",
                page="",
                state="restarting",
                restarts=2,
                since=AT,
                last_exit="ended with code 1",
            ),
        ]

    def simulated(self) -> bool | None:
        return self.is_simulated

    def _ask(self, **asked: Any) -> None:
        self.asked.append(asked)
        self._block()

    def _block(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.stall is not None:
            self.stall.wait(30)

    @staticmethod
    def _change(namespace: str) -> VerdictChange:
        return VerdictChange(
            1769850000.5,
            "prod",
            namespace,
            f"prod/{namespace}/Pod/pod-1",
            "idle-held",
            "productive",
            0.9,
            "Idle.",
            '{"x": 1}',
        )

    @staticmethod
    def _hour(namespace: str) -> HourUse:
        return HourUse(
            1769850000,
            "prod",
            namespace,
            f"prod/{namespace}/Pod/pod-1",
            "Tesla T4",
            1.0,
            0.5,
            0.5,
            0.0,
            None,
            None,
            "USD",
            "li",
            "vision",
        )

    @staticmethod
    def _tenant(namespace: str) -> TenantUse:
        return TenantUse(
            cluster="prod",
            namespace=namespace,
            owner="=HYPERLINK(1)",
            team="vision",
            held_gpu_hours=3.0,
            used_gpu_hours=2.0,
            idle_gpu_hours=1.0,
            unknown_gpu_hours=0.0,
            energy_joules=None,
            cost=9.0,
            idle_cost=3.0,
            currency="USD",
        )
