"""Pages for people, in English and Chinese: HTML from the server, with small scripts that keep it fresh."""

from importlib import import_module

from fastapi import APIRouter

from gpusight.web.pages.navigation import NAVIGATION, UNLISTED

router = APIRouter(tags=["pages"])
for _module in (*(page.module for page in NAVIGATION), *UNLISTED):
    router.include_router(import_module(f"{__name__}.{_module}").router)
