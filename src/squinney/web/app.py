"""The whole site: the API, the pages of every system, and the static files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from squinney.api import problems
from squinney.api.app import adapters, create_app
from squinney.api.dependencies import assembled
from squinney.assembly import SYSTEMS, Assembled
from squinney.errors import SquinneyError
from squinney.web.pages import render
from squinney.web.security import SecurityMiddleware

STATIC = Path(__file__).parent / "static"

home = APIRouter(include_in_schema=False)


def create_site(systems: Assembled) -> FastAPI:
    """The application that `squinney serve` runs."""
    app = create_app(systems)
    app.include_router(home)
    for router in adapters("squinney.web"):
        app.include_router(router, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    handlers: list[tuple[type[Exception], Any]] = [
        (SquinneyError, show_error),
        (RequestValidationError, show_validation_error),
        (HTTPException, show_http_error),
        (Exception, show_failure),
    ]
    for kind, handler in handlers:
        app.add_exception_handler(kind, handler)
    app.add_middleware(SecurityMiddleware)
    return app


@home.get("/", response_class=HTMLResponse)
def show_home(request: Request, systems: Annotated[Assembled, Depends(assembled)]) -> Response:
    """Every system with its live numbers."""
    cards = [(system, system.figures(systems.db)) for system in SYSTEMS]
    return render(request, "home.html", cards=cards)


def for_a_person(request: Request) -> bool:
    """Whether the answer goes to a browser's page rather than to a program."""
    return not request.url.path.startswith("/api") and "text/html" in request.headers.get("accept", "")


def show_error(request: Request, error: SquinneyError) -> Response:
    """Our own errors, as a page or as a problem."""
    if not for_a_person(request):
        return problems.squinney_problem(request, error)
    return render(request, "error.html", status=problems.status_of(error), message=error.message, code=error.code)


def show_validation_error(request: Request, error: RequestValidationError) -> Response:
    """Input that does not fit."""
    if not for_a_person(request):
        return problems.validation_problem(request, error)
    return render(request, "error.html", status=422, message="Something in that request is not right.", code="invalid")


def show_http_error(request: Request, error: HTTPException) -> Response:
    """What the framework refuses: unknown pages, wrong methods."""
    if not for_a_person(request):
        return problems.http_problem(request, error)
    return render(request, "error.html", status=error.status_code, message=str(error.detail), code="")


def show_failure(request: Request, error: Exception) -> Response:
    """A fault of ours: the log has the traceback, the answer says nothing of it."""
    if not for_a_person(request):
        return problems.problem(500, "Internal error", "something went wrong on our side", "internal", {})
    return render(request, "error.html", status=500, message="Something went wrong on our side.", code="internal")
