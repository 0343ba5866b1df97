"""Error responses, in the form of RFC 9457."""

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
from starlette.responses import Response
from starlette.types import Scope

from squinney.errors import Invalid, SquinneyError, Unavailable
from squinney.http.statuses import status_of

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 2
RETRY_LATER = (429, 503)
MAX_FIELDS = 100  # reported per request; a body may have thousands of invalid ones


class ErrorBody(BaseModel):
    """An error response as defined by RFC 9457, with a stable `code`."""

    type: str = "about:blank"
    title: str = Field(examples=["Conflict"])
    status: int = Field(examples=[409])
    detail: str = Field(examples=["the balance of the account is too low"])
    code: str = Field(examples=["insufficient-funds"])
    details: dict[str, Any] = Field({}, examples=[{"account_id": "01k9x3v0k2f8m4q7r5t6w8y9za"}])


def responses(*errors: type[SquinneyError]) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI documentation of a route's errors."""
    documented: dict[int | str, dict[str, Any]] = {}
    every: list[type[SquinneyError]] = [*errors, Invalid, Unavailable]
    for error in every:
        status = status_of(error())
        entry = documented.setdefault(status, {"model": ErrorBody, "description": ""})
        entry["description"] = " or ".join(filter(None, [entry["description"], error.code]))
        entry["content"] = {MEDIA_TYPE: {}}
    return documented


def respond_in_middleware(scope: Scope, error: SquinneyError | HTTPException) -> Response:
    """Return the response of the application's exception handler, for an error raised in a middleware."""
    kind = SquinneyError if isinstance(error, SquinneyError) else HTTPException
    return cast(Response, scope["app"].exception_handlers[kind](Request(scope), error))


def respond(status: int, title: str, detail: str, code: str, details: dict[str, Any]) -> Response:
    """Return a problem response."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "code": code, "details": details}
    # In ASCII: values from the request may contain lone surrogates, which UTF-8 cannot encode.
    content = json.dumps(body, separators=(",", ":"), default=str)
    headers = {"WWW-Authenticate": 'Bearer realm="squinney"'} if status == 401 else retry_headers(status, details)
    return Response(content, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def retry_headers(status: int, details: Mapping[str, Any]) -> dict[str, str]:
    """Return `Retry-After` for the statuses 429 and 503, and no header for others."""
    if status in RETRY_LATER:
        return {"Retry-After": str(details.get("retry_after_seconds", RETRY_AFTER_SECONDS))}
    return {}


def respond_to_error(request: Request, error: SquinneyError) -> Response:
    """Turn a `SquinneyError` into a problem response."""
    status = status_of(error)
    if status >= 500:
        # guard: the path of a refused request is escaped in the log
        log.warning("%s %a: %s", request.method, request.url.path, error.message)
    details = dict(error.details)
    if isinstance(error, Unavailable):
        details["outcome_unknown"] = error.outcome_unknown
    note_mongodb_state(request, error)
    return respond(status, error.code.replace("-", " ").capitalize(), error.message, error.code, details)


def note_mongodb_state(request: Request, error: SquinneyError) -> None:
    """Record in `request.state` whether the connection to MongoDB failed, for `SheddingMiddleware`.

    A slow query or an exhausted connection pool does not mean that MongoDB is unreachable.
    """
    cause = error.__cause__
    if isinstance(error, Unavailable):
        is_away = isinstance(cause, ConnectionFailure) and not isinstance(cause, WaitQueueTimeoutError)
        request.state.mongodb_away = is_away


def invalid_fields(error: RequestValidationError) -> list[dict[str, str]]:
    """Return the invalid fields of a request, each with a message."""
    return [
        {
            "field": ".".join(str(part) for part in field_error["loc"][1:]) or str(field_error["loc"][0]),
            "message": field_error["msg"],
        }
        for field_error in error.errors()[:MAX_FIELDS]
    ]


def summary_of(fields: list[dict[str, str]]) -> str:
    """Describe the first three invalid fields in one line."""
    return "; ".join(f"{field['field']}: {field['message']}" for field in fields[:3])


def respond_to_invalid(request: Request, error: RequestValidationError) -> Response:
    """Turn input that does not match the route's model into a problem response."""
    fields = invalid_fields(error)
    return respond(422, "Invalid", summary_of(fields), Invalid.code, {"fields": fields})


def respond_to_http_error(request: Request, error: HTTPException) -> Response:
    """Turn an error of the framework itself into a problem response."""
    response = respond(error.status_code, str(error.detail), str(error.detail), f"http-{error.status_code}", {})
    response.headers.update(error.headers or {})
    return response
