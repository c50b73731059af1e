"""`/replay`: back-tests of policies, with a figure."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpusight.analysis.policies import BUILT_IN, duration_text
from gpusight.analysis.replay_figure import replay_figure
from gpusight.analysis.replay_report import ReplayReport
from gpusight.web.access import Reader, SameSiteReader
from gpusight.web.answers import as_datetime
from gpusight.web.api import run_replay
from gpusight.web.context import of
from gpusight.web.encoding import BytesResponse, encode_json
from gpusight.web.pages.shell import fragment, render

router = APIRouter()


@router.get("/replay", include_in_schema=False)
async def replay(request: Request, identity: Reader) -> Response:
    now = request.app.state.clock.now()
    return render(
        request,
        "replay.html",
        identity,
        here="/replay",
        policies=list(BUILT_IN.values()),
        is_available=of(request).replay is not None,
        start=as_datetime(now - 86400),
        end=as_datetime(now),
    )


@router.post("/page/replay", include_in_schema=False)
async def replayed(request: Request, identity: SameSiteReader) -> Response:
    """As POST /api/v1/replay, with the figure and the table instead of the report."""

    def show(report: ReplayReport) -> bytes:
        html = fragment(request, "replay_result.html", report=report, span=duration_text)
        return encode_json({"html": html, "figures": [_figure(report)], "note": ""})

    return BytesResponse(await run_replay(request, identity, show), "application/json")


def _figure(report: ReplayReport) -> dict[str, Any]:
    figure = replay_figure(report)
    layout = {name: value for name, value in figure["layout"].items() if name != "title"}
    return {
        "name": "replay",
        "title": figure["layout"]["title"]["text"],
        "data": figure["data"],
        "layout": {**layout, "height": 460},
    }
