"""The published analyzer's endpoints, with its JSON."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpusight.analysis.records import GpuResult, Round, Stats
from gpusight.analysis.results import stats_of
from gpusight.exposition.endpoint import Request as ScrapeRequest
from gpusight.web.access import Admin, Reader
from gpusight.web.answers import (
    ConfigUpdated,
    Features,
    LowResults,
    Said,
    SeedConfig,
    ServiceInfo,
    Triggered,
)
from gpusight.web.auth import Identity
from gpusight.web.configuration import Changes, seed_config, service_config
from gpusight.web.context import Context, of
from gpusight.web.encoding import Encoded, JsonResponse
from gpusight.web.errors import ApiError
from gpusight.web.openapi import answers_with, json_body
from gpusight.web.service import Health

router = APIRouter(tags=["published analyzer"])

NOT_YET = "No language model is asked: this version has no judge."
_ENDPOINTS = {
    "health": "/health",
    "analyze": "/analyze",
    "results": "/results",
    "low_utilization": "/results/low",
    "stats": "/results/stats",
    "metrics": "/metrics",
    "config": "/config",
    "update_config": "/config/update",
    "api": "/api/v1",
    "docs": "/docs",
}


def service_info(context: Context) -> ServiceInfo:
    config = service_config(context.analyzer.config())
    settings = seed_config(context.analyzer.config())
    return ServiceInfo(
        service="GPU Utilization Monitor",
        version=context.version,
        features=Features(
            ai_analysis=bool(settings.ai["enabled"]),
            prometheus_metrics=True,
            control_api=bool(settings.control["enabled"]),
        ),
        config=config,
        endpoints=_ENDPOINTS,
    )


@router.get("/health", **answers_with(Health, open_=True))
async def health(request: Request) -> Response:
    """How the analyzer is doing; always 200, always at once."""
    return JsonResponse(of(request).analyzer.health(), headers={"Cache-Control": "no-store"})


@router.get("/livez", **answers_with(Said, open_=True))
@router.get("/-/healthy", **answers_with(Said, open_=True))
async def alive() -> Response:
    """Whether the process answers."""
    return JsonResponse(Said("ok"))


@router.get("/readyz", **answers_with(Said, 503, open_=True))
@router.get("/-/ready", **answers_with(Said, 503, open_=True))
async def ready(request: Request) -> Response:
    """Whether a first round has finished."""
    if of(request).analyzer.ready():
        return JsonResponse(Said("ready"))
    raise ApiError(503, "not_ready", "The first round has not finished.", headers={"Retry-After": "1"})


@router.get("/analyze", **answers_with(Triggered))
async def analyze(
    request: Request,
    _identity: Reader,
    use_ai: Annotated[bool, Query(description="Ask a language model, too.")] = False,
) -> Response:
    """Have a round soon. It only reads; calls while one is under way join it."""
    trigger = of(request).analyzer.trigger()
    if trigger.outcome == "limited":
        wait = max(1, round(trigger.retry_after + 0.5))
        message = f"Rounds were asked for too often; the next one may be asked for in {wait} seconds."
        raise ApiError(429, "too_many_rounds", message, headers={"Retry-After": str(wait)})
    joined = trigger.outcome == "joined"
    message = "GPU analysis is already running; joined it" if joined else "GPU analysis started in background"
    more = {"reason": NOT_YET} if use_ai else {}
    return JsonResponse(Triggered(status="triggered", message=message, use_ai=False, **more))


@router.get("/results", **answers_with(list[GpuResult]))
async def results(request: Request, identity: Reader) -> Response:
    """All GPUs in the hands of pods, the lowest score first, the unknown last."""
    return await _from_round(request, identity, "results", lambda found: found.results, ())


@router.get("/results/low", **answers_with(LowResults))
async def low_results(request: Request, identity: Reader) -> Response:
    """GPUs with a score below the threshold."""
    empty = LowResults(
        count=0, threshold=service_config(of(request).analyzer.config()).threshold, timestamp=None, gpus=()
    )
    return await _from_round(request, identity, "low", _low, empty)


def _low(found: Round) -> LowResults:
    gpus = tuple(row for row in found.results if row.score is not None and row.score < found.threshold)
    return LowResults(count=len(gpus), threshold=found.threshold, timestamp=found.at, gpus=gpus)


@router.get("/results/stats", **answers_with(Stats))
async def result_stats(request: Request, identity: Reader) -> Response:
    """Counts and averages; what is unknown is in no average."""
    return await _from_round(request, identity, "stats", lambda found: found.stats, stats_of((), 0.0))


async def _from_round(request: Request, identity: Identity, name: str, make: Any, empty: Any) -> Response:
    """From memory; before the first round the empty answer that the published analyzer gives then."""
    view = of(request).views.current(identity.namespaces)
    if view is None:
        return JsonResponse(empty, headers={"Cache-Control": "no-store", "Retry-After": "5"})
    accepted = request.headers.get("accept-encoding", "")
    encoded: Encoded = await view.encoded(name, make, accept_encoding=accepted)
    return encoded.response(accepted, request.headers.get("if-none-match", ""))


@router.get("/metrics", **answers_with(None, open_=True, plain=True))
async def metrics(request: Request) -> Response:
    """For Prometheus."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    asked = ScrapeRequest("GET", "/metrics", request.url.query, headers)
    answer = await of(request).analyzer.endpoint.respond(asked)
    return Response(answer.body, answer.status, dict(answer.headers))


@router.get("/config", **answers_with(SeedConfig))
async def config(request: Request, _identity: Reader) -> Response:
    """The settings in the published analyzer's groups, without secrets."""
    return JsonResponse(seed_config(of(request).analyzer.config()))


_update = answers_with(ConfigUpdated, 403, 503, 504)
_update["openapi_extra"] |= json_body(dict[str, Any], required=False)
_update["openapi_extra"]["parameters"] = [
    {"name": name, "in": "query", "schema": {"type": kind}, "description": "Any other changeable setting likewise."}
    for name, kind in (("threshold", "integer"), ("interval", "integer"), ("ai_enabled", "boolean"))
]


@router.post("/config/update", **_update)
async def update_config(request: Request, identity: Admin) -> Response:
    """Change settings, by query parameters or a JSON object: all of them or none. Needs an admin token."""
    context = of(request)
    changes = Changes(context.analyzer.config())
    for name, value in request.query_params.multi_items():
        changes.add(name, value)
    changes.add_all(await request.body())
    if not changes.wanted:
        raise ApiError(422, "invalid_request", "There is nothing to change; give settings and their values.")
    updated = await context.workers.run("change", lambda: context.analyzer.update_config(changes.wanted, identity.name))
    note = "In force from the next round on, and kept over restarts."
    return JsonResponse(ConfigUpdated(status="updated", updates=changes.named_as_asked(updated), note=note))
