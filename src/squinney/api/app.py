"""The application: every system's router, the health routes, and errors as problems."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from squinney import __version__
from squinney.api import health, problems
from squinney.assembly import SYSTEMS, Assembled
from squinney.errors import SquinneyError


def create_app(assembled: Assembled) -> FastAPI:
    """The HTTP interface to systems that are built already."""
    app = FastAPI(
        title="Squinney",
        version=__version__,
        summary="Crash-safe application back ends on MongoDB",
        openapi_url="/api/openapi.json",
        docs_url="/api/docs",
        redoc_url=None,
    )
    app.state.assembled = assembled
    app.include_router(health.router)
    for router in adapters("squinney.api"):
        app.include_router(router)
    handlers: list[tuple[type[Exception], Any]] = [
        (SquinneyError, problems.squinney_problem),
        (RequestValidationError, problems.validation_problem),
        (HTTPException, problems.http_problem),
    ]
    for kind, handler in handlers:
        app.add_exception_handler(kind, handler)
    return app


def adapters(package: str) -> list[APIRouter]:
    """The `router` of each system's module in an adapter package, where it has one."""
    names = [f"{package}.{system.name}" for system in SYSTEMS]
    return [import_module(name).router for name in names if find_spec(name)]
