"""The operators' schema is valid, whole, and true: whatever is sent, the answer is one that it tells of."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from drf_spectacular.validation import validate_schema
from hypothesis import HealthCheck, Phase, settings
from redis import Redis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from gateway_admin.api.reference import operators_schema
from gateway_admin.automation_token import make_token
from gateway_admin.roles import Role
from tests.integration.operators_api.conftest import Caller, Rows, make_user
from tests.integration.operators_api.test_role_matrix import TABLE

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 6
"""Requests for each operation, twice where it has rows; all operations together stay within seconds."""


api = schemathesis.openapi.from_dict(operators_schema())
api.app = get_wsgi_application()
# A hundred further cases an operation, which take minutes: for a thorough run by hand.
api.config.phases.coverage.enabled = False


@pytest.fixture
def token(rows: Rows, valkey: "Redis") -> Iterator[str]:
    _token, text = make_token(make_user("ada", Role.ADMIN), "fuzz", Role.ADMIN, 1)
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)  # it would end the test's own transaction
    yield text
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def of_the_rows(path: str, rows: Rows) -> dict[str, Any]:
    """What an address must hold to lead to a row."""
    ids = {"plans": rows.plan.pk, "keys": rows.key.pk, "prices": rows.later.pk}
    known = {
        "slug": "acme",
        "request_id": rows.usage[0].request_id,
        "public_id": rows.batch.public_id,
        "id": ids.get(path.split("/")[3], 1),
    }
    return {name: value for name, value in known.items() if f"{{{name}}}" in path}


@api.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_answer_is_one_that_the_schema_tells_of(case: Any, token: str, rows: Rows) -> None:
    headers = {"Authorization": f"Token {token}"}
    case.call_and_validate(headers=headers, checks=CHECKS)
    known = of_the_rows(case.path, rows)
    if known:
        case.path_parameters = known
        case.call_and_validate(headers=headers, checks=CHECKS)


def test_the_schema_is_valid_and_lists_this_api_and_nothing_else(admin: Caller) -> None:
    response = admin("GET", "schema", headers={"Accept": "application/vnd.oai.openapi+json"})
    schema = response.json()
    validate_schema(schema)
    operations = {(path, method) for path, methods in schema["paths"].items() for method in methods}
    assert len(operations) == len(TABLE) - 2  # without the schema itself and its page
    assert all(path.startswith("/api/v1/") for path, _method in operations)


def test_the_page_of_the_schema_needs_no_other_host(admin: Caller) -> None:
    page = admin("GET", "docs")
    assert page.status_code == 200
    assert b"swagger" in page.content.lower()
    assert b"https://" not in page.content
