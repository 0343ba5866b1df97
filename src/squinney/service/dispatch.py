"""A system's routes behind their common prefix, so that a request looks through one system's routes and not all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
