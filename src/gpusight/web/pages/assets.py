"""`/static/...`: kept by browsers for ever when asked for by version, else asked about each time."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpusight.exposition.negotiate import accepts_gzip
from gpusight.web.context import of
from gpusight.web.encoding import BytesResponse, has_it
from gpusight.web.errors import ApiError
from gpusight.web.pages.static import static_files

router = APIRouter()


@router.get("/static/{name}", include_in_schema=False)
async def static_file(request: Request, name: str, v: str = "") -> Response:
    """A script, a style sheet, a picture. Open to everybody: nothing in it is anybody's."""
    found = static_files().get(name)
    if found is None:
        raise ApiError(404, "not_found", "There is no such file.")
    etag = f'W/"{found.stamp}"'
    fresh = "public, max-age=31536000, immutable" if v == found.stamp else "public, no-cache"
    headers = {"ETag": etag, "Cache-Control": fresh, "Vary": "Accept-Encoding"}
    if has_it(request.headers.get("if-none-match", ""), etag):
        return Response(status_code=304, headers=headers)
    if accepts_gzip(request.headers.get("accept-encoding", "")):
        body = await of(request).workers.run("compute", lambda: found.zipped)
        return BytesResponse(body, found.media_type, headers={**headers, "Content-Encoding": "gzip"})
    return BytesResponse(await of(request).workers.run("compute", found.read), found.media_type, headers=headers)


@router.get("/favicon.ico", include_in_schema=False)
async def favicon(request: Request) -> Response:
    return await static_file(request, "mark.svg")
