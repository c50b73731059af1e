"""From the table of cells to the families of the page (pure)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan
from typing import NamedTuple

from gpusight.catalog import ops
from gpusight.catalog.spec import FamilySpec
from gpusight.exposition.blocks import FamilyBlock, Histogram, Number, Value
from gpusight.instrument import ledger as cells
from gpusight.instrument.ledger import Key
from gpusight.model.units import Seconds, seconds_to_ms

Table = Mapping[Key, Sequence[float]]


class Run(NamedTuple):
    """Executions of one module, device and backend, or several of them added up."""

    executions: int
    failed: int
    seconds: float
    shortest: float
    longest: float
    last: float
    size: float | None
    at: float
    buckets: tuple[int, ...]
    window_executions: int
    window_failed: int
    window_seconds: float
    window_shortest: float
    window_longest: float


def blocks(table: Table) -> list[FamilyBlock]:
    """All families of the operations page; one that has no sample yet still shows its HELP and TYPE."""
    span = table.get((cells.SPAN,))
    window = span[0] if span else None
    runs = {key[1:]: _run(cell) for key, cell in table.items() if key[0] == cells.RUN}
    modules = _by(runs, lambda key: key[0])
    devices = _devices(table)
    return [
        *_globals(table, runs.values(), devices),
        *(
            b
            for name in ops.MODULES
            for b in _seed_module(name, modules.get(name), _count(table, cells.FALLBACK, name))
        ),
        *_generic(table, runs, modules),
        *_per_device(runs, devices, window),
        *_window(modules, window),
        *_own_health(table),
    ]


def health(table: Table) -> list[FamilyBlock]:
    """What is left to say when the page itself cannot be made."""
    return list(_own_health(table))


def _run(cell: Sequence[float]) -> Run:
    buckets = tuple(int(n) for n in cell[cells.BUCKETS : cells.BUCKETS_END])
    count, failed, seconds, shortest, longest = cell[cells.WINDOW :]
    return Run(
        executions=sum(buckets),
        failed=int(cell[cells.FAILED]),
        seconds=cell[cells.SUM],
        shortest=cell[cells.MIN],
        longest=cell[cells.MAX],
        last=cell[cells.LAST],
        size=None if isnan(cell[cells.SIZE]) else cell[cells.SIZE],
        at=cell[cells.AT],
        buckets=buckets,
        window_executions=int(count),
        window_failed=int(failed),
        window_seconds=seconds,
        window_shortest=shortest,
        window_longest=longest,
    )


def _total(runs: Sequence[Run]) -> Run:
    latest = max(runs, key=lambda run: run.at)
    return Run(
        executions=sum(r.executions for r in runs),
        failed=sum(r.failed for r in runs),
        seconds=sum(r.seconds for r in runs),
        shortest=min(r.shortest for r in runs),
        longest=max(r.longest for r in runs),
        last=latest.last,
        size=latest.size,
        at=latest.at,
        buckets=tuple(map(sum, zip(*(r.buckets for r in runs), strict=True))),
        window_executions=sum(r.window_executions for r in runs),
        window_failed=sum(r.window_failed for r in runs),
        window_seconds=sum(r.window_seconds for r in runs),
        window_shortest=min(r.window_shortest for r in runs),
        window_longest=max(r.window_longest for r in runs),
    )


def _by(runs: Mapping[Key, Run], name: Callable[[Key], str]) -> dict[str, Run]:
    groups: dict[str, list[Run]] = {}
    for key, run in runs.items():
        groups.setdefault(name(key), []).append(run)
    return {group: _total(members) for group, members in sorted(groups.items())}


def _devices(table: Table) -> dict[str, tuple[str, str, int]]:
    """Id to name, backend and availability: what was said last counts."""
    latest: dict[str, tuple[float, str, str, int]] = {}
    for key, (available, at) in _cells_of(table, cells.DEVICE):
        device, name, backend = key
        latest[device] = max(latest.get(device, (-1.0, "", "", 0)), (at, name, backend, int(available)))
    return {device: found[1:] for device, found in sorted(latest.items())}


def _cells_of(table: Table, kind: str) -> Iterable[tuple[Key, Sequence[float]]]:
    return ((key[1:], cell) for key, cell in sorted(table.items()) if key[0] == kind)


def _count(table: Table, kind: str, module: str | None = None) -> int:
    return int(sum(cell[0] for key, cell in table.items() if key[0] == kind and module in (None, key[1])))


def _one(spec: FamilySpec, value: Value | None) -> FamilyBlock:
    return FamilyBlock(spec, (), ()) if value is None else FamilyBlock(spec, ((),), (value,))


def _globals(table: Table, runs: Iterable[Run], devices: Mapping[str, tuple[str, str, int]]) -> Iterable[FamilyBlock]:
    runs = list(runs)
    executions, failures = sum(r.executions for r in runs), sum(r.failed for r in runs)
    fallbacks = _count(table, cells.FALLBACK)
    keys = [(device, name or None) for device, (name, _, _) in devices.items()]
    yield FamilyBlock(ops.AVAILABLE, keys, [available for _, _, available in devices.values()])
    yield _one(ops.TOTAL_EXECUTIONS, executions)
    yield _one(ops.TOTAL_FAILURES, failures)
    yield _one(ops.FAILURE_RATE, _share(failures, executions))
    yield _one(ops.CPU_FALLBACK_RATE, _share(fallbacks, executions + fallbacks))
    yield _gauge(ops.QUEUE_DEPTH, table, cells.QUEUE)
    yield _gauge(ops.MEMORY_USED, table, cells.MEMORY)
    yield _gauge(ops.MEMORY_TOTAL, table, cells.MEMORY_TOTAL)
    yield _one(ops.TOTAL_EXEC_TIME, sum((r.seconds for r in runs), 0.0))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _gauge(spec: FamilySpec, table: Table, kind: str) -> FamilyBlock:
    found = list(_cells_of(table, kind))
    return FamilyBlock(spec, [(key[0] or None,) for key, _ in found], [cell[0] for _, cell in found])


def _seed_module(name: str, run: Run | None, fallbacks: int) -> Iterable[FamilyBlock]:
    family = ops.MODULES[name]
    yield _one(family.executions, run.executions if run else 0)
    yield _one(family.failures, run.failed if run else 0)
    yield _one(family.cpu_fallback, fallbacks)
    yield _one(family.last_size, run and run.size)
    yield _one(family.last_latency, run and _ms(run.last))
    yield _one(family.latency_avg, run and _ms(run.seconds / run.executions))
    yield _one(family.latency_min, run and _ms(run.shortest))
    yield _one(family.latency_max, run and _ms(run.longest))


def _ms(seconds: float) -> float:
    return seconds_to_ms(Seconds(seconds))


def _generic(table: Table, runs: Mapping[Key, Run], modules: Mapping[str, Run]) -> Iterable[FamilyBlock]:
    keys = [(module, device or None, backend or None) for module, device, backend in runs]
    yield FamilyBlock(ops.OPS_EXECUTIONS, keys, [run.executions for run in runs.values()])
    yield _counters(ops.OPS_FAILURES, table, cells.FAILURE)
    yield _counters(ops.OPS_FALLBACKS, table, cells.FALLBACK)
    yield FamilyBlock(ops.OPS_DURATION, keys, [Histogram(run.buckets, run.seconds) for run in runs.values()])
    sizes = {name: run.size for name, run in modules.items() if run.size is not None}
    yield FamilyBlock(ops.OPS_LAST_SIZE, [(name,) for name in sizes], sizes.values())
    yield _counters(ops.OPS_CONSISTENCY, table, cells.CHECK)


def _counters(spec: FamilySpec, table: Table, kind: str) -> FamilyBlock:
    found = list(_cells_of(table, kind))
    return FamilyBlock(spec, [key for key, _ in found], [int(cell[0]) for _, cell in found])


def _per_module(spec: FamilySpec, modules: Mapping[str, Run], value: Callable[[Run], Number]) -> FamilyBlock:
    return FamilyBlock(spec, [(name,) for name in modules], [value(run) for run in modules.values()])


def _per_device(
    runs: Mapping[Key, Run], devices: Mapping[str, tuple[str, str, int]], window: float | None
) -> Iterable[FamilyBlock]:
    work = {device: run for device, run in _by(runs, lambda key: key[1]).items() if device}
    keys = [(device, name or None, backend or None) for device, (name, backend, _) in devices.items()]
    yield FamilyBlock(ops.DEVICE_INFO, keys, [1] * len(keys))
    yield _per_module(ops.DEVICE_EXECUTIONS, work, lambda run: run.executions)
    yield _per_module(ops.DEVICE_BUSY_SECONDS, work, lambda run: run.seconds)
    busy = {device: run.window_seconds / window for device, run in work.items()} if window else {}
    yield FamilyBlock(ops.DEVICE_BUSY_RATIO, [(device,) for device in busy], busy.values())
    yield _one(
        ops.LOAD_IMBALANCE, _imbalance([work[d].window_seconds if d in work else 0.0 for d in {*devices, *work}])
    )


def _imbalance(busy: Sequence[float]) -> float | None:
    together = sum(busy)
    return max(busy) * len(busy) / together if len(busy) > 1 and together > 0 else None


def _window(modules: Mapping[str, Run], window: float | None) -> Iterable[FamilyBlock]:
    recent = {name: run for name, run in modules.items() if run.window_executions}
    yield _one(ops.WINDOW_SECONDS, window)
    yield _per_module(ops.WINDOW_EXECUTIONS, recent, lambda run: run.window_executions)
    yield _per_module(ops.WINDOW_FAILURES, recent, lambda run: run.window_failed)
    yield _per_module(ops.WINDOW_LATENCY_AVG, recent, lambda run: run.window_seconds / run.window_executions)
    yield _per_module(ops.WINDOW_LATENCY_MIN, recent, lambda run: run.window_shortest)
    yield _per_module(ops.WINDOW_LATENCY_MAX, recent, lambda run: run.window_longest)


def _own_health(table: Table) -> Iterable[FamilyBlock]:
    yield _counters(ops.INSTRUMENT_ERRORS, table, cells.ERROR)
    workers = list(_cells_of(table, cells.WORKERS))
    if workers:
        yield FamilyBlock(ops.INSTRUMENT_WORKERS, [key for key, _ in workers], [int(cell[0]) for _, cell in workers])
