"""The OpenAPI document: what holds for every route is added here, once."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from squinney.http.problems import MEDIA_TYPE
from squinney.http.routes import flat
from squinney.service.middleware.api_keys import OPEN, PREFIX, scope_for

PROBLEM = {"$ref": "#/components/schemas/ProblemModel"}
SECURITY = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "sqy_<id>_<secret>",
    "description": "An API key, made with `squinney keys create` or on the admin pages; for trusted servers.",
}
EVERYWHERE = {
    "400": ("Bad request", "http-400", "There was an error parsing the body"),
    "401": ("Key refused", "key-refused", "the API key is unknown, expired or revoked"),
    "403": ("Forbidden", "forbidden", "this API key lacks the scope {scope}"),
    "408": ("Request timeout", "http-408", "the body came too slowly"),
    "413": ("Content too large", "http-413", "a body here may have at most 1048576 bytes"),
    "429": ("Rate limited", "rate-limited", "too many requests; slow down"),
}
WITH_BODY = {"400", "408", "413"}


def describe(app: FastAPI) -> dict[str, Any]:
    """The document of all routes, made once."""
    if app.openapi_schema is None:
        routes = list(flat(app.routes))
        document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=routes)
        document["components"].setdefault("securitySchemes", {})["key"] = SECURITY
        for path, item in document["paths"].items():
            for method, operation in item.items():
                if path.startswith(PREFIX) and path not in OPEN:
                    _complete(operation, scope_for(method.upper(), path, app.state.scopes))
        app.openapi_schema = document
    return app.openapi_schema


def _complete(operation: dict[str, Any], scope: str) -> None:
    operation["security"] = [{"key": []}]
    operation["description"] = f"{operation.get('description', '')}\n\nNeeds the scope `{scope}`.".strip()
    answers = operation["responses"]
    for status, (title, code, detail) in EVERYWHERE.items():
        if status not in WITH_BODY or "requestBody" in operation:
            answers.setdefault(status, {"description": code, "example": (title, code, detail.format(scope=scope))})
    for status, answer in answers.items():
        if status >= "400":
            answers[status] = _as_problem(status, answer)


def _as_problem(status: str, answer: dict[str, Any]) -> dict[str, Any]:
    described = answer["description"].removeprefix("Validation Error") or "invalid"
    code = described.split(" or ")[0]
    title, code, detail = answer.get("example", (code.replace("-", " ").capitalize(), code, code.replace("-", " ")))
    example = {"type": "about:blank", "title": title, "status": int(status), "detail": detail, "code": code}
    content = {MEDIA_TYPE: {"schema": PROBLEM, "example": {**example, "details": {}}}}
    problem: dict[str, Any] = {"description": described, "content": content}
    if status in ("429", "503"):
        seconds = {"description": "Seconds to wait", "schema": {"type": "integer"}}
        problem["headers"] = {"Retry-After": seconds}
    return problem
