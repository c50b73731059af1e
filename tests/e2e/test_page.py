"""The pages in a real Chromium: they show their data, react, stay fresh, and break none of their own rules."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpusight.model.time import SystemClock
from tests.support.browser import browser, missing
from tests.web.clients import ADMIN, an_app
from tests.web.showcase import Showcase, recording, replay, served

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "there is a browser")

WIDE, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 800}
CHART = ".charts[data-ready] .main-svg"
PAGES = {
    "fleet": ("/", "#map[data-drawn]"),
    "table": ("/?view=table", "tbody tr"),
    "gpu": ("/gpu/{gpu}", CHART),
    "workload": ("/workload/{workload}", CHART),
    "tenants": ("/tenants", CHART),
    "operations": ("/operations", ".program"),
    "replay": ("/replay", "#replay"),
    "settings": ("/settings", "tbody tr"),
    "login": ("/login", "input[name=token]"),
    "docs": ("/docs", "h2 code"),
}


class Site:
    """A running page, a browser, and what went wrong in it."""

    def __init__(self, address: str, chromium: Any, analyzer: Showcase, shots: Path) -> None:
        self.address = address
        self.analyzer = analyzer
        self.shots = shots
        self._chromium = chromium
        self._contexts: list[Any] = []
        self.complaints: list[str] = []

    def page(self, **options: Any) -> Any:
        context = self._chromium.new_context(**{"viewport": WIDE, **options})
        context.set_default_timeout(15_000)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self._note("error", str(error)))
        return page

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def open(self, name: str, **options: Any) -> Any:
        page = self.page(**options)
        self.go(page, name)
        return page

    def go(self, page: Any, name: str) -> None:
        path, selector = PAGES[name]
        page.goto(self.address + path.format(gpu=self.row.id, workload=self.row.subject))
        page.wait_for_selector(selector)

    @property
    def row(self) -> Any:
        assert self.analyzer.last is not None
        return next(row for row in self.analyzer.last.results if row.state == "productive")

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        self._contexts.clear()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture
def site(chromium: Any, tmp_path: Path) -> Iterator[Site]:
    analyzer = Showcase(gpus=128)
    with served(an_app(analyzer, clock=SystemClock(), replay=replay)) as address:
        found = Site(address, chromium, analyzer, tmp_path)
        yield found
        found.close()
        assert found.complaints == []


def test_every_page_shows_its_data_wide_and_narrow(site: Site) -> None:
    page = site.page()
    for name in PAGES:
        page.set_viewport_size(WIDE)
        site.go(page, name)
        for width, size in (("wide", WIDE), ("phone", PHONE)):
            page.set_viewport_size(size)
            page.screenshot(path=site.shots / f"{name}-{width}.png")
            overflow = page.evaluate(
                "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert overflow <= 0, f"{name} scrolls sideways when {width}"


def cell(page: Any) -> tuple[float, float]:
    """The middle of the first cell."""
    box = page.locator("#map canvas").bounding_box()
    return box["x"] + 10, box["y"] + 28


def test_the_map_explains_and_opens(site: Site) -> None:
    page = site.open("fleet")
    page.mouse.move(*cell(page))
    tip = page.locator("#map .tip")
    tip.wait_for()
    said = tip.inner_text()
    page.screenshot(path=site.shots / "hover.png")
    assert "GPU-" in said
    rows = site.analyzer.last.results if site.analyzer.last else ()
    row = next(row for row in rows if row.gpu_id in said)
    assert row.hostname == "gpu-node-001"
    page.mouse.click(*cell(page))
    page.wait_for_url(f"**/gpu/{row.id}")
    page.wait_for_selector(CHART)


def test_the_map_can_be_used_by_keys(site: Site) -> None:
    page = site.open("fleet")
    page.locator("#map canvas").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#spoken:not(:empty)", state="attached")
    assert "." in page.locator("#spoken").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_url("**/gpu/*")


def test_the_map_groups_colors_and_filters(site: Site) -> None:
    page = site.open("fleet")
    shown = page.locator("#shown")
    assert shown.inner_text() == "128 of 128"
    page.wait_for_selector("#map[data-groups='16']")
    page.get_by_role("button", name="Model", exact=True).click()
    page.wait_for_selector("#map[data-groups='3']")
    page.get_by_role("button", name="Score", exact=True).click()
    page.wait_for_selector("#ramp:not([hidden])")
    page.locator(".legend [data-state=idle-held]").click()
    idle = sum(row.state == "idle-held" for row in site.analyzer.last.results) if site.analyzer.last else 0
    assert 0 < idle < 128
    assert shown.inner_text() == f"{idle} of 128"
    page.locator("#filter").fill("gpu-node-00zzz")
    page.wait_for_selector(".nothing:not([hidden])")
    page.reload()
    page.wait_for_selector("button[value=model][aria-pressed=true]")


def test_news_come_without_a_reload(site: Site) -> None:
    page = site.open("fleet")
    page.locator("#filter").fill("gpu-node")
    page.wait_for_selector("#map[data-drawn='1']")
    site.analyzer.gpus = 96
    site.analyzer.next_round()
    page.wait_for_selector("#map[data-drawn='2']")
    page.wait_for_selector(".tile .value:text-is('96')")
    assert page.locator("#filter").input_value() == "gpu-node", "what one typed stays"


def test_old_data_and_a_lost_connection_are_told(chromium: Any, tmp_path: Path) -> None:
    analyzer = Showcase(gpus=16)
    analyzer.is_old = True
    with served(an_app(analyzer, clock=SystemClock())) as address:
        site = Site(address, chromium, analyzer, tmp_path)
        page = site.open("fleet")
        page.wait_for_selector("#old")
        page.wait_for_selector("#live[data-state=old]")
    page.wait_for_selector("#lost:not([hidden])")
    page.wait_for_selector("#live[data-state=lost]")
    site.close()


def test_languages_and_themes_switch_and_stay(site: Site) -> None:
    page = site.open("fleet", color_scheme="light", locale="en-US")

    def paper() -> str:
        return str(page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor"))

    light = paper()
    page.locator("#theme").click()
    page.wait_for_selector("html[data-theme=dark]")
    assert paper() != light
    page.locator("#language").click()
    page.wait_for_selector("html[lang=zh][data-theme=dark]")
    assert page.get_by_role("link", name="租户").is_visible()
    site.go(page, "gpu")
    page.wait_for_selector("html[lang=zh][data-theme=dark]")
    page.wait_for_selector("h3:text-is('利用率')")
    page.screenshot(path=site.shots / "gpu-dark-zh.png")
    page.locator("#theme").click()
    page.wait_for_selector("html[data-theme=light]")
    assert paper() == light


def test_the_system_chooses_the_theme_first(site: Site) -> None:
    page = site.open("tenants", color_scheme="dark", reduced_motion="reduce")
    red, green, blue = map(
        int, re.findall(r"\d+", page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor"))
    )
    assert max(red, green, blue) < 64


def test_an_admin_logs_in_and_changes_a_setting(site: Site) -> None:
    page = site.open("settings")
    page.get_by_role("link", name="Log in with an admin token").click()
    page.locator("input[name=token]").fill(ADMIN)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/settings")
    page.get_by_label("New value of threshold").fill("25")
    page.locator("#threshold").get_by_role("button").click()
    page.wait_for_selector("#saved:has-text('threshold is now 25')")
    assert site.analyzer.updates == [({"threshold": "25"}, "ops")]
    page.get_by_role("button", name="Log out").click()
    page.wait_for_selector("a:text-is('Log in')")


def test_a_back_test_is_drawn(site: Site) -> None:
    page = site.open("replay")
    file = {"name": "day.csv", "mimeType": "text/csv", "buffer": recording().encode()}
    page.locator("input[name=csv]").set_input_files([file])
    page.get_by_label("default", exact=False).first.check()
    page.locator("#replay button.primary").click()
    page.wait_for_selector("#replay-figure[data-ready] .main-svg")
    assert page.locator("#replay-result tbody tr").count() == 1
    page.screenshot(path=site.shots / "replay-result.png")


def test_what_goes_wrong_is_a_page(site: Site) -> None:
    page = site.page(locale="zh-CN")
    page.goto(f"{site.address}/gpu/nothing")
    page.wait_for_selector("strong:text-is('出错了')")
    site.complaints.clear()  # the browser itself notes the 404
