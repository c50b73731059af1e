"""Generated requests against the description of the API: no 5xx, and every answer as described."""

from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, seed, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from gpusight.model.time import ManualClock
from gpusight.web.app import create_app
from tests.web.clients import ADMIN, auth_of
from tests.web.fakes import FakeAnalyzer

CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
KNOWN = {"id": "0000000000000001", "subject": "prod/team-a/Pod/pod-1"}


def app() -> Any:
    clock = ManualClock()
    return create_app(FakeAnalyzer(clock=clock), auth=auth_of(clock), clock=clock)


schema = schemathesis.openapi.from_asgi("/openapi.json", app())


def _without_501(context: Any, response: Any, case: Any) -> None:
    """A replay that nobody can run is announced as such."""
    if not (case.path == "/api/v1/replay" and response.status_code == 501):
        not_a_server_error(context, response, case)


@schema.parametrize()
@seed(20260131)
@settings(
    max_examples=12,
    deadline=None,
    database=None,
    derandomize=False,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_breaks_it(case: Any) -> None:
    case.headers = {**(case.headers or {}), "Authorization": f"Bearer {ADMIN}"}
    response = case.call()
    case.validate_response(response, checks=[_without_501, *CHECKS[1:]])


@schema.parametrize()
@seed(20260131)
@settings(
    max_examples=2,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_known_rows_are_described_too(case: Any) -> None:
    case.path_parameters = {name: KNOWN[name] for name in case.path_parameters or {}}
    response = case.call()
    case.validate_response(response, checks=[_without_501, *CHECKS[1:]])
