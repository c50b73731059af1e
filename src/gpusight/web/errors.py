"""Whatever goes wrong becomes the same small JSON, or a page for browsers, without a trace of what is inside."""

import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from gpusight.errors import SettingsError
from gpusight.model.history import JournalError
from gpusight.model.series import StoreError
from gpusight.web.answers import ErrorAnswer, ErrorInfo
from gpusight.web.encoding import JsonResponse
from gpusight.web.work import Busy, TooSlow

log = logging.getLogger("gpusight.web")

ErrorPage = Callable[[Request, int, str], Response | None]
"""A status and its sentence as a page; None for clients that do not want one."""

_CODES = {404: "not_found", 405: "method_not_allowed", 422: "invalid_request"}
_SENTENCES = {
    404: "There is no such page here; / lists what there is.",
    405: "This address does not take that method.",
}


class ApiError(Exception):
    """An answer that is not the one that was hoped for."""

    def __init__(
        self, status: int, code: str, message: str, *, detail: Any = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem = ErrorInfo(code=code, message=message, detail=detail)
        self.headers = headers


class ErrorResponse(JsonResponse):
    def __init__(self, problem: ErrorInfo, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(ErrorAnswer(problem), status=status, headers={"Cache-Control": "no-store", **headers})
        self.problem = problem
        self.extra = headers


def error_response(
    status: int, code: str, message: str, *, detail: Any = None, headers: Mapping[str, str] | None = None
) -> ErrorResponse:
    return ErrorResponse(ErrorInfo(code=code, message=message, detail=detail), status, headers or {})


def install_handlers(app: FastAPI, page: ErrorPage) -> None:
    for kind, handler in _HANDLERS.items():
        app.exception_handler(kind)(_dressed(handler, page))


def _dressed(handler: Callable[[Request, Any], ErrorResponse], page: ErrorPage) -> Any:
    async def handle(request: Request, error: Exception) -> Response:
        answer = handler(request, error)
        shown = page(request, answer.status_code, answer.problem.message)
        if shown is None:
            return answer
        shown.headers.update({"Cache-Control": "no-store", **answer.extra})
        return shown

    return handle


def _on_api_error(_request: Request, error: ApiError) -> ErrorResponse:
    return error_response(
        error.status, error.problem.code, error.problem.message, detail=error.problem.detail, headers=error.headers
    )


def _on_http_exception(_request: Request, error: HTTPException) -> ErrorResponse:
    status = error.status_code
    phrase = HTTPStatus(status).phrase
    code = _CODES.get(status, phrase.lower().replace(" ", "_"))
    return error_response(status, code, _SENTENCES.get(status, f"{phrase}."), headers=error.headers)


def _on_invalid(_request: Request, error: RequestValidationError) -> ErrorResponse:
    # What the client sent is not repeated: it may hold a secret.
    wrong = [{"where": ".".join(map(str, found["loc"])), "message": found["msg"]} for found in error.errors()]
    named = ", ".join(sorted({entry["where"] for entry in wrong}))
    return error_response(422, "invalid_request", f"The request cannot be understood: {named}.", detail=wrong)


def _on_setting(_request: Request, error: SettingsError) -> ErrorResponse:
    return error_response(422, "invalid_setting", _sentence(error))


def _on_store(_request: Request, error: StoreError) -> ErrorResponse:
    return error_response(503, "store_unavailable", _sentence(error), headers={"Retry-After": "5"})


def _on_journal(_request: Request, error: JournalError) -> ErrorResponse:
    return error_response(503, "journal_unavailable", _sentence(error), headers={"Retry-After": "5"})


def _on_busy(_request: Request, _error: Busy) -> ErrorResponse:
    message = "Too many requests of this kind are under way; try again in a second."
    return error_response(503, "busy", message, headers={"Retry-After": "1"})


def _on_too_slow(_request: Request, error: TooSlow) -> ErrorResponse:
    return error_response(504, "too_slow", f"{error}.", headers={"Retry-After": "5"})


def _sentence(error: Exception) -> str:
    text = str(error).strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


_HANDLERS: Mapping[Any, Any] = {
    ApiError: _on_api_error,
    HTTPException: _on_http_exception,
    RequestValidationError: _on_invalid,
    SettingsError: _on_setting,
    StoreError: _on_store,
    JournalError: _on_journal,
    Busy: _on_busy,
    TooSlow: _on_too_slow,
}
