"""Who may read and who may change, as dependencies of the routes."""

from typing import Annotated

from fastapi import Depends, Request

from gpusight.web.auth import ANYBODY, COOKIE, Auth, AuthError, Identity
from gpusight.web.errors import ApiError
from gpusight.web.gate import is_same_origin, peer_of

_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="gpusight"'}


def reader(request: Request) -> Identity:
    """Anybody where reads are open, else the holder of a token."""
    auth: Auth = request.app.state.auth
    try:
        found = who(request)
    except ApiError:
        # A session that ended must not lock a browser out of what everybody may read.
        if auth.read == "open" and not request.headers.get("authorization", "").lower().startswith("bearer"):
            return ANYBODY
        raise
    if found is None and auth.read == "token":
        raise ApiError(401, "token_needed", "A token is needed to read this.", headers=_CHALLENGE)
    return found or ANYBODY


def same_site_reader(request: Request) -> Identity:
    """A reader whose browser was not sent here by somebody else's page."""
    identity = reader(request)
    _demand_same_origin(request, identity)
    return identity


def admin(request: Request) -> Identity:
    auth: Auth = request.app.state.auth
    if not auth.has_tokens:
        raise ApiError(403, "no_tokens", "Nobody can change anything here: no token file is configured.")
    found = who(request)
    if found is None:
        raise ApiError(401, "token_needed", "An admin token is needed to change anything.", headers=_CHALLENGE)
    if found.role != "admin":
        raise ApiError(403, "admin_needed", "This token may read but not change anything.")
    _demand_same_origin(request, found)
    return found


def whole_reader(request: Request) -> Identity:
    """A reader who is not bound to namespaces."""
    identity = reader(request)
    if identity.namespaces is not None:
        raise ApiError(403, "not_for_namespaces", "A token that is bound to namespaces does not see this.")
    return identity


def who(request: Request) -> Identity | None:
    """Whom the credentials belong to. Raises ApiError for wrong ones."""
    auth: Auth = request.app.state.auth
    try:
        return auth.identify(
            request.headers.get("authorization", ""), request.cookies.get(COOKIE, ""), peer_of(request.scope)
        )
    except AuthError as error:
        raise refusal(error) from None


def refusal(error: AuthError) -> ApiError:
    if error.retry_after is not None:
        headers = {"Retry-After": f"{error.retry_after:.0f}"}
        return ApiError(429, "too_many_attempts", str(error), headers=headers)
    return ApiError(401, "wrong_credential", str(error), headers=_CHALLENGE)


def _demand_same_origin(request: Request, identity: Identity) -> None:
    if identity.by == "session" and not is_same_origin(request.headers):
        raise ApiError(403, "cross_site", "A session can change things from its own page only.")


Reader = Annotated[Identity, Depends(reader)]
SameSiteReader = Annotated[Identity, Depends(same_site_reader)]
WholeReader = Annotated[Identity, Depends(whole_reader)]
Admin = Annotated[Identity, Depends(admin)]
