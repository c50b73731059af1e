"""`/tenants`: who held, used and wasted how much, and the lending report."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from msgspec import Struct
from starlette.responses import Response

from gpusight.analysis.records import TenantUse
from gpusight.web.access import Reader
from gpusight.web.answers import as_datetime
from gpusight.web.auth import Identity
from gpusight.web.context import of
from gpusight.web.encoding import JsonResponse
from gpusight.web.figures import tenants_figure
from gpusight.web.pages.shell import current_view, render, words_of
from gpusight.web.query import SpanOf, SpanQuery

router = APIRouter()

_MOST_LOANS = 200
_SPANS = {"tenants.day": 1, "tenants.week": 7, "tenants.month": 30}


class Total(Struct, frozen=True, kw_only=True):
    """Of all tenants. What one of them does not know is not known of all."""

    held_gpu_hours: float
    used_gpu_hours: float
    idle_gpu_hours: float
    unknown_gpu_hours: float
    energy_joules: float | None
    cost: float | None
    idle_cost: float | None
    currency: str


@router.get("/tenants", include_in_schema=False)
async def tenants(request: Request, identity: Reader, span: SpanQuery) -> Response:
    uses = await _uses(request, identity, span)
    view = current_view(request, identity)
    loans = view.round.loans if view else ()
    now = request.app.state.clock.now()
    return render(
        request,
        "tenants.html",
        identity,
        here="/tenants",
        uses=sorted(uses, key=lambda use: -use.idle_gpu_hours),
        total=total_of(uses),
        start=as_datetime(span.start),
        end=as_datetime(span.end),
        spans={word: (round(now - days * 86400), round(now)) for word, days in _SPANS.items()},
        loans=sorted(loans, key=lambda loan: -loan.idle_gpu_hours)[:_MOST_LOANS],
        all_loans=len(loans),
    )


@router.get("/page/figures/tenants", include_in_schema=False)
async def tenants_chart(request: Request, identity: Reader, span: SpanQuery) -> Response:
    uses = await _uses(request, identity, span)
    return JsonResponse({"figures": [tenants_figure(uses, words_of(request))] if uses else [], "note": ""})


async def _uses(request: Request, identity: Identity, span: SpanOf) -> Sequence[TenantUse]:
    context = of(request)
    namespaces = None if identity.namespaces is None else sorted(identity.namespaces)
    return await context.workers.run(
        "journal", lambda: context.analyzer.tenants(start=span.start, end=span.end, namespaces=namespaces)
    )


def total_of(uses: Sequence[TenantUse]) -> Total | None:
    if not uses:
        return None
    currencies = {use.currency for use in uses if use.cost is not None}
    has_one = len(currencies) == 1
    return Total(
        **{name: sum(getattr(use, name) for use in uses) for name in _HOURS},
        energy_joules=_sum(use.energy_joules for use in uses),
        cost=_sum(use.cost for use in uses) if has_one else None,
        idle_cost=_sum(use.idle_cost for use in uses) if has_one else None,
        currency=next(iter(currencies)) if has_one else "",
    )


_HOURS = ("held_gpu_hours", "used_gpu_hours", "idle_gpu_hours", "unknown_gpu_hours")


def _sum(values: Any) -> float | None:
    known = list(values)
    return None if None in known else sum(known)
