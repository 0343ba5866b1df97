"""The application: the API, the pages of every system, and the static files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from pymongo.errors import PyMongoError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match
from starlette.staticfiles import StaticFiles

from squinney import __version__, assembly
from squinney.errors import SquinneyError
from squinney.http import pages, problems
from squinney.http.dependencies import assembled
from squinney.http.options import Options
from squinney.http.pages import render, return_path
from squinney.http.permissions import SignInNeeded, csrf_checked, needs
from squinney.http.routes import HeadMiddleware, SystemRoutes, paths_of, reject_unknown_queries
from squinney.service import admin, health, openapi, page_ads
from squinney.service.logs import request_id
from squinney.service.metrics import Metrics
from squinney.service.middleware.api_keys import ApiKeyMiddleware, first_segment
from squinney.service.middleware.forwarded import ForwardedMiddleware
from squinney.service.middleware.limits import BodyLimitMiddleware, SheddingMiddleware
from squinney.service.middleware.observe import FailureMiddleware, RequestLogMiddleware
from squinney.service.middleware.rates import RefusalMiddleware
from squinney.service.middleware.security import SecurityMiddleware
from squinney.service.middleware.visitors import VisitorMiddleware
from squinney.service.post_photos import post_photos
from squinney.service.processes import Processes
from squinney.system import Assembled, System

STATIC = Path(pages.__file__).parent / "static"
TEMPLATES = Path(__file__).parent / "templates"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
# Clearer than the framework's messages.
MESSAGES = {404: "This page does not exist.", 405: "This page does not support that action."}

home = APIRouter(include_in_schema=False)


def create_site(systems: Assembled, *, options: Options | None = None, processes: Processes | None = None) -> FastAPI:
    """Return the application that `squinney serve` runs: the API, and the pages of each system that has pages.

    With `processes`, slow computations run in other processes, so that other requests do not wait. The caller closes
    `processes`.
    """
    app = _with_api(systems, options or Options())
    app.state.processes = processes
    found = surfaces(systems.systems, "web")
    app.include_router(home, dependencies=[reject_unknown_queries])
    app.include_router(page_ads.router, dependencies=[csrf_checked, reject_unknown_queries])
    for_admins = [csrf_checked, needs("admin"), reject_unknown_queries]
    app.include_router(admin.router, include_in_schema=False, dependencies=for_admins)
    for system, module in found:
        guarded = _guarded(module)
        app.router.routes.extend(guarded.routes)
        app.include_router(APIRouter(lifespan=guarded.lifespan_context))  # a system's threads stop with the application
        if (static := _folder_of(module) / "static").is_dir():
            app.mount(f"/static/{system.name}", StaticFiles(directory=static))
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    templates = {system.name: _folder_of(module) / "templates" for system, module in found}
    app.state.menu = [system for system, module in found if f"/{system.path}" in paths_of(module.router)]
    app.state.pages = pages.environment_for([TEMPLATES], templates, app.state.menu)
    app.state.page_ads = page_ads.ads_for_page
    app.state.post_photos = post_photos(systems)
    _add_middleware(app, [module for _, module in [*surfaces(systems.systems, "api"), *found]])
    return app


def _with_api(systems: Assembled, options: Options) -> FastAPI:
    """Return an application with the API and health routes, without middleware."""
    handlers: Any = {  # FastAPI's type does not allow synchronous ones
        SquinneyError: show_error,
        RequestValidationError: show_validation_error,
        HTTPException: show_http_error,
    }
    app = FastAPI(
        title="Squinney",
        version=__version__,
        summary="Crash-safe application back ends on MongoDB",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        exception_handlers=handlers,
    )
    app.state.assembled = systems
    app.state.options = options
    app.state.metrics = Metrics(systems.db, assembly.jobs(systems.systems))
    app.state.scopes = {}
    for system, module in surfaces(systems.systems, "api"):
        app.router.routes.append(SystemRoutes(module.router))
        app.state.scopes.update({first_segment(path): system.name for path in paths_of(module.router)})
    app.include_router(health.router)
    app.openapi = openapi.Document(app)  # type: ignore[method-assign]
    app.add_api_route(
        "/api/openapi.json", openapi.show_document, include_in_schema=False, dependencies=[reject_unknown_queries]
    )
    return app


def surfaces(systems: Sequence[System], part: str) -> list[tuple[System, ModuleType]]:
    """Return the systems that have this part of a surface (`api` or `web`), each with the module of its `router`."""
    found = [(system, system.surface(part)) for system in systems]
    return [(system, module) for system, module in found if module]


@cache
def _guarded(module: ModuleType) -> APIRouter:
    """Return a router with a system's pages and their checks. Cached, because FastAPI takes long to combine them."""
    guarded = APIRouter()
    role = getattr(module, "WRITES_NEED", "member")
    dependencies = [csrf_checked, needs(role, for_writes=True), reject_unknown_queries]
    guarded.include_router(module.router, include_in_schema=False, dependencies=dependencies)
    return guarded


def _folder_of(module: ModuleType) -> Path:
    return Path(str(module.__file__)).parent


def _add_middleware(app: FastAPI, modules: list[ModuleType]) -> None:
    """Add the middleware, innermost first. A module's `BODY_LIMITS` raise the limit for its uploads."""
    options: Options = app.state.options
    limits = dict(options.body_limits)
    for module in modules:
        limits.update(getattr(module, "BODY_LIMITS", {}))
    services = app.state.assembled.services["identity"]
    app.add_middleware(HeadMiddleware)
    app.add_middleware(VisitorMiddleware, sessions=services["sessions"], secret=options.secret)
    app.add_middleware(BodyLimitMiddleware, limits=limits, seconds=options.body_seconds)
    app.add_middleware(ApiKeyMiddleware, keys=services["keys"], scopes=app.state.scopes, options=options)
    app.add_middleware(SheddingMiddleware, options=options)
    app.add_middleware(FailureMiddleware, respond=show_failure)
    app.add_middleware(SecurityMiddleware)
    app.add_middleware(RequestLogMiddleware, metrics=app.state.metrics)
    # Outside the log and the metrics, which measure the work without the delay.
    app.add_middleware(RefusalMiddleware, per_second=options.refusals_per_second)
    if options.trusted_proxies:
        app.add_middleware(ForwardedMiddleware, trusted=options.trusted_proxies)


@home.get("/api/docs", response_class=HTMLResponse)
def show_api(request: Request) -> Response:
    """Show the API's documentation, made from its OpenAPI document: the operations of each system."""
    document = request.app.openapi()
    groups: dict[str, list[tuple[str, str, Any]]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            groups.setdefault(operation.get("tags", ["service"])[0], []).append((method, path, operation))
    return render(request, "api.html", groups=groups, schemas=document["components"]["schemas"])


@home.get("/", response_class=HTMLResponse)
def show_home(request: Request, systems: Annotated[Assembled, Depends(assembled)]) -> Response:
    """Show every system with its current numbers."""
    cards = [(system, system.figures(systems.db)) for system in request.app.state.menu]
    return render(request, "home.html", cards=cards)


def wants_html(request: Request) -> bool:
    """Return whether the response is shown in a browser, not read by a program."""
    return not request.url.path.startswith("/api") and "text/html" in request.headers.get("accept", "")


def show_error(request: Request, error: SquinneyError) -> Response:
    """Show a `SquinneyError` as a page or as a problem response."""
    response = problems.squinney_problem(request, error)
    if not wants_html(request):
        return response
    if isinstance(error, SignInNeeded):
        return RedirectResponse(f"/sign-in?next={quote(return_path(request))}", status_code=303)
    unknown = getattr(error, "outcome_unknown", False) and isinstance(error.__cause__, PyMongoError)
    shown = {"message": error.message, "code": error.code, "unknown": unknown, "error": error}
    return render(request, "error.html", status=response.status_code, **shown)


def show_validation_error(request: Request, error: RequestValidationError) -> Response:
    """Show invalid input as a page or as a problem response."""
    if not wants_html(request):
        return problems.validation_problem(request, error)
    message = "The request is invalid."
    more = problems.summary_of(problems.invalid_fields(error))
    return render(request, "error.html", status=422, message=message, code="invalid", more=more)


def show_http_error(request: Request, error: HTTPException) -> Response:
    """Show an error of the framework, such as an unknown path or a wrong method."""
    if error.status_code == 405:
        error.headers = {"Allow": ", ".join(allowed_methods(request))}
    if not wants_html(request):
        return problems.http_problem(request, error)
    message = MESSAGES.get(error.status_code, str(error.detail))
    page = render(request, "error.html", status=error.status_code, message=message, code="")
    page.headers.update(error.headers or {})
    return page


def allowed_methods(request: Request) -> list[str]:
    """Return the methods that a path supports; FastAPI names those of one route, but several may share a path."""
    scope = {name: value for name, value in request.scope.items() if name not in ("route", "endpoint")}
    methods = [
        method
        for method in METHODS
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in request.app.routes)
    ]
    return sorted({*methods, "HEAD"} if "GET" in methods else methods)


def show_failure(request: Request, error: Exception) -> Response:
    """Show an unexpected error: the log has the traceback, the response only the request id to find it by."""
    identifier = request_id.get()
    if wants_html(request):
        message, more = "An internal error occurred.", f"If you report this error, include the id {identifier}."
        return render(request, "error.html", status=500, message=message, code="internal", more=more)
    details = {"request_id": identifier}
    return problems.problem(500, "Internal error", "an internal error occurred", "internal", details)
