"""The application: every system's router, the health routes, and errors as problems."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from fastapi import FastAPI

from squinney import __version__, assembly
from squinney.http.options import Options
from squinney.http.routes import SystemRoutes, known_queries_only, paths_of
from squinney.service import health, openapi
from squinney.service.metrics import Metrics
from squinney.service.middleware.api_keys import first_part
from squinney.system import Assembled, System


def application(assembled: Assembled, options: Options) -> FastAPI:
    """The routes of every system, as they are; `create_site` puts them behind keys, limits and sessions."""
    app = FastAPI(
        title="Squinney",
        version=__version__,
        summary="Crash-safe application back ends on MongoDB",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.state.assembled = assembled
    app.state.options = options
    app.state.metrics = Metrics(assembled.db, assembly.jobs(assembled.systems))
    app.state.scopes = {}
    for system, module in surfaces(assembled.systems, "api"):
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
