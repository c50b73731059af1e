"""The pages that the navigation shows: a new one is a row here and a module beside this one with a `router`."""

from typing import NamedTuple


class Page(NamedTuple):
    """`word` is its name in the table of texts."""

    module: str
    path: str
    word: str


NAVIGATION: tuple[Page, ...] = (
    Page("fleet", "/", "nav.fleet"),
    Page("tenants", "/tenants", "nav.tenants"),
    Page("operations", "/operations", "nav.operations"),
    Page("replay", "/replay", "nav.replay"),
    Page("settings", "/settings", "nav.settings"),
)
UNLISTED = ("subject", "session", "docs", "assets")
"""Modules with pages that others lead to."""
