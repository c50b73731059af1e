"""How fast the pages are: first byte, drawn, in a real Chromium. Printed, not asserted.

`python -m bench.page [GPUs]`
"""

import sys
import time
from statistics import median
from typing import Any
from urllib.request import Request, urlopen

from gpusight.model.time import SystemClock
from tests.support.browser import browser, missing
from tests.web.clients import an_app
from tests.web.showcase import Showcase, served

_TIMES = 5


def main(gpus: int) -> None:
    analyzer = Showcase(gpus=gpus)
    assert analyzer.last is not None
    one = analyzer.last.results[0].id
    with served(an_app(analyzer, clock=SystemClock())) as address:
        print(f"{gpus:,} GPUs")
        for path in ("/", "/page/fleet.json", "/?view=table", f"/gpu/{one}", "/static/plotly.min.js"):
            _first_bytes(address, path)
        if missing():
            print(f"no browser: {missing()}")
            return
        with browser() as chromium:
            _drawn(chromium, address, "/", "#map[data-drawn]")
            _drawn(chromium, address, f"/gpu/{one}", ".charts[data-ready] .main-svg")
            _fluid(chromium, address)


def _first_bytes(address: str, path: str) -> None:
    seconds, size = [], 0
    for _ in range(_TIMES):
        request = Request(f"{address}{path}", headers={"Accept": "text/html", "Accept-Encoding": "gzip"})
        began = time.perf_counter()
        with urlopen(request) as answer:
            answer.read(1)
            seconds.append(time.perf_counter() - began)
            size = len(answer.read()) + 1
    name = path if len(path) < 24 else path[:20] + "..."
    print(
        f"{name:24} first byte {1000 * seconds[0]:6.0f} ms the first time, {1000 * median(seconds[1:]):5.0f} ms then,"
        f" {size / 1024:7.0f} KiB"
    )


def _drawn(chromium: Any, address: str, path: str, selector: str) -> None:
    """From the click to the picture, with an empty cache and with a full one."""
    context = chromium.new_context(viewport={"width": 1280, "height": 860})
    page = context.new_page()
    seconds = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        page.goto(f"{address}{path}", wait_until="commit")
        page.wait_for_selector(selector)
        seconds.append(time.perf_counter() - began)
    name = path if len(path) < 24 else path[:20] + "..."
    print(f"{name:24} drawn in {seconds[0]:.2f} s the first time, {median(seconds[1:]):.2f} s cached")
    context.close()


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


def _fluid(chromium: Any, address: str) -> None:
    """How long frames take while the map scrolls."""
    context = chromium.new_context(viewport={"width": 1280, "height": 860}, bypass_csp=True)
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("#map[data-drawn]")
    frames = page.evaluate(_SCROLL)
    print(f"{'scrolling':24} {median(frames):.0f} ms a frame, {max(frames):.0f} ms at most")
    context.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
