"""Errors as RFC 9457 problem responses: the one table from families to statuses."""

from __future__ import annotations

import json
import logging
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from squinney.errors import (
    Conflict,
    Forbidden,
    Invalid,
    LimitReached,
    NotFound,
    SquinneyError,
    Unavailable,
)

log = logging.getLogger(__name__)

STATUSES: dict[type[SquinneyError], int] = {
    NotFound: 404,
    Invalid: 422,
    Forbidden: 403,
    Conflict: 409,
    LimitReached: 409,
    Unavailable: 503,
}
MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 2


class ProblemModel(BaseModel):
    """An error, as RFC 9457 has it, with our stable code."""

    type: str = "about:blank"
    title: str = Field(examples=["Conflict"])
    status: int = Field(examples=[409])
    detail: str = Field(examples=["the account does not hold that much"])
    code: str = Field(examples=["insufficient-funds"])
    details: dict[str, Any] = {}


def status_of(error: SquinneyError) -> int:
    """The HTTP status of the error's family."""
    return next((status for family, status in STATUSES.items() if isinstance(error, family)), 500)


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


def problem(status: int, title: str, detail: str, code: str, details: dict[str, Any]) -> JSONResponse:
    """A problem response."""
    body: dict[str, Any] = {"type": "about:blank", "title": title, "status": status, "detail": detail, "code": code}
    body["details"] = json.loads(json.dumps(details, default=str))
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if status == 503 else None
    return JSONResponse(body, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def squinney_problem(request: Request, error: SquinneyError) -> JSONResponse:
    """Our own errors."""
    status = status_of(error)
    if status >= 500:
        log.warning("%s %s: %s", request.method, request.url.path, error.message)
    details = dict(error.details)
    if isinstance(error, Unavailable):
        details["outcome_unknown"] = error.outcome_unknown
    return problem(status, error.code.replace("-", " ").capitalize(), error.message, error.code, details)


def validation_problem(request: Request, error: RequestValidationError) -> JSONResponse:
    """Input that does not fit the route's model."""
    fields = [
        {"field": ".".join(str(part) for part in one["loc"][1:]) or str(one["loc"][0]), "message": one["msg"]}
        for one in error.errors()
    ]
    detail = "; ".join(f"{field['field']}: {field['message']}" for field in fields[:3])
    return problem(422, "Invalid", detail, Invalid.code, {"fields": fields})


def http_problem(request: Request, error: HTTPException) -> JSONResponse:
    """What the framework itself refuses."""
    response = problem(error.status_code, str(error.detail), str(error.detail), f"http-{error.status_code}", {})
    response.headers.update(error.headers or {})
    return response
