"""The description of the API is complete, and its examples are true."""

from typing import Any

import msgspec
import pytest

from gpusight.web import openapi
from gpusight.web.answers import ErrorAnswer
from gpusight.web.examples import EXAMPLES
from tests.web.clients import an_app, get

OPERATIONS = [
    (path, method, operation)
    for path, methods in an_app().openapi()["paths"].items()
    for method, operation in methods.items()
]


def test_it_is_served_at_both_addresses() -> None:
    described = get("/api/v1/openapi.json").json()
    assert described == get("/openapi.json").json()
    assert described == msgspec.json.decode(msgspec.json.encode(an_app().openapi()))
    assert described["openapi"].startswith("3.1")


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_of_its_type(name: str) -> None:
    kind = openapi._types.get(name) or {"ErrorAnswer": ErrorAnswer}[name]
    decoded = msgspec.convert(EXAMPLES[name], kind)
    fields = msgspec.to_builtins(decoded)
    if isinstance(fields, dict) and name != "ReplayRequest":
        assert set(EXAMPLES[name]) == set(fields), "an example shows every field"


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_every_operation_says_what_it_does_and_answers(path: str, method: str, operation: dict[str, Any]) -> None:
    assert operation["description"]
    content = operation["responses"]["200"]["content"]
    assert content
    if path not in ("/metrics", "/api/v1/replay"):
        assert "example" in content["application/json"]
    for code, answer in operation["responses"].items():
        if int(code) >= 400:
            assert answer["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/ErrorAnswer"}


def test_the_types_are_ours_and_not_pydantics() -> None:
    schemas = an_app().openapi()["components"]["schemas"]
    assert "HTTPValidationError" not in schemas
    assert schemas["GpuResult"]["properties"]["score"]["anyOf"][0] == {"type": "number", "minimum": 0, "maximum": 100}


def test_every_reference_leads_somewhere() -> None:
    described = an_app().openapi()
    text = msgspec.json.encode(described).decode()
    assert "x-answer" not in text
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in described["components"]["schemas"]


def test_operation_ids_are_unique() -> None:
    ids = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(ids)) == len(ids)
