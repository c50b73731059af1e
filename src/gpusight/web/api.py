"""The API proper: results, verdicts, history, tenants, lending, settings, replay."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import APIRouter, Path, Query, Request
from msgspec import Struct
from starlette.responses import Response

from gpusight.analysis.records import GpuResult, Loan, Round, Stats, TenantUse, Verdict
from gpusight.analysis.replay_report import ReplayReport
from gpusight.model.series import Quantity
from gpusight.web.access import Reader, SameSiteReader, WholeReader
from gpusight.web.answers import (
    ConfigChangeRow,
    ConfigChanges,
    ConfigValues,
    EpisodeRow,
    Episodes,
    Explanation,
    History,
    HistoryRow,
    HourRow,
    Hours,
    Lending,
    ResultDetail,
    ResultPage,
    RoundInfo,
    Tenants,
    VerdictPage,
    WindowAnswer,
    as_datetime,
    as_row,
)
from gpusight.web.auth import Identity
from gpusight.web.configuration import public
from gpusight.web.context import of, view_of
from gpusight.web.encoding import BytesResponse, JsonResponse, encode_json
from gpusight.web.errors import ApiError
from gpusight.web.explain import explain
from gpusight.web.openapi import answers_with, json_body
from gpusight.web.query import (
    RESULT_COLUMNS,
    VERDICT_COLUMNS,
    FilterQuery,
    FormatQuery,
    PageOf,
    PageQuery,
    SpanQuery,
    in_order,
    sort_query,
)
from gpusight.web.replay import ReplayRequest
from gpusight.web.tables import csv_response, to_csv
from gpusight.web.views import RoundView

T = TypeVar("T")
router = APIRouter(prefix="/api/v1", tags=["API"])

Limit = Annotated[int, Query(ge=1, le=10_000)]
Subject = Annotated[str, Path(max_length=2000, examples=["prod/comfyui/Deployment/comfyui"])]


# --- the last round ---


@router.get("/results", **answers_with(ResultPage, 503, csv=True))
async def results(
    request: Request,
    identity: Reader,
    where: FilterQuery,
    page: PageQuery,
    fmt: FormatQuery,
    sort: Annotated[str | None, sort_query(RESULT_COLUMNS)] = None,
) -> Response:
    """GPUs in the hands of containers. As CSV all that the filters let through, unless `limit` is given."""
    view = view_of(request, identity)

    def make() -> Response:
        rows = in_order([row for row in view.round.results if where.admits(row)], sort, RESULT_COLUMNS)
        if fmt == "csv":
            chosen = rows[page.offset :][: page.limit] if _is_paged(request) else rows
            return csv_response(to_csv(GpuResult, chosen, without=frozenset({"ai_analysis"})), "results")
        return _page(ResultPage, view.round, rows, page)

    return await of(request).workers.run("compute", make)


@router.get("/results/{id}", **answers_with(ResultDetail, 404, 503))
async def result(request: Request, identity: Reader, id: Annotated[str, Path(max_length=200)]) -> Response:  # noqa: A002
    """One row with the verdict on its workload."""
    view = view_of(request, identity)
    row = _result(view, id)
    return JsonResponse(ResultDetail(result=row, verdict=view.verdicts.get(row.subject)))


@router.get("/results/{id}/window", **answers_with(WindowAnswer, 404, 503, 504))
async def window(
    request: Request,
    identity: Reader,
    id: Annotated[str, Path(max_length=200)],  # noqa: A002
    quantity: Quantity = "utilization",
) -> Response:
    """One row's samples over the window of the analysis, for a chart."""
    _result(view_of(request, identity), id)
    context = of(request)
    try:
        points = await context.workers.run("store", lambda: context.analyzer.window(id, quantity))
    except KeyError:
        raise _no_result() from None
    return JsonResponse(WindowAnswer(id=id, quantity=quantity, points=tuple(points)))


@router.get("/verdicts", **answers_with(VerdictPage, 503))
async def verdicts(
    request: Request,
    identity: Reader,
    where: FilterQuery,
    page: PageQuery,
    sort: Annotated[str | None, sort_query(VERDICT_COLUMNS)] = None,
) -> Response:
    """Verdicts on workloads: those that the filters admit, or any of whose rows they do."""
    view = view_of(request, identity)

    def make() -> Response:
        chosen = [verdict for verdict in view.round.verdicts if where.admits_verdict(verdict, _rows(view, verdict))]
        return _page(VerdictPage, view.round, in_order(chosen, sort, VERDICT_COLUMNS), page)

    return await of(request).workers.run("compute", make)


@router.get("/verdicts/{subject:path}/explanation", **answers_with(Explanation, 404, 503))
async def explanation(request: Request, identity: Reader, subject: Subject) -> Response:
    """How the verdict came about, in sentences."""
    view = view_of(request, identity)
    if subject not in view.verdicts and f"{subject}/explanation" in view.verdicts:  # a workload of that name
        return JsonResponse(view.verdicts[f"{subject}/explanation"])
    found = _verdict(view, subject)
    return JsonResponse(explain(found, _rows(view, found)))


@router.get("/verdicts/{subject:path}", **answers_with(Verdict, 404, 503))
async def verdict(request: Request, identity: Reader, subject: Subject) -> Response:
    """One workload's verdict; `subject` is `cluster/namespace/Kind/name`."""
    return JsonResponse(_verdict(view_of(request, identity), subject))


@router.get("/lending", **answers_with(Lending, 503, csv=True))
async def lending(request: Request, identity: Reader, fmt: FormatQuery) -> Response:
    """Who holds which GPUs since when, and what came of it."""
    loans = view_of(request, identity).round.loans
    return await _listing(request, fmt, "lending", Loan, lambda: loans, Lending)


@router.get("/stats", **answers_with(Stats, 503))
async def stats(request: Request, identity: Reader) -> Response:
    """Counts and averages of the last round."""
    return JsonResponse(view_of(request, identity).round.stats)


@router.get("/round", **answers_with(RoundInfo, 503))
async def last_round(request: Request, identity: Reader) -> Response:
    """When and how the last round went, and what could not be read."""
    found = view_of(request, identity).round
    told = {name: getattr(found, name) for name in RoundInfo.__struct_fields__}
    return JsonResponse(RoundInfo(**{**told, "results": len(found.results), "verdicts": len(found.verdicts)}))


# --- what the journal knows ---


@router.get("/history", **answers_with(History, 503, 504))
async def history(
    request: Request,
    identity: Reader,
    span: SpanQuery,
    subject: Annotated[str | None, Query(max_length=2000)] = None,
    limit: Limit = 1000,
) -> Response:
    """Verdicts that changed, newest first."""
    analyzer = of(request).analyzer

    def read() -> Any:
        found = analyzer.changes(
            start=span.start, end=span.end, subject=subject, namespaces=_namespaces(identity), limit=limit
        )
        items = tuple(as_row(HistoryRow, change, detail=_detail(change.detail)) for change in found)
        return History(start=as_datetime(span.start), end=as_datetime(span.end), items=items)

    return await _from_journal(request, read)


@router.get("/episodes", **answers_with(Episodes, 503, 504))
async def episodes(
    request: Request,
    identity: Reader,
    open_only: Annotated[bool, Query(alias="open", description="Only those that still go on.")] = False,
) -> Response:
    """Stretches of idleness."""
    analyzer = of(request).analyzer

    def read() -> Any:
        found = analyzer.episodes(open_only=open_only, namespaces=_namespaces(identity))
        return Episodes(tuple(as_row(EpisodeRow, episode) for episode in found))

    return await _from_journal(request, read)


@router.get("/hours", **answers_with(Hours, 503, 504))
async def hours(request: Request, identity: Reader, span: SpanQuery) -> Response:
    """GPU-hours held and used, by workload and hour."""
    analyzer = of(request).analyzer

    def read() -> Any:
        found = analyzer.hours(start=span.start, end=span.end, namespaces=_namespaces(identity))
        items = tuple(as_row(HourRow, hour) for hour in found)
        return Hours(start=as_datetime(span.start), end=as_datetime(span.end), items=items)

    return await _from_journal(request, read)


@router.get("/tenants", **answers_with(Tenants, 503, 504, csv=True))
async def tenants(request: Request, identity: Reader, span: SpanQuery, fmt: FormatQuery) -> Response:
    """GPU-hours, energy and cost by namespace."""
    analyzer = of(request).analyzer

    def read() -> Sequence[TenantUse]:
        return analyzer.tenants(start=span.start, end=span.end, namespaces=_namespaces(identity))

    def wrap(items: tuple[TenantUse, ...]) -> Tenants:
        return Tenants(start=as_datetime(span.start), end=as_datetime(span.end), items=items)

    return await _listing(request, fmt, "tenants", TenantUse, read, wrap, lane="journal")


# --- settings, replay ---


@router.get("/config", **answers_with(ConfigValues))
async def config(request: Request, _identity: Reader) -> Response:
    """Every setting with its origin; secrets are masked."""
    return JsonResponse(ConfigValues(public(of(request).analyzer.config())))


@router.get("/config/changes", **answers_with(ConfigChanges, 403, 503, 504))
async def config_changes(request: Request, _identity: WholeReader, limit: Limit = 1000) -> Response:
    """Who changed which setting at run time."""
    analyzer = of(request).analyzer
    return await _from_journal(
        request,
        lambda: ConfigChanges(tuple(as_row(ConfigChangeRow, row) for row in analyzer.config_changes(limit))),
    )


_replay = answers_with(ReplayReport, 403, 501, 503, 504)
_replay["openapi_extra"] |= json_body(ReplayRequest)


@router.post("/replay", **_replay)
async def replay(request: Request, identity: SameSiteReader) -> Response:
    """Back-test policies on a recording, or on what the store knows of a span of time."""
    return BytesResponse(await run_replay(request, identity, encode_json), "application/json")


async def run_replay(request: Request, identity: Identity, show: Callable[[ReplayReport], bytes]) -> bytes:
    """The report as `show` makes it, in a thread. Raises ApiError for a request that makes no sense."""
    context = of(request)
    runner = context.replay
    if runner is None:
        raise ApiError(501, "no_replay", "This installation cannot run back-tests.")
    try:
        asked = msgspec.json.decode(await request.body(), type=ReplayRequest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(422, "invalid_request", f"The body is not a replay request: {error}.") from None
    try:
        return await context.workers.run("replay", lambda: show(runner(asked, _namespaces(identity))))
    except ValueError as error:
        raise ApiError(422, "invalid_replay", f"{str(error).rstrip('.')}.") from None


# --- small things ---


def _is_paged(request: Request) -> bool:
    return "limit" in request.query_params or "offset" in request.query_params


def _page(kind: Any, found: Round, rows: Sequence[Any], page: PageOf) -> Response:
    items = tuple(rows[page.offset : page.offset + page.limit])
    return JsonResponse(
        kind(total=len(rows), limit=page.limit, offset=page.offset, round=found.number, timestamp=found.at, items=items)
    )


async def _listing(
    request: Request,
    fmt: str,
    stem: str,
    kind: type[Struct],
    read: Callable[[], Sequence[Any]],
    wrap: Callable[[Any], Any],
    lane: Any = "compute",
) -> Response:
    def make() -> Response:
        rows = tuple(read())
        return csv_response(to_csv(kind, rows), stem) if fmt == "csv" else JsonResponse(wrap(rows))

    return await of(request).workers.run(lane, make)


async def _from_journal(request: Request, read: Callable[[], Any]) -> Response:
    body = await of(request).workers.run("journal", lambda: encode_json(read()))
    return BytesResponse(body, "application/json")


def _namespaces(identity: Identity) -> Sequence[str] | None:
    return None if identity.namespaces is None else sorted(identity.namespaces)


def _detail(text: str) -> Any:
    try:
        return msgspec.json.decode(text) if text else None
    except (msgspec.DecodeError, UnicodeError):
        return text


def _rows(view: RoundView, found: Verdict) -> list[GpuResult]:
    return [view.results[part] for part in found.parts if part in view.results]


def _result(view: RoundView, id_: str) -> GpuResult:
    row = view.results.get(id_)
    if row is None:
        raise _no_result()
    return row


def _no_result() -> ApiError:
    return ApiError(404, "not_found", "The last round has no such result.")


def _verdict(view: RoundView, subject: str) -> Verdict:
    found = view.verdicts.get(subject)
    if found is None:
        raise ApiError(404, "not_found", "The last round has no such subject; /api/v1/verdicts lists them.")
    return found
