"""Our kind of route, and the route table: a request looks through the routes of one system, not of all."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Request
from fastapi.datastructures import DefaultPlaceholder
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from squinney.errors import Invalid
from squinney.http.dependencies import Lookup

FOUND = "squinney_route"
REQUEST = "squinney_request"
# What campaigns and other sites add to links that people follow; to pages they mean nothing.
ADDED_BY_OTHERS = ("utm_", "mc_", "pk_", "mtm_", "_g")
ADDED_WHOLE = {"fbclid", "gclid", "dclid", "msclkid", "yclid", "igshid", "ref"}
MOST_NAMED = 20


# ---- query parameters: one that nobody reads is refused, as an unknown field of a body is ----


async def _refuse_unknown(request: Request) -> None:
    if request.scope["query_string"]:
        _require_known(request, _names(request.scope["route"].dependant))


known_queries_only = Depends(_refuse_unknown)


def _require_known(request: Request, known: set[str]) -> None:
    path = request.scope["path"]
    unknown = [name for name in request.query_params if name not in known and not _is_added(path, name)]
    if unknown:
        raise Invalid(
            f"there is no query parameter {unknown[0][:100]!r} here; there is {', '.join(sorted(known)) or 'none'}",
            field=unknown[0][:100],
            unknown=[name[:100] for name in unknown[:MOST_NAMED]],
        )


def _names(dependant: Any) -> set[str]:
    """The query parameters of a route and of all that it depends on."""
    own = {parameter.alias for parameter in dependant.query_params}
    return own.union(*(_names(inner) for inner in dependant.dependencies))


def _is_added(path: str, name: str) -> bool:
    return not path.startswith("/api/") and (name in ADDED_WHOLE or name.startswith(ADDED_BY_OTHERS))


# ---- routes ----


class OneThreadRoute(APIRoute):
    """The framework would send each result to a second thread to be checked and written: a third of a read's time.

    It also refuses query parameters that nobody reads.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        model = options.get("response_model")
        described = model is not None and not isinstance(model, DefaultPlaceholder)
        if not inspect.iscoroutinefunction(endpoint):
            endpoint = _looking_up(endpoint)
            if described:
                endpoint = _answering(endpoint, model, options.get("status_code") or 200)
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """As the framework does, behind the check of the query; as a dependency that takes a tenth of a read's time."""
        known = _names(self.dependant)
        handle = super().get_route_handler()

        async def handle_known(request: Request) -> Response:
            if request.scope["query_string"]:
                _require_known(request, known)
            return await handle(request)

        return handle_known


class LastPartRoute(OneThreadRoute):
    """A route whose last word is told from a parameter with slashes before it by the address as it was sent.

    `/stock/{sku:path}/movements` is not meant by `/stock/a%2Fmovements`: that is the SKU `a/movements`.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As the framework does, where the address has the last word as a part of its own."""
        last_word = self.path.rpartition("}/")[2]
        sent = unquote((scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0].rpartition(b"/")[2])
        if "{" not in last_word and ":path}/" in self.path and sent != last_word:
            return Match.NONE, {}
        return super().matches(scope)


def _looking_up(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """The endpoint with its `Lookup`s done by us: the framework takes as long for one as for the rest of the route."""
    signature = inspect.signature(endpoint, eval_str=True)
    parameters = signature.parameters.values()
    lookups = {one.name: found for one in parameters if (found := _lookup_of(one.annotation))}
    if not lookups:
        return endpoint
    others = [one.replace(kind=one.KEYWORD_ONLY) for one in parameters if one.name not in lookups]
    own = next((one.name for one in others if one.annotation is Request), None)
    if own is None:
        others.append(inspect.Parameter(REQUEST, inspect.Parameter.KEYWORD_ONLY, annotation=Request))

    @functools.wraps(endpoint)
    def look_up(**given: Any) -> Any:
        request = given[own] if own else given.pop(REQUEST)
        systems = request.app.state.assembled
        return endpoint(**given, **{name: lookup.find(systems) for name, lookup in lookups.items()})

    look_up.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
    return look_up


def _lookup_of(annotation: Any) -> Lookup[Any] | None:
    asked = [getattr(one, "dependency", None) for one in getattr(annotation, "__metadata__", ())]
    return next((one for one in asked if isinstance(one, Lookup)), None)


def _answering(endpoint: Callable[..., Any], model: Any, status: int) -> Callable[..., Response]:
    adapter: TypeAdapter[Any] = TypeAdapter(model)

    @functools.wraps(endpoint)
    def answer(*args: Any, **kwargs: Any) -> Response:
        result = endpoint(*args, **kwargs)
        if isinstance(result, Response):
            return result
        checked = adapter.validate_python(result, from_attributes=True)
        return Response(adapter.dump_json(checked, by_alias=True), status, media_type="application/json")

    return answer


# ---- the route table ----


class SystemRoutes(BaseRoute):
    """One entry of the route table for a whole router."""

    def __init__(self, router: APIRouter) -> None:
        self.original_router = router
        # Those of content are in two places, `/api/content` and `/api/comments`.
        self._prefixes = tuple({"/".join(path.split("/")[:3]) for path in paths_of(router)})

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """The first route that fits; else the first that fits but for its method."""
        partial: tuple[Match, Scope] = (Match.NONE, {})
        if not scope["path"].startswith(self._prefixes):
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


# ---- HEAD: what GET would answer, without the body ----


class HeadMiddleware:
    """Lets every GET route answer HEAD too; a route whose body is costly sees `request.state.head` and makes none."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})["head"] = True
        inner = {**scope, "method": "GET"}
        ended = False

        async def without_body(message: Message) -> None:
            nonlocal ended
            if message["type"] != "http.response.body":
                scope["route"] = inner.get("route")  # for the layers around this one, which count requests by it
                await send(message)
            elif not ended:
                ended = True
                await send({"type": "http.response.body", "body": b""})

        await self._app(inner, receive, without_body)
