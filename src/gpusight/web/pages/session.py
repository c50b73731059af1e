"""Logging in and out."""

import re
from urllib.parse import parse_qs

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from gpusight.web.accept import prefers
from gpusight.web.access import refusal
from gpusight.web.answers import LoggedIn, Said
from gpusight.web.auth import ANYBODY, COOKIE, Auth, AuthError
from gpusight.web.encoding import JSON, JsonResponse
from gpusight.web.errors import ApiError
from gpusight.web.gate import is_same_origin, peer_of
from gpusight.web.openapi import answers_with, json_body
from gpusight.web.pages.shell import anyone, render, words_of

router = APIRouter()

_FORM = "application/x-www-form-urlencoded"
_LOCAL = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]{0,2000}")


class Login(msgspec.Struct, frozen=True):
    """A token to be turned into a session."""

    token: str

    def __repr__(self) -> str:
        return "Login(...)"


@router.get("/login", include_in_schema=False)
async def login_page(request: Request, next: str = "/") -> Response:  # noqa: A002
    return render(request, "login.html", anyone(request), next=_local(next), message="", is_needed=False)


_login = answers_with(LoggedIn, 403, redirects=True)
_login["openapi_extra"] = json_body(Login)


@router.post("/login", **_login)
async def login(request: Request) -> Response:
    """Turn a token into a session of this browser."""
    auth: Auth = request.app.state.auth
    if "origin" in request.headers and not is_same_origin(request.headers):
        raise ApiError(403, "cross_site", "Log in from this service's own page.")
    is_form = request.headers.get("content-type", "").partition(";")[0].strip() == _FORM
    token, then = _sent(await request.body(), is_form)
    try:
        identity, cookie = auth.login(token, peer_of(request.scope))
    except AuthError as error:
        if is_form and error.retry_after is None:
            wrong = words_of(request)("session.wrong")
            return render(request, "login.html", ANYBODY, status=401, next=then, message=wrong, is_needed=False)
        raise refusal(error) from None
    namespaces = None if identity.namespaces is None else tuple(sorted(identity.namespaces))
    said = LoggedIn(status="logged in", name=identity.name, role=identity.role, namespaces=namespaces)
    response: Response = RedirectResponse(then, 303) if is_form else JsonResponse(said)
    _set_cookie(request, response, cookie, round(auth.session_seconds))
    return response


@router.post("/logout", **answers_with(Said, 403, redirects=True, open_=True))
async def logout(request: Request) -> Response:
    """Forget the session."""
    if "origin" in request.headers and not is_same_origin(request.headers):
        raise ApiError(403, "cross_site", "Log out from this service's own page.")
    is_form = prefers(request.headers.get("accept", ""), "text/html", JSON)
    response: Response = RedirectResponse("/", 303) if is_form else JsonResponse(Said("logged out"))
    _set_cookie(request, response, "", 0)
    return response


def _set_cookie(request: Request, response: Response, value: str, seconds: int) -> None:
    is_tls = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))
    response.set_cookie(COOKIE, value, max_age=seconds, httponly=True, samesite="strict", secure=is_tls, path="/")
    response.headers["Cache-Control"] = "no-store"


def _sent(body: bytes, is_form: bool) -> tuple[str, str]:
    """The token, and where to go then."""
    if is_form:
        given = form(body)
        return given.get("token", "").strip(), _local(given.get("next", "/"))
    try:
        return msgspec.json.decode(body, type=Login).token, "/"
    except (msgspec.DecodeError, UnicodeDecodeError):
        message = 'Send the token as JSON, {"token": "..."}, or as a form.'
        raise ApiError(422, "invalid_request", message) from None


def form(body: bytes) -> dict[str, str]:
    """The fields of a form; of one that is given twice, the first."""
    try:
        given = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise ApiError(422, "invalid_request", "The form has too many fields.") from None
    return {name: values[0] for name, values in given.items()}


def _local(address: str) -> str:
    """A page of ours, whatever somebody put into the link."""
    return address if _LOCAL.fullmatch(address) else "/"
