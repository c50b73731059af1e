"""The role `ops`: the page of a program whose worker processes keep their metrics in a directory."""

from collections.abc import Iterable
from pathlib import Path

from gpusight.exposition.blocks import FamilyBlock
from gpusight.instrument import page
from gpusight.instrument.workers import read_directory
from gpusight.model.time import Clock, SystemClock
from gpusight.runtime.exporter import run_exporter
from gpusight.settings import Settings


class Workers:
    """All workers of the directory, living and dead, as one program."""

    name = "workers"

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock

    def collect(self) -> Iterable[FamilyBlock]:
        return page.blocks(read_directory(self._directory, self._clock.monotonic()))


def run(settings: Settings) -> int:
    """Serve until told to stop."""
    directory: Path = settings.get("ops.dir")
    collectors = [Workers(directory, SystemClock())]
    return run_exporter("ops", "GPU operations", collectors, settings, [f"Worker files are read from {directory}."])
