"""The OpenAPI document, with the security scheme and error responses that all routes share."""

from __future__ import annotations

import threading
from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse

from squinney.http.access.callers import API
from squinney.http.error_responses import MEDIA_TYPE
from squinney.http.rooted import root_of
from squinney.http.routes import expanded
from squinney.service.middleware.api_keys import OPEN, scope_for

ERROR = {"$ref": "#/components/schemas/ErrorBody"}
SECURITY = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "sqy_<id>_<secret>",
    "description": "An API key for a trusted server, created with `squinney keys create` or on the admin pages.",
}
EVERYWHERE = {
    "400": ("Bad request", "http-400", "There was an error parsing the body"),
    "401": ("Key refused", "key-refused", "the API key is unknown, expired or revoked"),
    "403": ("Forbidden", "forbidden", "this API key lacks the scope {scope}"),
    "408": ("Request timeout", "http-408", "the body was sent too slowly"),
    "413": ("Content too large", "http-413", "the body is larger than 1048576 bytes"),
    "429": ("Rate limited", "rate-limited", "too many requests; try again later"),
}
WITH_BODY = {"400", "408", "413"}


class OpenApiDocument:
    """Builds the OpenAPI document at the first request; other threads wait for the one that builds it."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._lock = threading.Lock()

    def __call__(self) -> dict[str, Any]:
        # guard: only one thread builds the OpenAPI document
        with self._lock:
            if self._app.openapi_schema is None:
                self._app.openapi_schema = _described(self._app)
            return self._app.openapi_schema


# guard: the OpenAPI document is built in a thread
def show_document(request: Request) -> JSONResponse:
    """Return the document. Not a coroutine: building it takes over a second and would block the event loop."""
    root = root_of(request)
    servers = {"servers": [{"url": root}]} if root else {}
    return JSONResponse({**request.app.openapi(), **servers})


def _described(app: FastAPI) -> dict[str, Any]:
    routes = list(expanded(app.routes))
    document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=routes)
    document["components"].setdefault("securitySchemes", {})["key"] = SECURITY
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if path.startswith(API) and path not in OPEN:
                _complete(operation, scope_for(method.upper(), path, app.state.scopes))
    return document


def _complete(operation: dict[str, Any], scope: str) -> None:
    operation["security"] = [{"key": []}]
    operation["description"] = f"{operation.get('description', '')}\n\nRequires the scope `{scope}`.".strip()
    responses = operation["responses"]
    for status, (title, code, detail) in EVERYWHERE.items():
        if status not in WITH_BODY or "requestBody" in operation:
            responses.setdefault(status, {"description": code, "example": (title, code, detail.format(scope=scope))})
    for status, response in responses.items():
        if status >= "400":
            responses[status] = _as_error(status, response)


def _as_error(status: str, response: dict[str, Any]) -> dict[str, Any]:
    description = response["description"].removeprefix("Validation Error") or "invalid"
    code = description.split(" or ")[0]
    title, code, detail = response.get("example", (code.replace("-", " ").capitalize(), code, code.replace("-", " ")))
    example = {"type": "about:blank", "title": title, "status": int(status), "detail": detail, "code": code}
    content = {MEDIA_TYPE: {"schema": ERROR, "example": {**example, "details": {}}}}
    documented: dict[str, Any] = {"description": description, "content": content}
    if status in ("429", "503"):
        seconds = {"description": "Seconds to wait", "schema": {"type": "integer"}}
        documented["headers"] = {"Retry-After": seconds}
    return documented
