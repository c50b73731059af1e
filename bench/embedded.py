"""The embedded store: parsing pages, taking samples in, reading a fleet's windows."""

import gc
import random
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from bench.figures import Figure, best, seconds
from gpusight.exposition.parser import PageParser
from gpusight.model.series import Aggregate, Ask, Span
from gpusight.model.time import ManualClock
from gpusight.store.embedded import Batch, EmbeddedStore
from gpusight.store.embedded_file import size_on_disk
from gpusight.store.embedded_series import SeriesRef, Target

_LINES = 50_000
_NODES = 1250
_GPUS = 8
_SCRAPES = 21
_EVERY = 30.0
_FAMILIES = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_MEM_COPY_UTIL",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_FREE",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
)
_USUAL: tuple[Aggregate, ...] = ("last_seen", "count", "mean", "min", "max", "last")
_ASKS = (
    Ask("utilization", (*_USUAL, "active_count", "last_active"), 0.05),
    Ask("memory_copy", _USUAL),
    Ask("memory_used", _USUAL),
    Ask("memory_free", _USUAL),
    Ask("power", _USUAL),
    Ask("sm_clock", _USUAL),
    Ask("engine_active", _USUAL),
    Ask("energy", ("last_seen", "increase")),
)


def figures() -> Iterator[Figure]:
    yield from _parsing()
    with tempfile.TemporaryDirectory() as directory:
        yield from _storing(Path(directory) / "samples.duckdb")


def _parsing() -> Iterator[Figure]:
    rng = random.Random(1)
    labels = [",".join(f'{name}="{value}"' for name, value in _labels(i, 0).items()) for i in range(_LINES)]
    text = "".join(f"DCGM_FI_DEV_GPU_UTIL{{{each}}} {rng.random() * 100}\n" for each in labels)
    body = text.encode()
    parser: PageParser[tuple[str, str]] = PageParser(lambda name, found: (name, found["UUID"]))
    first = seconds(lambda: parser.parse(body)) / _LINES * 1e6
    known = best(lambda: parser.parse(body), 7) / _LINES * 1e6
    few = "".join(text.splitlines(keepends=True)[:2000])
    peer = best(lambda: list(text_string_to_metric_families(few)), 3) / 2000 * 1e6
    yield Figure("parse_known_series", known, "us/line", (">=", 20), "prometheus_client", peer)
    yield Figure("parse_new_series", first, "us/line", None, "prometheus_client", peer)


def _storing(path: Path) -> Iterator[Figure]:
    rng = random.Random(1)
    clock = ManualClock()
    store = EmbeddedStore(path, clock)
    try:
        fleet = list(_fleet(store))
        rates = []
        for _ in range(_SCRAPES):
            batches = [Batch(target, clock.now(), refs, [rng.random() for _ in refs]) for target, refs in fleet]
            rates.append(_NODES * _GPUS * len(_FAMILIES) / seconds(lambda batches=batches: store.append(batches)))  # type: ignore[misc]
            clock.advance(_EVERY)
        yield Figure("embedded_append", sorted(rates)[len(rates) // 2], "samples/s", (">=", 100_000))
        span = Span(clock.now() - _EVERY, 600.0, _EVERY)
        store.read(_ASKS, span)
        gc.collect()
        yield Figure("embedded_read_10k_gpus", best(lambda: store.read(_ASKS, span), 5), "s", ("<=", 1.0))
        samples = _SCRAPES * _NODES * _GPUS * len(_FAMILIES)
        yield Figure("embedded_bytes_per_sample", size_on_disk(path) / samples, "bytes")
        yield Figure("embedded_peak_memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB")
    finally:
        store.close()


def _fleet(store: EmbeddedStore) -> Iterator[tuple[Target, list[SeriesRef]]]:
    for node in range(_NODES):
        target = Target("dcgm", f"node-{node}:9400")
        rows = [(family, _labels(node, gpu)) for gpu in range(_GPUS) for family in _FAMILIES]
        yield target, [store.ref(target, family, labels) for family, labels in rows]


def _labels(node: int, gpu: int) -> dict[str, str]:
    return {
        "gpu": str(gpu),
        "UUID": f"GPU-{node:08x}-11f6-5ecc-feb0-af07406e18{gpu:02x}",
        "device": f"nvidia{gpu}",
        "modelName": "NVIDIA H100 80GB HBM3",
        "Hostname": f"node-{node}",
        "namespace": f"team-{node % 50}",
        "pod": f"train-{node}-{gpu}",
        "container": "main",
    }
