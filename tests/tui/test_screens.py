"""Golden screens: what a person sees at 80x24, in both languages.

GPUSIGHT_UPDATE_GOLDEN=1 writes them anew; the diff is the review.
"""

from dataclasses import replace

import pytest

from gpusight.model.time import ManualClock
from gpusight.tui.snapshot import SourceError
from gpusight.tui.words import LANGUAGES, Language
from tests.tui.pages import LOST, READ_AT, SHARED, simulated
from tests.tui.screens import Screen, Told, assert_golden, fleet_snapshot, node_snapshot, show


def at_the_reading() -> ManualClock:
    return ManualClock(READ_AT + 1)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_node(language: Language) -> None:
    async def scenario(screen: Screen) -> None:
        assert_golden(screen.text, f"node-{language}")
        await screen.press("question_mark")
        assert_golden(screen.text, f"help-{language}")

    show(Told(node_snapshot(simulated(), at_the_reading(), language)), scenario, language=language)


def test_a_node_with_gpus_that_are_old_or_lost_and_the_reasons() -> None:
    async def scenario(screen: Screen) -> None:
        await screen.press("v")
        assert_golden(screen.text, "lost")

    show(Told(node_snapshot(LOST)), scenario, size=(100, 20))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_fleet(language: Language) -> None:
    async def scenario(screen: Screen) -> None:
        assert_golden(screen.text, f"fleet-{language}")
        await screen.press("2", "v")
        assert_golden(screen.text, f"verdicts-{language}")

    show(Told(fleet_snapshot(language=language)), scenario, language=language)


def test_a_lock_queue() -> None:
    async def scenario(screen: Screen) -> None:
        await screen.press("2")
        assert_golden(screen.text, "sharing")

    show(Told(node_snapshot(SHARED)), scenario)


def test_a_source_that_went_away_keeps_its_last_page() -> None:
    async def scenario(screen: Screen) -> None:
        screen.clock.advance(60)
        await screen.ask_again()
        screen.clock.advance(35)
        await screen.press("p")
        assert_golden(screen.text, "unreachable")

    known = replace(node_snapshot(SHARED), age=2.0)
    show(Told(known, SourceError("http://node:9394 refuses the connection")), scenario)
