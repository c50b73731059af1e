"""Rendering large pages."""

import gc
import random
import tracemalloc
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from bench.figures import Figure, best, seconds, side_by_side
from gpusight.catalog.spec import FamilySpec, Label
from gpusight.exposition.blocks import FamilyBlock
from gpusight.exposition.text import Renderer, encode

_SERIES = 100_000
_FAMILIES = 10
_LABELS = ("deviceuuid", "podnamespace", "podname", "ctrname")
_PEER = "generate_latest"

Key = tuple[str, str, str, str]


class Page:
    """Series of ten families, half integers, half floats."""

    def __init__(self, series: int) -> None:
        self._rng = random.Random(1)
        each = series // _FAMILIES
        self.specs = [_spec(i) for i in range(_FAMILIES)]
        self.keys = [tuple(_key(i, j) for j in range(each)) for i in range(_FAMILIES)]
        self.values: list[tuple[float, ...]] = []
        self.change()

    def change(self) -> None:
        """Every value is new."""
        rng = self._rng
        self.values = [
            tuple(rng.randrange(10**11) if j % 2 else rng.random() * 1e4 for j in range(len(keys)))
            for keys in self.keys
        ]

    def blocks(self) -> list[FamilyBlock]:
        rows = zip(self.specs, self.keys, self.values, strict=True)
        return [FamilyBlock(spec, keys, values) for spec, keys, values in rows]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The same for prometheus_client."""
        for spec, keys, values in zip(self.specs, self.keys, self.values, strict=True):
            family = GaugeMetricFamily(spec.name, spec.help, labels=_LABELS)
            for key, value in zip(keys, values, strict=True):
                family.add_metric(key, value)
            yield family


def _spec(index: int) -> FamilySpec:
    labels = tuple(Label(name, name) for name in _LABELS)
    return FamilySpec(
        name=f"bench_{index}", kind="gauge", unit="count", labels=labels, help="x", origin="gpusight", endpoint="ops"
    )


def _key(family: int, series: int) -> Key:
    uuid = f"GPU-{series % 5000:08x}-11f6-5ecc-feb0-af07406e1838"
    return uuid, f"team-{series % 50}", f"train-{family}-{series}-jqs8w", f"main-{series % 3}"


def figures() -> Iterator[Figure]:
    page = Page(_SERIES)
    registry = CollectorRegistry()
    registry.register(page)

    cold, peer = side_by_side(lambda: encode(page.blocks()), lambda: generate_latest(registry), rounds=3)
    yield Figure("render_no_key_known", cold * 1000, "ms", (">=", 3), _PEER, peer * 1000)

    renderer = Renderer()
    renderer.render(page.blocks())
    fresh = min(_rendered_anew(page, renderer) for _ in range(5))
    yield Figure("render_every_value_new", fresh * 1000, "ms", (">=", 15), _PEER, peer * 1000)

    renderer.render(page.blocks())
    same = best(lambda: renderer.render(page.blocks()), 10)
    yield Figure("render_nothing_changed", same * 1000, "ms", (">=", 100), _PEER, peer * 1000)

    yield _linearity()
    yield _peak_memory(page)


def _rendered_anew(page: Page, renderer: Renderer) -> float:
    page.change()
    return seconds(lambda: renderer.render(page.blocks()))


def _linearity() -> Figure:
    """Time per series at 1,000,000 over that at 1,000, values new each time, keys known."""
    gc.collect()
    gc.freeze()
    small, large = Page(1_000), Page(1_000_000)
    per_series = [_per_series(page, size, rounds) for page, size, rounds in ((small, 1_000, 50), (large, 1_000_000, 3))]
    gc.unfreeze()
    return Figure("render_1M_over_1k_per_series", per_series[1] / per_series[0], "x", ("<=", 2))


def _per_series(page: Page, series: int, rounds: int) -> float:
    renderer = Renderer()
    renderer.render(page.blocks())
    return min(_rendered_anew(page, renderer) for _ in range(rounds)) / series


def _peak_memory(page: Page) -> Figure:
    """What rendering takes at its peak beyond the keys it remembers, over the size of the page."""
    renderer = Renderer()
    renderer.render(page.blocks())
    page.change()
    blocks: Sequence[FamilyBlock] = page.blocks()
    for family in renderer._families.values():
        family.stretches = []
    gc.collect()
    tracemalloc.start()
    output = renderer.render(blocks)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Figure("render_peak_memory_over_page", peak / len(output), "x", ("<=", 3))
