"""Sends thousands of requests that schemathesis generates from the OpenAPI document, and checks each response."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from httpx2 import InvalidURL
from hypothesis import HealthCheck, given, reject, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient
from tests.sizes import IN_FULL, heavy, todays

CASES = 5_000 if IN_FULL else 200
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


# A thread of the site may draw a random number while a request is generated.
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
@heavy
@pytest.mark.timeout(1_200)
def test_generated_requests_get_documented_responses_only(site: TestClient) -> None:
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", site.app)
    operations = todays([found.ok() for found in schema.get_all_operations()], of=3)
    each = max(2, math.ceil(CASES / (2 * len(operations))))
    counts: Counter[str] = Counter()
    rounds = 0
    while counts.total() < CASES:  # an operation without parameters has one request only
        rounds += 1
        for operation, mode in itertools.product(operations, GenerationMode):
            _try(site, operation, mode, each, rounds, counts)
    assert counts.total() >= CASES, counts
    assert counts["2xx"] > CASES // 20, counts
    assert counts["4xx"] > CASES // 3, counts


def _try(site: TestClient, operation: Any, mode: GenerationMode, most: int, number: int, counts: Counter[str]) -> None:
    @seed(number)
    @settings(max_examples=most, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def attempt(case: Case) -> None:
        response = _send(site, case)
        counts[f"{response.status_code // 100}xx"] += 1
        case.validate_response(response, checks=CHECKS)

    with suppress(Unsatisfiable):  # a request without parameters cannot be invalid
        attempt()


def _send(site: TestClient, case: Case) -> Any:
    """Send the request with the open client, because schemathesis would start an event loop for each request."""
    sent = case.as_transport_kwargs(base_url="http://testserver")
    body = {name: sent[name] for name in ("json", "data", "content", "files") if sent.get(name) is not None}
    if isinstance(body.get("data"), bytes | str):
        body["content"] = body.pop("data")
    headers = {name: _bytes(value) for name, value in (sent.get("headers") or {}).items() if value is not None}
    try:
        return site.request(sent["method"], sent["url"], params=sent.get("params"), headers=headers, **body)
    except InvalidURL:  # the client itself refuses to send it
        reject()


def _bytes(value: str | bytes) -> bytes:
    """Return the header's bytes, because the client accepts only ASCII text."""
    return value if isinstance(value, bytes) else value.encode("latin-1")
