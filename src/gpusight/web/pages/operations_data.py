"""Samples of instrumented programs, put together per program, module and device."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from gpusight.catalog import ops
from gpusight.web.service import OperationSample

_BUCKET = f"{ops.OPS_DURATION.name}_bucket"
_SUM, _COUNT = f"{ops.OPS_DURATION.name}_sum", f"{ops.OPS_DURATION.name}_count"


@dataclass
class Tally:
    """A counter: its value, and how fast it grows. What nobody told is None."""

    total: float | None = None
    rate: float | None = None

    def add(self, sample: OperationSample) -> None:
        self.total = sample.value + (self.total or 0.0)
        if sample.rate is not None:
            self.rate = sample.rate + (self.rate or 0.0)


@dataclass
class Module:
    name: str
    executions: Tally = field(default_factory=Tally)
    failures: Tally = field(default_factory=Tally)
    fallbacks: Tally = field(default_factory=Tally)
    seconds: Tally = field(default_factory=Tally)
    counted: Tally = field(default_factory=Tally)
    buckets: dict[float, float] = field(default_factory=dict)
    """Upper bound -> executions per second up to it."""
    last_size: float | None = None
    mean_ms: float | None = None
    """Over the life of the process: for programs that have no histogram."""

    @property
    def failure_share(self) -> float | None:
        return _ratio(self.failures, self.executions)

    @property
    def fallback_share(self) -> float | None:
        """Of all work, on the GPU or not."""
        gpu, cpu = _newest(self.executions), _newest(self.fallbacks)
        return None if gpu is None or cpu is None or not gpu + cpu else cpu / (gpu + cpu)

    @property
    def latency(self) -> float | None:
        """Seconds, in the mean of the last minutes if anything ran in them."""
        if self.seconds.rate is not None and self.counted.rate:
            return self.seconds.rate / self.counted.rate
        if self.seconds.total is not None and self.counted.total:
            return self.seconds.total / self.counted.total
        return None if self.mean_ms is None else self.mean_ms / 1000

    @property
    def p95(self) -> float | None:
        return quantile(self.buckets, 0.95)


@dataclass
class Device:
    name: str
    title: str = ""
    backend: str = ""
    available: bool | None = None
    queue: float | None = None
    memory_used: float | None = None
    memory_total: float | None = None
    busy: float | None = None
    executions: Tally = field(default_factory=Tally)


@dataclass
class Reason:
    """Why work failed, or went to the CPU."""

    module: str
    kind: str
    reason: str
    tally: Tally


@dataclass
class Program:
    job: str
    instance: str
    modules: dict[str, Module] = field(default_factory=dict)
    devices: dict[str, Device] = field(default_factory=dict)
    reasons: list[Reason] = field(default_factory=list)

    def module(self, name: str) -> Module:
        return self.modules.setdefault(name, Module(name))

    def device(self, name: str) -> Device:
        return self.devices.setdefault(name, Device(name))


def programs_of(samples: Iterable[OperationSample]) -> list[Program]:
    """One per scraped program, by name."""
    grouped: dict[tuple[str, str], list[OperationSample]] = defaultdict(list)
    for sample in samples:
        grouped[sample.labels.get("job", ""), sample.labels.get("instance", "")].append(sample)
    programs = [_program(job, instance, found) for (job, instance), found in sorted(grouped.items())]
    return [program for program in programs if program.modules or program.devices]


def _program(job: str, instance: str, samples: Sequence[OperationSample]) -> Program:
    program = Program(job, instance)
    by_family: dict[str, list[OperationSample]] = defaultdict(list)
    for sample in samples:
        by_family[sample.family].append(sample)
    _add_modules(program, by_family)
    _add_guide_modules(program, by_family)
    _add_devices(program, by_family)
    return program


def _add_modules(program: Program, found: Mapping[str, Sequence[OperationSample]]) -> None:
    tallies = {
        ops.OPS_EXECUTIONS.name: "executions",
        ops.OPS_FAILURES.name: "failures",
        ops.OPS_FALLBACKS.name: "fallbacks",
        _SUM: "seconds",
        _COUNT: "counted",
    }
    for family, attribute in tallies.items():
        for sample in found.get(family, ()):
            getattr(program.module(sample.labels.get("module", "")), attribute).add(sample)
    for sample in found.get(_BUCKET, ()):
        _add_bucket(program.module(sample.labels.get("module", "")), sample)
    for sample in found.get(ops.OPS_LAST_SIZE.name, ()):
        program.module(sample.labels.get("module", "")).last_size = sample.value
    for family, kind in ((ops.OPS_FAILURES.name, "failures"), (ops.OPS_FALLBACKS.name, "fallbacks")):
        for sample in found.get(family, ()):
            if sample.value:
                name, reason = sample.labels.get("module", ""), sample.labels.get("reason", "")
                program.reasons.append(Reason(name, kind, reason, Tally(sample.value, sample.rate)))
    for module in program.modules.values():  # a module that runs and has told of no failure had none
        if module.executions.total is not None:
            for tally in (module.failures, module.fallbacks):
                tally.total = tally.total or 0.0
                tally.rate = tally.rate if tally.rate is not None or module.executions.rate is None else 0.0


def _add_guide_modules(program: Program, found: Mapping[str, Sequence[OperationSample]]) -> None:
    """Modules in the guide's own families, where the program has no others."""
    for name, families in ops.MODULES.items():
        if name in program.modules or not found.get(families.executions.name):
            continue
        module = program.module(name)
        for spec, tally in (
            (families.executions, module.executions),
            (families.failures, module.failures),
            (families.cpu_fallback, module.fallbacks),
        ):
            for sample in found.get(spec.name, ()):
                tally.add(sample)
        module.mean_ms = _only(found.get(families.latency_avg.name))
        module.last_size = _only(found.get(families.last_size.name))


def _add_bucket(module: Module, sample: OperationSample) -> None:
    try:
        bound = float(sample.labels.get("le", ""))
    except ValueError:
        return
    if sample.rate is not None:
        module.buckets[bound] = module.buckets.get(bound, 0.0) + sample.rate


def _add_devices(program: Program, found: Mapping[str, Sequence[OperationSample]]) -> None:
    gauges = {
        ops.QUEUE_DEPTH.name: "queue",
        ops.MEMORY_USED.name: "memory_used",
        ops.MEMORY_TOTAL.name: "memory_total",
        ops.DEVICE_BUSY_RATIO.name: "busy",
    }
    for family, attribute in gauges.items():
        for sample in found.get(family, ()):
            setattr(program.device(sample.labels.get("device", "")), attribute, sample.value)
    for sample in found.get(ops.AVAILABLE.name, ()):
        device = program.device(sample.labels.get("device", ""))
        device.available = sample.value > 0
        device.title = sample.labels.get(ops.AVAILABLE.labels[1].name, device.title)
    for sample in found.get(ops.DEVICE_INFO.name, ()):
        device = program.device(sample.labels.get("device", ""))
        device.title = sample.labels.get(ops.DEVICE_INFO.labels[1].name, device.title)
        device.backend = sample.labels.get("backend", "")
    for sample in found.get(ops.DEVICE_EXECUTIONS.name, ()):
        program.device(sample.labels.get("device", "")).executions.add(sample)


def quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """As histogram_quantile has it: linear within the bucket, the largest bound beyond the last one."""
    bounds = sorted(buckets)
    if len(bounds) < 2 or bounds[-1] != inf or not buckets[inf]:
        return None
    rank, below, lower = share * buckets[inf], 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= rank:
            if bound == inf:
                return bounds[-2]
            inside = buckets[bound] - below
            return lower + (bound - lower) * ((rank - below) / inside if inside else 1.0)
        below, lower = buckets[bound], bound
    return None


def _ratio(part: Tally, whole: Tally) -> float | None:
    some, all_ = _newest(part), _newest(whole)
    return None if some is None or not all_ else min(some / all_, 1.0)


def _newest(tally: Tally) -> float | None:
    """The rate, or the total where no rate is known."""
    return tally.total if tally.rate is None else tally.rate


def _only(samples: Sequence[OperationSample] | None) -> float | None:
    return samples[0].value if samples else None
