"""How fast the pages are with 10,000 GPUs: first byte, and drawn in a real Chromium."""

import time
from collections.abc import Iterator
from statistics import median
from typing import Any
from urllib.request import Request, urlopen

from bench.figures import Figure
from gpusight.model.time import SystemClock
from tests.support.browser import browser, missing
from tests.web.clients import an_app
from tests.web.showcase import Showcase, served

_TIMES = 5


def figures(gpus: int = 10_000) -> Iterator[Figure]:
    analyzer = Showcase(gpus=gpus)
    assert analyzer.last is not None
    chart = f"/gpu/{analyzer.last.results[0].id}"
    with served(an_app(analyzer, clock=SystemClock())) as address:
        yield Figure("page_fleet_first_byte", 1000 * _first_byte(address, "/"), "ms", ("<=", 300))
        if missing():
            return
        with browser() as chromium:
            first, again = _drawn(chromium, address, "/", "#map[data-drawn]")
            yield Figure("page_fleet_drawn", first, "s", ("<=", 1))
            yield Figure("page_fleet_drawn_cached", again, "s")
            first, again = _drawn(chromium, address, chart, ".charts[data-ready] .main-svg")
            yield Figure("page_chart_drawn", first, "s", ("<=", 4))
            yield Figure("page_chart_drawn_cached", again, "s", ("<=", 2))
            yield Figure("page_fleet_scroll_frame", _frame(chromium, address), "ms")


def _first_byte(address: str, path: str) -> float:
    """Of the first request after a round: later ones are answered from memory."""
    request = Request(f"{address}{path}", headers={"Accept": "text/html", "Accept-Encoding": "gzip"})
    began = time.perf_counter()
    with urlopen(request) as answer:
        answer.read(1)
        return time.perf_counter() - began


def _drawn(chromium: Any, address: str, path: str, selector: str) -> tuple[float, float]:
    """From the click to the picture, with an empty cache and with a full one."""
    context = chromium.new_context(viewport={"width": 1280, "height": 860})
    page = context.new_page()
    seconds = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        page.goto(f"{address}{path}", wait_until="commit")
        page.wait_for_selector(selector)
        seconds.append(time.perf_counter() - began)
    context.close()
    return seconds[0], median(seconds[1:])


_SCROLL = """async () => {
  const took = [];
  let before = performance.now();
  for (let step = 0; step < 60; step++) {
    window.scrollBy(0, 40);
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    took.push(now - before);
    before = now;
  }
  return took;
}"""


def _frame(chromium: Any, address: str) -> float:
    """How long a frame takes while the map scrolls."""
    context = chromium.new_context(viewport={"width": 1280, "height": 860}, bypass_csp=True)
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("#map[data-drawn]")
    frames = page.evaluate(_SCROLL)
    context.close()
    return float(median(frames))
