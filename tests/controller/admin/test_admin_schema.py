"""Requests made up from the OpenAPI document, good and bad, on a real broker: no answer is outside the document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from controller.admin.application import application
from controller.admin.problems import EVERYWHERE, PROBLEM_TYPE
from support.admin_stage import Stage

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
    allow_header_conformance,
)
EXAMPLES = 4
"""At random, beside one for each bound and each kind of every value."""
SEGMENTS_MAX = 4
"""What is made takes its time."""
REFUSALS = [400, 404, 405, 412, 414, 415]

DOCUMENT: dict[str, Any] = application(None, None, None).openapi()  # type: ignore[arg-type]
CONFIG = schemathesis.Config.from_dict({"checks": {"negative_data_rejection": {"expected-statuses": REFUSALS}}})
schema = schemathesis.openapi.from_dict(DOCUMENT, config=CONFIG)
OPERATIONS = [operation for path in DOCUMENT["paths"].values() for operation in path.values()]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """With what the document's examples speak of."""
    with Stage() as stage:
        topics = "/admin/v2/scalable/public/default"
        assert stage.admin.put(f"{topics}/orders?numInitialSegments=2").status == 204
        assert stage.admin.put(f"{topics}/orders/subscriptions/billing").status == 204
        yield f"http://{stage.admin.address}"


@schema.hook
def filter_case(context: Any, case: Any) -> bool:
    segments = str((case.query or {}).get("numInitialSegments", ""))
    return not segments.isdigit() or not SEGMENTS_MAX < int(segments) <= 1_000


@schema.parametrize()
@settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=EXAMPLES,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_in_the_document(case: Any, address: str) -> None:
    case.call_and_validate(base_url=address, checks=CHECKS)


def test_every_operation_says_what_can_go_wrong() -> None:
    for operation in OPERATIONS:
        wrong = {code: each for code, each in operation["responses"].items() if int(code) >= 400}
        assert {str(status.value) for status in EVERYWHERE} <= set(wrong), operation["summary"]
        assert all(set(each["content"]) == {PROBLEM_TYPE} for each in wrong.values()), operation["summary"]
        assert operation["description"]
        assert any(int(code) < 300 for code in operation["responses"])


def test_every_operation_has_a_name_of_its_own() -> None:
    names = [operation["operationId"] for operation in OPERATIONS]
    assert len(names) == len(set(names))
