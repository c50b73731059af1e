"""The parts, put together as the command line asks."""

import threading
from argparse import Namespace
from collections.abc import Callable, Iterable
from itertools import islice

from examples.gpu_ops import table
from examples.gpu_ops.device import DeviceSlot, gpu_opener, no_gpu
from examples.gpu_ops.runner import Runner
from examples.gpu_ops.workload import QUEUE_LIMIT, Line, random_gaps, random_jobs, run_fixed, run_paced, seeded
from gpusight.instrument import GpuMetrics, MetricsConfig


class Program:
    """The device, the runner, its queue and its work, all reporting to one GpuMetrics."""

    def __init__(self, chosen: Namespace, config: MetricsConfig, say: Callable[[str], None]) -> None:
        self._chosen = chosen
        self._mismatched_rows = 0
        self.say = say
        self.metrics = GpuMetrics(config)
        opener = no_gpu if chosen.backend == "cpu" else gpu_opener(self.metrics, chosen.gpu_timeout)
        self._slot = DeviceSlot(self.metrics, opener, say=say)
        thresholds = {"crypto": chosen.min_batch, "merkle": chosen.min_leaves, "zk": chosen.min_constraints}
        self._runner = Runner(self.metrics, self._slot, thresholds=thresholds, check_every=chosen.check_every, say=say)
        self._line = Line(self.metrics, chosen.operations if chosen.once else QUEUE_LIMIT)
        self._work = random_jobs(seeded(chosen.seed), chosen.faults, chosen.fault_every)

    @property
    def exit_code(self) -> int:
        """Wrong results are the one thing that must not pass unnoticed."""
        return 1 if self._runner.mismatches or self._mismatched_rows else 0

    def show_table(self, stop: threading.Event) -> None:
        if self._chosen.table == "none":
            return
        gpu = self._slot.current()
        rng = seeded(self._chosen.seed)
        for section in table.sections(full=self._chosen.table == "full"):
            timings = list(table.measured(section, gpu, rng, stop))
            if stop.is_set():
                return
            self._record_matches(timings)
            self.say(f"\n{table.render(section, timings)}")
        self.say("\n" + "\n".join(table.notes(gpu)) + "\n")

    def run_some(self) -> None:
        """A fixed number of operations, as fast as they go."""
        run_fixed(self._runner, self._line, list(islice(self._work, self._chosen.operations)))

    def run_paced(self, stop: threading.Event) -> None:
        gaps = random_gaps(seeded(self._chosen.seed), self._chosen.rate)
        run_paced(self._runner, self._line, self._work, gaps, self._chosen.duration, stop)

    def close(self) -> None:
        self._slot.close()

    def summary(self, seconds: float) -> str:
        done = self._runner.done
        lines = [f"{done.total()} operations in {seconds:.1f} s, {len(self._line)} left waiting."]
        lines += [self._summary_of(module) for module in sorted({module for module, _ in done})]
        return "\n".join(lines)

    def _summary_of(self, module: str) -> str:
        done = self._runner.done
        on_cpu = {str(reason): number for (of, reason), number in done.items() if of == module and reason}
        why = ", ".join(f"{reason} {number}" for reason, number in sorted(on_cpu.items()))
        return f"  {module}: {done[module, None]} on the GPU, {sum(on_cpu.values())} on the CPU ({why or '-'})"

    def _record_matches(self, timings: Iterable[tuple[str, table.Timing]]) -> None:
        for label, timing in timings:
            if timing.matched is not None:
                self.metrics.record_consistency(timing.module, timing.matched)
            if timing.matched is False:
                self._mismatched_rows += 1
                self.say(f"{label}: the GPU's result is wrong.")
