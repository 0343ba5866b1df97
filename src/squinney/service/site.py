"""The application: the API, the pages of every system, and the static files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from pymongo.errors import PyMongoError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, WebSocketRoute
from starlette_compress import CompressMiddleware, remove_compress_type

from squinney import __version__, assembly
from squinney.errors import SquinneyError
from squinney.http import error_responses, pages
from squinney.http.access.callers import PageRoute
from squinney.http.access.permissions import SignInNeeded, csrf_checked, needs
from squinney.http.access.public_routes import is_public
from squinney.http.access.visitor_lookup import NoVisitors, SessionVisitors, Visitors
from squinney.http.appearance import URL, Appearance
from squinney.http.dependencies import assembled
from squinney.http.pages import render, sign_in_address
from squinney.http.routes import HeadMiddleware, SystemRoutes, paths_of, reject_unknown_queries, routes_with_paths
from squinney.http.site_options import SiteOptions
from squinney.http.static_files import VersionedFiles, version_of
from squinney.identity import Keys
from squinney.pictures.svg import STATIC as PICTURES
from squinney.service import health, openapi
from squinney.service.behind import pages as behind_pages
from squinney.service.behind.mirror import Behind
from squinney.service.curl import curl_for
from squinney.service.fixed_keys import FixedKeys
from squinney.service.front import admin, discovery
from squinney.service.front import try_as as try_as_pages
from squinney.service.front.home_cards import CardPictures
from squinney.service.front.try_as import TryAs, neighbours
from squinney.service.links import page_ads
from squinney.service.links.ad_payments import ad_payments
from squinney.service.links.mentions import Mentions
from squinney.service.links.names import names_of_people
from squinney.service.links.order_payments import order_payments
from squinney.service.links.page_views import SITE, PageViews
from squinney.service.links.post_photos import post_photos
from squinney.service.middleware.api_keys import ApiKeyMiddleware, first_segment
from squinney.service.middleware.forwarded import ForwardedMiddleware
from squinney.service.middleware.limits import BodyLimitMiddleware, SheddingMiddleware
from squinney.service.middleware.observe import FailureMiddleware, RequestLogMiddleware
from squinney.service.middleware.page_views import PageViewMiddleware, view_reporter
from squinney.service.middleware.rates import RefusalMiddleware
from squinney.service.middleware.security import SecurityMiddleware
from squinney.service.middleware.visitors import VisitorMiddleware
from squinney.service.observing import metrics_route
from squinney.service.observing.logs import request_id
from squinney.service.observing.metrics import Metrics
from squinney.service.processes import Processes
from squinney.service.proving import pages as proving_pages
from squinney.service.proving.prover import Prover
from squinney.service.proving.schedules import pages as schedule_pages
from squinney.service.town.public_till import public_account
from squinney.service.town.welcome import welcome
from squinney.system import Assembled, System

STATIC = Path(pages.__file__).parent / "static"
TEMPLATES = Path(__file__).parent / "templates"
MIN_COMPRESSED_BYTES = 1_000
remove_compress_type("text/event-stream")  # an event is sent when it happens
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
# Clearer than the framework's messages.
MESSAGES = {404: "This page does not exist.", 405: "This page does not support that action."}

home = APIRouter(include_in_schema=False, route_class=PageRoute)


def create_site(
    systems: Assembled,
    *,
    options: SiteOptions | None = None,
    processes: Processes | None = None,
    prover: Prover | None = None,
    appearance: Appearance | None = None,
    page_views: PageViews | None = None,
    visitors: Visitors | None = None,
    try_as: TryAs | None = None,
    behind: Behind | None = None,
) -> FastAPI:
    """Return the application that `squinney serve` runs: the API, and the pages of each system that has pages.

    With `processes`, slow computations run in other processes, so that other requests do not wait. With `prover`,
    visitors can start a proof. With `page_views`, views of pages are counted. With `behind`, visitors see the commands
    that made a page. The caller closes all four.
    `appearance` replaces the name, logo, colours and templates. `visitors` tells who visitors are, instead of the
    system `identity`, whose pages are then left out.
    With `try_as`, visitors of one's own machine can try the demo.
    """
    app = _with_api(systems, options or SiteOptions(), visitors or _visitors(systems, try_as))
    app.state.processes = processes
    app.state.prover = prover
    app.state.schedules = prover.schedules if prover else None
    app.state.behind = behind
    app.state.proof_streams = Counter()
    app.state.card_pictures = CardPictures(systems)
    app.state.proof_parts = {}
    web_surfaces = [
        surface for surface in surfaces(systems.systems, "web") if not (visitors and surface[0].name == "identity")
    ]
    app.include_router(home)
    app.include_router(discovery.router)
    app.include_router(page_ads.router)
    app.include_router(proving_pages.router)
    app.include_router(schedule_pages.router)
    app.include_router(try_as_pages.router)
    app.include_router(behind_pages.router)
    for router in admin.routers_for(app):
        app.include_router(router, include_in_schema=False)
    for _, module in web_surfaces:
        guarded = _guarded(module)
        app.router.routes.extend(guarded.routes)
        app.include_router(APIRouter(lifespan=guarded.lifespan_context))  # a system's threads stop with the application
    folders = _static_folders(web_surfaces, appearance)
    for path, folder in folders.items():
        app.mount(path, VersionedFiles(directory=folder))
    app.state.static_version = version_of(folders.values())
    templates = {system.name: _folder_of(module) / "templates" for system, module in web_surfaces}
    app.state.menu = [system for system, module in web_surfaces if _has_page(app, system, module)]
    app.state.pages = pages.environment_for([TEMPLATES], templates, app.state.menu, appearance)
    if page_views:
        app.state.own_site = SITE
    app.state.report_view = view_reporter(page_views) if page_views else None
    app.state.page_ads = page_ads.ads_for_page
    app.state.post_photos = post_photos(systems)
    app.state.ad_payments = ad_payments(systems)
    app.state.welcome = welcome(systems)
    app.state.mentions = Mentions(systems)
    app.state.public_account = public_account(systems)
    app.state.try_as = None if visitors else try_as
    shop = next((module for system, module in web_surfaces if system.name == "commerce"), None)
    app.state.count_in_cart = shop.count_in_cart if shop else None
    app.state.order_payments = order_payments(systems)
    app.state.name_of = names_of_people(systems, neighbours())
    _add_middleware(app, [module for _, module in [*surfaces(systems.systems, "api"), *web_surfaces]], page_views)
    return app


def _with_api(systems: Assembled, options: SiteOptions, visitors: Visitors) -> FastAPI:
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
    app.state.visitors = visitors
    app.state.metrics = Metrics(systems.db, assembly.jobs(systems.systems))
    app.state.draining = False
    app.state.scopes = {}
    for system, module in surfaces(systems.systems, "api"):
        app.router.routes.append(SystemRoutes(module.router))
        app.state.scopes.update({first_segment(path): system.name for path in paths_of(module.router)})
        app.state.scopes.update(getattr(module, "SCOPES", {}))
    app.include_router(health.router)
    app.include_router(metrics_route.router)
    app.openapi = openapi.OpenApiDocument(app)  # type: ignore[method-assign]
    app.add_api_route(
        "/api/openapi.json", openapi.show_document, include_in_schema=False, dependencies=[reject_unknown_queries]
    )
    return app


def surfaces(systems: Sequence[System], part: str) -> list[tuple[System, ModuleType]]:
    """Return the systems that have this part of a surface (`api` or `web`), each with the module of its `router`."""
    modules = [(system, system.surface(part)) for system in systems]
    return [(system, module) for system, module in modules if module]


def _has_page(app: FastAPI, system: System, module: ModuleType) -> bool:
    """Return whether visitors can see a page at the system's path, if need be after they have signed in."""
    path = f"/{system.path}"
    return path in paths_of(module.router) and (bool(app.state.visitors.sign_in) or is_public(["GET"], path))


@cache
def _guarded(module: ModuleType) -> APIRouter:
    """Return a router with a system's pages and their checks. Cached, because FastAPI takes long to combine them.

    A `PageRoute` checks its visitor itself. Other routes, of systems from outside, are checked here.
    """
    guarded = APIRouter()
    dependencies = []
    if not all(isinstance(route, PageRoute | WebSocketRoute) for _, route in routes_with_paths(module.router.routes)):
        role = getattr(module, "WRITES_NEED", "member")
        dependencies = [csrf_checked, needs(role, for_writes=True)]
    guarded.include_router(module.router, include_in_schema=False, dependencies=dependencies)
    return guarded


def _static_folders(
    web_surfaces: Sequence[tuple[System, ModuleType]], appearance: Appearance | None
) -> dict[str, Path]:
    """Return the folders of static files by their paths; the longest paths come first, since the first match counts."""
    own = {f"/static/{system.name}": _folder_of(module) / "static" for system, module in web_surfaces}
    folders = {path: folder for path, folder in own.items() if folder.is_dir()}
    if appearance and appearance.static:
        folders[URL] = appearance.static
    return {**folders, "/static/pictures": PICTURES, "/static/service": TEMPLATES.parent / "static", "/static": STATIC}


def _folder_of(module: ModuleType) -> Path:
    return Path(str(module.__file__)).parent


def _add_middleware(app: FastAPI, modules: list[ModuleType], page_views: PageViews | None) -> None:
    """Add the middleware, innermost first. A module's `BODY_LIMITS` raise the limit for its uploads."""
    options: SiteOptions = app.state.options
    limits = dict(options.body_limits)
    for module in modules:
        limits.update(getattr(module, "BODY_LIMITS", {}))
    app.add_middleware(HeadMiddleware)
    if app.state.behind:
        app.add_middleware(behind_pages.BehindMiddleware, behind=app.state.behind)
    if page_views:
        app.add_middleware(PageViewMiddleware, views=page_views)
    app.add_middleware(VisitorMiddleware, visitors=app.state.visitors, secrets=options.secrets)
    app.add_middleware(BodyLimitMiddleware, limits=limits, seconds=options.body_seconds)
    app.add_middleware(
        ApiKeyMiddleware, db=app.state.assembled.db, keys=_keys(app), scopes=app.state.scopes, options=options
    )
    app.add_middleware(SheddingMiddleware, options=options)
    app.add_middleware(FailureMiddleware, respond=show_failure)
    app.add_middleware(SecurityMiddleware)
    app.add_middleware(CompressMiddleware, minimum_size=MIN_COMPRESSED_BYTES)
    app.add_middleware(RequestLogMiddleware, metrics=app.state.metrics, options=options)
    # Outside the log and the metrics, which measure the work without the delay.
    app.add_middleware(RefusalMiddleware, per_second=options.refusals_per_second)
    if options.trusted_proxies:
        app.add_middleware(ForwardedMiddleware, trusted=options.trusted_proxies)


def _keys(app: FastAPI) -> Keys | FixedKeys:
    """Return the keys of the API: those of `identity`, else those of the options, of which there may be none."""
    identity = app.state.assembled.services.get("identity")
    return cast(Keys, identity["keys"]) if identity else FixedKeys(app.state.options.api_keys)


def _visitors(systems: Assembled, try_as: TryAs | None) -> Visitors:
    identity = systems.services.get("identity")
    may_try = try_as.exists if try_as else lambda _: False
    return SessionVisitors(identity["sessions"], may_try=may_try) if identity else NoVisitors()


@home.get("/api/docs", response_class=HTMLResponse)
def show_api(request: Request) -> Response:
    """Show the API's documentation, made from its OpenAPI document: the operations of each system."""
    document = request.app.openapi()
    groups: dict[str, list[tuple[str, str, Any]]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            groups.setdefault(operation.get("tags", ["service"])[0], []).append((method, path, operation))
    schemas, base = document["components"]["schemas"], str(request.base_url).rstrip("/")
    return render(request, "api.html", groups=groups, schemas=schemas, curl=partial(curl_for, base, schemas))


@home.get("/", response_class=HTMLResponse)
def show_home(request: Request, systems: Annotated[Assembled, Depends(assembled)]) -> Response:
    """Show every system with its current numbers."""
    cards = [(system, system.figures(systems.db)) for system in request.app.state.menu]
    pictures = request.app.state.card_pictures.get()
    return render(request, "home.html", cards=cards, pictures=pictures, **proving_pages.proof_for(request))


def wants_html(request: Request) -> bool:
    """Return whether the response is shown in a browser, not read by a program."""
    return not request.url.path.startswith("/api") and "text/html" in request.headers.get("accept", "")


def show_error(request: Request, error: SquinneyError) -> Response:
    """Show a `SquinneyError` as a page or as a problem response."""
    response = error_responses.respond_to_error(request, error)
    if not wants_html(request):
        return response
    visitors: Visitors = request.app.state.visitors
    if isinstance(error, SignInNeeded) and visitors.sign_in:
        return RedirectResponse(sign_in_address(request), status_code=303)
    unknown = getattr(error, "outcome_unknown", False) and isinstance(error.__cause__, PyMongoError)
    shown = {"message": error.message, "code": error.code, "unknown": unknown, "error": error}
    return render(request, "error.html", status=response.status_code, **shown)


def show_validation_error(request: Request, error: RequestValidationError) -> Response:
    """Show invalid input as a page or as a problem response."""
    if not wants_html(request):
        return error_responses.respond_to_invalid(request, error)
    message = "The request is invalid."
    more = error_responses.summary_of(error_responses.invalid_fields(error))
    return render(request, "error.html", status=422, message=message, code="invalid", more=more)


def show_http_error(request: Request, error: HTTPException) -> Response:
    """Show an error of the framework, such as an unknown path or a wrong method."""
    if error.status_code == 405:
        error.headers = {"Allow": ", ".join(allowed_methods(request))}
    if not wants_html(request):
        return error_responses.respond_to_http_error(request, error)
    if error.status_code == 405 and request.method == "GET":
        return RedirectResponse(_nearest_page(request), status_code=303)
    message = MESSAGES.get(error.status_code, str(error.detail))
    page = render(request, "error.html", status=error.status_code, message=message, code="")
    page.headers.update(error.headers or {})
    return page


def _nearest_page(request: Request) -> str:
    """Return the next page above the target of a form, for one who reloads a page that a refused form has shown."""
    path: str = request.url.path
    while path != "/" and "GET" not in allowed_methods(request, path):
        path = path.rpartition("/")[0] or "/"
    return path


def allowed_methods(request: Request, path: str | None = None) -> list[str]:
    """Return the methods that a path supports; FastAPI names those of one route, but several may share a path."""
    scope = {name: value for name, value in request.scope.items() if name not in ("route", "endpoint")}
    if path is not None:
        scope["path"] = path
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
    return error_responses.respond(500, "Internal error", "an internal error occurred", "internal", details)
