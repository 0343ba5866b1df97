"""The application: every system's router, the health routes, and errors as problems."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from squinney import __version__, assembly
from squinney.assembly import SYSTEMS, Assembled
from squinney.errors import SquinneyError
from squinney.http import problems
from squinney.http.options import Options
from squinney.service import health, openapi
from squinney.service.dispatch import SystemRoutes
from squinney.service.metrics import Metrics


def create_app(assembled: Assembled, *, options: Options | None = None) -> FastAPI:
    """The HTTP interface to systems that are built already."""
    app = FastAPI(
        title="Squinney",
        version=__version__,
        summary="Crash-safe application back ends on MongoDB",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.assembled = assembled
    app.state.options = options or Options()
    app.state.metrics = Metrics(assembled.db, assembly.jobs())
    for module in adapters("api"):
        app.router.routes.append(SystemRoutes(module.router))
    app.include_router(health.router)
    handlers: list[tuple[type[Exception], Any]] = [
        (SquinneyError, problems.squinney_problem),
        (RequestValidationError, problems.validation_problem),
        (HTTPException, problems.http_problem),
    ]
    for kind, handler in handlers:
        app.add_exception_handler(kind, handler)
    app.openapi = lambda: openapi.describe(app)  # type: ignore[method-assign]
    return app


def adapters(kind: str) -> list[ModuleType]:
    """Each system's module of a kind (`api`, `web`) in its surface, where it has one; its routes are its `router`."""
    names = [f"squinney.{system.name}.surface.{kind}" for system in SYSTEMS]
    return [import_module(name) for name in names if find_spec(name)]
