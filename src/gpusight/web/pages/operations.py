"""`/operations`: what instrumented programs report of their own GPU work."""

from collections.abc import Sequence

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpusight.model.series import StoreError
from gpusight.web.access import Reader
from gpusight.web.auth import Identity
from gpusight.web.context import of
from gpusight.web.pages.operations_data import programs_of
from gpusight.web.pages.shell import render
from gpusight.web.service import OperationSample
from gpusight.web.work import Busy, TooSlow

router = APIRouter()


@router.get("/operations", include_in_schema=False)
async def operations(request: Request, identity: Reader) -> Response:
    context = of(request)
    failure = ""
    samples: Sequence[OperationSample] = ()
    try:
        samples = await context.workers.run("store", context.analyzer.operations)
    except (StoreError, Busy, TooSlow) as error:
        failure = str(error) or "busy"
    programs = programs_of(visible(samples, identity))
    return render(request, "operations.html", identity, here="/operations", programs=programs, failure=failure)


def visible(samples: Sequence[OperationSample], identity: Identity) -> Sequence[OperationSample]:
    """A program says by a label in whose namespace it runs; if it does not, it is for those who see everything."""
    allowed = identity.namespaces
    if allowed is None:
        return samples
    return [sample for sample in samples if sample.labels.get("namespace") in allowed]
