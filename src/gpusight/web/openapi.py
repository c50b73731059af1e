"""The description of the API: routes from FastAPI, answers from the Structs they are made of, with examples."""

from collections.abc import Mapping
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from gpusight.web import answers
from gpusight.web.encoding import JSON
from gpusight.web.examples import EXAMPLES

_REF = "#/components/schemas/{name}"
_ERRORS = {
    400: "The request makes no sense.",
    401: "A credential is missing or wrong.",
    403: "The credential does not suffice.",
    404: "There is no such thing, or not for this token.",
    413: "The body is too large.",
    422: "A parameter or the body is wrong.",
    429: "Too many requests; Retry-After says when to come back.",
    431: "The address and the headers are too large.",
    501: "This installation cannot do that.",
    503: "Not now; Retry-After says when to come back.",
    504: "The store or the journal took too long.",
}
_SECURITY = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token of the token file."},
    "session": {"type": "apiKey", "in": "cookie", "name": "gpusight_session", "description": "Made by POST /login."},
}
_ALWAYS = (401, 413, 422, 429, 431)

_types: dict[str, Any] = {}


def answers_with(
    answer: Any,
    *errors: int,
    csv: bool = False,
    html: bool = False,
    plain: bool = False,
    redirects: bool = False,
    open_: bool = False,
) -> dict[str, Any]:
    """Keyword arguments of a route that answers with that type (a Struct, or a list of one)."""
    content: dict[str, Any] = {}
    others: dict[int, Any] = {}
    if answer is not None:
        name = _type_name(answer)
        _types[name] = answer
        content[JSON] = {"schema": {"x-answer": name}}
        if name in EXAMPLES:
            content[JSON]["example"] = EXAMPLES[name]
    if csv:
        content["text/csv"] = {"schema": {"type": "string"}}
    if html:
        content["text/html"] = {"schema": {"type": "string"}}
    if plain:
        content["text/plain"] = content["application/openmetrics-text"] = {"schema": {"type": "string"}}
    if redirects:
        others = {303: {"description": "A form was sent: back to the page."}}
    refusals = {code: _error(code) for code in sorted({*errors, *_ALWAYS})}
    extra: dict[str, Any] = {} if open_ else {"security": [{}, {"token": []}, {"session": []}]}
    return {
        "response_model": None,
        "responses": {200: {"description": _description(answer), "content": content}, **others, **refusals},
        "openapi_extra": extra,
    }


def json_body(kind: Any, *, required: bool = True) -> dict[str, Any]:
    """The `requestBody` of a route that reads a Struct."""
    name = _type_name(kind)
    _types[name] = kind
    media: dict[str, Any] = {"schema": {"x-answer": name}}
    if name in EXAMPLES:
        media["example"] = EXAMPLES[name]
    return {"requestBody": {"required": required, "content": {JSON: media}}}


def _error(code: int) -> dict[str, Any]:
    schema = {"x-answer": "ErrorAnswer"}
    example = {"error": {"code": "a_word", "message": _ERRORS[code], "detail": None}}
    return {"description": _ERRORS[code], "content": {JSON: {"schema": schema, "example": example}}}


def _type_name(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind)) if isinstance(kind, type) else str(kind)


def _description(answer: Any) -> str:
    return (getattr(answer, "__doc__", "") or "Done.").strip().splitlines()[0]


def install(app: FastAPI) -> None:
    """Have the app describe itself with our types instead of pydantic's."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _describe(app)
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]


def _describe(app: FastAPI) -> dict[str, Any]:
    described = get_openapi(
        title=app.title, version=app.version, summary=app.summary, description=app.description, routes=app.routes
    )
    kinds = {**_types, "ErrorAnswer": answers.ErrorAnswer}
    schemas, components = msgspec.json.schema_components(list(kinds.values()), ref_template=_REF)
    named = dict(zip(kinds, schemas, strict=True))
    described = dict(_resolve(described, named))
    described["components"] = {"schemas": {**components}, "securitySchemes": _SECURITY}
    described["paths"] = dict(sorted(described["paths"].items()))
    return described


def _resolve(node: Any, schemas: Mapping[str, Any]) -> Any:
    """The description with every `x-answer` replaced by the schema of that name."""
    if isinstance(node, dict):
        name = node.get("x-answer")
        return schemas[name] if name else {key: _resolve(value, schemas) for key, value in node.items()}
    return [_resolve(item, schemas) for item in node] if isinstance(node, list) else node
