"""`/settings`: every setting with its origin; those that may change at run time, for admins."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from gpusight.errors import SettingsError
from gpusight.model.history import ConfigChange, JournalError
from gpusight.web.access import Admin, Reader
from gpusight.web.auth import Identity
from gpusight.web.configuration import Changes, public
from gpusight.web.context import of
from gpusight.web.errors import ApiError
from gpusight.web.pages.session import form
from gpusight.web.pages.shell import render
from gpusight.web.work import Busy, TooSlow

router = APIRouter()
_AUDITED = 100


@router.get("/settings", include_in_schema=False)
async def settings(request: Request, identity: Reader, saved: str = "") -> Response:
    return await _page(request, identity, saved=saved)


@router.post("/settings", include_in_schema=False)
async def change(request: Request, identity: Admin) -> Response:
    """One setting, by the form of the page."""
    context = of(request)
    given = form(await request.body())
    name = given.get("name", "")
    try:
        changes = Changes(context.analyzer.config())
        changes.add(name, given.get("value", ""))
        wanted = changes.wanted
        await context.workers.run("change", lambda: context.analyzer.update_config(wanted, identity.name))
    except (SettingsError, ApiError) as error:
        return await _page(request, identity, status=422, wrong=name, why=str(error))
    return RedirectResponse(f"/settings?saved={next(iter(wanted))}", 303)


async def _page(
    request: Request, identity: Identity, *, status: int = 200, saved: str = "", wrong: str = "", why: str = ""
) -> Response:
    values = public(of(request).analyzer.config())
    now = next((value for value in values if value.name == saved), None)
    audit, audit_error = await _audit(request, identity)
    return render(
        request,
        "settings.html",
        identity,
        status=status,
        here="/settings",
        values=values,
        saved=now,
        wrong=wrong,
        why=why,
        audit=audit,
        audit_error=audit_error,
        shown=shown,
    )


async def _audit(request: Request, identity: Identity) -> tuple[Sequence[ConfigChange] | None, str]:
    """Who changed what; None for tokens that are bound to namespaces."""
    if identity.namespaces is not None:
        return None, ""
    context = of(request)
    try:
        return await context.workers.run("journal", lambda: context.analyzer.config_changes(_AUDITED)), ""
    except (JournalError, Busy, TooSlow) as error:
        return (), str(error) or "busy"


def shown(value: Any) -> str:
    """As one would write it."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case tuple() | list():
            return ", ".join(map(shown, value))
    return str(value)
