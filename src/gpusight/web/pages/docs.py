"""`/docs`: what the API can do, from its own description."""

from collections.abc import Iterator
from typing import Any

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from gpusight.web.encoding import JSON
from gpusight.web.pages.shell import anyone, render

router = APIRouter()


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    return render(request, "docs.html", anyone(request), operations=list(_operations(request.app.openapi())))


def _operations(described: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            content = operation["responses"]["200"].get("content", {})
            example = content.get(JSON, {}).get("example")
            yield {
                "method": method.upper(),
                "path": path,
                "text": operation.get("description", "").strip(),
                "parameters": [parameter["name"] for parameter in operation.get("parameters", ())],
                "media": list(content),
                "example": "" if example is None else _shown(example),
            }


def _shown(example: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(example), indent=2).decode()
