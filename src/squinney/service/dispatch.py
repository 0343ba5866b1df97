"""A system's routes behind their common prefix, so that a request looks through one system's routes and not all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fastapi import APIRouter
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

FOUND = "squinney_route"


class SystemRoutes(BaseRoute):
    """One entry of the route table for a whole router."""

    def __init__(self, router: APIRouter) -> None:
        self.original_router = router
        self._prefix = router.prefix

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """The first route that fits; else the first that fits but for its method."""
        partial: tuple[Match, Scope] = (Match.NONE, {})
        if not scope["path"].startswith(self._prefix):
            return partial
        for route in self.original_router.routes:
            match, child = route.matches(scope)
            if match is Match.FULL:
                return match, {**child, FOUND: route}
            if match is Match.PARTIAL and partial[0] is Match.NONE:
                partial = match, {**child, FOUND: route}
        return partial

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request to the route that was found."""
        await scope[FOUND].handle(scope, receive, send)


def flat(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    """Every single route."""
    for route in routes:
        yield from route.original_router.routes if isinstance(route, SystemRoutes) else [route]


def with_paths(routes: Iterable[Any], before: str = "", within: str = "") -> Iterator[tuple[str, Any]]:
    """Every single route with its path, also those of included routers, which newer FastAPI keeps as they are.

    A router's own routes carry its prefix (`within`); those of a router that it includes do not.
    """
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from with_paths(inner.routes, before + within, inner.prefix)
        else:
            yield before + getattr(route, "path_format", route.path), route


def paths_of(router: APIRouter) -> set[str]:
    """The paths of a router's routes."""
    return {path for path, _ in with_paths(router.routes, within=router.prefix)}
