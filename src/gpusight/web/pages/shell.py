"""What every page shares: language, theme, navigation, banners, the roles, and its rendering."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlencode

from fastapi import Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from gpusight.analysis.records import Round
from gpusight.web.accept import choose_language, prefers
from gpusight.web.access import who
from gpusight.web.auth import ANYBODY, Auth, Identity
from gpusight.web.context import of
from gpusight.web.encoding import JSON, encode_json
from gpusight.web.errors import ApiError
from gpusight.web.i18n import LANGUAGES, Words
from gpusight.web.pages import numbers
from gpusight.web.pages.navigation import NAVIGATION
from gpusight.web.pages.static import asset
from gpusight.web.service import Health, RoleStatus
from gpusight.web.views import RoundView

LANGUAGE_COOKIE, THEME_COOKIE = "gpusight_language", "gpusight_theme"
THEMES = ("auto", "light", "dark")
_A_YEAR = 365 * 86400
_VARY = "Accept, Accept-Language, Cookie, Authorization"

_environment = Environment(
    loader=PackageLoader("gpusight.web"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters.update(numbers.FILTERS)
_environment.filters["path"] = lambda text: quote(text.encode("utf-8", "surrogatepass"), safe="/")
_environment.filters["json"] = lambda value: encode_json(value).decode()
_environment.globals["asset"] = asset
_environment.globals["DASH"] = numbers.DASH


class Tab(NamedTuple):
    path: str
    name: str
    is_here: bool


class Shell(NamedTuple):
    """What the frame around a page needs."""

    language: str
    theme: str
    tabs: Sequence[Tab]
    identity: Identity
    has_tokens: bool
    health: Health
    simulated: bool
    age: float | None
    at: datetime | None
    round: int
    problems: Sequence[str]
    roles: Sequence[RoleStatus]
    version: str
    here: str

    def switch(self, **choice: str) -> str:
        """This page in another language or theme."""
        path, _, query = self.here.partition("?")
        kept = [part for part in query.split("&") if part and part.partition("=")[0] not in choice]
        return f"{path}?{'&'.join([*kept, urlencode(choice)])}"

    @property
    def other_language(self) -> str:
        return next(each for each in LANGUAGES if each != self.language)


def words_of(request: Request) -> Words:
    return Words(_chosen(request, "lang", LANGUAGE_COOKIE, LANGUAGES) or _preferred(request))


def _preferred(request: Request) -> str:
    return choose_language(request.headers.get("accept-language", ""), LANGUAGES)


def _chosen(request: Request, parameter: str, cookie: str, choices: Sequence[str]) -> str:
    for given in (request.query_params.get(parameter, ""), request.cookies.get(cookie, "")):
        if given in choices:
            return given
    return ""


def render(
    request: Request, template: str, identity: Identity, *, status: int = 200, here: str = "", **values: Any
) -> HTMLResponse:
    """A whole page. `here` is the tab that it belongs to."""
    words = words_of(request)
    shell = _shell(request, words, identity, here)
    if status >= 400 and status != 401:  # what was sent may be a secret and is not repeated
        shell = shell._replace(here=shell.here.partition("?")[0])
    html = _environment.get_template(template).render(t=words, shell=shell, asked=request.query_params, **values)
    headers = {"Cache-Control": "private, no-cache", "Vary": _VARY}
    response = HTMLResponse(html.encode("utf-8", "backslashreplace"), status, headers)
    _remember(request, response)
    return response


def fragment(request: Request, template: str, **values: Any) -> str:
    """A part of a page, for a script to put in."""
    return _environment.get_template(template).render(t=words_of(request), **values)


def _remember(request: Request, response: Response) -> None:
    for parameter, cookie, choices in (("lang", LANGUAGE_COOKIE, LANGUAGES), ("theme", THEME_COOKIE, THEMES)):
        given = request.query_params.get(parameter, "")
        if given in choices:
            response.set_cookie(cookie, given, max_age=_A_YEAR, samesite="lax", path="/")


def _shell(request: Request, words: Words, identity: Identity, here: str) -> Shell:
    context = of(request)
    auth: Auth = request.app.state.auth
    found = context.analyzer.round()
    is_refused = identity.by == "nobody" and auth.read == "token"
    roles: Sequence[RoleStatus] = () if is_refused or identity.namespaces is not None else context.analyzer.roles()
    return Shell(
        language=words.language,
        theme=_chosen(request, "theme", THEME_COOKIE, THEMES) or "auto",
        tabs=[Tab(page.path, words(page.word), page.path == here) for page in NAVIGATION],
        identity=identity,
        has_tokens=auth.has_tokens,
        health=context.analyzer.health(),
        simulated=bool(context.analyzer.simulated()),
        age=_age(request, found),
        at=found.at if found else None,
        round=found.number if found else 0,
        problems=() if is_refused or found is None else found.problems,
        roles=roles,
        version=context.version,
        here=_address(request),
    )


def _age(request: Request, found: Round | None) -> float | None:
    return None if found is None else max(0.0, request.app.state.clock.now() - found.at.timestamp())


def _address(request: Request) -> str:
    path = quote(request.url.path, safe="/")
    return f"{path}?{request.url.query}" if request.url.query else path


def current_view(request: Request, identity: Identity) -> RoundView | None:
    return of(request).views.current(identity.namespaces)


def error_page(request: Request, status: int, message: str) -> Response | None:
    """For who prefers HTML: a small page, or the way in; None for programs."""
    if not prefers(request.headers.get("accept", ""), "text/html", JSON):
        return None
    identity = ANYBODY if status in (401, 429) else anyone(request)
    if status == 401 and cast("Auth", request.app.state.auth).has_tokens:
        return render(request, "login.html", identity, status=401, next=_address(request), message="", is_needed=True)
    return render(request, "error.html", identity, status=status, code=status, message=message)


def anyone(request: Request) -> Identity:
    try:
        return who(request) or ANYBODY
    except ApiError:
        return ANYBODY
