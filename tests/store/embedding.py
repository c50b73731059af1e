"""An embedded store in a test's directory, and batches to fill it with."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpusight.model.series import Aggregate, Ask, Quantity, SeriesKey, Span, Windows
from gpusight.model.time import ManualClock
from gpusight.store.embedded import Batch, EmbeddedStore
from gpusight.store.embedded_series import Target

START = 1_700_000_100.0
"""A moment at which every step that a test takes has a look."""
NODE = Target("dcgm", "node-1:9400")
UTIL = "DCGM_FI_DEV_GPU_UTIL"
EVERYTHING: tuple[Aggregate, ...] = ("count", "mean", "min", "max", "last", "last_seen", "active_count", "last_active")


@contextmanager
def embedded(directory: Path, clock: ManualClock | None = None, **options: Any) -> Iterator[EmbeddedStore]:
    store = EmbeddedStore(directory / "samples.duckdb", clock or ManualClock(START), **options)
    try:
        yield store
    finally:
        store.close()


def gpu(name: str, **labels: str) -> dict[str, str]:
    return {"UUID": f"GPU-{name}", "Hostname": "node-1", "modelName": "NVIDIA H100", **labels}


def key(name: str, **parts: str) -> SeriesKey:
    given = dict.fromkeys(SeriesKey._fields, "") | {"gpu": f"GPU-{name}", **parts}
    return SeriesKey(**given)


def batch(
    store: EmbeddedStore,
    moment: float,
    values: Mapping[str, float],
    *,
    family: str = UTIL,
    target: Target = NODE,
    **more: Any,
) -> Batch:
    """Values of one family by GPU."""
    refs = [store.ref(target, family, gpu(name)) for name in values]
    return Batch(target, moment, refs, list(values.values()), **more)


def window(store: EmbeddedStore, span: Span, quantity: Quantity = "utilization", above: float = 0.05) -> Windows:
    """The only window of that quantity."""
    (found,) = store.read([Ask(quantity, (*EVERYTHING, "increase"), above)], span).windows
    return found


def row(found: Windows, of: SeriesKey) -> dict[str, float]:
    """All that is known of one series."""
    return {name: column[of] for name, column in found.columns.items() if of in column}
