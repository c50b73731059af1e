"""An analyzer over a plausible fleet: what the pages are looked at, tested and measured with."""

import asyncio
import math
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

from fastapi import FastAPI
from msgspec.structs import replace

from gpusight.analysis.policies import BUILT_IN, parse_policy
from gpusight.analysis.records import Activity, GpuResult, Round, State, TenantUse, Verdict
from gpusight.analysis.replay import run_replay
from gpusight.analysis.replay_csv import lines_of, parse_csv
from gpusight.analysis.replay_report import ReplayReport
from gpusight.analysis.results import stats_of
from gpusight.model.history import ConfigChange, Episode, VerdictChange
from gpusight.model.series import Point, Quantity
from gpusight.model.time import Clock, SystemClock
from gpusight.web.replay import ReplayRequest
from gpusight.web.serve import serve_app
from gpusight.web.service import Health, OperationSample
from tests.web.fakes import FakeAnalyzer, loan, result, verdict

_KINDS: Sequence[tuple[State, float, float, str]] = (
    ("productive", 0.46, 78.0, "Active in 96 % of the window, SM activity 71 %."),
    ("idle-held", 0.13, 3.0, "No kernel ran for 3 h 12 min while 61.5 GiB of memory are held."),
    ("bursty", 0.1, 34.0, "Active in 18 % of the window, last 2 min ago."),
    ("memory-bound", 0.07, 55.0, "Memory is active in 83 % of the time, tensor cores in 4 %."),
    ("starved", 0.05, 27.0, "Kernels run, but the GPU waits for its input in 71 % of the time."),
    ("hollow-busy", 0.04, 31.0, "Utilization is 99 % while power stays at the idle floor."),
    ("idle-empty", 0.05, 1.0, "No kernel ran for 45 min, and hardly any memory is used."),
    ("warming", 0.02, 12.0, "Started 4 min ago."),
    ("unknown", 0.04, 0.0, "Of the expected samples 22 % were there."),
    ("unallocated", 0.04, 0.0, "No pod holds it."),
)
_MODELS = (("NVIDIA H100 80GB HBM3", 81559.0), ("NVIDIA A100-SXM4-40GB", 40960.0), ("Tesla T4", 15360.0))
_TEAMS = (
    ("llm-training", "Foundation models", "mei.chen@example.com"),
    ("vision", "Vision", "li.wei@example.com"),
    ("comfyui", "Creative tools", "anna@example.com"),
    ("speech", "Speech", "tomas@example.com"),
    ("notebooks", "Research", "research-oncall@example.com"),
    ("inference", "Serving", "sre@example.com"),
)
_WORK = ("pretrain", "finetune", "serve", "notebook", "eval", "embed")


def fleet(gpus: int, now: datetime, number: int = 1, seed: int = 7) -> Round:
    """Nodes of eight, workloads of one to sixteen GPUs."""
    draw = random.Random(seed)
    rows: list[GpuResult] = []
    verdicts: list[Verdict] = []
    while len(rows) < gpus:
        state, score, why = _kind(draw)
        model, memory = _MODELS[0] if draw.random() < 0.55 else _MODELS[1] if draw.random() < 0.6 else _MODELS[2]
        namespace, team, owner = draw.choice(_TEAMS)
        name = f"{draw.choice(_WORK)}-{draw.randrange(16**5):05x}"
        count = min(1 if state == "unallocated" else draw.choice((1, 1, 1, 2, 4, 8, 16)), gpus - len(rows))
        free = state == "unallocated"
        mine = [
            _row(
                len(rows) + index,
                draw,
                state,
                score,
                model,
                memory,
                "" if free else namespace,
                name,
                index,
                now,
                free=free,
            )
            for index in range(count)
        ]
        rows += mine
        verdicts.append(_verdict(mine, state, why, owner, team, now, draw, name))
    ordered = sorted(rows, key=lambda row: (row.score is None, row.score or 0.0))
    held = {each.subject.id: each for each in verdicts if each.state != "unallocated"}
    firsts = {row.subject: row for row in reversed(ordered)}
    return Round(
        number=number,
        at=now,
        duration_seconds=0.41,
        window_seconds=600.0,
        threshold=20.0,
        store="embedded",
        queries=21,
        results=tuple(ordered),
        verdicts=tuple(verdicts),
        stats=stats_of(ordered, 20.0),
        loans=tuple(
            replace(
                loan(firsts[subject]),
                owner=each.owner,
                team=each.team,
                gpus=each.holding.gpus,
                since=each.since - timedelta(hours=30),
                used_gpu_hours=each.holding.gpus * 21.5,
                idle_gpu_hours=each.holding.gpus * (8.2 if "idle" in each.state else 0.4),
            )
            for subject, each in held.items()
        ),
        problems=(),
    )


def _kind(draw: random.Random) -> tuple[State, float, str]:
    at = draw.random()
    for state, share, score, why in _KINDS:
        at -= share
        if at < 0:
            return state, score, why
    return _KINDS[0][0], _KINDS[0][2], _KINDS[0][3]


def _row(
    number: int,
    draw: random.Random,
    state: State,
    score: float,
    model: str,
    memory: float,
    namespace: str,
    name: str,
    index: int,
    now: datetime,
    *,
    free: bool,
) -> GpuResult:
    util = None if state == "unknown" else min(max(score + draw.uniform(-6, 6), 0.0), 100.0) if score > 5 else 0.0
    used = memory * (0.02 if state in ("idle-empty", "unallocated") else draw.uniform(0.45, 0.93))
    known = None if state in ("unknown", "unallocated") else round(min(max(score + draw.uniform(-4, 4), 0), 100), 1)
    uuid = random.Random(number * 7919 + 1)
    return result(
        number,
        known,
        namespace,
        gpu_id=f"GPU-{uuid.getrandbits(32):08x}-{uuid.getrandbits(16):04x}-4{uuid.getrandbits(12):03x}-9a1f-{uuid.getrandbits(48):012x}",
        pod="" if free else f"{name}-{index}",
        container="" if free else "main",
        hostname=f"gpu-node-{number // 8 + 1:03d}",
        model_name=model,
        gpu_util=util,
        mem_used_mb=round(used, 1),
        mem_total_mb=memory,
        mem_usage_percent=round(100 * used / memory, 1),
        power_usage=round(70 + 5.6 * (util or 0), 1),
        sm_clock=1980.0 if (util or 0) > 5 else 345.0,
        timestamp=now,
        state=state,
        cluster="prod-eu",
        subject=f"prod-eu//Gpu/{number:016x}" if free else f"prod-eu/{namespace}/Deployment/{name}",
        note="no samples in the window" if state == "unknown" else "",
    )


def _verdict(
    rows: Sequence[GpuResult],
    state: State,
    why: str,
    owner: str,
    team: str,
    now: datetime,
    draw: random.Random,
    name: str,
) -> Verdict:
    first = rows[0]
    idle = "idle" in state
    base = verdict(first)
    return replace(
        base,
        subject=replace(
            base.subject, kind="Deployment", name=name, how="named by kube_pod_owner and kube_replicaset_owner"
        ),
        reason=why,
        since=now - timedelta(minutes=draw.randrange(5, 4000)),
        confidence=0.35 if state == "unknown" else draw.choice((0.78, 0.86, 0.93)),
        evidence="none" if state == "unknown" else "profiling",
        coverage=0.22 if state == "unknown" else 0.99,
        activity=Activity(
            last_active=now - timedelta(hours=3 if idle else 0, minutes=2),
            active_share=0.0 if idle else 0.96,
            idle_seconds=11520.0 if idle else None,
        ),
        efficiency=replace(base.efficiency, sm_active=0.71, tensor_active=0.38, dram_active=0.44, utilization=0.94),
        holding=replace(
            base.holding, gpus=float(len(rows)), memory_bytes=sum(row.mem_used_mb or 0 for row in rows) * 2**20
        ),
        pods=tuple(row.pod for row in rows),
        parts=tuple(row.id for row in rows),
        nodes=tuple(sorted({row.hostname for row in rows})),
        models=(first.model_name,),
        owner="" if first.pod == "" else owner,
        team="" if first.pod == "" else team,
        pending=None,
    )


@dataclass
class Showcase(FakeAnalyzer):
    """Everything that pages show, with moving data."""

    gpus: int = 64
    clock: Clock = field(default_factory=SystemClock)
    is_old: bool = False
    changed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.is_simulated = True
        self.last = None
        self.samples = operations()
        self.next_round()

    def next_round(self) -> None:
        number = self.last.number + 1 if self.last else 1
        self.last = fleet(self.gpus, self._now(), number, seed=7 if number % 2 else 8)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now(), UTC)

    def health(self) -> Health:
        return replace(super().health(), analysis_timeout=self.is_old, status="warning" if self.is_old else "healthy")

    def update_config(self, changes: Mapping[str, str], actor: str) -> Mapping[str, Any]:
        done = super().update_config(changes, actor)
        self.settings = [
            replace(value, value=done[value.name], origin="run time") if value.name in done else value
            for value in self.settings
        ]
        return done

    def config_changes(self, limit: int) -> Sequence[ConfigChange]:
        mine = [
            ConfigChange(self.clock.now(), who, name, "20", new)
            for each, who in self.updates
            for name, new in each.items()
        ]
        return [*mine[::-1], *super().config_changes(limit)]

    def window(self, result_id: str, quantity: Quantity) -> Sequence[Point]:
        """A minute's step over an hour, with a hole."""
        now = self.clock.now() // 60 * 60
        row = next(row for row in self.last.results if row.id == result_id) if self.last else None
        if row is None or quantity not in _CURVES:
            return []
        level, swing = _CURVES[quantity](row)
        return [
            Point(
                now - 60 * age,
                max(0.0, level + swing * math.sin(age / 5 + hash(row.id) % 7) * (0.6 + 0.4 * math.sin(age))),
            )
            for age in range(60, -1, -1)
            if not 22 <= age <= 26
        ]

    def changes(
        self, *, start: float, end: float, subject: str | None, namespaces: Sequence[str] | None, limit: int
    ) -> Sequence[VerdictChange]:
        steps = (("idle-held", "productive", 2.0), ("productive", "bursty", 20.0), ("bursty", "warming", 41.0))
        return [
            VerdictChange(end - hours * 3600, "prod-eu", "", subject or "", state, before, 0.9, why, "")
            for state, before, hours in steps
            for why in [next(text for name, _, _, text in _KINDS if name == state)]
        ]

    def episodes(self, *, open_only: bool, namespaces: Sequence[str] | None) -> Sequence[Episode]:
        now = self.clock.now()
        return [
            Episode(
                f"{each.subject.id}-{start}",
                "prod-eu",
                each.subject.namespace,
                each.subject.id,
                "idle-held",
                now - start,
                end,
                "Idle.",
            )
            for each in (self.last.verdicts if self.last else ())
            if "idle" in each.state
            for start, end in ((11520.0, None), (90000.0, now - 71000.0))
        ]

    def tenants(self, *, start: float, end: float, namespaces: Sequence[str] | None) -> Sequence[TenantUse]:
        days = (end - start) / 86400
        uses = []
        for number, (namespace, team, owner) in enumerate(_TEAMS):
            if namespaces is not None and namespace not in namespaces:
                continue
            held = days * (310.0, 190.0, 96.0, 72.0, 140.0, 260.0)[number]
            idle = held * (0.06, 0.18, 0.41, 0.12, 0.63, 0.09)[number]
            unknown = held * 0.02
            uses.append(
                TenantUse(
                    cluster="prod-eu",
                    namespace=namespace,
                    owner=owner,
                    team=team,
                    held_gpu_hours=held,
                    used_gpu_hours=held - idle - unknown,
                    idle_gpu_hours=idle,
                    unknown_gpu_hours=unknown,
                    energy_joules=held * 1.3e6,
                    cost=held * 2.4,
                    idle_cost=idle * 2.4,
                    currency="USD",
                )
            )
        return uses


_CURVES: Mapping[str, Any] = {
    "utilization": lambda row: ((row.gpu_util or 0) / 100 * 0.9, (row.gpu_util or 0) / 100 * 0.1),
    "sm_active": lambda row: ((row.gpu_util or 0) / 100 * 0.7, (row.gpu_util or 0) / 100 * 0.12),
    "tensor_active": lambda row: ((row.gpu_util or 0) / 100 * 0.4, (row.gpu_util or 0) / 100 * 0.1),
    "memory_used": lambda row: ((row.mem_used_mb or 0) * 2**20, 2**28),
    "memory_total": lambda row: ((row.mem_total_mb or 0) * 2**20, 0),
    "power": lambda row: (row.power_usage or 0, 18),
    "power_limit": lambda _row: (700.0, 0),
    "sm_clock": lambda row: ((row.sm_clock or 0) * 1e6, 20e6),
}


def operations() -> list[OperationSample]:
    """A program with two modules on two devices."""
    where = {"job": "zk-prover", "instance": "10.1.4.17:9090"}
    found: list[OperationSample] = []

    def add(family: str, value: float, rate: float | None = None, **labels: str) -> None:
        found.append(OperationSample(family=family, labels={**where, **labels}, value=value, rate=rate))

    for module, count, rate, seconds in (("merkle", 184230.0, 41.3, 0.0042), ("zk", 9120.0, 1.8, 0.61)):
        add("gpusight_ops_executions_total", count, rate, module=module, device="GPU-0", backend="vulkan")
        add("gpusight_ops_duration_seconds_sum", count * seconds, rate * seconds, module=module, device="GPU-0")
        add("gpusight_ops_duration_seconds_count", count, rate, module=module, device="GPU-0")
        for bound, share in ((0.5, 0.1), (1.0, 0.55), (2.0, 0.94), (4.0, 0.99), (math.inf, 1.0)):
            le = "+Inf" if bound == math.inf else str(bound * seconds)
            add("gpusight_ops_duration_seconds_bucket", count * share, rate * share, module=module, le=le)
        add("gpusight_ops_last_size", 4096.0, module=module)
    add("gpusight_ops_failures_total", 31.0, 0.02, module="zk", reason="out_of_memory")
    add("gpusight_ops_cpu_fallbacks_total", 412.0, 0.3, module="zk", reason="out_of_memory")
    for device, name in (("GPU-0", "NVIDIA RTX 4090"), ("GPU-1", "NVIDIA RTX 4090")):
        add("gpu_available", 1.0, device=device, gpu_device_name=name)
        add("gpusight_ops_device_info", 1.0, device=device, gpu_device_name=name, backend="vulkan")
        add("gpu_queue_depth", 3.0, device=device)
        add("gpu_memory_used_bytes", 9.1e9, device=device)
        add("gpu_memory_total_bytes", 2.5e10, device=device)
        add("gpusight_ops_device_busy_ratio", 0.71, device=device)
        add("gpusight_ops_device_executions_total", 96000.0, 21.0, device=device)
    return found


def replay(request: ReplayRequest, namespaces: Sequence[str] | None) -> ReplayReport:
    """Back-tests of recordings that are sent."""
    if request.csv is None:
        raise ValueError("There is no store to replay; send a recording as csv.")
    policies = [parse_policy(text) for text in request.policies] or list(BUILT_IN.values())
    return run_replay(parse_csv(lines_of(BytesIO(request.csv.encode()).readline), "the recording"), policies)


def recording() -> str:
    """A day of twenty workloads; each computes for a while, pauses, and stops for good."""
    draw = random.Random(3)
    lines = ["timestamp,subject,util"]
    for subject in range(20):
        busy, pause = draw.randrange(60, 400), draw.randrange(10, 150)
        for minute in range(0, 1440, 10):
            at = minute % (busy + pause)
            util = 0 if at > busy or minute > 900 + 20 * subject else draw.randrange(40, 100)
            lines.append(f"{1_769_800_000 + 60 * minute},team/job-{subject},{util}")
    return "\n".join(lines) + "\n"


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The application on a port of its own, in a thread; its address."""
    started: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def main() -> None:
        stop = asyncio.Event()
        server = await serve_app(app, listen=["127.0.0.1:0"], shutdown_seconds=2)
        started.set_result((f"http://{server.addresses[0]}", asyncio.get_running_loop(), stop))
        await stop.wait()
        await server.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="page-server")
    thread.start()
    address, loop, stop = started.result(timeout=20)
    try:
        yield address
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(timeout=20)
