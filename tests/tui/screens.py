"""The terminal view without a terminal: sources that say what they are told to, the screen as text, golden screens."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from gpusight.model.time import ManualClock
from gpusight.store.http import HttpConfig, Reply
from gpusight.tui.app import TopApp
from gpusight.tui.snapshot import Snapshot, SourceError
from gpusight.tui.source import FleetSource, NodeSource
from gpusight.tui.words import Language, Words
from tests.web.clients import an_app
from tests.web.fakes import FakeAnalyzer
from tests.web.serving import serving

GOLDEN = Path(__file__).parent.parent / "golden" / "tui"
NEVER = 3600.0
"""Seconds between two questions, for tests that ask themselves."""


class Told:
    """A source that gives these outcomes one after the other, then the last one again and again."""

    shown = "http://node:9394"

    def __init__(self, *outcomes: Snapshot | SourceError) -> None:
        self._outcomes = list(outcomes)
        self.asked = 0

    def fetch(self) -> Snapshot:
        self.asked += 1
        outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
        if isinstance(outcome, SourceError):
            raise outcome
        return outcome

    def close(self) -> None:
        pass


def node_snapshot(page: str, clock: ManualClock | None = None, language: Language = "en") -> Snapshot:
    """A node agent's page as its source would have read it."""
    source = NodeSource(HttpConfig(url="http://node:9394"), clock or ManualClock(), Words(language))
    return source.read(Reply(page.encode(), ""))


def fleet_snapshot(analyzer: FakeAnalyzer | None = None, language: Language = "en") -> Snapshot:
    """What the real application says over HTTP, 12 s after its round."""

    async def ask() -> Snapshot:
        async with asyncio.timeout(30), serving(an_app(analyzer or FakeAnalyzer())) as running:
            config = HttpConfig(url=f"http://127.0.0.1:{running.port}")
            source = FleetSource(config, ManualClock(), Words(language))
            try:
                return await asyncio.to_thread(source.fetch)
            finally:
                source.close()

    return replace(asyncio.run(ask()), source="http://analyzer:8080", age=12.0, received=0.0)


class Screen:
    """A running view and the keys to it."""

    def __init__(self, app: TopApp, pilot: Pilot[None], source: Any, clock: ManualClock) -> None:
        self.app = app
        self.pilot = pilot
        self.source = source
        self.clock = clock

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def ask_again(self) -> None:
        """Until the next answer was taken in."""
        before, seen = self.app.arrivals, self.source.asked
        await self.press("r")
        await self.until(lambda: self.source.asked > seen and self.app.arrivals > before)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not holds():
                await self.pilot.pause(0.01)
        await self.pilot.pause()

    @property
    def text(self) -> str:
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips) + "\n"

    @property
    def rows(self) -> list[str]:
        """What the table shows below its header, without cursor and indentation."""
        table = self.app._table
        lines = [table.render_line(y).text for y in range(1, table.size.height)]
        return [line.lstrip("> -+").rstrip() for line in lines if line.strip()]

    @property
    def names(self) -> list[str]:
        return [line.row.name for line in self.app._table.lines if not line.is_note]


@asynccontextmanager
async def _shown(source: Any, language: Language, size: tuple[int, int]) -> AsyncIterator[Screen]:
    clock = ManualClock()
    app = TopApp(source, clock, Words(language), NEVER)
    async with asyncio.timeout(30), app.run_test(size=size) as pilot:
        screen = Screen(app, pilot, source, clock)
        await screen.until(lambda: app.arrivals > 0)
        yield screen


def show(
    source: Any,
    scenario: Callable[[Screen], Awaitable[None]],
    *,
    language: Language = "en",
    size: tuple[int, int] = (80, 24),
) -> None:
    async def main() -> None:
        async with _shown(source, language, size) as screen:
            await scenario(screen)

    asyncio.run(main())


def assert_golden(text: str, name: str) -> None:
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("GPUSIGHT_UPDATE_GOLDEN"):
        golden.write_text(text, "utf-8")
    assert text == golden.read_text("utf-8"), f"{golden.name} is out of step; GPUSIGHT_UPDATE_GOLDEN=1 rewrites it"
