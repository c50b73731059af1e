"""What the routes work with, and where they find it."""

from dataclasses import dataclass
from typing import cast

from fastapi import Request

from gpusight.web.auth import Identity
from gpusight.web.errors import ApiError
from gpusight.web.replay import ReplayRunner
from gpusight.web.service import Analyzer
from gpusight.web.views import RoundView, Views
from gpusight.web.work import Workers


@dataclass(frozen=True)
class Context:
    analyzer: Analyzer
    views: Views
    workers: Workers
    replay: ReplayRunner | None
    version: str


def of(request: Request) -> Context:
    return cast("Context", request.app.state.context)


def view_of(request: Request, identity: Identity) -> RoundView:
    """The last round as this reader may see it. Raises ApiError before there is one."""
    view = of(request).views.current(identity.namespaces)
    if view is None:
        message = "The first round has not finished; /health says how it goes."
        raise ApiError(503, "no_round_yet", message, headers={"Retry-After": "5"})
    return view
