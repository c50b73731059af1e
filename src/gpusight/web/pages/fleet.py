"""`/`: every GPU as a cell of a map, or as a row of a table; counters above."""

import asyncio
from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpusight.web.accept import prefers
from gpusight.web.access import Reader, reader
from gpusight.web.answers import ServiceInfo
from gpusight.web.auth import Identity
from gpusight.web.compat import service_info
from gpusight.web.context import of, view_of
from gpusight.web.encoding import JSON, JsonResponse
from gpusight.web.openapi import answers_with
from gpusight.web.pages.fleet_data import STATES, Counters, Today, cells_of, counters_of, today_of
from gpusight.web.pages.shell import current_view, render
from gpusight.web.query import RESULT_COLUMNS, Filters, in_order
from gpusight.web.views import RoundView

router = APIRouter()

ROWS = 100
_PATIENCE = 0.15
"""Seconds that the page waits for the journal before it shows the rest without it."""
_DAY = 86400
COLUMNS = (
    ("state", "fleet.verdict", ""),
    ("pod", "fleet.pod", ""),
    ("namespace", "fleet.namespace", ""),
    ("gpu_id", "fleet.gpu", ""),
    ("model_name", "fleet.model", ""),
    ("hostname", "fleet.node", ""),
    ("score", "fleet.score", "n"),
    ("gpu_util", "fleet.util", "n"),
    ("mem_usage_percent", "fleet.memory", "n"),
    ("power_usage", "fleet.power", "n"),
)
_FIELDS = {
    "q": "",
    "cluster": "cluster",
    "namespace": "namespace",
    "model": "model_name",
    "state": "state",
    "subject": "subject",
}
GROUPS = {"node": "fleet.node", "namespace": "fleet.namespace", "model": "fleet.model"}
COLORS = {"verdict": "fleet.verdict", "score": "fleet.score"}


@router.get("/", **answers_with(ServiceInfo, html=True))
async def home(
    request: Request,
    view: Annotated[str, Query(max_length=20, description="`map` or `table`, of the page.")] = "map",
    sort: Annotated[str, Query(max_length=40)] = "score",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    lang: Annotated[str, Query(max_length=20, description="`en` or `zh`; else what the browser prefers.")] = "",
) -> Response:
    """What this service is; for who prefers HTML a page with every GPU."""
    del lang  # read by the shell
    identity = reader(request)
    if not prefers(request.headers.get("accept", ""), "text/html", JSON):
        return JsonResponse(service_info(of(request)), headers={"Vary": "Accept"})
    found = current_view(request, identity)
    counters = await found.once("counters", lambda: counters_of(found.round)) if found else Counters()
    return render(
        request,
        "fleet.html",
        identity,
        here="/",
        counters=counters,
        today=await _today(request, identity, found),
        states=STATES,
        groups=GROUPS,
        colors=COLORS,
        table=await _table(request, found, sort, page) if view == "table" and found else None,
        csv=urlencode([("format", "csv"), *_filters(request)]),
    )


def _filters(request: Request) -> list[tuple[str, str]]:
    """What of the address filters rows; a form sends empty fields, too, and what is no filter is not one."""
    given = [(name, value) for name, value in request.query_params.multi_items() if value and len(value) <= 200]
    return [(name, value) for name, value in given if name in _FIELDS and (name != "state" or value in STATES)]


def _where(request: Request) -> Filters:
    allowed: dict[str, frozenset[str]] = {}
    search = ""
    for name, value in _filters(request):
        if name == "q":
            search = value.lower()
        else:
            allowed[_FIELDS[name]] = allowed.get(_FIELDS[name], frozenset()) | {value}
    return Filters(allowed=allowed, search=search)


async def _table(request: Request, found: RoundView, sort: str, page: int) -> dict[str, Any]:
    where = _where(request)
    known = sort if sort.removeprefix("-") in RESULT_COLUMNS else "score"

    def choose() -> dict[str, Any]:
        rows = in_order([row for row in found.round.results if where.admits(row)], known, RESULT_COLUMNS)
        pages = max(1, -(-len(rows) // ROWS))
        here = min(page, pages)
        return {
            "rows": rows[(here - 1) * ROWS : here * ROWS],
            "total": len(rows),
            "page": here,
            "pages": pages,
            "sort": known,
            "columns": COLUMNS,
        }

    return await of(request).workers.run("compute", choose)


async def _today(request: Request, identity: Identity, found: RoundView | None) -> Today | None:
    """What idled since midnight; None if the journal does not tell at once: then the next look has it."""
    if found is None:
        return None
    now = request.app.state.clock.now()
    namespaces = None if identity.namespaces is None else sorted(identity.namespaces)
    analyzer = of(request).analyzer
    asking = asyncio.ensure_future(
        found.once(
            "today",
            lambda: today_of(analyzer.tenants(start=now - now % _DAY, end=now, namespaces=namespaces)),
            "journal",
        )
    )
    asking.add_done_callback(lambda done: done.cancelled() or done.exception())
    with suppress(Exception):  # a journal that fails is the health page's news, and costs the map nothing
        done, _ = await asyncio.wait({asking}, timeout=_PATIENCE)
        return next(iter(done)).result() if done else None
    return None


@router.get("/page/fleet.json", include_in_schema=False)
async def fleet(request: Request, identity: Reader) -> Response:
    """Every GPU for the map, column by column."""
    found = view_of(request, identity)
    accepted = request.headers.get("accept-encoding", "")
    encoded = await found.encoded("fleet", cells_of, accept_encoding=accepted)
    return encoded.response(accepted, request.headers.get("if-none-match", ""))
