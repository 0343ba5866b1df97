"""Errors as RFC 9457 problem responses."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, cast

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from pymongo.errors import ConnectionFailure, WaitQueueTimeoutError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from squinney.errors import Invalid, SquinneyError, Unavailable
from squinney.http.statuses import status_of

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 2
WAIT_AND_COME_AGAIN = (429, 503)
MOST_FIELDS = 100  # that are wrong, of one request; a body may have many thousands


class ProblemModel(BaseModel):
    """An error, as RFC 9457 has it, with our stable code."""

    type: str = "about:blank"
    title: str = Field(examples=["Conflict"])
    status: int = Field(examples=[409])
    detail: str = Field(examples=["the account does not hold that much"])
    code: str = Field(examples=["insufficient-funds"])
    details: dict[str, Any] = Field({}, examples=[{"account_id": "01k9x3v0k2f8m4q7r5t6w8y9za"}])


class _Problem(JSONResponse):
    """In ASCII: what callers sent may hold half characters, which UTF-8 cannot."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, separators=(",", ":")).encode("ascii")


def responses(*errors: type[SquinneyError]) -> dict[int | str, dict[str, Any]]:
    """The documentation of a route's errors."""
    documented: dict[int | str, dict[str, Any]] = {}
    every: list[type[SquinneyError]] = [*errors, Invalid, Unavailable]
    for error in every:
        status = status_of(error())
        entry = documented.setdefault(status, {"model": ProblemModel, "description": ""})
        entry["description"] = " or ".join(filter(None, [entry["description"], error.code]))
        entry["content"] = {MEDIA_TYPE: {}}
    return documented


def answer(scope: Scope, error: SquinneyError | HTTPException) -> Response:
    """What the application's own handler makes of an error that a layer around the routes met."""
    kind = SquinneyError if isinstance(error, SquinneyError) else HTTPException
    return cast(Response, scope["app"].exception_handlers[kind](Request(scope), error))


def problem(status: int, title: str, detail: str, code: str, details: dict[str, Any]) -> JSONResponse:
    """A problem response."""
    body: dict[str, Any] = {"type": "about:blank", "title": title, "status": status, "detail": detail, "code": code}
    body["details"] = json.loads(json.dumps(details, default=str))
    headers = {"WWW-Authenticate": 'Bearer realm="squinney"'} if status == 401 else waiting_headers(status, details)
    return _Problem(body, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def waiting_headers(status: int, details: Mapping[str, Any]) -> dict[str, str]:
    """When to come again, for whoever came too often or too early."""
    if status in WAIT_AND_COME_AGAIN:
        return {"Retry-After": str(details.get("retry_after_seconds", RETRY_AFTER_SECONDS))}
    return {}


def squinney_problem(request: Request, error: SquinneyError) -> JSONResponse:
    """Our own errors."""
    status = status_of(error)
    if status >= 500:
        log.warning("%s %s: %s", request.method, request.url.path, error.message)
    details = dict(error.details)
    if isinstance(error, Unavailable):
        details["outcome_unknown"] = error.outcome_unknown
    learn(request, error)
    return problem(status, error.code.replace("-", " ").capitalize(), error.message, error.code, details)


def learn(request: Request, error: SquinneyError) -> None:
    """Note for the layers around us whether MongoDB is away. One slow query, or a full pool, says nothing of that."""
    cause = error.__cause__
    if isinstance(error, Unavailable):
        lost = isinstance(cause, ConnectionFailure) and not isinstance(cause, WaitQueueTimeoutError)
        request.state.mongodb_away = lost


def wrong_fields(error: RequestValidationError) -> list[dict[str, str]]:
    """What does not fit, field by field."""
    return [
        {"field": ".".join(str(part) for part in one["loc"][1:]) or str(one["loc"][0]), "message": one["msg"]}
        for one in error.errors()[:MOST_FIELDS]
    ]


def in_short(fields: list[dict[str, str]]) -> str:
    """The first three of them, for people."""
    return "; ".join(f"{field['field']}: {field['message']}" for field in fields[:3])


def validation_problem(request: Request, error: RequestValidationError) -> JSONResponse:
    """Input that does not fit the route's model."""
    fields = wrong_fields(error)
    return problem(422, "Invalid", in_short(fields), Invalid.code, {"fields": fields})


def http_problem(request: Request, error: HTTPException) -> JSONResponse:
    """What the framework itself refuses."""
    response = problem(error.status_code, str(error.detail), str(error.detail), f"http-{error.status_code}", {})
    response.headers.update(error.headers or {})
    return response
