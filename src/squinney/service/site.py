"""The whole site: the API, the pages of every system, and the static files."""

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
from squinney.http.pages import render, way_back
from squinney.http.permissions import SignInNeeded, csrf_checked, needs
from squinney.http.routes import HeadMiddleware, SystemRoutes, known_queries_only, paths_of
from squinney.service import admin, ads_beside, health, openapi
from squinney.service.logs import request_id
from squinney.service.metrics import Metrics
from squinney.service.middleware.api_keys import ApiKeyMiddleware, first_part
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
# What the framework says in two words.
MESSAGES = {404: "There is no such page.", 405: "That cannot be done here."}

home = APIRouter(include_in_schema=False)


def create_site(systems: Assembled, *, options: Options | None = None, processes: Processes | None = None) -> FastAPI:
    """The application that `squinney serve` runs: the API, and the pages of each system that has some.

    With `processes`, what takes long to compute holds nobody up; whoever gives them closes them.
    """
    app = _with_api(systems, options or Options())
    app.state.processes = processes
    found = surfaces(systems.systems, "web")
    app.include_router(home, dependencies=[known_queries_only])
    app.include_router(ads_beside.router, dependencies=[csrf_checked, known_queries_only])
    for_admins = [csrf_checked, needs("admin"), known_queries_only]
    app.include_router(admin.router, include_in_schema=False, dependencies=for_admins)
    for system, module in found:
        guarded = _guarded(module)
        app.router.routes.extend(guarded.routes)
        app.include_router(APIRouter(lifespan=guarded.lifespan_context))  # a system's threads end with the site
        if (static := _beside(module) / "static").is_dir():
            app.mount(f"/static/{system.name}", StaticFiles(directory=static))
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    templates = {system.name: _beside(module) / "templates" for system, module in found}
    app.state.menu = [system for system, module in found if f"/{system.path}" in paths_of(module.router)]
    app.state.pages = pages.environment_for([TEMPLATES], templates, app.state.menu)
    app.state.beside = ads_beside.ads_beside
    app.state.post_photos = post_photos(systems)
    handlers: list[tuple[type[Exception], Any]] = [
        (SquinneyError, show_error),
        (RequestValidationError, show_validation_error),
        (HTTPException, show_http_error),
    ]
    for kind, handler in handlers:
        app.add_exception_handler(kind, handler)
    _surround(app, [module for _, module in [*surfaces(systems.systems, "api"), *found]])
    return app


def _with_api(systems: Assembled, options: Options) -> FastAPI:
    """Every system's routes and the health routes, still without the layers around them."""
    app = FastAPI(
        title="Squinney",
        version=__version__,
        summary="Crash-safe application back ends on MongoDB",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.state.assembled = systems
    app.state.options = options
    app.state.metrics = Metrics(systems.db, assembly.jobs(systems.systems))
    app.state.scopes = {}
    for system, module in surfaces(systems.systems, "api"):
        app.router.routes.append(SystemRoutes(module.router))
        app.state.scopes.update({first_part(path): system.name for path in paths_of(module.router)})
    app.include_router(health.router)
    app.openapi = openapi.Document(app)  # type: ignore[method-assign]
    app.add_api_route(
        "/api/openapi.json", openapi.show_document, include_in_schema=False, dependencies=[known_queries_only]
    )
    return app


def surfaces(systems: Sequence[System], part: str) -> list[tuple[System, ModuleType]]:
    """Each system that has this part of a surface (`api`, `web`), with its module; the routes are its `router`."""
    found = [(system, system.surface(part)) for system in systems]
    return [(system, module) for system, module in found if module]


@cache
def _guarded(module: ModuleType) -> APIRouter:
    """A system's pages behind their checks. Kept, since the framework takes long to put the two together."""
    guarded = APIRouter()
    role = getattr(module, "WRITES_NEED", "member")
    dependencies = [csrf_checked, needs(role, for_writes=True), known_queries_only]
    guarded.include_router(module.router, include_in_schema=False, dependencies=dependencies)
    return guarded


def _beside(module: ModuleType) -> Path:
    return Path(str(module.__file__)).parent


def _surround(app: FastAPI, modules: list[ModuleType]) -> None:
    """The layers around every route, from the inside out. A module's `BODY_LIMITS` raise the limit for its uploads."""
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
    app.add_middleware(FailureMiddleware, answer=show_failure)
    app.add_middleware(SecurityMiddleware)
    app.add_middleware(RequestLogMiddleware, metrics=app.state.metrics)
    # Around the log and the metrics: these tell how long the work took.
    app.add_middleware(RefusalMiddleware, per_second=options.refusals_per_second)
    if options.trusted_proxies:
        app.add_middleware(ForwardedMiddleware, trusted=options.trusted_proxies)


@home.get("/api/docs", response_class=HTMLResponse)
def show_api(request: Request) -> Response:
    """The API's documentation, from its OpenAPI document: the operations of each system."""
    document = request.app.openapi()
    groups: dict[str, list[tuple[str, str, Any]]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            groups.setdefault(operation.get("tags", ["service"])[0], []).append((method, path, operation))
    return render(request, "api.html", groups=groups, schemas=document["components"]["schemas"])


@home.get("/", response_class=HTMLResponse)
def show_home(request: Request, systems: Annotated[Assembled, Depends(assembled)]) -> Response:
    """Every system with its live numbers."""
    cards = [(system, system.figures(systems.db)) for system in request.app.state.menu]
    return render(request, "home.html", cards=cards)


def for_a_person(request: Request) -> bool:
    """Whether the answer goes to a browser's page rather than to a program."""
    return not request.url.path.startswith("/api") and "text/html" in request.headers.get("accept", "")


def show_error(request: Request, error: SquinneyError) -> Response:
    """Our own errors, as a page or as a problem."""
    answer = problems.squinney_problem(request, error)
    if not for_a_person(request):
        return answer
    if isinstance(error, SignInNeeded):
        return RedirectResponse(f"/sign-in?next={quote(way_back(request))}", status_code=303)
    unknown = getattr(error, "outcome_unknown", False) and isinstance(error.__cause__, PyMongoError)
    shown = {"message": error.message, "code": error.code, "unknown": unknown, "error": error}
    return render(request, "error.html", status=answer.status_code, **shown)


def show_validation_error(request: Request, error: RequestValidationError) -> Response:
    """Input that does not fit."""
    if not for_a_person(request):
        return problems.validation_problem(request, error)
    message = "Something in that request is not right."
    more = problems.in_short(problems.wrong_fields(error))
    return render(request, "error.html", status=422, message=message, code="invalid", more=more)


def show_http_error(request: Request, error: HTTPException) -> Response:
    """What the framework refuses: unknown pages, wrong methods."""
    if error.status_code == 405:
        error.headers = {"Allow": ", ".join(allowed_methods(request))}
    if not for_a_person(request):
        return problems.http_problem(request, error)
    message = MESSAGES.get(error.status_code, str(error.detail))
    page = render(request, "error.html", status=error.status_code, message=message, code="")
    page.headers.update(error.headers or {})
    return page


def allowed_methods(request: Request) -> list[str]:
    """What may be done at a path; the framework names the methods of one route, and several may share a path."""
    scope = {name: value for name, value in request.scope.items() if name not in ("route", "endpoint")}
    fits = [
        method
        for method in METHODS
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in request.app.routes)
    ]
    return sorted({*fits, "HEAD"} if "GET" in fits else fits)


def show_failure(request: Request, error: Exception) -> Response:
    """A fault of ours: the log has the traceback, the answer says nothing of it but the id by which to find it."""
    identifier = request_id.get()
    if for_a_person(request):
        message, more = "Something went wrong on our side.", f"If you tell us of it, give us this id: {identifier}"
        return render(request, "error.html", status=500, message=message, code="internal", more=more)
    details = {"request_id": identifier}
    return problems.problem(500, "Internal error", "something went wrong on our side", "internal", details)
