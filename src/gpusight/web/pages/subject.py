"""`/gpu/...` and `/workload/...`: one GPU in somebody's hands, one workload with all its GPUs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from gpusight.analysis.records import GpuResult, Verdict
from gpusight.model.history import JournalError
from gpusight.model.series import Point, Quantity, StoreError
from gpusight.web.access import Reader
from gpusight.web.auth import Identity
from gpusight.web.context import of, view_of
from gpusight.web.encoding import BytesResponse, encode_json
from gpusight.web.errors import ApiError
from gpusight.web.explain import explain
from gpusight.web.figures import MAIN, QUANTITIES, SERIES, Windows, gpu_figures, workload_figures
from gpusight.web.pages.numbers import short_gpu
from gpusight.web.pages.shell import render, words_of
from gpusight.web.service import Analyzer
from gpusight.web.views import RoundView
from gpusight.web.work import Busy, TooSlow

router = APIRouter()

Id = Annotated[str, Path(max_length=200)]
SubjectId = Annotated[str, Path(max_length=2000)]
MOST_PARTS = 8
"""GPUs of a workload that are drawn."""
_LOOK_BACK = 7 * 86400.0
_MOST_ROWS = 50


@router.get("/gpu/{id}", include_in_schema=False)
async def gpu(request: Request, identity: Reader, id: Id) -> Response:  # noqa: A002
    view = view_of(request, identity)
    row = _row(view, id)
    verdict = view.verdicts.get(row.subject)
    past = await _past(request, identity, row.subject)
    return render(
        request,
        "gpu.html",
        identity,
        here="/",
        row=row,
        verdict=verdict,
        explained=explain(verdict, [row]) if verdict else None,
        **past,
    )


@router.get("/workload/{subject:path}", include_in_schema=False)
async def workload(request: Request, identity: Reader, subject: SubjectId) -> Response:
    view = view_of(request, identity)
    verdict = _verdict(view, subject)
    rows = _rows(view, verdict)
    return render(
        request,
        "workload.html",
        identity,
        here="/",
        verdict=verdict,
        rows=rows,
        line_colors=SERIES if len(rows) > 1 else (),
        explained=explain(verdict, rows),
        **await _past(request, identity, subject),
    )


@router.get("/page/figures/gpu/{id}", include_in_schema=False)
async def gpu_charts(request: Request, identity: Reader, id: Id) -> Response:  # noqa: A002
    row = _row(view_of(request, identity), id)
    analyzer, words = of(request).analyzer, words_of(request)

    def make() -> Any:
        windows = _windows(analyzer, row.id, QUANTITIES)
        return {"figures": gpu_figures(windows, analyzer.floor(row.id), words), "note": ""}

    return await _figures(request, make)


@router.get("/page/figures/workload/{subject:path}", include_in_schema=False)
async def workload_charts(request: Request, identity: Reader, subject: SubjectId) -> Response:
    view = view_of(request, identity)
    rows = _rows(view, _verdict(view, subject))
    shown = rows[:MOST_PARTS]
    analyzer, words = of(request).analyzer, words_of(request)
    note = words("chart.first_parts", n=len(shown), all=len(rows)) if len(shown) < len(rows) else ""

    def make() -> Any:
        if len(shown) == 1:
            windows = _windows(analyzer, shown[0].id, QUANTITIES)
            return {"figures": gpu_figures(windows, analyzer.floor(shown[0].id), words), "note": note}
        parts = [(f"{row.pod} {short_gpu(row.gpu_id)}", _windows(analyzer, row.id, MAIN)) for row in shown]
        return {"figures": workload_figures(parts, words), "note": note}

    return await _figures(request, make)


async def _figures(request: Request, make: Callable[[], Any]) -> Response:
    body = await of(request).workers.run("store", lambda: encode_json(make()))
    return BytesResponse(body, "application/json", headers={"Cache-Control": "private, no-cache"})


def _windows(analyzer: Analyzer, id_: str, quantities: Sequence[Quantity]) -> Windows:
    """What the store has of each; a quantity that fails costs itself, unless all of them do."""
    found: dict[Quantity, Sequence[Point]] = {}
    failure: StoreError | None = None
    for quantity in quantities:
        try:
            found[quantity] = analyzer.window(id_, quantity)
        except KeyError:
            raise _gone() from None
        except StoreError as error:
            failure = error
    if failure is not None and not found:
        raise failure
    return found


async def _past(request: Request, identity: Identity, subject: str) -> Mapping[str, Any]:
    """What the journal knows; if it cannot be asked, the page says so and shows the rest."""
    context = of(request)
    now = request.app.state.clock.now()
    namespaces = None if identity.namespaces is None else sorted(identity.namespaces)

    def read() -> Mapping[str, Any]:
        changes = context.analyzer.changes(
            start=now - _LOOK_BACK, end=now, subject=subject, namespaces=namespaces, limit=_MOST_ROWS
        )
        episodes = context.analyzer.episodes(open_only=False, namespaces=namespaces)
        mine = [each for each in episodes if each.subject == subject][:_MOST_ROWS]
        return {"changes": changes, "episodes": mine, "journal_error": "", "now": now}

    try:
        return await context.workers.run("journal", read)
    except (JournalError, Busy, TooSlow) as error:
        return {"changes": (), "episodes": (), "journal_error": str(error) or "busy", "now": now}


def _rows(view: RoundView, verdict: Verdict) -> list[GpuResult]:
    return [view.results[part] for part in verdict.parts if part in view.results]


def _row(view: RoundView, id_: str) -> GpuResult:
    row = view.results.get(id_)
    if row is None:
        raise _gone()
    return row


def _verdict(view: RoundView, subject: str) -> Verdict:
    found = view.verdicts.get(subject)
    if found is None:
        raise _gone()
    return found


def _gone() -> ApiError:
    return ApiError(404, "not_found", "The last round has no such GPU or workload; it may have ended.")
